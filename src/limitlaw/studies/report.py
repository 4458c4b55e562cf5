"""Tables of studies → pictures (PDF and PNG) and report.html."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from limitlaw.figures.report import Report
from limitlaw.paper import report as shown
from limitlaw.paper.shown.reading import Tables
from limitlaw.runs import Table
from limitlaw.studies.catalogue import STUDIES

TITLE = "Studies of depth, computed again"
WHAT = "What others published about the depth of Transformers at initialisation"
HEADING = "The studies"
FIGURES = {figure.key: figure for each in STUDIES.values() for figure in each.figures}


def draw(tables: Tables, folder: Path) -> list[Path]:
    """Write the figures whose tables are there as PDF and PNG into the folder, which is made;
    their paths, in order.
    """
    return shown.draw(tables, folder, FIGURES)


def report(tables: Tables, claims: Table, facts: Mapping[str, Any], path: Path) -> None:
    """Write the report; it links to the pictures and tables that already lie beside
    it or one folder below.
    """
    Report(
        TITLE, "", shown.drawn(tables, FIGURES), shown.lines(claims), facts, WHAT, HEADING
    ).write(path)
