"""What `trace` returns: a small table with one row for each layer."""

import dataclasses
import html
import io
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from limitlaw.depth.statistics import Column
from limitlaw.digits import plus_minus


def data_frame(records: list[dict[str, Any]]) -> Any:
    """Records as a data frame of pandas."""
    try:
        import pandas  # type: ignore[import-untyped]
    except ImportError:
        raise ImportError("to_pandas needs pandas: pip install 'limitlaw[pandas]'") from None
    return pandas.DataFrame(records)


def _written(value: float, error: float) -> str:
    return plus_minus(value, error) if error > 0 else f"{value:.6g}"


@dataclasses.dataclass(frozen=True)
class Trace:
    """Statistics after each layer, row 0 being what the first is given:
    `trace["entropy"].value`, `.error`, `.spread`.

    `error`: the standard error of the mean over draws. `spread`: the standard deviation over
    draws, as n → ∞ what stays random; NaN for statistics of the law over all draws. `width` is
    None as n → ∞.
    """

    columns: dict[str, Column]
    labels: dict[str, str]
    width: int | None
    samples: int
    effort: str = ""
    beyond: tuple[str, ...] = ()

    def __getitem__(self, name: str) -> Column:
        if name not in self.columns:
            raise KeyError(f"{name!r} is not among the statistics {', '.join(self.columns)}")
        return self.columns[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.columns)

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())).value)

    @property
    def layers(self) -> np.ndarray:
        """0, 1, …: what the first layer is given, and what each gives."""
        return np.arange(len(self))

    @property
    def title(self) -> str:
        """Where the numbers come from, in one line."""
        where = "n → ∞" if self.width is None else f"n = {self.width}"
        beyond = f"; beyond Theorem 3.1: {', '.join(self.beyond)}" if self.beyond else ""
        draws = self.effort or f"{self.samples:,} draw{'s' * (self.samples != 1)}"
        return f"{where}, {draws}, ± one standard error{beyond}"

    def rows(self, written: Callable[[float, float], str] = _written) -> Iterator[list[str]]:
        """The cells of the table, layer after layer; `written` is how a value and its error
        are.
        """
        for layer in range(len(self)):
            found = [
                (float(column.value[layer]), float(column.error[layer]))
                for column in self.columns.values()
            ]
            yield [
                str(layer),
                *("–" if np.isnan(value) else written(value, error) for value, error in found),
            ]

    def to_pandas(self) -> Any:
        """A data frame with one line for each layer and statistic (needs pandas)."""
        return data_frame(self.records())

    def records(self) -> list[dict[str, Any]]:
        """Layer, statistic, value, error, spread and width of every number."""
        return [
            {
                "layer": i,
                "statistic": name,
                "value": value,
                "error": error,
                "spread": spread,
                "width": self.width,
            }
            for name, column in self.columns.items()
            for i, (value, error, spread) in enumerate(
                zip(*(array.tolist() for array in column), strict=True)
            )
        ]

    def to_csv(self) -> str:
        """The records as text, numbers with all their digits."""
        lines = io.StringIO()
        lines.write("layer,statistic,value,error,spread,width\n")
        for record in self.records():
            width = "inf" if self.width is None else self.width
            numbers = ",".join(f"{record[name]:.17g}" for name in ("value", "error", "spread"))
            lines.write(f"{record['layer']},{record['statistic']},{numbers},{width}\n")
        return lines.getvalue()

    def plot(self, *others: "Trace", title: str = "") -> Any:
        """A matplotlib figure with a panel for each statistic;
        `others` are drawn on the same axes.
        """
        from limitlaw.figures.depth import depth_figure

        return depth_figure([self, *others], title)

    def __str__(self) -> str:
        head = ["layer", *self.labels.values()]
        cells = [head, *self.rows()]
        widths = [max(len(row[i]) for row in cells) for i in range(len(head))]
        lines = [
            "  ".join(cell.rjust(w) for cell, w in zip(row, widths, strict=True)) for row in cells
        ]
        return "\n".join([self.title, *lines])

    def __repr__(self) -> str:
        where = "n → ∞" if self.width is None else f"n = {self.width}"
        return (
            f"Trace({len(self) - 1} layers, {where}, {self.samples} draws: "
            f"{', '.join(self.columns)})"
        )

    def _repr_html_(self) -> str:
        head = "".join(
            f"<th>{html.escape(cell)}</th>" for cell in ("layer", *self.labels.values())
        )
        body = "".join(
            f"<tr>{''.join(f'<td>{html.escape(c)}</td>' for c in row)}</tr>" for row in self.rows()
        )
        caption = f"<caption>{html.escape(self.title)}</caption>"
        return f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
