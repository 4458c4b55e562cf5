"""The output of `limitlaw law`: a law's numbers with their errors, as a table or as JSON."""

import dataclasses
import json
import math
import sys
from collections.abc import Iterable, Sequence
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

from limitlaw.digits import plus_minus

if TYPE_CHECKING:
    from limitlaw.laws import Law

PICTURES = (".png", ".pdf", ".svg")  # suffixes that --plot may have
QUANTILES = (0.9, 0.99, 0.999, 0.9999)
ENTROPY_SUFFICES = 1e-5  # above it a difference of entropies has ten digits of the divergence


@dataclasses.dataclass(frozen=True)
class Printed:
    """A number of a law, its standard error, and that number of a Gaussian of equal variance."""

    name: str
    label: str
    value: float
    error: float
    gaussian: float


def quantities_of(law: "Law") -> list[Printed]:
    """All numbers that the command prints of a law."""
    import numpy as np

    variance, error = float(law.variance()), float(law.error.variance())
    sd = math.sqrt(variance)
    normal = NormalDist(0.0, sd)
    kurtosis = float(law.kurtosis()), float(law.error.kurtosis())
    found = [
        Printed("variance", "variance", variance, error, variance),
        Printed("standard_deviation", "standard deviation (sd)", sd, error / (2 * sd), sd),
        Printed("excess_kurtosis", "excess kurtosis", *kurtosis, 0.0),
    ]
    q = np.array(QUANTILES)
    for level, x, e in zip(QUANTILES, law.ppf(q), law.error.ppf(q), strict=True):
        name, label = f"quantile_{level:g}", f"quantile {100 * level:g} %"
        found.append(Printed(name, label, float(x), float(e), normal.inv_cdf(level)))
    at_0 = float(law.pdf(0.0)), float(law.error.pdf(0.0))
    found.append(Printed("density_at_0", "density at 0", *at_0, normal.pdf(0.0)))
    tail = 2 * float(law.sf(3 * sd)), 2 * float(law.error.sf(3 * sd))
    found.append(Printed("tail_beyond_3_sd", "P(|y| > 3 sd)", *tail, math.erfc(3 / math.sqrt(2))))
    kl = _kl_from_gaussian(law, variance)
    found.append(Printed("kl_from_gaussian", "KL from the Gaussian", *kl, 0.0))
    return found


def _kl_from_gaussian(law: "Law", variance: float) -> tuple[float, float]:
    """D(law‖N(0, variance)): for a law of this variance the difference of their entropies."""
    from limitlaw.laws import Gaussian

    if isinstance(law, Gaussian):
        return 0.0, 0.0
    if law.kind != "sampled":
        difference = 0.5 * math.log(2 * math.pi * math.e * variance) - float(law.entropy())
        if difference > ENTROPY_SUFFICES:
            of_gaussian = float(law.error.variance()) / (2 * variance)
            return difference, math.hypot(float(law.error.entropy()), of_gaussian)
    from limitlaw.divergence import kl

    divergence = kl(law, Gaussian(0.0, variance))
    return divergence.value, divergence.error


def _source(law: "Law") -> str:
    """The source of the numbers: exact, quadrature (2 heads, 7732 nodes), sampled (…)."""
    return f"{law.kind} ({law.description})" if law.description else law.kind


def remark(law: "Law", width: int | None) -> str:
    """A remark on the source of the numbers, and on what lies beyond the theorem."""
    sampled = ", ± one standard error" if law.kind == "sampled" else ""
    if width is not None:
        return f"{_source(law)}{sampled}; the law at this width, no limit is taken"
    return f"{_source(law)}{sampled}; " + (
        f"beyond Theorem 3.1: {', '.join(law.beyond)}" if law.beyond else "within Theorem 3.1"
    )


def print_table(quantities: "list[Printed]", title: str, remark: str) -> None:
    """The numbers beside those of the Gaussian of equal variance."""
    rows = []
    for quantity in quantities:
        shown = plus_minus(quantity.value, quantity.error)
        digits = 6 if "±" in shown else 12
        rows.append([quantity.label, shown, f"{quantity.gaussian:.{digits}g}"])
    columns = "figure", "this law", "Gaussian of equal variance"
    printed_table(columns, rows, title, remark, 120)


def printed_table(
    columns: Sequence[str], rows: Iterable[Sequence[str]], title: str, remark: str, width: int
) -> None:
    """A table between its title and a remark; `width` characters where no terminal has its own."""
    from rich.console import Console
    from rich.table import Table

    table = Table(*columns, title=title, title_justify="left", title_style="")
    for row in rows:
        table.add_row(*row)
    console = Console(highlight=False, width=None if sys.stdout.isatty() else width)
    console.print(table)
    console.print(remark, soft_wrap=True, markup=False)


def as_object(law: "Law", quantities: list[Printed], settings: dict[str, Any]) -> dict[str, Any]:
    """A law's numbers for JSON: None where not finite, and "inf" for infinitely many heads."""
    if settings["heads"] == math.inf:
        settings = {**settings, "heads": "inf"}
    numbers = {
        each.name: {
            "value": _finite(each.value),
            "error": _finite(each.error),
            "gaussian": _finite(each.gaussian),
        }
        for each in quantities
    }
    about = {"kind": law.kind, "source": _source(law), "beyond": list(law.beyond)}
    return {"settings": settings, **about, "figures": numbers}


def as_json(content: dict[str, Any] | list[dict[str, Any]]) -> str:
    """One object, or an array of several, as JSON."""
    return json.dumps(content, indent=2, allow_nan=False)


def _finite(x: float) -> float | None:
    return x if math.isfinite(x) else None
