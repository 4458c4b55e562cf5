"""Alekseev (2026, arXiv 2604.11890): partial Jacobians J(0 → l) = E |∂x_l/∂x_0|²/(s n) through a
pre-norm ViT-B of 64 blocks, with the standard deviation 0.02 of all weights.

The published recursion (github.com/labofdoubt/transformers-apjn, apjn/theory.py) takes attention
to be uniform, over so many tokens that it adds σ_O²σ_V² p/q to the variance q and the covariance
p of tokens; gradients pass through values alone. The limit has scores, their
derivatives, and 197 tokens: two copies of the network on x_0 and on x_0 + ε ξ, ξ standard normal,
are ε √J apart, so that J is read off the kernel of both. That costs one pass through a loop, where
gradients of 64 blocks have to be written out; `gradients` gives the same for fewer.
"""

import functools
import math
from collections.abc import Callable

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

import limitlaw as ll
from limitlaw.apps.paper.experiment import Experiment
from limitlaw.apps.paper.shown.claims import Claim, ClaimRule
from limitlaw.apps.paper.shown.reading import Tables, distinct, where
from limitlaw.apps.reports.figure import Figure
from limitlaw.apps.studies import look
from limitlaw.apps.studies.settings import StudySettings
from limitlaw.apps.studies.tracing import column, near, parts, pooled, traced
from limitlaw.digits import compact
from limitlaw.figures.picture import Curve, Panel, Picture, PlotAxis
from limitlaw.runs import Arrays, Chunk, Results, Table, rows

VIT_DEPTH, VIT_TOKENS, VIT_HEADS, VIT_HEAD_DIM, VIT_WIDTH = 64, 197, 12, 64, 768
VIT_START = 0.2  # correlation of tokens, of variance 1
VIT_STD = 0.02 * math.sqrt(VIT_WIDTH)  # σ_Q, σ_K, σ_V, σ_O and σ_1; σ_2 is twice as large
VIT_PUBLISHED = {"jacobian": 9.633, "variance": 16.64, "correlation": 0.7165}
SCORE_FACTORS = (0.0, 1.0, 2.0, 4.0)  # of σ_Q and σ_K; 0 is uniform attention
DISTANCE = 1e-4  # ε
ALEKSEEV_MARGIN = 0.01


def recursion(depth: int, tokens: int | float, start: float) -> dict[str, np.ndarray]:
    """J(0 → l), q_l and p_l/q_l for l = 0, …, depth, with uniform attention; infinitely many
    tokens where the published recursion takes them.
    """
    a, m = VIT_STD**4, VIT_STD**2 * (2 * VIT_STD) ** 2
    q, p, J, K = 1.0, start, 1.0, 0.0  # K: between two tokens
    found = [(J, q, p / q)]
    for _ in range(depth):
        up = a * p / q
        J, K = (
            (1 + a / (tokens * q)) * J + a / q * K,
            (1 + a / q) * K + a / (tokens * q) * J,
        )
        q, p = q + up, p + up
        angle = math.acos(p / q)
        kernel = (math.sin(angle) + (math.pi - angle) * p / q) / (2 * math.pi)
        J *= 1 + 0.5 * m / q
        K *= 1 + m * (math.pi - angle) / (2 * math.pi * q)
        q, p = q + 0.5 * m, p + m * kernel
        found.append((J, q, p / q))
    return dict(zip(VIT_PUBLISHED, np.array(found).T, strict=True))


@functools.cache
def network(factor: float, count: int, depth: int = VIT_DEPTH) -> ll.Wide:
    """Two copies with the same weights, on inputs that are ε apart."""
    K = VIT_START + (1 - VIT_START) * np.eye(count)
    both = np.block([[K, K], [K, K + DISTANCE**2 * np.eye(count)]])
    std = factor * VIT_STD

    def attention(z: ll.Wide) -> ll.Wide:
        if factor:
            return ll.nn.attention(
                z,
                VIT_HEADS,
                VIT_HEAD_DIM,
                q_std=std,
                k_std=std,
                v_std=VIT_STD,
                o_std=VIT_STD,
            )
        return np.full((count, count), VIT_STD**2 / count) @ (ll.Matrix() @ z)  # W^O W^V as one

    def block(x: ll.Wide) -> ll.Wide:
        x = x + attention(ll.layernorm(x))
        hidden = ll.relu(ll.dense(ll.layernorm(x), VIT_STD, dim=4 * ll.n))
        return x + ll.dense(hidden, 2 * VIT_STD)

    return ll.repeat(block, ll.initial((2 * count,), cov=both).reshape(2, count), depth)


def _of_copies(statistic: Callable[[Array, Array, Array], Array]) -> Callable[..., Array]:
    """A statistic of the kernels of the first copy, between both, and of the second."""

    def read(kernel: Array, scores: object) -> Array:
        count = kernel.shape[-1] // 2
        K = kernel.reshape(2, count, 2, count)
        return statistic(K[0, :, 0], K[0, :, 1], K[1, :, 1])

    return read


def _jacobian(K: Array, between: Array, other: Array) -> Array:
    return jnp.mean(jnp.diagonal(K + other - 2 * between)) / DISTANCE**2


def _variance(K: Array, between: Array, other: Array) -> Array:
    return jnp.mean(jnp.diagonal(K))


def _correlation(K: Array, between: Array, other: Array) -> Array:
    """Between two different tokens, as the ratio p/q is."""
    count = len(K)
    return (jnp.sum(K) / jnp.trace(K) - 1) / (count - 1)


