"""The class of experiments: chunks to be computed, tables of their arrays, claims and pictures."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from limitlaw.apps.paper.computed.baseline import Case
from limitlaw.apps.paper.computed.convergence import Convergence
from limitlaw.apps.paper.shown.claims import ClaimRule
from limitlaw.apps.reports.figure import Figure
from limitlaw.runs import Chunk, Results, Table


class Experiment(NamedTuple):
    """One figure, or two that share their data; settings are those of its report.

    `place` is its place in the report: the paper's own figures before those beyond it, and without
    one at the end. `borrows` names experiments whose tables its figures show as well, `dense` the
    networks that the paper draws for it.
    """

    name: str
    chunks: Callable[[Any], list[Chunk]]
    tables: Callable[[Any, Results], dict[str, Table]]
    claims: tuple[ClaimRule, ...]
    figures: tuple[Figure, ...]
    place: int | float = math.inf
    borrows: tuple[str, ...] = ()
    dense: Callable[[Any], list[Case]] = lambda settings: []


def of_widths(
    widths: Convergence,
    place: int,
    claims: tuple[ClaimRule, ...],
    figures: tuple[Figure, ...],
    borrows: tuple[str, ...] = ("fig1",),
) -> Experiment:
    """The experiment of a row of the paper's table, with the noise floor of figure 1."""
    chunks, tables, dense = widths.chunks, widths.tables, widths.dense
    return Experiment(widths.name, chunks, tables, claims, figures, place, borrows, dense)
