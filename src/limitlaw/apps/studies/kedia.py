"""Kedia et al. (2024, arXiv 2403.09635, DeepScaleLM): the gradient variance behind attention.

s tokens of variance 1 and correlation r_x attend in one head of dimension d without W^O; what
comes back to its output has variance σ_g² and correlation r_g between tokens. For weights of
variance σ²/n their closed form is

    Var ∂f/∂x = σ_g² σ_V² d (1 + (s − 1) r_g)/(n s),

as in their published simulations (github.com/akhilkedia/TranformersGetStable, simulations/SHA.py),
whose table of 26,244 settings, two thirds of them with dropout, says that it errs by 2.2, 13.3 and
44.5 % in 50, 90 and 99 % of them. It has the way through values alone, with A_ij = 1/s. Scores of
standard deviation g = σ_Q σ_K add to it: for r_x = r_g = 0 and many tokens as n → ∞

    Var ∂f/∂x = (1 + 2 g²) e^{g²} σ_g² σ_V² d/(n s),

since Σ_j A_ij² → e^{g²}/s, and each of queries and keys takes g² times what values do. Here are
the 27 combinations of r_x, r_g and σ_Q = σ_K of their grid without dropout, at one size, in units
of the closed form: with every matrix drawn, as they did, and as n → ∞.
"""

import functools
import itertools
import math

import numpy as np

import limitlaw as ll
from limitlaw.apps.paper.experiment import Experiment
from limitlaw.apps.paper.shown.claims import Claim, ClaimRule
from limitlaw.apps.paper.shown.reading import Tables, agree, distinct, row, where
from limitlaw.apps.reports.figure import Figure
from limitlaw.apps.studies import look
from limitlaw.apps.studies.settings import StudySettings
from limitlaw.apps.studies.tracing import listed, parts, tokens
from limitlaw.digits import compact
from limitlaw.figures.picture import Curve, Panel, Picture, PlotAxis
from limitlaw.runs import Arrays, Chunk, Results, Table, rows

KEDIA_WIDTH, KEDIA_HEAD_DIM, KEDIA_TOKENS = 316, 64, 300
SCORE_STDS = (0.1, math.sqrt(0.06), 0.6)  # σ_Q = σ_K
CORRELATIONS = (0.0, 1 / 3, 2 / 3)
PUBLISHED_ERRORS = {50: 0.022, 90: 0.133, 99: 0.445}
KEDIA_MARGIN = PUBLISHED_ERRORS[90]


def with_scores(g: np.ndarray) -> np.ndarray:
    """(1 + 2 g²) e^{g²}, in units of the closed form, for tokens and gradients without
    correlation.
    """
    return (1 + 2 * g**2) * np.exp(g**2)


@functools.cache
def gradient_variance(std: float, r_x: float, r_g: float, count: int, dim: int) -> ll.Scalars:
    """n/d times the variance of ∂f/∂x for σ_V = σ_g = 1, in units of the closed form."""
    x = tokens(count, r_x)
    Q, K, V = (ll.Matrix(scale, rows=dim) for scale in (std, std, 1.0))
    y = ll.softmax(ll.dot(Q @ x, K @ x)) @ (V @ x)
    u = ll.initial((count,), cov=r_g + (1 - r_g) * np.eye(count), dim=dim)
    f = ll.dot(u[:, None], y[:, None])[:, 0, 0].sum()
    b = ll.gradient(f, x)
    return ll.average(b * b).sum() / (1 + (count - 1) * r_g)


def setting(*, std: float, r_x: float, r_g: float, draws: int, seed: int) -> Arrays:
    """Its mean and standard error, with every matrix drawn and as n → ∞."""
    value = gradient_variance(std, r_x, r_g, KEDIA_TOKENS, KEDIA_HEAD_DIM)
    drawn = np.asarray(ll.simulate(value, KEDIA_WIDTH, draws, seed))
    law = ll.limit(value, draws, seed)
    return {
        "drawn": drawn.mean(),
        "drawn_error": drawn.std(ddof=1) / math.sqrt(draws),
        "limit": np.asarray(law.mean()),
        "limit_error": np.asarray(law.error.mean()),
    }


def _cases(settings: StudySettings) -> list[dict[str, float]]:
    correlations = settings.either(CORRELATIONS, CORRELATIONS[:1])
    cases = itertools.product(SCORE_STDS, correlations, correlations)
    return [{"std": std, "r_x": r_x, "r_g": r_g} for std, r_x, r_g in cases]


def _parts(settings: StudySettings, case: dict[str, float]) -> list[Chunk]:
    return parts(1, settings.seed, setting, **case, draws=settings.either(32, 8))


def _chunks(settings: StudySettings) -> list[Chunk]:
    return [chunk for case in _cases(settings) for chunk in _parts(settings, case)]


def _tables(settings: StudySettings, results: Results) -> dict[str, Table]:
    records = []
    for case in _cases(settings):
        (chunk,) = _parts(settings, case)
        records.append({**case, **results[chunk]})
    return {"kedia": rows(*records)}


