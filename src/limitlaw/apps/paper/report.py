"""From tables to pictures (PDF and PNG) and report.html."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from limitlaw.apps.paper.catalogue import EXPERIMENTS
from limitlaw.apps.paper.shown.reading import Tables, length
from limitlaw.apps.reports import printed
from limitlaw.apps.reports.figure import Figure
from limitlaw.apps.reports.report import HtmlReport
from limitlaw.figures.picture import Picture
from limitlaw.runs import Table

PAPER_TITLE = "The infinite-width limit of an attention layer, reproduced"
PAPER = (
    "M. Sakai, R. Karakida and M. Imaizumi (2025), <cite>Infinite-Width Limit of a Single "
    "Attention Layer: Analysis via Tensor Programs</cite>"
)
Figures = Mapping[str, Figure]  # by key
FIGURES: Figures = {figure.key: figure for each in EXPERIMENTS.values() for figure in each.figures}


def checked(tables: Tables, figures: Figures = FIGURES) -> dict[str, Table]:
    """The tables that figures show and that have rows; a table of another form raises."""
    found = {}
    for figure in figures.values():
        for name in figure.columns:
            if name in tables and length(tables[name]):
                figure.check(name, tables[name])
                found[name] = tables[name]
    return found


def pictures(tables: Tables, figures: Figures = FIGURES) -> dict[str, Picture]:
    """The pictures of the figures whose tables are there."""
    found = {key: figure.picture(tables) for key, figure in figures.items()}
    return {key: picture for key, picture in found.items() if picture is not None}


def draw(tables: Tables, folder: Path, figures: Figures = FIGURES) -> list[Path]:
    """Write the figures whose tables are there into the folder; returns their paths, in order."""
    found = pictures(checked(tables, figures), figures)
    folder.mkdir(parents=True, exist_ok=True)
    return [path for key, picture in found.items() for path in printed.write(picture, folder, key)]


def drawn(tables: Tables, figures: Figures = FIGURES) -> list[tuple[Figure, Picture]]:
    """The figures whose tables are there, with their pictures."""
    return [
        (figures[key], picture)
        for key, picture in pictures(checked(tables, figures), figures).items()
    ]


def lines(claims: Table) -> list[dict[str, Any]]:
    """The table of claims as a list of rows."""
    return [dict(zip(claims, row, strict=True)) for row in zip(*claims.values(), strict=True)]


def report(tables: Tables, claims: Table, facts: Mapping[str, Any], path: Path) -> None:
    """Write the report, with links to the files beside it or one folder below."""
    HtmlReport(PAPER_TITLE, PAPER, drawn(tables), lines(claims), facts).write(path)
