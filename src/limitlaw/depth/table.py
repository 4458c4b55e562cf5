"""What `trace` returns: a small table with one row for each layer."""

import dataclasses
import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from limitlaw.depth.statistics import Column
from limitlaw.digits import plus_minus
from limitlaw.notebook import aligned, block, frame, table


def _written(value: float, error: float) -> str:
    return plus_minus(value, error) if error > 0 else f"{value:.6g}"


MOST_SHOWN = 64  # most entries of a statistic that has a column for each


@dataclasses.dataclass(frozen=True)
class Trace:
    """Statistics after each layer, where row 0 is the input of the first:
    `trace["entropy"].value`, `.error`, `.spread`.

    `error`: the standard error of the mean over draws. `spread`: the standard deviation over
    draws, as n → ∞ that of what stays random; NaN for statistics of the law over all draws.
    `width` is None as n → ∞.
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

    def only(self, names: Iterable[str]) -> "Trace":
        """The same trace with these columns alone."""
        names = set(names)
        columns = {name: column for name, column in self.columns.items() if name in names}
        labels = {name: self.labels[name] for name in columns}
        return dataclasses.replace(self, columns=columns, labels=labels)

    def beside(self, other: "Trace") -> "Trace":
        """This trace and the columns of another one of the same layers and width."""
        draws = dict.fromkeys((self._draws, other._draws))
        return dataclasses.replace(
            self,
            columns=self.columns | other.columns,
            labels=self.labels | other.labels,
            effort=" and ".join(draws),
            beyond=tuple(dict.fromkeys((*self.beyond, *other.beyond))),
        )

    @property
    def in_numbers(self) -> "Trace":
        """The trace with a column for each entry of a statistic of arrays, as "spectrum[2]"."""
        columns, labels = {}, {}
        for name, column in self.columns.items():
            shape = column.value.shape[1:]
            if math.prod(shape) > MOST_SHOWN:
                raise ValueError(
                    f"a table shows statistics of at most {MOST_SHOWN} numbers a layer, and "
                    f"{name!r} has shape {shape}: read trace[{name!r}].value, or ask for others"
                )
            for place in np.ndindex(shape):
                entry = f"[{', '.join(map(str, place))}]" if shape else ""
                columns[name + entry] = Column(*(part[:, *place] for part in column))
                labels[name + entry] = self.labels[name] + entry
        return dataclasses.replace(self, columns=columns, labels=labels)

    @property
    def head(self) -> list[str]:
        """The names of the columns."""
        return ["layer", *self.in_numbers.labels.values()]

    @property
    def layers(self) -> np.ndarray:
        """0, 1, …: the input of the first layer, and the output of each."""
        return np.arange(len(self))

    @property
    def where(self) -> str:
        """The width in words: "n → ∞", or as "n = 64"."""
        return "n → ∞" if self.width is None else f"n = {self.width}"

    @property
    def title(self) -> str:
        """The width, the number of draws and the meaning of ±, in one line."""
        beyond = f"; beyond Theorem 3.1: {', '.join(self.beyond)}" if self.beyond else ""
        return f"{self.where}, {self._draws}, ± one standard error{beyond}"

    @property
    def _draws(self) -> str:
        """The number of draws, in words."""
        return self.effort or f"{self.samples:,} draw{'s' * (self.samples != 1)}"

    def rows(self, written: Callable[[float, float], str] = _written) -> Iterator[list[str]]:
        """The cells of the table, layer by layer; `written` formats a value and its error."""
        columns = self.in_numbers.columns.values()
        for layer in range(len(self)):
            found = [
                (float(column.value[layer]), float(column.error[layer])) for column in columns
            ]
            yield [
                str(layer),
                *("–" if np.isnan(value) else written(value, error) for value, error in found),
            ]

    def to_pandas(self) -> Any:
        """A data frame with one line for each layer and statistic (needs pandas)."""
        return frame(self.records())

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
            for name, column in self.in_numbers.columns.items()
            for i, (value, error, spread) in enumerate(
                zip(*(array.tolist() for array in column), strict=True)
            )
        ]

    def to_csv(self, *others: "Trace") -> str:
        """The records of this trace, then of `others`, as text with all digits."""
        lines = ["layer,statistic,value,error,spread,width"]
        for record in (record for trace in (self, *others) for record in trace.records()):
            width = "inf" if record["width"] is None else record["width"]
            numbers = ",".join(f"{record[name]:.17g}" for name in ("value", "error", "spread"))
            lines.append(f"{record['layer']},{record['statistic']},{numbers},{width}")
        return "\n".join([*lines, ""])

    def plot(self, *others: "Trace", title: str = "") -> Any:
        """A matplotlib figure with a panel for each statistic, of this trace and `others`."""
        from limitlaw.depth.figures import depth_figure

        return depth_figure([trace.in_numbers for trace in (self, *others)], title)

    def __str__(self) -> str:
        return f"{self.title}\n{aligned([self.head, *self.rows()], str.rjust)}"

    def __repr__(self) -> str:
        return (
            f"Trace({len(self) - 1} layers, {self.where}, {self.samples} draws: "
            f"{', '.join(self.columns)})"
        )

    def _repr_html_(self) -> str:
        return block(self.title, table(self.head, self.rows()))
