"""All studies, by name; their tables → pictures (PDF and PNG) and report.html."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from limitlaw.apps.paper import catalogue
from limitlaw.apps.paper import report as shown
from limitlaw.apps.paper.experiment import Experiment
from limitlaw.apps.paper.shown.reading import Tables
from limitlaw.apps.reports.report import Report
from limitlaw.apps.studies import (
    cowsik,
    giorlandino,
    nait_saada,
    noci,
    participation,
    tails,
    unit_scaling,
)
from limitlaw.runs import Table

TITLE = "Studies of depth, computed again"
WHAT = "What others published about the depth of Transformers at initialisation"
HEADING = "The studies"
STUDIES: dict[str, Experiment] = {  # in the order of the report
    each.STUDY.name: each.STUDY
    for each in (giorlandino, participation, cowsik, noci, nait_saada, unit_scaling, tails)
}
FIGURES = {figure.key: figure for each in STUDIES.values() for figure in each.figures}


def chosen(names: list[str]) -> list[Experiment]:
    """The studies of these names; all without a name."""
    return catalogue.chosen(names, STUDIES, "study")


def draw(tables: Tables, folder: Path) -> list[Path]:
    """Write the figures whose tables are there as PDF and PNG into the folder, which is made;
    their paths, in order.
    """
    return shown.draw(tables, folder, FIGURES)


def report(tables: Tables, claims: Table, facts: Mapping[str, Any], path: Path) -> None:
    """Write the report; it links to the pictures and tables that already lie beside
    it or one folder below.
    """
    drawn, lines = shown.drawn(tables, FIGURES), shown.lines(claims)
    Report(TITLE, "", drawn, lines, facts, WHAT, HEADING).write(path)
