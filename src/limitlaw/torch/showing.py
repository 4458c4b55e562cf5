"""What every table of an audit can do: in a terminal, a notebook, a data frame, and a page."""

import abc
import html
import os
from collections.abc import Sequence
from typing import Any

from limitlaw.depth.table import data_frame
from limitlaw.files import write


class Table(abc.ABC):
    """Lines of text below a head, findings, and notes about how they came about."""

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
    def findings(self) -> tuple[str, ...]:
        """What is wrong, in words."""

    @property
    @abc.abstractmethod
    def notes(self) -> tuple[str, ...]:
        """What was found on the way."""

    @abc.abstractmethod
    def records(self) -> list[dict[str, Any]]:
        """Every line as a dictionary, numbers with all their digits."""

    @abc.abstractmethod
    def plot(self, title: str = "") -> Any:
        """A matplotlib figure."""

    def __str__(self) -> str:
        lines = [self.head, *(cells for cells, _ in self.lines)]
        widths = [max(len(line[i]) for line in lines) for i in range(len(self.head))]
        table = [
            "  ".join(cell.ljust(w) for cell, w in zip(line, widths, strict=True)).rstrip()
            for line in lines
        ]
        return "\n".join([*table, *(f"! {finding}" for finding in self.findings)])

    def _repr_html_(self) -> str:
        found = "".join(f"<li>{html.escape(finding)}</li>" for finding in self.findings)
        return f"{self.html_table()}<ul>{found}</ul>"

    def html_table(self) -> str:
        """The lines alone; those beyond chance have the class `differs`."""
        head = "".join(f"<th>{html.escape(cell)}</th>" for cell in self.head)
        body = "".join(
            f"<tr{' class=differs' if differs else ''}>"
            f"{''.join(f'<td>{html.escape(cell)}</td>' for cell in cells)}</tr>"
            for cells, differs in self.lines
        )
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"

    def to_pandas(self) -> Any:
        """A data frame with one line for each of `records` (needs pandas)."""
        return data_frame(self.records())

    def to_html(self, path: str | os.PathLike[str], title: str = "limitlaw audit") -> None:
        """Write one page with findings, picture and table, which reads nothing else."""
        from limitlaw.torch.page import page

        write(path, page(self, title).encode())
