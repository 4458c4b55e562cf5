"""Giorlandino and Goldt (2025, arXiv 2505.24333), figure 3: the gradient of W_Q against β, for
scores of standard deviation β √(ln T).

Their networks (github.com/aGiorlandino/ICLR-Signal-Propagation-Transformers, gradients.ipynb) are
one post-norm block of BERT under a language model's loss, with T = 2048 and 4096 tokens and σ_Q² =
σ_K² = β √(ln T); their curves are not compared here, as they are not there as numbers. This is
what attention itself does to that gradient, behind a random readout, so that D = ∂f/∂A has
independent entries of variance σ_V². With P = A ∘ (D − rowsum(A ∘ D)) and tokens of kernel I

    (T σ_Q² σ_K² σ_V²)⁻¹ Σ_w (∂f/∂w)² = E Σ_j P_ij²/σ_V² = E [Y₂ − 2 Y₃ + Y₂²],  Y_k = Σ_j A_ij^k,

over the parameters of W_Q = σ_Q w/√n. In the random energy model, on which they map attention, a
row of A has Poisson–Dirichlet weights of parameter √2/β for β > √2, with E Y₂ = 1 − √2/β = Y,
E Y₃ = Y (1 + Y)/2 and E Y₂² = Y (1 + 2 Y)/3: the gradient is Y (1 − Y)/3, and 0 for β ≤ √2. The
whole block of figure 1 is computed for few tokens, where it takes seconds.
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
from limitlaw.apps.studies.tracing import parts, tokens
from limitlaw.digits import compact, short
from limitlaw.figures.picture import Curve, Panel, Picture, PlotAxis
from limitlaw.runs import Arrays, Chunk, Results, Table, rows

FREEZING = math.sqrt(2)
GRADIENT_BETAS = (0.5, 1.0, FREEZING, 2.0, 3.0, 4.0, 6.0)
VALUE_STD, BLOCK_BIAS, BLOCK_CORRELATION = math.sqrt(0.2), math.sqrt(4e-4), 0.026
ATTENTION_DRAWS = {32: 512, 128: 128, 512: 32}  # by numbers of tokens
BLOCK_TOKENS, BLOCK_DRAWS = 32, 128


def frozen(beta: np.ndarray) -> np.ndarray:
    """Y (1 − Y)/3 with Y = max(0, 1 − √2/β), the random energy model's."""
    Y = np.maximum(0.0, 1.0 - FREEZING / beta)
    return Y * (1 - Y) / 3


@functools.cache
def layers(count: int, beta: float, block: bool) -> tuple[ll.Wide, ll.Wide]:
    """Tokens and the output of attention, or of the whole post-norm block around it."""
    scale = math.sqrt(beta * math.sqrt(math.log(count)))
    x = tokens(count, BLOCK_CORRELATION if block else 0.0)
    y = ll.nn.attention(x, 1, q_std=scale, k_std=scale, v_std=VALUE_STD)
    if not block:
        return x, y
    h = ll.nn.layernorm(x + y + BLOCK_BIAS * ll.initial())
    return x, ll.nn.layernorm(h + ll.nn.mlp(h, ll.n, ll.relu, VALUE_STD, BLOCK_BIAS))


def query_gradient(*, count: int, beta: float, block: bool, draws: int, seed: int) -> Arrays:
    """(T σ_Q² σ_K² σ_V²)⁻¹ Σ_w (∂f/∂w)² of W_Q, and its error."""
    found = ll.gradients(layers(count, beta, block), samples=draws, key=seed)["gradient_W_Q"]
    unit = count * beta**2 * math.log(count) * VALUE_STD**2
    return {"gradient": found.value[1] / unit, "error": found.error[1] / unit}


def _cases(settings: StudySettings) -> list[tuple[int, bool]]:
    return settings.either(
        [*((count, False) for count in ATTENTION_DRAWS), (BLOCK_TOKENS, True)],
        [(32, False), (128, False)],
    )


def _part(settings: StudySettings, count: int, block: bool, beta: float) -> Chunk:
    draws = BLOCK_DRAWS if block else ATTENTION_DRAWS[count]
    given = {"count": count, "beta": beta, "block": block}
    (chunk,) = parts(1, settings.seed, query_gradient, **given, draws=draws)
    return chunk


def _chunks(settings: StudySettings) -> list[Chunk]:
    return [_part(settings, *case, beta) for case in _cases(settings) for beta in GRADIENT_BETAS]


def _tables(settings: StudySettings, results: Results) -> dict[str, Table]:
    records = [
        {"tokens": count, "block": int(block), "beta": beta, **results[chunk]}
        for count, block in _cases(settings)
        for beta in GRADIENT_BETAS
        for chunk in [_part(settings, count, block, beta)]
    ]
    return {"query_gradients": rows(*records)}


