"""Participation E Σ_j A_ij² of a row of attention, compared with the random energy model, max(0, 1
− √2/β).

Scores of T tokens with K = I are independent normals of standard deviation β √(ln T), as the
energies of that model are. One token has a query here, and all T have keys: rows of A have one
law.
"""

import functools
import math

import numpy as np

import limitlaw as ll
from limitlaw.apps.paper.experiment import Experiment
from limitlaw.apps.paper.shown.claims import Claim, ClaimRule
from limitlaw.apps.paper.shown.reading import Tables, agree, distinct, row, where
from limitlaw.apps.reports.figure import Figure
from limitlaw.apps.studies import look
from limitlaw.apps.studies.settings import StudySettings
from limitlaw.apps.studies.tracing import column, parts, pooled, tokens, traced
from limitlaw.digits import compact, short
from limitlaw.figures.picture import Curve, Panel, Picture, PlotAxis
from limitlaw.runs import Arrays, Chunk, Results, Table, rows

CRITICAL = math.sqrt(2)
BETAS = (0.5, 1.0, CRITICAL, 2.0, 3.0, 4.0)
COMPARED = ((1.0, "β = 1"), (CRITICAL, "β = √2"), (3.0, "β = 3"))
REM_TOKENS = 512


def energy_model(beta: np.ndarray) -> np.ndarray:
    """max(0, 1 − √2/β), the participation of the random energy model with infinitely many
    tokens.
    """
    return np.maximum(0.0, 1.0 - CRITICAL / beta)


@functools.cache
def network(count: int, beta: float) -> tuple[ll.Wide, ll.Wide]:
    """One token, and the output of its attention to `count` others."""
    x = tokens(1)
    scale = beta * math.sqrt(math.log(count))
    return x, ll.nn.attention(x, 1, q_std=scale, context=ll.initial((count,)))


def row_of(*, count: int, beta: float, draws: int, seed: int) -> Arrays:
    """The participation Σ_j A_1j² of an attention layer."""
    return traced(network(count, beta), ["participation"], draws, seed)


def _parts(settings: StudySettings, count: int, beta: float) -> list[Chunk]:
    draws = settings.either(4096, 1024)
    return parts(1, settings.seed, row_of, count=count, beta=beta, draws=draws)


def _cases(settings: StudySettings) -> list[tuple[int, float]]:
    betas = settings.either(BETAS, tuple(beta for beta, _ in COMPARED))
    return [
        (count, beta)
        for count in settings.either((64, REM_TOKENS, 2048), (64, REM_TOKENS))
        for beta in betas
    ]


def _chunks(settings: StudySettings) -> list[Chunk]:
    return [chunk for case in _cases(settings) for chunk in _parts(settings, *case)]


def _tables(settings: StudySettings, results: Results) -> dict[str, Table]:
    records = []
    for count, beta in _cases(settings):
        found = pooled(_parts(settings, count, beta), results)
        records.append({"tokens": count, "beta": beta, **column(found, "participation", -1)})
    return {"participation": rows(*records)}


def _equals(beta: float, words: str) -> ClaimRule:
    """Is the participation of 512 tokens that of the random energy model?"""

    def rule(tables: Tables) -> Claim:
        found = row(tables["participation"], tokens=REM_TOKENS, beta=beta)
        expected = float(energy_model(np.array([beta]))[0])
        claim = f"Participation of {REM_TOKENS} tokens is that of the random energy model, {words}"
        measured = compact(found["participation"], found["error"])
        holds = agree(found["participation"], found["error"], expected)
        return Claim("participation", claim, short(expected), measured, holds)

    return ClaimRule(("participation",), rule)


def _approaches(tables: Tables) -> Claim:
    """Is the participation that of the model in the limit of many tokens?"""
    table = tables["participation"]
    counts = distinct(table, "tokens")
    compared = [where(table, tokens=count) for count in counts]
    gaps = [part["participation"] - energy_model(part["beta"]) for part in compared]
    errors = [part["error"] for part in compared]
    pairs = zip(gaps, gaps[1:], errors, errors[1:], strict=False)
    holds = all(
        bool((b - a < 5 * np.hypot(e, f)).all()) and b.mean() < a.mean() for a, b, e, f in pairs
    )
    claim = "With more tokens participation approaches the random energy model, from above"
    measured = ", ".join(
        f"{short(float(gap.mean()))} (T = {count})"
        for gap, count in zip(gaps, counts, strict=True)
    )
    return Claim(
        "participation", claim, "differences, averaged over β, that fall", measured, holds
    )


def picture(table: Table) -> Picture:
    """A picture of the participation against the scale of scores."""
    grid = np.linspace(table["beta"].min(), table["beta"].max(), 200)
    curves = [Curve(grid, energy_model(grid), look.FORMULA, "random energy model")]
    for place, count in enumerate(distinct(table, "tokens")):
        part = where(table, tokens=count)
        label = f"<i>T</i> = {count}"
        curves.append(look.line(place, part["beta"], part["participation"], part["error"], label))
    x = PlotAxis("<i>β</i>: scores have sd <i>β</i> √(ln <i>T</i>)")
    y = PlotAxis("participation Σ <i>A</i><sup>2</sup>")
    return Picture(((Panel(x, y, tuple(curves)),),), (5.2, 3.6), 4)


PARTICIPATION = Experiment(
    "participation",
    _chunks,
    _tables,
    (*(_equals(*case) for case in COMPARED), ClaimRule(("participation",), _approaches)),
    (
        Figure(
            "participation",
            "Random energy model",
            "participation of a row of attention",
            "Mean of Σ<sub>j</sub> <i>A</i><sub>ij</sub><sup>2</sup> with tokens of kernel "
            "<i>I</i>, whose scores have the standard deviation <i>β</i> √(ln <i>T</i>). The wide "
            "grey line is infinitely many tokens, max(0, 1 − √2/<i>β</i>). Bars: one standard "
            "error.",
            picture,
            {"participation": ("tokens", "beta", "participation", "error")},
        ),
    ),
)
