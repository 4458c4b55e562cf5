"""Cowsik et al. (2024): the edge of chaos of x + α f, a tanh MLP behind attention with scores of
variance 1.

    x ← N(u + α W' tanh(W N(u))),   u = x + α attention(x),   N an RMSNorm

Nearly parallel tokens: 1 − correlation is multiplied by e^λ in every block, v = σ_w² E
tanh²(σ_w z), χ = σ_w⁴ E sech⁴(σ_w z), λ = ln[(1 + α² + α²χ) / ((1 + α²)(1 + α² + α²v))]; λ = 0
where χ = (1 + α²)(1 + v).
"""

import functools
import math

import jax.numpy as jnp
import numpy as np
from scipy.optimize import brentq

import limitlaw as ll
from limitlaw.apps.paper.experiment import Experiment
from limitlaw.apps.paper.shown.claims import Claim, ClaimRule
from limitlaw.apps.paper.shown.reading import Tables, distinct, ordered, row, where
from limitlaw.apps.reports.figure import Figure
from limitlaw.apps.studies import look
from limitlaw.apps.studies.settings import StudySettings
from limitlaw.apps.studies.tracing import near, parts, pooled, tokens, traced
from limitlaw.depth import Column, Statistic
from limitlaw.depth.statistics import averaged, correlations
from limitlaw.figures.picture import Curve, Panel, Picture, PlotAxis
from limitlaw.numerics.replicates import Replicates
from limitlaw.runs import Arrays, Chunk, Results, Table, rows

EDGES = {0.0: 1.796, 0.25: 1.876, 0.5: 2.128, 1.0: 3.333}  # α: σ_w*, published
HALF_A_DIGIT = 0.0005
SIGMAS_W = {0.5: (1.0, 1.5, 2.0, 2.128, 2.5, 3.0), 1.0: (1.0, 2.0, 2.5, 3.333, 4.0, 5.0)}  # α: σ_w
ALMOST_ORTHOGONAL = 0.99  # 1 − correlation of almost orthogonal tokens
# 1 − correlation of nearly parallel tokens, and the block they are looked at in
PARALLEL, EARLY = 1e-4, 2
DEEP = {"alpha": 1.0, "sigma": 2.0}
QUICK_SIZE = {"count": 48, "depth": 24, "draws": 4}  # one program for both in a first look


# --- what was published --------------------------------------------------------------------------


