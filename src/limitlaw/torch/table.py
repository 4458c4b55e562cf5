"""The table that `audit` returns for one module: in a terminal, a notebook, a data frame,
a page.
"""

import abc
import base64
import dataclasses
import html
import io
import json
import math
import os
from collections.abc import Sequence
from typing import Any

from limitlaw.digits import counted, plus_minus
from limitlaw.files import write
from limitlaw.notebook import aligned, frame
from limitlaw.torch.converted import Converted
from limitlaw.torch.finding import AuditFinding, said
from limitlaw.torch.health import ailments
from limitlaw.torch.measuring import ENTROPY, SQUARES
from limitlaw.torch.reading.anatomy import ModuleReading
from limitlaw.torch.recipes.comparing import nearest

# --- what every table can do ---------------------------------------------------------------------


class AuditTable(abc.ABC):
    """A table of audits: lines of text below a head, findings, and notes on the conversion."""

    @property
    @abc.abstractmethod
    def head(self) -> tuple[str, ...]:
        """The names of the columns."""

    @property
    @abc.abstractmethod
    def lines(self) -> Sequence[tuple[tuple[str, ...], bool]]:
        """The cells of every line, and whether it differs beyond chance."""

    @property
    @abc.abstractmethod
    def findings(self) -> tuple[AuditFinding, ...]:
        """What is wrong, in words."""

    @property
    @abc.abstractmethod
    def notes(self) -> tuple[str, ...]:
        """Remarks about the conversion."""

    @abc.abstractmethod
    def records(self) -> list[dict[str, Any]]:
        """Every line as a dictionary, numbers with all their digits."""

    @property
    @abc.abstractmethod
    def box(self) -> str:
        """What was read: the module in a reader's terms."""

    @abc.abstractmethod
    def plot(self, title: str = "") -> Any:
        """A matplotlib figure of the table."""

    def __str__(self) -> str:
        table = aligned([self.head, *(cells for cells, _ in self.lines)], str.ljust)
        return "\n".join([*([f"{self.box}\n"] if self.box else []), table, *said(self.findings)])

    def _repr_html_(self) -> str:
        return f"{self.html_table()}{_list(self.findings)}"

    def html_table(self) -> str:
        """The lines as an HTML table; those that differ beyond chance have the class `differs`."""
        head = "".join(f"<th>{html.escape(cell)}</th>" for cell in self.head)
        body = "".join(
            f"<tr{' class=differs' if differs else ''}>"
            f"{''.join(f'<td>{html.escape(cell)}</td>' for cell in cells)}</tr>"
            for cells, differs in self.lines
        )
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"

    def to_pandas(self) -> Any:
        """A data frame with one line for each of `records` (needs pandas)."""
        return frame(self.records())

    def to_json(self) -> str:
        """Findings with their parts, what was read, and every line, as JSON."""
        return json.dumps(
            {
                "findings": [finding.record for finding in self.findings],
                "read": self.box,
                "rows": [{k: _finite(v) for k, v in line.items()} for line in self.records()],
                "notes": list(self.notes),
            },
            indent=2,
            ensure_ascii=False,
        )

    def to_html(self, path: str | os.PathLike[str], title: str = "limitlaw audit") -> None:
        """Write one page with findings, picture and table, which reads nothing else."""
        write(path, page(self, title).encode())


# --- one page that reads nothing else ------------------------------------------------------------


STYLE = """
:root{color-scheme:light dark}
body{font:15px/1.5 system-ui,sans-serif;max-width:70rem;margin:2rem auto;padding:0 1rem;
color:light-dark(#222,#e9eaeb);background:light-dark(#fff,#15181b)}
h1{overflow-wrap:anywhere}
table{border-collapse:collapse;font-variant-numeric:tabular-nums}
th,td{text-align:left;padding:.15rem .8rem;border-bottom:1px solid light-dark(#ddd,#3a4046)}
tr.differs td{background:light-dark(#fbe3d6,#5a2f16)}
img{max-width:100%;background:#fff;border-radius:4px}.wide{overflow-x:auto}"""


