"""All studies, by name, in the order of the report."""

from limitlaw.paper import catalogue
from limitlaw.paper.experiment import Experiment
from limitlaw.studies import (
    cowsik,
    giorlandino,
    nait_saada,
    noci,
    participation,
    tails,
    unit_scaling,
)

STUDIES: dict[str, Experiment] = {
    each.STUDY.name: each.STUDY
    for each in (giorlandino, participation, cowsik, noci, nait_saada, unit_scaling, tails)
}


def chosen(names: list[str]) -> list[Experiment]:
    """The studies of these names; all without a name."""
    return catalogue.chosen(names, STUDIES, "study")
