"""Tables → pictures (PDF and PNG) and report.html."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from limitlaw.figures import printed
from limitlaw.figures.figure import Figure
from limitlaw.figures.picture import Picture
from limitlaw.figures.report import Report
from limitlaw.paper.catalogue import EXPERIMENTS
from limitlaw.paper.shown.reading import Tables, length
from limitlaw.runs import Table

TITLE = "The infinite-width limit of an attention layer, reproduced"
PAPER = (
    "M. Sakai, R. Karakida and M. Imaizumi (2025), <cite>Infinite-Width Limit of a Single Attention Layer: "
    "Analysis via Tensor Programs</cite>"
)
FIGURES: dict[str, Figure] = {figure.key: figure for each in EXPERIMENTS.values() for figure in each.figures}


def checked(tables: Tables) -> dict[str, Table]:
    """The tables that figures show and that have rows; a missing column or columns of different lengths raise."""
    found = {}
    for figure in FIGURES.values():
        for name in figure.columns:
            if name in tables and length(tables[name]):
                figure.check(name, tables[name])
                found[name] = tables[name]
    return found


def pictures(tables: Tables) -> dict[str, Picture]:
    """The figures whose tables are there."""
    found = {key: figure.picture(tables) for key, figure in FIGURES.items()}
    return {key: picture for key, picture in found.items() if picture is not None}


def draw(tables: Tables, folder: Path) -> list[Path]:
    """Write the figures whose tables are there as PDF and PNG into the folder, which is made; their paths, in order."""
    found = pictures(checked(tables))
    folder.mkdir(parents=True, exist_ok=True)
    return [path for key, picture in found.items() for path in printed.write(picture, folder, key)]


def report(tables: Tables, claims: Table, facts: Mapping[str, Any], path: Path) -> None:
    """Write the report; it links to the pictures and tables that already lie beside it or one folder below."""
    drawn = [(FIGURES[key], picture) for key, picture in pictures(checked(tables)).items()]
    rows = [dict(zip(claims, row, strict=True)) for row in zip(*claims.values(), strict=True)]
    Report(TITLE, PAPER, drawn, rows, facts).write(path)