def page(table: AuditTable, title: str) -> str:
    """A page of HTML with findings, picture and table."""
    picture = io.BytesIO()
    table.plot().savefig(picture, format="png", dpi=110)
    image = base64.b64encode(picture.getvalue()).decode()
    summary = (
        counted(len(table.findings), "finding")
        if table.findings
        else "Nothing was found that is not as it should be."
    )
    notes = f"<h2>Notes</h2>{_list(table.notes)}" if table.notes else ""
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{html.escape(title)}</title>"
        f"<style>{STYLE}</style></head><body><h1>{html.escape(title)}</h1>"
        f"<p>{summary}</p>{_list(table.findings)}"
        f'<div class="wide"><pre>{html.escape(table.box)}</pre></div>'
        f'<img alt="prediction and measurement by layer" src="data:image/png;base64,{image}">'
        f'<div class="wide">{table.html_table()}</div>{notes}'
        "</body></html>\n"
    )


def _list(items: Sequence[str]) -> str:
    return f"<ul>{''.join(f'<li>{_item(item)}</li>' for item in items)}</ul>"


def _finite(value: object) -> object:
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _item(item: str) -> str:
    change = item.change if isinstance(item, AuditFinding) else ""
    code = f"<br>change: <code>{html.escape(change)}</code>" if change else ""
    return html.escape(item) + code


# --- of one module -------------------------------------------------------------------------------


CHANCE = 5.0  # standard errors


@dataclasses.dataclass(frozen=True)
class AuditRow:
    """One statistic of a layer: (value, standard error) as measured, predicted at the module's
    width, in the limit.

    `spread` is the predicted standard deviation over draws, and `seeds` how many were measured.
    """

    layer: str
    statistic: str
    measured: tuple[float, float]
    predicted: tuple[float, float]
    limit: tuple[float, float] | None
    spread: float = math.nan
    seeds: int = 0

    @property
    def error(self) -> float:
        """The standard error of the measurement, at least that which the predicted spread gives:
        few seeds do not tell their own.
        """
        known = (
            self.spread / math.sqrt(self.seeds)
            if self.seeds and math.isfinite(self.spread)
            else 0.0
        )
        own = self.measured[1] if math.isfinite(self.measured[1]) or not known else known
        return max(own, known)

    @property
    def z(self) -> float:
        """The difference of measurement and prediction, in standard errors.

        A mean square has the tails of a χ² of its mean and error, which Wilson and Hilferty's cube
        root (1931) makes normal: z = ((x/m)^{1/3} − 1 + c)/√c with c = (error/3m)². So has the
        difference of an attention's entropy from the largest.
        """
        error = math.hypot(self.error, self.predicted[1])
        x, m = self.measured[0], self.predicted[0]
        tiny = 1e-9 * abs(m)  # a statistic that norms fix is the same in every draw
        if error <= tiny:
            return 0.0 if abs(x - m) <= 1e3 * tiny else math.inf
        if self.statistic in SQUARES:
            return _cube_root(x, m, error)
        return -_cube_root(1 - x, 1 - m, error) if self.statistic == ENTROPY else (x - m) / error

    @property
    def differs(self) -> bool:
        """Do measurement and prediction differ beyond chance?"""
        return abs(self.z) > CHANCE

    @property
    def cells(self) -> tuple[str, ...]:
        """The row as text; for a single module the prediction is shown with its standard deviation
        over draws.
        """
        limit = "" if self.limit is None else plus_minus(*self.limit)
        here = plus_minus(*self.measured) if self.measured[1] else f"{self.measured[0]:.4g}"
        there = plus_minus(
            self.predicted[0], self.spread if self.seeds == 1 else self.predicted[1]
        )
        return (self.layer, self.statistic, here, there, f"{self.z:+.1f}", limit)

    @property
    def record(self) -> dict[str, Any]:
        """The row as a dictionary."""
        limit = (math.nan, math.nan) if self.limit is None else self.limit
        return {
            "layer": self.layer,
            "statistic": self.statistic,
            "measured": self.measured[0],
            "measured_error": self.measured[1],
            "predicted": self.predicted[0],
            "predicted_error": self.predicted[1],
            "spread": self.spread,
            "z": self.z,
            "limit": limit[0],
            "limit_error": limit[1],
        }


