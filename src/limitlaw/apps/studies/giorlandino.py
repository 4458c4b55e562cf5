"""Giorlandino and Goldt (2025, arXiv 2505.24333), figure 1 at β = 3: token correlation through 50
post-norm blocks.

One head without W^O (in the limit a matrix of scale 1 changes nothing), a ReLU MLP, residual
branches; scores of standard deviation β √(ln 512). How many tokens they had is not known; 300
here. Nor is it known whether values had biases, as the MLP has: both are computed.
"""

import functools
import math

import numpy as np

import limitlaw as ll
from limitlaw.apps.paper.experiment import Experiment
from limitlaw.apps.paper.shown.claims import Claim, ClaimRule
from limitlaw.apps.paper.shown.reading import Tables, agree, where
from limitlaw.apps.reports.figure import Figure
from limitlaw.apps.studies import look
from limitlaw.apps.studies.settings import StudySettings
from limitlaw.apps.studies.tracing import column, listed, parts, pooled, tokens, traced
from limitlaw.figures.picture import Curve, Panel, Picture, PlotAxis
from limitlaw.runs import Arrays, Chunk, Results, Table, rows

GIORLANDINO_DEPTH, GIVEN_CORRELATION, BETA = 50, 0.026, 3.0
WEIGHT, BIAS = math.sqrt(0.2), math.sqrt(4e-4)
LAYERS = np.array([20, 25, 30, 35, 40])
MEASURED_THEN = np.array([0.331, 0.453, 0.605, 0.775, 0.888])
THEORY_THEN = np.array([0.367, 0.515, 0.678, 0.833, 0.927])
LONGEST = 512


@functools.cache
def network(count: int, biased: bool, depth: int = GIORLANDINO_DEPTH) -> ll.Wide:
    """The blocks on `count` tokens; `biased`: values have biases too."""
    scale = math.sqrt(BETA * math.sqrt(math.log(LONGEST)))

    def block(x: ll.Wide) -> ll.Wide:
        y = ll.nn.attention(x, 1, q_std=scale, k_std=scale, v_std=WEIGHT)
        y = y + BIAS * ll.initial() if biased else y
        x = ll.nn.layernorm(x + y)
        return ll.nn.layernorm(x + ll.nn.mlp(x, ll.n, ll.relu, WEIGHT, BIAS))

    return ll.repeat(block, tokens(count, GIVEN_CORRELATION), depth)


def chain(*, count: int, biased: bool, draws: int, seed: int) -> Arrays:
    """The mean correlation between tokens after each block."""
    return traced(network(count, biased), ["correlation"], draws, seed)


def _parts(settings: StudySettings, biased: bool) -> list[Chunk]:
    return parts(settings.either(4, 1), settings.seed, chain, count=300, biased=biased, draws=4)


def _variants(settings: StudySettings) -> list[bool]:
    return settings.either([True, False], [True])


def _chunks(settings: StudySettings) -> list[Chunk]:
    return [chunk for biased in _variants(settings) for chunk in _parts(settings, biased)]


def _tables(settings: StudySettings, results: Results) -> dict[str, Table]:
    records = []
    for biased in _variants(settings):
        found = pooled(_parts(settings, biased), results)
        curve = column(found, "correlation")
        records.append({"biased": int(biased), "layer": np.arange(GIORLANDINO_DEPTH + 1), **curve})
    published = rows({"layer": LAYERS, "measured": MEASURED_THEN, "theory": THEORY_THEN})
    return {"giorlandino": rows(*records), "giorlandino_published": published}


def _at(tables: Tables, biased: int) -> tuple[np.ndarray, np.ndarray]:
    """Correlations at the published layers, and their errors."""
    table = where(tables["giorlandino"], biased=biased)
    return table["correlation"][LAYERS], table["error"][LAYERS]


def _nearer(tables: Tables) -> Claim:
    """Is the limit nearer to what they measured than their own theory?"""
    found, error = _at(tables, 1)
    holds = bool((np.abs(found - MEASURED_THEN) < np.abs(THEORY_THEN - MEASURED_THEN)).all())
    claim = (
        "The limit of infinite width is nearer to the measured correlation than the published "
        "theory, at every layer"
    )
    expected = (
        f"measured {listed(MEASURED_THEN, 0 * MEASURED_THEN)} at layers 20, 25, …, 40; theory "
        f"{listed(THEORY_THEN, 0 * THEORY_THEN)}"
    )
    return Claim("giorlandino", claim, expected, listed(found, error), holds)


def _theory(tables: Tables) -> Claim:
    """Is the published theory, in which the number of tokens grows without bound, the limit at 300
    tokens?
    """
    found, error = _at(tables, 1)
    holds = all(agree(*numbers, 0.0005) for numbers in zip(found, error, THEORY_THEN, strict=True))
    claim = (
        "The published theory, of infinitely many tokens, is the limit of infinite width at 300 "
        "tokens"
    )
    return Claim(
        "giorlandino", claim, listed(THEORY_THEN, 0 * THEORY_THEN), listed(found, error), holds
    )


def picture(table: Table, published: Table) -> Picture:
    """A picture of the correlation along depth beside what was published."""
    curves: list[Curve] = []
    for place, (biased, words) in enumerate(
        ((1, "biases of values and MLP"), (0, "biases of the MLP only"))
    ):
        part = where(table, biased=biased)
        label = f"{look.AT_INFINITY}, {words}"
        if len(part["layer"]):
            curves.append(look.bare(place, part["layer"], part["correlation"], label))
    curves.append(
        Curve(published["layer"], published["measured"], look.PUBLISHED, "published: measured")
    )
    curves.append(Curve(published["layer"], published["theory"], look.SECOND, "published: theory"))
    x, y = (
        PlotAxis("layer", limits=(0.0, float(GIORLANDINO_DEPTH))),
        PlotAxis("token correlation", limits=(0.0, 1.0)),
    )
    return Picture(((Panel(x, y, tuple(curves)),),), (5.2, 3.8), 2)


GIORLANDINO_TABLE = ("giorlandino",)
GIORLANDINO = Experiment(
    "giorlandino",
    _chunks,
    _tables,
    (ClaimRule(GIORLANDINO_TABLE, _nearer), ClaimRule(GIORLANDINO_TABLE, _theory)),
    (
        Figure(
            "giorlandino",
            "Giorlandino and Goldt 2025, figure 1",
            "rank collapse of 50 post-norm blocks",
            "Mean correlation between 300 tokens after each block, β = 3. Lines: the chain of "
            "kernels as <i>n</i> → ∞, with and without biases of the values, which the "
            "publication leaves open. Diamonds: what was measured at width 720, with a number of "
            "tokens that is not known; triangles: the published theory.",
            picture,
            {
                "giorlandino": ("biased", "layer", "correlation"),
                "giorlandino_published": ("layer", "measured", "theory"),
            },
        ),
    ),
)