@functools.cache
def _normal() -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights for N(0, 1): Gauss-Legendre, as sech⁴ is too narrow for Gauss-Hermite."""
    z, weights = np.polynomial.legendre.leggauss(400)
    weights = weights * np.exp(-50.0 * z * z)
    return 10.0 * z, weights / weights.sum()


def slopes(sigma: float) -> tuple[float, float]:
    """The mean square v and the mean square slope χ of tanh."""
    z, weights = _normal()
    t = np.tanh(sigma * z)
    mean = [float(weights @ f) for f in (t * t, (1 - t * t) ** 2)]
    return sigma**2 * mean[0], sigma**4 * mean[1]


def exponent(alpha: float, sigma: float) -> float:
    """The published exponent λ of 1 − correlation."""
    a, (v, chi) = alpha**2, slopes(sigma)
    return math.log((1 + a + a * chi) / ((1 + a) * (1 + a + a * v)))


def edge(alpha: float) -> float:
    """The scale σ_w* at which λ = 0; α = 0 is the limit α → 0."""

    def gap(sigma: float) -> float:
        v, chi = slopes(sigma)
        return chi - (1 + alpha**2) * (1 + v)

    return float(brentq(gap, 0.5, 20.0, xtol=1e-12))


# --- the chain of kernels ------------------------------------------------------------------------


@functools.cache
def network(alpha: float, sigma: float, count: int, start: float, depth: int) -> ll.Wide:
    """Blocks on tokens whose correlation starts at 1 − `start`."""

    def block(x: ll.Wide) -> ll.Wide:
        u = x + alpha * ll.nn.attention(x, 1)
        return ll.nn.rmsnorm(
            u + alpha * ll.nn.mlp(ll.nn.rmsnorm(u, 0.0), ll.n, ll.tanh, sigma), 0.0
        )

    return ll.repeat(block, tokens(count, 1.0 - start), depth)


def log_angle(kernel: jnp.ndarray, scores: object) -> jnp.ndarray:
    """ln of the mean of 1 − correlation, from a kernel."""
    return jnp.log(jnp.mean(1.0 - correlations(kernel)))


def growth(read: np.ndarray, replicates: Replicates, dim: float) -> Column:
    """The change of `log_angle` in each block; NaN before the first."""
    return averaged(np.diff(read, axis=1, prepend=np.nan), replicates, dim)


def angles(
    *, alpha: float, sigma: float, count: int, start: float, depth: int, draws: int, seed: int
) -> Arrays:
    """The exponent of 1 − correlation in each block."""
    statistics = [Statistic("growth", log_angle, summary=growth)]
    found = traced(network(alpha, sigma, count, start, depth), statistics, draws, seed)
    return {name: array[1:] for name, array in found.items()}


def _parallel(settings: StudySettings, alpha: float, sigma: float) -> list[Chunk]:
    size = settings.either({"count": 64, "depth": EARLY + 1, "draws": 16}, QUICK_SIZE)
    return parts(1, settings.seed, angles, alpha=alpha, sigma=sigma, start=PARALLEL, **size)


def _deep(settings: StudySettings) -> list[Chunk]:
    size = settings.either({"count": 256, "depth": 24, "draws": 4}, QUICK_SIZE)
    return parts(1, settings.seed, angles, start=ALMOST_ORTHOGONAL, **DEEP, **size)


def _cases(settings: StudySettings) -> list[tuple[float, float]]:
    quick = [(1.0, 2.0), (1.0, 3.333), (1.0, 5.0)]
    return settings.either(
        [(alpha, sigma) for alpha, scales in SIGMAS_W.items() for sigma in scales], quick
    )


def _chunks(settings: StudySettings) -> list[Chunk]:
    return [
        *(chunk for case in _cases(settings) for chunk in _parallel(settings, *case)),
        *_deep(settings),
    ]


def _tables(settings: StudySettings, results: Results) -> dict[str, Table]:
    records = []
    for alpha, sigma in _cases(settings):
        found = pooled(_parallel(settings, alpha, sigma), results)
        early = {"measured": found["growth"][EARLY], "error": found["growth_error"][EARLY]}
        records.append(
            {"alpha": alpha, "sigma": sigma, "formula": exponent(alpha, sigma), **early}
        )
    deep = pooled(_deep(settings), results)
    layers = np.arange(1, len(deep["growth"]) + 1)
    along = rows({"layer": layers, "growth": deep["growth"], "error": deep["growth_error"]})
    edges = rows(
        *(
            {"alpha": alpha, "published": value, "edge": edge(alpha)}
            for alpha, value in EDGES.items()
        )
    )
    return {"cowsik": rows(*records), "cowsik_deep": along, "cowsik_edge": edges}


# --- claims and picture --------------------------------------------------------------------------


def _edge(alpha: float, published: float) -> ClaimRule:
    """The rule that the root of the printed formula is the root that is printed."""

    def rule(tables: Tables) -> Claim:
        found = row(tables["cowsik_edge"], alpha=alpha)["edge"]
        claim = (
            "The edge of chaos σ_w*, where the printed λ is 0, "
            f"{f'α = {alpha:g}' if alpha else 'α → 0'}"
        )
        return Claim(
            "cowsik",
            claim,
            f"{published:.3f}",
            f"{found:.5f}",
            abs(found - published) <= HALF_A_DIGIT,
        )

    return ClaimRule(("cowsik_edge",), rule)


def _formula(tables: Tables) -> Claim:
    """Do all scales have the exponent λ? The claim shows α = 1, σ_w = 2 and the worst of them."""
    table, one = tables["cowsik"], row(tables["cowsik"], **DEEP)
    gaps = np.abs(table["measured"] - table["formula"])
    holds = bool((gaps < 0.005 + 5 * table["error"]).all())
    claim = (
        "Nearly parallel tokens part or meet with the exponent λ (to 0.005), on both sides of the "
        "edge"
    )
    measured = f"{one['measured']:.4f} there; elsewhere off by {gaps.max():.1e} at most"
    return Claim("cowsik", claim, f"λ = {one['formula']:.4f} at α = 1, σ_w = 2", measured, holds)


def _from_afar(tables: Tables) -> Claim:
    """Do almost orthogonal tokens have the exponent λ, too, once they are near each other?"""
    table = tables["cowsik_deep"]
    found = float(table["growth"][-1])
    expected = exponent(*DEEP.values())
    claim = (
        "Almost orthogonal tokens come to meet with it too (α = 1, σ_w = 2, block "
        f"{int(table['layer'][-1])}; to 1 %)"
    )
    return Claim("cowsik", claim, f"{expected:.4f}", f"{found:.4f}", near(found, expected, 0.01))


def picture(table: Table, deep: Table, edges: Table) -> Picture:
    """A picture of the exponent against σ_w, and along depth."""
    curves = []
    for place, alpha in enumerate(distinct(table, "alpha")):
        part = ordered(where(table, alpha=alpha), "sigma")
        grid = np.linspace(part["sigma"][0], part["sigma"][-1], 60)
        label = "formula <i>λ</i>" if place == 0 else ""
        curves.append(
            Curve(grid, np.array([exponent(alpha, sigma) for sigma in grid]), look.FORMULA, label)
        )
        curves.append(
            look.dots(place, part["sigma"], part["measured"], f"chain, <i>α</i> = {alpha:g}")
        )
    curves.append(look.level((min(table["sigma"]), max(table["sigma"])), 0.0, "edge of chaos"))
    left = Panel(
        PlotAxis("<i>σ</i><sub>w</sub>"), PlotAxis("exponent of 1 − correlation"), tuple(curves)
    )
    run = look.line(
        2, deep["layer"], deep["growth"], deep["error"], "from almost orthogonal tokens"
    )
    ends = float(deep["layer"][0]), float(deep["layer"][-1])
    flat = Curve(np.array(ends), np.full(2, exponent(*DEEP.values())), look.FORMULA)
    right = Panel(
        PlotAxis("block"),
        PlotAxis("exponent of 1 − correlation"),
        (flat, run),
        title="<i>α</i> = 1, <i>σ</i><sub>w</sub> = 2",
    )
    return Picture(((left, right),), (7.4, 3.6), 3)


COWSIK = Experiment(
    "cowsik",
    _chunks,
    _tables,
    (
        *(_edge(*pair) for pair in EDGES.items()),
        ClaimRule(("cowsik",), _formula),
        ClaimRule(("cowsik_deep",), _from_afar),
    ),
    (
        Figure(
            "cowsik",
            "Cowsik et al. 2024",
            "the edge of chaos of a Transformer",
            "Exponent by which 1 − correlation changes in a block. Left: nearly parallel tokens "
            "(1 − correlation 10<sup>−4</sup>) against the scale of a tanh MLP; below 0 tokens "
            "collapse, above they part. Right: tokens that start almost orthogonal, along depth. "
            "Wide grey lines: the published formula.",
            picture,
            {
                "cowsik": ("alpha", "sigma", "measured"),
                "cowsik_deep": ("layer", "growth", "error"),
                "cowsik_edge": ("alpha", "edge"),
            },
        ),
    ),
)
