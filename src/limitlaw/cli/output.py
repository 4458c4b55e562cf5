"""What `limitlaw law` prints: figures of a law with their errors, as a table or as JSON."""

import dataclasses
import json
import math
import sys
from statistics import NormalDist
from typing import Any

LEVELS = (0.9, 0.99, 0.999, 0.9999)
SMALL = 1e-3  # numbers below are printed with an exponent
ENTROPY_SUFFICES = 1e-5  # above it a difference of entropies has ten digits of the divergence


@dataclasses.dataclass(frozen=True)
class Figure:
    """A number, its standard error (0: none), and the same figure of the Gaussian of equal variance."""

    name: str
    label: str
    value: float
    error: float
    gaussian: float


def figures_of(law: Any) -> list[Figure]:
    """All that the command prints of a law."""
    import numpy as np

    variance, error = float(law.variance()), float(law.error.variance())
    sd = math.sqrt(variance)
    normal = NormalDist(0.0, sd)
    figures = [
        Figure("variance", "variance", variance, error, variance),
        Figure("standard_deviation", "standard deviation (sd)", sd, error / (2 * sd), sd),
        Figure("excess_kurtosis", "excess kurtosis", float(law.kurtosis()), float(law.error.kurtosis()), 0.0),
    ]
    q = np.array(LEVELS)
    for level, x, e in zip(LEVELS, law.ppf(q), law.error.ppf(q), strict=True):
        label = f"quantile {100 * level:g} %"
        figures.append(Figure(f"quantile_{level:g}", label, float(x), float(e), normal.inv_cdf(level)))
    at_0 = float(law.pdf(0.0)), float(law.error.pdf(0.0))
    figures.append(Figure("density_at_0", "density at 0", *at_0, normal.pdf(0.0)))
    tail = 2 * float(law.sf(3 * sd)), 2 * float(law.error.sf(3 * sd))
    figures.append(Figure("tail_beyond_3_sd", "P(|y| > 3 sd)", *tail, math.erfc(3 / math.sqrt(2))))
    figures.append(Figure("kl_from_gaussian", "KL from the Gaussian", *_kl_from_gaussian(law, variance), 0.0))
    return figures


def _kl_from_gaussian(law: Any, variance: float) -> tuple[float, float]:
    """D(law‖N(0, variance)): for a law of this variance the difference of their entropies."""
    from limitlaw.laws import Gaussian

    if isinstance(law, Gaussian):
        return 0.0, 0.0
    if law.kind != "sampled":
        difference = 0.5 * math.log(2 * math.pi * math.e * variance) - float(law.entropy())
        if difference > ENTROPY_SUFFICES:
            return difference, math.hypot(float(law.error.entropy()), float(law.error.variance()) / (2 * variance))
    from limitlaw.divergence import kl

    divergence = kl(law, Gaussian(0.0, variance))
    return divergence.value, divergence.error


def _source(law: Any) -> str:
    """Where the figures come from: exact, quadrature (2 heads, 7732 nodes), sampled (65536 components)."""
    return f"{law.kind} ({law.description})" if law.description else law.kind


def number_with_error(x: float, error: float) -> str:
    """With the digits that the error leaves, (3.28 ± 0.16)e-05 where it is small."""
    from limitlaw.laws.printing import INVISIBLE, number

    if not 0 < abs(x) < SMALL or error <= INVISIBLE * abs(x):
        return number(x, error)
    exponent = math.floor(math.log10(abs(x)))
    return f"({number(x / 10**exponent, error / 10**exponent)})e{exponent:03d}"


def remark(law: Any, width: int | None) -> str:
    """Where the figures come from, and what lies beyond the theorem."""
    sampled = ", ± one standard error" if law.kind == "sampled" else ""
    if width is not None:
        return f"{_source(law)}{sampled}; the law at this width, no limit is taken"
    return f"{_source(law)}{sampled}; " + (
        f"beyond Theorem 3.1: {', '.join(law.beyond)}" if law.beyond else "within Theorem 3.1"
    )


def print_table(figures: list[Figure], title: str, remark: str) -> None:
    """The figures beside those of the Gaussian of equal variance."""
    from rich.console import Console
    from rich.table import Table

    table = Table("figure", "this law", "Gaussian of equal variance", title=title, title_justify="left", title_style="")
    for figure in figures:
        shown = number_with_error(figure.value, figure.error)
        digits = 6 if "±" in shown else 12
        table.add_row(figure.label, shown, f"{figure.gaussian:.{digits}g}")
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 120)
    console.print(table)
    console.print(remark, soft_wrap=True, markup=False)


def as_json(law: Any, figures: list[Figure], settings: dict[str, Any]) -> str:
    """One object. What is infinite or no number is null there, infinitely many heads are "inf"."""
    if settings["heads"] == math.inf:
        settings = {**settings, "heads": "inf"}
    numbers = {
        figure.name: {name: _finite(getattr(figure, name)) for name in ("value", "error", "gaussian")}
        for figure in figures
    }
    about = {"kind": law.kind, "source": _source(law), "beyond": list(law.beyond)}
    return json.dumps({"settings": settings, **about, "figures": numbers}, indent=2, allow_nan=False)


def _finite(x: float) -> float | None:
    return x if math.isfinite(x) else None
