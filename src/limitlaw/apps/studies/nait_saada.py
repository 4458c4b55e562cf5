"""Nait Saada et al. (2025): the spectrum of softmax matrices of T tokens, scores independent
N(0, 1).

Stable rank of A Aᵀ, ‖A Aᵀ‖²_F / ‖A Aᵀ‖² − 1 ≈ 2 (e − 1)²/T, and the second singular value: s₂ √T →
2 √(e − 1).
"""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np

import limitlaw as ll
from limitlaw.apps.paper.experiment import Experiment
from limitlaw.apps.paper.shown.claims import Claim, ClaimRule
from limitlaw.apps.paper.shown.reading import Tables
from limitlaw.apps.reports.figure import Figure
from limitlaw.apps.reports.scales import power_axis
from limitlaw.apps.studies import look
from limitlaw.apps.studies.settings import StudySettings
from limitlaw.apps.studies.tracing import near, parts, pooled, tokens, traced
from limitlaw.digits import compact, short
from limitlaw.figures.picture import Curve, Panel, Picture, PlotAxis
from limitlaw.runs import Arrays, Chunk, Results, Table, rows

EXP_VARIANCE = math.e - 1  # variance of e^z, z ~ N(0, 1), in units of its squared mean
SV_EDGE = 2 * math.sqrt(EXP_VARIANCE)
SV_MARGIN = 0.05
STEPS_TO_FIRST = 40  # iterations for the first eigenvalue, which is far above the others
STEPS_TO_SECOND = 800


def rank_excess(count: np.ndarray | float) -> np.ndarray | float:
    """The published excess of the stable rank, 2 (e − 1)²/T."""
    return 2 * EXP_VARIANCE**2 / count


@functools.cache
def network(count: int) -> tuple[ll.Wide, ll.Wide]:
    """Orthogonal tokens, and the output of one head on them."""
    x = tokens(count)
    return x, ll.nn.attention(x, 1)


def attended(scores: jax.Array) -> jax.Array:
    """The matrix A Aᵀ of the only head, A = softmax(scores)."""
    A = jax.nn.softmax(scores.reshape(scores.shape[-2:]), axis=-1)
    return A @ A.T


def largest(B: jax.Array, below: jax.Array, steps: int) -> jax.Array:
    """The direction of the largest eigenvalue among those orthogonal to `below`, by iteration.

    Not by LAPACK: jaxlib's batched decompositions wait for each other for ever where
    two threads call them.
    """

    def step(_: object, v: jax.Array) -> jax.Array:
        w = B @ v
        w = w - below * (below @ w)
        return w / jnp.linalg.norm(w)

    return jax.lax.fori_loop(0, steps, step, jnp.cos(jnp.arange(len(B), dtype=B.dtype)) + 0.5)


def excess(kernel: jax.Array, scores: jax.Array | None) -> jax.Array:
    """The stable rank of A Aᵀ, minus 1."""
    if scores is None:
        return jnp.zeros(())
    B = attended(scores)
    u = largest(B, jnp.zeros(len(B)), STEPS_TO_FIRST)
    return jnp.sum(B * B) / (u @ B @ u) ** 2 - 1.0


def second(kernel: jax.Array, scores: jax.Array | None) -> jax.Array:
    """s₂ √T; what the iteration leaves out is below a thousandth of it."""
    if scores is None:
        return jnp.zeros(())
    B = attended(scores)
    v = largest(B, largest(B, jnp.zeros(len(B)), STEPS_TO_FIRST), STEPS_TO_SECOND)
    return jnp.sqrt(v @ B @ v * len(kernel))


def spectrum(*, count: int, draws: int, seed: int) -> Arrays:
    """The excess of the stable rank and the second singular value of random softmax matrices."""
    return traced(network(count), [excess, second], draws, seed)


def _counts(settings: StudySettings) -> tuple[int, ...]:
    return settings.either((64, 128, 256, 512, 1024), (64, 512))


def _parts(settings: StudySettings, count: int) -> list[Chunk]:
    draws = max(32, settings.either(2**15, 2**14) // count)
    return parts(1, settings.seed, spectrum, count=count, draws=draws)


def _chunks(settings: StudySettings) -> list[Chunk]:
    return [chunk for count in _counts(settings) for chunk in _parts(settings, count)]


def _tables(settings: StudySettings, results: Results) -> dict[str, Table]:
    records = []
    for count in _counts(settings):
        found = pooled(_parts(settings, count), results)
        records.append({"tokens": count, **{name: values[-1] for name, values in found.items()}})
    return {"nait_saada": rows(*records)}


def _rank(tables: Tables) -> Claim:
    table = tables["nait_saada"]
    at = int(np.argmin(np.abs(table["tokens"] - 512)))
    found, error = float(table["excess"][at]), float(table["excess_error"][at])
    expected = float(rank_excess(float(table["tokens"][at])))
    claim = (
        f"Stable rank of A Aᵀ − 1 is 2 (e − 1)²/T (T = {table['tokens'][at]}, to {SV_MARGIN:.0%})"
    )
    return Claim(
        "nait_saada",
        claim,
        short(expected),
        compact(found, error),
        near(found, expected, SV_MARGIN),
    )


def _edge(tables: Tables) -> Claim:
    table = tables["nait_saada"]
    found, error = float(table["second"][-1]), float(table["second_error"][-1])
    where = f"(T = {table['tokens'][-1]}, to {SV_MARGIN:.0%})"
    claim = f"The second singular value has reached its edge, s₂ √T = 2 √(e − 1) {where}"
    values = ", ".join(
        f"{v:.2f} (T = {t})" for v, t in zip(table["second"], table["tokens"], strict=True)
    )
    holds = near(found, SV_EDGE, SV_MARGIN)
    return Claim(
        "nait_saada", claim, f"{SV_EDGE:.3f}", f"{compact(found, error)}; {values}", holds
    )


def picture(table: Table) -> Picture:
    """A picture of stable rank and second singular value against the number of tokens."""
    count = table["tokens"].astype(float)
    x = power_axis("tokens <i>T</i>", list(count))
    formula = Curve(count, rank_excess(count) * count, look.FORMULA, "published")
    chain = look.line(
        0, count, table["excess"] * count, table["excess_error"] * count, "chain of kernels"
    )
    left = Panel(x, PlotAxis("<i>T</i> · (stable rank − 1)"), (formula, chain))
    edge = Curve(count, np.full(len(count), SV_EDGE), look.FORMULA, "published")
    chain = look.line(0, count, table["second"], table["second_error"], "chain of kernels")
    right = Panel(x, PlotAxis("<i>s</i><sub>2</sub> √<i>T</i>"), (edge, chain))
    return Picture(((left, right),), (7.2, 3.4), 2)


NAIT_SAADA = Experiment(
    "nait_saada",
    _chunks,
    _tables,
    (ClaimRule(("nait_saada",), _rank), ClaimRule(("nait_saada",), _edge)),
    (
        Figure(
            "nait_saada",
            "Nait Saada et al. 2025",
            "the spectrum of softmax matrices",
            "Left: stable rank of <i>A A</i><sup>T</sup>, whose excess over 1 falls as "
            "1/<i>T</i>. Right: the second singular value. Entries of e<sup>score</sup> have "
            "heavy tails: single large ones lie beyond the edge 2 √(e − 1) at any number of "
            "tokens in use. Bars: one standard error.",
            picture,
            {"nait_saada": ("tokens", "excess", "excess_error", "second", "second_error")},
        ),
    ),
)