OF_COPIES = {
    "jacobian": _of_copies(_jacobian),
    "variance": _of_copies(_variance),
    "correlation": _of_copies(_correlation),
}


def copies(*, factor: float, count: int, draws: int, seed: int) -> Arrays:
    """The three numbers behind every block."""
    statistics = [ll.depth.Statistic(name, read) for name, read in OF_COPIES.items()]
    return traced(network(factor, count), statistics, draws, seed)


def _parts(settings: StudySettings, factor: float) -> list[Chunk]:
    number, draws = (settings.either(4, 1), settings.either(4, 2)) if factor else (1, 1)
    return parts(number, settings.seed, copies, factor=factor, count=VIT_TOKENS, draws=draws)


def _factors(settings: StudySettings) -> tuple[float, ...]:
    return settings.either(SCORE_FACTORS, SCORE_FACTORS[:2])


def _chunks(settings: StudySettings) -> list[Chunk]:
    return [chunk for factor in _factors(settings) for chunk in _parts(settings, factor)]


def _tables(settings: StudySettings, results: Results) -> dict[str, Table]:
    records = []
    for factor in _factors(settings):
        found = pooled(_parts(settings, factor), results)
        columns: dict[str, np.ndarray] = {}
        for name in OF_COPIES:
            value, error = column(found, name).values()
            columns |= {name: value, f"{name}_error": error}
        records.append({"factor": factor, "layer": np.arange(VIT_DEPTH + 1), **columns})
    formula = recursion(VIT_DEPTH, VIT_TOKENS, VIT_START)
    published = {"layer": np.arange(VIT_DEPTH + 1), **formula}
    return {"alekseev": rows(*records), "alekseev_published": rows(published)}


def _recursion(tables: Tables) -> Claim:
    """Is the recursion of this file the published one?"""
    table = tables["alekseev_published"]
    found = {name: float(table[name][-1]) for name in VIT_PUBLISHED}
    holds = all(near(found[name], value, 5e-5) for name, value in VIT_PUBLISHED.items())
    text = ", ".join(f"{value:.4g}" for value in found.values())
    expected = ", ".join(f"{value:.4g}" for value in VIT_PUBLISHED.values())
    claim = "The recursion gives the published J(0 → 64), q₆₄ and p₆₄/q₆₄"
    return Claim("alekseev", claim, expected, text, holds)


def _describes(factor: float, words: str) -> ClaimRule:
    def rule(tables: Tables) -> Claim:
        table = where(tables["alekseev"], factor=factor)
        last = {name: (table[name][-1], table[f"{name}_error"][-1]) for name in VIT_PUBLISHED}
        holds = all(
            near(float(last[name][0]), value, ALEKSEEV_MARGIN)
            for name, value in VIT_PUBLISHED.items()
        )
        claim = f"The published numbers describe {words} (to {ALEKSEEV_MARGIN:.0%})"
        text = ", ".join(compact(float(v), max(float(e), 1e-6)) for v, e in last.values())
        expected = ", ".join(f"{value:.4g}" for value in VIT_PUBLISHED.values())
        return Claim("alekseev", claim, expected, text, holds)

    return ClaimRule(("alekseev",), rule)


WORDS = {
    0.0: "uniform attention to 197 tokens",
    1.0: "attention with σ_Q = σ_K = 0.5543",
    2.0: "attention with σ_Q = σ_K = 1.109",
    4.0: "attention with σ_Q = σ_K = 2.217",
}


def picture(table: Table, published: Table) -> Picture:
    """A picture of J and of the correlation along depth, for several scales of scores."""
    panels = []
    x = PlotAxis("layer", limits=(0.0, float(VIT_DEPTH)))
    axes = {"jacobian": "<i>J</i>(0 → <i>l</i>)", "correlation": "token correlation"}
    for name, words in axes.items():
        label = "published recursion" if name == "jacobian" else ""
        curves = [Curve(published["layer"], published[name], look.FORMULA, label)]
        for place, factor in enumerate(distinct(table, "factor")):
            part = where(table, factor=factor)
            text = f"<i>σ</i><sub>Q</sub> = {factor * VIT_STD:.4g}" if label else ""
            curves.append(look.bare(place, part["layer"], part[name], text))
        panels.append(Panel(x, PlotAxis(words), tuple(curves)))
    return Picture((tuple(panels),), (7.6, 3.6), 3)


ALEKSEEV = Experiment(
    "alekseev",
    _chunks,
    _tables,
    (
        ClaimRule(("alekseev_published",), _recursion),
        *(_describes(factor, words) for factor, words in WORDS.items()),
    ),
    (
        Figure(
            "alekseev",
            "Alekseev 2026",
            "partial Jacobians of a deep ViT",
            f"E |∂<i>x</i><sub>l</sub>/∂<i>x</i><sub>0</sub>|²/(<i>s n</i>) through {VIT_DEPTH} "
            f"pre-norm blocks on {VIT_TOKENS} tokens, as <i>n</i> → ∞ with {VIT_HEADS} heads of "
            f"dimension {VIT_HEAD_DIM}, and the correlation between tokens. The recursion (wide "
            "grey line) has uniform attention; larger queries and keys give scores of standard "
            "deviation <i>σ</i><sub>Q</sub><i>σ</i><sub>K</sub>.",
            picture,
            {
                "alekseev": ("factor", "layer", *OF_COPIES),
                "alekseev_published": ("layer", "jacobian", "correlation"),
            },
        ),
    ),
)
