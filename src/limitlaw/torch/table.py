"""The table that `audit` gives: in a terminal, a notebook, a data frame, a picture and a page."""

import dataclasses
import html
import math
import os
from typing import Any

from limitlaw.depth.table import data_frame
from limitlaw.digits import plus_minus
from limitlaw.files import write
from limitlaw.torch.converted import Converted
from limitlaw.torch.health import ailments

CHANCE = 5.0  # standard errors


@dataclasses.dataclass(frozen=True)
class Row:
    """One statistic of a layer: (value, standard error) as measured, predicted at the module's width, in the limit.

    `spread` is the predicted standard deviation over draws, and `seeds` how many were measured.
    """

    layer: str
    statistic: str
    measured: tuple[float, float]
    predicted: tuple[float, float]
    limit: float | None
    spread: float = math.nan
    seeds: int = 0

    @property
    def z(self) -> float:
        """The difference of measurement and prediction, in standard errors: few seeds do not know their own."""
        known = self.spread / math.sqrt(self.seeds) if self.seeds and math.isfinite(self.spread) else 0.0
        own = self.measured[1] if math.isfinite(self.measured[1]) or not known else known
        error = math.hypot(max(own, known), self.predicted[1])
        difference = self.measured[0] - self.predicted[0]
        tiny = 1e-9 * abs(self.predicted[0])  # what norms fix is the same in every draw
        return difference / error if error > tiny else (0.0 if abs(difference) <= 1e3 * tiny else math.inf)

    @property
    def cells(self) -> tuple[str, ...]:
        """The row as text."""
        limit = "" if self.limit is None else f"{self.limit:.4g}"
        here, there = plus_minus(*self.measured), plus_minus(*self.predicted)
        return (self.layer, self.statistic, here, there, f"{self.z:+.1f}", limit)


@dataclasses.dataclass(frozen=True)
class Audit:
    """A table: one row for each layer and statistic. `program` is the module as a program.

    `references` are findings about the weights alone: against siblings, against `expected`, copies, scores.
    """

    rows: tuple[Row, ...]
    program: Converted
    seeds: int
    references: tuple[str, ...] = ()

    @property
    def findings(self) -> tuple[str, ...]:
        """In words: what is wrong with the weights, what is unhealthy, and where measurement and prediction differ by
        more than 5 standard errors. A row so differs by chance once in a million rows.
        """
        differing = tuple(
            f"{row.layer}: {row.statistic} is {plus_minus(*row.measured)}, predicted {plus_minus(*row.predicted)}: "
            "the module does not compute what its program says, or its parameters are not as independent as assumed"
            for row in self.rows
            if abs(row.z) > CHANCE
        )
        return (*self.references, *ailments(self.rows), *differing)

    @property
    def head(self) -> tuple[str, ...]:
        """The names of the columns."""
        measured, predicted = f"measured, {self.seeds} seeds", f"predicted, n = {self.program.width}"
        return ("layer", "statistic", measured, predicted, "z", "limit")

    def __getitem__(self, layer: str) -> tuple[Row, ...]:
        found = tuple(row for row in self.rows if row.layer == layer)
        if not found:
            raise KeyError(
                f"no layer {layer!r} in the audit; there are {', '.join(dict.fromkeys(r.layer for r in self.rows))}"
            )
        return found

    def __str__(self) -> str:
        lines = [self.head, *(row.cells for row in self.rows)]
        widths = [max(len(line[i]) for line in lines) for i in range(len(self.head))]
        table = ["  ".join(cell.ljust(w) for cell, w in zip(line, widths, strict=True)).rstrip() for line in lines]
        return "\n".join([*table, *(f"! {finding}" for finding in self.findings)])

    def _repr_html_(self) -> str:
        found = "".join(f"<li>{html.escape(finding)}</li>" for finding in self.findings)
        return f"{self.html_table()}<ul>{found}</ul>"

    def html_table(self) -> str:
        """The rows alone; those beyond chance have the class `differs`."""
        head = "".join(f"<th>{html.escape(cell)}</th>" for cell in self.head)
        body = "".join(
            f"<tr{' class=differs' if abs(row.z) > CHANCE else ''}>"
            f"{''.join(f'<td>{html.escape(cell)}</td>' for cell in row.cells)}</tr>"
            for row in self.rows
        )
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"

    def records(self) -> list[dict[str, Any]]:
        """Every row as a dictionary, numbers with all their digits."""
        return [
            {
                "layer": row.layer,
                "statistic": row.statistic,
                "measured": row.measured[0],
                "measured_error": row.measured[1],
                "predicted": row.predicted[0],
                "predicted_error": row.predicted[1],
                "spread": row.spread,
                "z": row.z,
                "limit": math.nan if row.limit is None else row.limit,
            }
            for row in self.rows
        ]

    def to_pandas(self) -> Any:
        """A data frame with one line for each layer and statistic (needs pandas)."""
        return data_frame(self.records())

    def plot(self, title: str = "") -> Any:
        """A matplotlib figure: one panel for each statistic, the prediction as a curve, what is measured as points."""
        from limitlaw.figures.audit import audit_figure

        return audit_figure(self.rows, f"n = {self.program.width}", title)

    def to_html(self, path: str | os.PathLike[str], title: str = "limitlaw audit") -> None:
        """Write one page with findings, picture and table, which reads nothing else."""
        from limitlaw.torch.page import page

        write(path, page(self, title).encode())
