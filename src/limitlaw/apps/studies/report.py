"""All studies, by name; from their tables to pictures (PDF and PNG) and report.html."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from limitlaw.apps.paper import catalogue
from limitlaw.apps.paper import report as shown
from limitlaw.apps.paper.experiment import Experiment
from limitlaw.apps.paper.shown.reading import Tables
from limitlaw.apps.reports.report import HtmlReport
from limitlaw.apps.studies.alekseev import ALEKSEEV
from limitlaw.apps.studies.cowsik import COWSIK
from limitlaw.apps.studies.giorlandino import GIORLANDINO
from limitlaw.apps.studies.kedia import KEDIA
from limitlaw.apps.studies.nait_saada import NAIT_SAADA
from limitlaw.apps.studies.noci import NOCI
from limitlaw.apps.studies.participation import PARTICIPATION
from limitlaw.apps.studies.query_gradients import QUERY_GRADIENTS
from limitlaw.apps.studies.tails import TAILS_STUDY
from limitlaw.apps.studies.unit_scaling import UNIT_SCALING
from limitlaw.runs import Table

STUDIES_TITLE = "Studies of depth, computed again"
STUDIES_LEAD = "What others published about the depth of Transformers at initialisation"
STUDIES_HEADING = "The studies"
STUDIES: dict[str, Experiment] = {  # in the order of the report
    each.name: each
    for each in (
        GIORLANDINO,
        PARTICIPATION,
        COWSIK,
        NOCI,
        NAIT_SAADA,
        UNIT_SCALING,
        TAILS_STUDY,
        KEDIA,
        ALEKSEEV,
        QUERY_GRADIENTS,
    )
}
STUDY_FIGURES = {figure.key: figure for each in STUDIES.values() for figure in each.figures}


def chosen(names: list[str]) -> list[Experiment]:
    """The studies of these names; all if no name is given."""
    return catalogue.chosen(names, STUDIES, "study")


def draw(tables: Tables, folder: Path) -> list[Path]:
    """Write the figures whose tables are there into the folder; returns their paths, in order."""
    return shown.draw(tables, folder, STUDY_FIGURES)


def report(tables: Tables, claims: Table, facts: Mapping[str, Any], path: Path) -> None:
    """Write the report, with links to the files beside it or one folder below."""
    drawn, lines = shown.drawn(tables, STUDY_FIGURES), shown.lines(claims)
    HtmlReport(STUDIES_TITLE, "", drawn, lines, facts, STUDIES_LEAD, STUDIES_HEADING).write(path)
