"""The table that `audit` returns for a family of modules: how each layer changes with the
width.
"""

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from limitlaw.digits import plus_minus
from limitlaw.torch.finding import AuditFinding
from limitlaw.torch.health import growing
from limitlaw.torch.measuring import SQUARES
from limitlaw.torch.table import Audit, AuditRow, AuditTable


@dataclasses.dataclass(frozen=True)
class Growth:
    """How a statistic of a layer changes with the width: a row for each width, the narrowest
    first.

    `measured` and `predicted` are exponents with their standard errors: the scale, √(mean square),
    goes as n^exponent. None where the statistic is no mean square.
    """

    rows: tuple[AuditRow, ...]
    measured: tuple[float, float] | None
    predicted: tuple[float, float] | None

    @property
    def layer(self) -> str:
        """The path of the layer."""
        return self.rows[0].layer

    @property
    def statistic(self) -> str:
        """The statistic that is measured."""
        return self.rows[0].statistic


def growth_of(widths: Sequence[int], rows: Sequence[AuditRow]) -> Growth:
    """The exponents of one statistic of one layer."""
    if rows[0].statistic not in SQUARES or any(
        min(r.measured[0], r.predicted[0]) <= 0 for r in rows
    ):
        return Growth(tuple(rows), None, None)
    here = _exponent(widths, [r.measured[0] for r in rows], [r.error for r in rows])
    there = _exponent(widths, [r.predicted[0] for r in rows], [r.predicted[1] for r in rows])
    return Growth(tuple(rows), here, there)


def _exponent(
    widths: Sequence[int], squares: Sequence[float], errors: Sequence[float]
) -> tuple[float, float]:
    """Half the slope of log mean square against log n by least squares, and its error from the
    errors of the squares: Σ d_i y_i / Σ d_i² with d_i = log n_i less their mean.
    """
    d = np.log(widths) - np.log(widths).mean()
    y = np.log(squares) / 2
    error = np.asarray(errors) / np.asarray(squares) / 2
    return float(d @ y / (d @ d)), math.sqrt(float(d**2 @ error**2)) / float(d @ d)


@dataclasses.dataclass(frozen=True)
class Widths(AuditTable):
    """An audit at every width, the narrowest first, and the growth of each layer with the width.

    The limit is that of the widest: its own variance × fan-in held fixed.
    """

    widths: tuple[int, ...]
    audits: tuple[Audit, ...]

    @property
    def growth(self) -> tuple[Growth, ...]:
        """The growth of each layer and statistic of the widest module that every width has."""
        found = []
        for row in self.audits[-1].rows:
            same = [next((r for r in a.rows if _key(r) == _key(row)), None) for a in self.audits]
            if all(same):
                found.append(growth_of(self.widths, [r for r in same if r is not None]))
        return tuple(found)

    @property
    def findings(self) -> tuple[AuditFinding, ...]:
        """What grows with the width, what is wrong at the largest, and differences between
        measurement and prediction at any width.
        """
        last = self.audits[-1]
        others = [
            AuditFinding(f"at width {n}: {said.place}", said.what, said.does)
            for n, a in zip(self.widths[:-1], self.audits[:-1], strict=True)
            for said in a.differing
        ]
        return (*growing(self.growth), *last.findings, *others)

    @property
    def box(self) -> str:
        """What was read at the largest width."""
        return self.audits[-1].box

    @property
    def notes(self) -> tuple[str, ...]:
        """The notes of the audit at the largest width."""
        return self.audits[-1].notes

    @property
    def head(self) -> tuple[str, ...]:
        """The names of the columns."""
        pairs = [(f"measured, width {n}", "predicted", "z") for n in self.widths]
        return (
            "layer",
            "statistic",
            *(name for pair in pairs for name in pair),
            "limit",
            "scale ∝ n^",
            "predicted",
        )

    @property
    def lines(self) -> list[tuple[tuple[str, ...], bool]]:
        """The rows of every width side by side, then the limit and the exponents."""
        found = []
        for growth in self.growth:
            cells = [cell for row in growth.rows for cell in row.cells[2:5]]
            exponents = [
                "" if e is None else plus_minus(*e) for e in (growth.measured, growth.predicted)
            ]
            line = (growth.layer, growth.statistic, *cells, growth.rows[-1].cells[5], *exponents)
            found.append((line, any(row.differs for row in growth.rows)))
        return found

    def __getitem__(self, width: int) -> Audit:
        if width not in self.widths:
            raise KeyError(
                f"no width {width!r} in the audit; there are {', '.join(map(str, self.widths))}"
            )
        return self.audits[self.widths.index(width)]

    def records(self) -> list[dict[str, Any]]:
        """Every row of every width as a dictionary, with the exponents of its layer."""
        found = []
        for growth in self.growth:
            none = (math.nan, math.nan)
            (here, error), (there, _) = growth.measured or none, growth.predicted or none
            exponents = {"exponent": here, "exponent_error": error, "exponent_predicted": there}
            pairs = zip(self.widths, growth.rows, strict=True)
            found += [{"width": width, **row.record, **exponents} for width, row in pairs]
        return found

    def plot(self, title: str = "") -> Any:
        """A matplotlib figure: one panel for each statistic, with a curve and points for every
        width.
        """
        from limitlaw.torch.figures import audit_figure

        return audit_figure(
            {f"width {n}": a.rows for n, a in zip(self.widths, self.audits, strict=True)}, title
        )


def _key(row: AuditRow) -> tuple[str, str]:
    return row.layer, row.statistic