def _misses(table: Table) -> np.ndarray:
    """How far the closed form is from networks, relative to these, in each setting."""
    return np.abs(1 - 1 / table["drawn"])


def _percentiles(tables: Tables) -> Claim:
    """Is the closed form as near to networks as their table of simulations says?"""
    found = np.percentile(_misses(tables["kedia"]), list(PUBLISHED_ERRORS))
    holds = bool((found <= np.array(list(PUBLISHED_ERRORS.values()))).all())
    claim = (
        "Without dropout the closed form errs by no more than the published 2.2, 13.3 and 44.5 % "
        "in 50, 90 and 99 % of settings"
    )
    text = ", ".join(f"{100 * miss:.1f} %" for miss in found)
    return Claim("kedia", claim, "at most 2.2, 13.3, 44.5 %", text, holds)


def _largest(tables: Tables) -> Claim:
    """Is the closed form within its own 90 % where scores are largest, without correlation?"""
    found = row(tables["kedia"], std=SCORE_STDS[-1], r_x=0.0, r_g=0.0)
    miss = 1 - 1 / found["drawn"]
    claim = "The closed form is right to 13.3 % for independent tokens at σ_Q = 0.6"
    expected = "the closed form is 1"
    text = f"{compact(found['drawn'], found['drawn_error'])}: {100 * miss:.0f} % below"
    return Claim("kedia", claim, expected, text, abs(miss) <= KEDIA_MARGIN)


def _limit(tables: Tables) -> Claim:
    """Is the limit, which has scores, nearer to networks than that in every setting?"""
    table = tables["kedia"]
    misses = np.abs(table["limit"] / table["drawn"] - 1)
    errors = np.hypot(table["limit_error"], table["drawn_error"]) / table["drawn"]
    claim = f"The limit n → ∞ is within 13.3 % of networks of width {KEDIA_WIDTH} in every setting"
    text = f"{100 * misses.max():.1f} % at most"
    holds = bool((misses <= KEDIA_MARGIN + 2 * errors).all())
    return Claim("kedia", claim, "13.3 %", text, holds)


def _scores(tables: Tables) -> Claim:
    """Is the limit of independent tokens (1 + 2 g²) e^{g²}?"""
    part = where(tables["kedia"], r_x=0.0, r_g=0.0)
    expected = with_scores(part["std"] ** 2)
    numbers = zip(part["limit"], part["limit_error"], expected, strict=True)
    # of s tokens the formula leaves out terms of order 1/s
    holds = all(agree(value, error, e, e / KEDIA_TOKENS) for value, error, e in numbers)
    claim = "For independent tokens the limit is (1 + 2 g²) e^{g²} times the closed form"
    measured = listed(part["limit"], part["limit_error"])
    return Claim("kedia", claim, listed(expected, 0 * expected), measured, holds)


def picture(table: Table) -> Picture:
    """A picture of the gradient variance over the closed form, for every pair of correlations."""
    grid = np.linspace(0.0, max(SCORE_STDS), 100)
    curves = [
        Curve(grid, with_scores(grid**2), look.FORMULA, "(1 + 2<i>g</i>²) e<sup><i>g</i>²</sup>"),
        look.level((0.0, max(SCORE_STDS)), 1.0, "published closed form"),
    ]
    for place, r_x in enumerate(distinct(table, "r_x")):
        part = where(table, r_x=r_x, r_g=0.0)
        label = f"<i>r</i><sub>x</sub> = {r_x:.2g}"
        curves.append(
            look.line(place, part["std"], part["drawn"], part["drawn_error"], f"{label}, networks")
        )
        curves.append(look.dots(place, part["std"], part["limit"], f"{label}, {look.AT_INFINITY}"))
    x = PlotAxis("<i>σ</i><sub>Q</sub> = <i>σ</i><sub>K</sub>")
    y = PlotAxis("gradient variance over the closed form")
    return Picture(((Panel(x, y, tuple(curves)),),), (5.2, 3.8), 2)


KEDIA_TABLE = ("kedia",)
KEDIA = Experiment(
    "kedia",
    _chunks,
    _tables,
    tuple(ClaimRule(KEDIA_TABLE, rule) for rule in (_percentiles, _largest, _limit, _scores)),
    (
        Figure(
            "kedia",
            "Kedia et al. 2024",
            "gradient variance behind attention",
            f"Variance of ∂<i>f</i>/∂<i>x</i> behind one head of dimension {KEDIA_HEAD_DIM} on "
            f"{KEDIA_TOKENS} tokens of correlation <i>r</i><sub>x</sub>, in units of the "
            "published closed form, which has no way back through scores (dotted). Lines with "
            "bars: networks "
            f"of width {KEDIA_WIDTH}, every matrix drawn; markers alone: <i>n</i> → ∞; wide grey "
            "line: the limit of many independent tokens, <i>g</i> = <i>σ</i><sub>Q</sub>"
            "<i>σ</i><sub>K</sub>.",
            picture,
            {"kedia": ("std", "r_x", "r_g", "drawn", "drawn_error", "limit")},
        ),
    ),
)
