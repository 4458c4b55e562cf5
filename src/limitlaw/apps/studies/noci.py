"""Noci et al. (2022): residual branches scaled by α/√L keep tokens apart, however deep.

Attention alone, uniform over s tokens of correlation ρ₀, as L → ∞: after a share t of the layers,
with m₀ = (1 + (s − 1) ρ₀)/s, variance q = 1 + m₀ (e^{α²t} − 1) and covariance p = ρ₀ + m₀
(e^{α²t} − 1).
"""

import functools
import math

import numpy as np

import limitlaw as ll
from limitlaw.apps.paper.experiment import Experiment
from limitlaw.apps.paper.shown.claims import Claim, ClaimRule
from limitlaw.apps.paper.shown.reading import Tables, distinct, where
from limitlaw.apps.reports.figure import Figure
from limitlaw.apps.studies import look
from limitlaw.apps.studies.settings import StudySettings
from limitlaw.apps.studies.tracing import column, near, parts, pooled, tokens, traced
from limitlaw.digits import compact
from limitlaw.figures.picture import Curve, Panel, Picture, PlotAxis
from limitlaw.runs import Arrays, Chunk, Results, Table, rows

NOCI_TOKENS, NOCI_START, NOCI_ALPHA, NOCI_DEPTH = 32, 0.2, 1.0, 50
SCORE_SCALES = (0.0, 1.0, 2.0)  # σ_Q σ_K; 0 is uniform attention
NOCI_MARGIN = 0.02


def correlation(grown: np.ndarray) -> np.ndarray:
    """p/q where e^{α²t} has this value; with (1 + α²/L)^l in its place, after l of L layers."""
    m = (1 + (NOCI_TOKENS - 1) * NOCI_START) / NOCI_TOKENS
    return (NOCI_START + m * (grown - 1)) / (1 + m * (grown - 1))


@functools.cache
def network(scale: float) -> ll.Wide:
    """The network of L residual attention layers."""
    branch = NOCI_ALPHA / math.sqrt(NOCI_DEPTH)
    return ll.nn.transformer(
        tokens(NOCI_TOKENS, NOCI_START),
        NOCI_DEPTH,
        1,
        norm="none",
        hidden=None,
        scale=branch,
        q_std=scale,
    )


def chain(*, scale: float, draws: int, seed: int) -> Arrays:
    """The mean correlation after each layer."""
    return traced(network(scale), ["correlation"], draws, seed)


def _parts(settings: StudySettings, scale: float) -> list[Chunk]:
    return parts(1, settings.seed, chain, scale=scale, draws=settings.either(1024, 64))


def _chunks(settings: StudySettings) -> list[Chunk]:
    return [chunk for scale in SCORE_SCALES for chunk in _parts(settings, scale)]


def _tables(settings: StudySettings, results: Results) -> dict[str, Table]:
    records = []
    for scale in SCORE_SCALES:
        found = pooled(_parts(settings, scale), results)
        curve = column(found, "correlation")
        records.append({"scale": scale, "layer": np.arange(NOCI_DEPTH + 1), **curve})
    return {"noci": rows(*records)}


def _uniform(tables: Tables) -> Claim:
    """Is the chain that of the same recursion by hand, with uniform attention, where nothing is
    random?
    """
    part = where(tables["noci"], scale=0.0)
    gap = float(
        np.abs(
            part["correlation"] - correlation((1 + NOCI_ALPHA**2 / NOCI_DEPTH) ** part["layer"])
        ).max()
    )
    claim = (
        "Uniform attention: the formula with (1 + α²/L)^l for e^{α²l/L}, after every one of "
        f"{NOCI_DEPTH} layers"
    )
    return Claim("noci", claim, "the same", f"differs by {gap:.0e} at most", gap < 1e-9)


def _formula(scale: float) -> ClaimRule:
    def rule(tables: Tables) -> Claim:
        part = where(tables["noci"], scale=scale)
        found, error = float(part["correlation"][-1]), float(part["error"][-1])
        expected = float(correlation(np.exp([NOCI_ALPHA**2]))[0])
        claim = (
            f"Uniform attention describes scores of standard deviation {scale:g} (L = "
            f"{NOCI_DEPTH}, to {NOCI_MARGIN:.0%})"
        )
        holds = near(found, expected, NOCI_MARGIN)
        return Claim(
            "noci", claim, f"correlation {expected:.3f}", compact(found, max(error, 1e-6)), holds
        )

    return ClaimRule(("noci",), rule)


def picture(table: Table) -> Picture:
    """A picture of the correlation along depth for several scales of scores."""
    layers = np.arange(NOCI_DEPTH + 1)
    curves = [
        Curve(
            layers,
            correlation(np.exp(NOCI_ALPHA**2 * layers / NOCI_DEPTH)),
            look.FORMULA,
            "formula, <i>L</i> → ∞",
        )
    ]
    for place, scale in enumerate(distinct(table, "scale")):
        part = where(table, scale=scale)
        label = f"<i>σ</i><sub>Q</sub><i>σ</i><sub>K</sub> = {scale:g}" + (
            " (uniform)" if scale == 0 else ""
        )
        curves.append(look.bare(place, part["layer"], part["correlation"], label))
    panel = Panel(
        PlotAxis("layer", limits=(0.0, float(NOCI_DEPTH))),
        PlotAxis("token correlation"),
        tuple(curves),
    )
    return Picture(((panel,),), (5.2, 3.6), 2)


NOCI = Experiment(
    "noci",
    _chunks,
    _tables,
    (ClaimRule(("noci",), _uniform), *(_formula(scale) for scale in SCORE_SCALES)),
    (
        Figure(
            "noci",
            "Noci et al. 2022",
            "branches scaled by 1/√L",
            "Correlation between 32 tokens through 50 layers of attention whose residual branches "
            "are scaled by 1/√<i>L</i>. The formula (wide grey line) has uniform attention; "
            "random scores of standard deviation <i>σ</i><sub>Q</sub><i>σ</i><sub>K</sub> keep "
            "tokens further apart.",
            picture,
            {"noci": ("scale", "layer", "correlation")},
        ),
    ),
)