def _ends(tables: Tables, beta: float) -> tuple[list[dict[str, float]], str]:
    """The gradients behind attention to the fewest and to the most tokens, and their text."""
    table = where(tables["query_gradients"], block=0)
    counts = distinct(table, "tokens")
    found = [row(table, tokens=counts[i], beta=beta) for i in (0, -1)]
    texts = [compact(f["gradient"], f["error"]) for f in found]
    return found, f"{texts[0]} for {counts[0]} tokens, {texts[1]} for {counts[-1]}"


def _vanishes(tables: Tables) -> Claim:
    """Does the gradient fall with the number of tokens where scores are small?"""
    (few, many), text = _ends(tables, 1.0)
    error = math.hypot(few["error"], many["error"])
    holds = few["gradient"] - many["gradient"] > 5 * error
    claim = "At β = 1 < √2 the gradient of W_Q falls with more tokens"
    return Claim("query_gradients", claim, "falls, to 0", text, holds)


def _stays(tables: Tables) -> Claim:
    """Does it stay where they are large?"""
    (few, many), text = _ends(tables, 3.0)
    holds = agree(many["gradient"], math.hypot(few["error"], many["error"]), few["gradient"])
    claim = "At β = 3 > √2 the gradient of W_Q does not depend on the number of tokens"
    return Claim("query_gradients", claim, "the same", text, holds)


def _model(beta: float, words: str) -> ClaimRule:
    def rule(tables: Tables) -> Claim:
        (_, many), text = _ends(tables, beta)
        expected = float(frozen(np.array([beta]))[0])
        claim = f"The gradient of W_Q is that of the random energy model, {words}"
        holds = agree(many["gradient"], many["error"], expected)
        return Claim("query_gradients", claim, short(expected), text, holds)

    return ClaimRule(("query_gradients",), rule)


def _largest(tables: Tables) -> Claim:
    """Is it largest above √2, as in the random energy model at 2√2?"""
    table = where(tables["query_gradients"], block=0)
    table = where(table, tokens=distinct(table, "tokens")[-1])
    at = float(table["beta"][np.argmax(table["gradient"])])
    claim = "The gradient of W_Q is largest for a β between √2 and 4"
    expected = "2√2 in the random energy model"
    holds = FREEZING < at <= 4
    return Claim("query_gradients", claim, expected, f"at β = {short(at)}", holds)


def picture(table: Table) -> Picture:
    """A picture of the gradient of W_Q against β, for several numbers of tokens."""
    grid = np.linspace(min(GRADIENT_BETAS), max(GRADIENT_BETAS), 200)
    curves = [Curve(grid, frozen(grid), look.FORMULA, "random energy model")]
    for block, words in ((0, "attention"), (1, "a whole block")):
        part = where(table, block=block)
        for count in distinct(part, "tokens"):
            curve = where(part, tokens=count)
            text = f"{words}, <i>T</i> = {count}"
            numbers = curve["beta"], curve["gradient"], curve["error"]
            curves.append(look.line(len(curves) - 1, *numbers, text))
    x = PlotAxis("<i>β</i>: scores have sd <i>β</i> √(ln <i>T</i>)")
    y = PlotAxis("squared gradient of <i>W</i><sub>Q</sub>, a token")
    return Picture(((Panel(x, y, tuple(curves)),),), (5.2, 3.8), 2)


QUERY_TABLE = ("query_gradients",)
QUERY_GRADIENTS = Experiment(
    "query_gradients",
    _chunks,
    _tables,
    (
        ClaimRule(QUERY_TABLE, _vanishes),
        ClaimRule(QUERY_TABLE, _stays),
        _model(1.0, "β = 1"),
        _model(3.0, "β = 3"),
        ClaimRule(QUERY_TABLE, _largest),
    ),
    (
        Figure(
            "query_gradients",
            "Giorlandino and Goldt 2025, figure 3",
            "the gradient of W_Q",
            "Σ (∂<i>f</i>/∂<i>w</i>)<sup>2</sup> over the parameters of <i>W</i><sub>Q</sub> = "
            "<i>σ</i><sub>Q</sub><i>w</i>/√<i>n</i>, divided by <i>T σ</i><sub>Q</sub><sup>2"
            "</sup><i>σ</i><sub>K</sub><sup>2</sup><i>σ</i><sub>V</sub><sup>2</sup>, as <i>n</i> "
            "→ ∞ with a random readout behind attention, or behind a post-norm block with a ReLU "
            "MLP. The wide grey line is infinitely many tokens in the random energy model, for "
            "attention. Bars: one standard error.",
            picture,
            {"query_gradients": ("tokens", "block", "beta", "gradient", "error")},
        ),
    ),
)