def _cube_root(x: float, m: float, error: float) -> float:
    """(x − m)/error for a non-negative statistic, by Wilson and Hilferty's cube root."""
    if not (m > 0 and x >= 0 and math.isfinite(error)):
        return (x - m) / error
    root = error / (3 * m)
    return (math.cbrt(x / m) - 1 + root**2) / root


@dataclasses.dataclass(frozen=True)
class Audit(AuditTable):
    """A table with one row for each layer and statistic. `program` is the module as a program.

    `width`: how many coordinates most layers have. `seeds`: the re-initialisations that were
    measured; 0 where the module itself was, one step ahead: every layer given what the layers
    before it have computed. `references` are the findings of `check`. `reading` is what the
    module was read as.
    """

    rows: tuple[AuditRow, ...]
    program: Converted
    width: int
    seeds: int
    references: tuple[AuditFinding, ...] = ()
    reading: ModuleReading | None = None

    @property
    def findings(self) -> tuple[AuditFinding, ...]:
        """What is wrong with the weights, what is unhealthy, and where measurement and prediction
        differ by more than 5 standard errors, in words.

        A row differs so by chance once in 1.7 million where statistics are normal, or of squares
        of normals; where few seeds of few coordinates have heavier tails (scores of narrow heads),
        more often: seldom, not never.
        """
        return (*self.references, *ailments(self.rows), *self.differing)

    @property
    def differing(self) -> tuple[AuditFinding, ...]:
        """The rows in which measurement and prediction differ beyond chance, in words."""
        return tuple(
            AuditFinding(
                row.layer,
                f"{row.statistic} is {row.cells[2]}, predicted {row.cells[3]}, z = {row.z:+.1f}",
                self._meaning,
            )
            for row in self.rows
            if row.differs
        )

    @property
    def _meaning(self) -> str:
        if self.seeds:
            return (
                "the module does not compute what its program says, or its parameters are not as "
                "independent as assumed"
            )
        return (
            "given what it reads, its weights are not independent numbers of their scale, or not "
            "independent of its input, as those of trained, tied and copied layers are not"
        )

    @property
    def box(self) -> str:
        """What was read, and the closest named recipe."""
        return "" if self.reading is None else f"{self.reading}\n{nearest(self.reading)}"

    @property
    def notes(self) -> tuple[str, ...]:
        """The notes of the program."""
        return self.program.notes

    @property
    def head(self) -> tuple[str, ...]:
        """The names of the columns."""
        measured = f"measured, {self.seeds} seeds" if self.seeds else "this module"
        predicted = f"predicted, n = {self.width}" if self.seeds else "one step ahead, ± spread"
        limit = "limit" if self.program.width == self.width else f"limit, {self.program.width} → ∞"
        return ("layer", "statistic", measured, predicted, "z", limit)

    @property
    def lines(self) -> list[tuple[tuple[str, ...], bool]]:
        """The rows as text, and whether each differs beyond chance."""
        return [(row.cells, row.differs) for row in self.rows]

    def __getitem__(self, layer: str) -> tuple[AuditRow, ...]:
        found = tuple(row for row in self.rows if row.layer == layer)
        if not found:
            raise KeyError(
                f"no layer {layer!r} in the audit; there are "
                f"{', '.join(dict.fromkeys(r.layer for r in self.rows))}"
            )
        return found

    def records(self) -> list[dict[str, Any]]:
        """Every row as a dictionary, numbers with all their digits."""
        return [row.record for row in self.rows]

    def plot(self, title: str = "") -> Any:
        """A matplotlib figure: one panel for each statistic, with predictions as curves."""
        from limitlaw.torch.figures import audit_figure

        return audit_figure(
            {f"n = {self.width}" if self.seeds else "one step ahead": self.rows}, title
        )
