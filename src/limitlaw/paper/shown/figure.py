"""A figure of the report: which tables it shows, how it is built from them, and its words."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from limitlaw.figures.page import Caption
from limitlaw.figures.picture import Picture
from limitlaw.paper.shown.reading import Tables
from limitlaw.runs import Table

Columns = Mapping[str, tuple[str, ...]]


@dataclass(frozen=True)
class Figure:
    """`build` takes its tables in order, None for one that is not there; each is named with the columns it must have.

    `name` is that of its files.
    """

    name: str
    caption: Caption
    build: Callable[..., Picture]
    tables: Columns
    optional: Columns = field(default_factory=dict)
    any_of: bool = False  # one of the tables is enough

    @property
    def columns(self) -> Columns:
        """What it reads; further columns are nobody's business here."""
        return {**self.tables, **self.optional}

    def picture(self, tables: Tables) -> Picture | None:
        """The picture, or None if its tables are not there."""
        enough = any if self.any_of else all
        if not enough(name in tables for name in self.tables):
            return None
        return self.build(*(tables.get(name) for name in self.columns))

    def check(self, name: str, table: Table) -> None:
        """One of its tables: a missing column or columns of different lengths raise."""
        columns = self.columns[name]
        missing = [column for column in columns if column not in table]
        if missing:
            raise ValueError(f"table {name} must have the columns {', '.join(columns)}; it lacks {missing[0]}")
        if len({len(column) for column in table.values()}) > 1:
            raise ValueError(f"the columns of table {name} must be equally long")
