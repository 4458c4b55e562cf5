"""A figure of a report: its words, the tables it shows, the function that makes its picture."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from limitlaw.figures.picture import Picture

Columns = Mapping[str, tuple[str, ...]]  # for each table, the columns that are read


@dataclass(frozen=True)
class Figure:
    """A figure: `build` makes a picture of its tables in order, with None for one that is not
    there.

    `key` is the name of its files and its place in a page, `name` that in the paper, "" for a
    figure of our own. `text` says what is seen and how it was computed, with the markup of labels
    (`<i>`, `<sub>`, `<sup>`).
    """

    key: str
    name: str
    title: str
    text: str
    build: Callable[..., Picture]
    tables: Columns
    optional: Columns = field(default_factory=dict)
    any_of: bool = False  # one of the tables is enough

    @property
    def columns(self) -> Columns:
        """The columns that it reads, by table; there may be others."""
        return {**self.tables, **self.optional}

    def picture(self, tables: Mapping[str, Mapping[str, np.ndarray]]) -> Picture | None:
        """The picture, or None if its tables are not there."""
        enough = any if self.any_of else all
        if not enough(name in tables for name in self.tables):
            return None
        return self.build(*(tables.get(name) for name in self.columns))

    def check(self, name: str, table: Mapping[str, np.ndarray]) -> None:
        """Raise where one of its tables lacks a column, or has columns of different lengths."""
        columns = self.columns[name]
        missing = [column for column in columns if column not in table]
        if missing:
            raise ValueError(
                f"table {name} must have the columns {', '.join(columns)}; it lacks {missing[0]}"
            )
        if len({len(column) for column in table.values()}) > 1:
            raise ValueError(f"the columns of table {name} must be equally long")
