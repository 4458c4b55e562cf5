"""unit-scaling, issue 84: the attention output of a u-μP Transformer grows from layer to layer,
which it should not.

12 layers of width 768, 16 heads of 48, causal, scores divided by the head dimension, RMSNorm, a
gated SiLU MLP. Branch i = 0, 1, … is added with the weight τ_i, x ← (x + τ_i f)/√(1 + τ_i²), τ_i²
= 1/(12 + i): up to a factor that the norms take away, the plain sum u ← u + f that starts with
variance 12. The attention output is multiplied by a factor that makes it 1 for tokens that are not
correlated.
"""

import functools
import math

import numpy as np

import limitlaw as ll
from limitlaw.apps.paper.experiment import Experiment
from limitlaw.apps.paper.shown.claims import Claim, ClaimRule
from limitlaw.apps.paper.shown.reading import Tables
from limitlaw.apps.reports.figure import Figure
from limitlaw.apps.studies import look
from limitlaw.apps.studies.settings import StudySettings
from limitlaw.apps.studies.tracing import near, parts, pooled, tokens, traced
from limitlaw.depth import Column, Statistic
from limitlaw.depth.statistics import averaged, variance
from limitlaw.digits import compact
from limitlaw.figures.picture import Curve, Panel, Picture, PlotAxis
from limitlaw.numerics.replicates import Replicates
from limitlaw.runs import Arrays, Chunk, Results, Table, rows

UNIT_DEPTH, UNIT_HEADS, UNIT_HEAD_DIM, UNIT_TOKENS = 12, 16, 48, 256
LOGGED = ((0, 1.06), (11, 6.12))  # layer and standard deviation in the user's log
UNIT_MARGIN = 0.05


def attention_factor(count: int) -> float:
    """1/σ of the library, σ being between √(ln T/T) (uniform, causal) and 1 (one-hot), in
    logarithms.
    """
    uniform = math.sqrt(math.log(count) / count)
    return uniform ** -(1.0 - 1.0 / (1.0 + 4.0 * UNIT_HEAD_DIM))


def gate_factor() -> float:
    """1/√(E silu²(z)), with which a gated MLP has unit variance."""
    z, weights = np.polynomial.hermite_e.hermegauss(120)
    silu = z / (1.0 + np.exp(-z))
    return 1.0 / math.sqrt(float(weights @ silu**2 / weights.sum()))


@functools.cache
def network(count: int) -> ll.Wide:
    """The stream u behind each block, both of whose branches read the normed stream."""
    attention, gated = attention_factor(count), gate_factor()

    def block(u: ll.Wide) -> ll.Wide:
        u = u + attention * ll.nn.attention(
            ll.nn.rmsnorm(u), UNIT_HEADS, UNIT_HEAD_DIM, "linear", "causal"
        )
        return u + gated * ll.nn.gated_mlp(ll.nn.rmsnorm(u))

    return ll.repeat(block, math.sqrt(UNIT_DEPTH) * tokens(count), UNIT_DEPTH)


def output_std(read: np.ndarray, replicates: Replicates, dim: float) -> Column:
    """The standard deviation of attention: as n → ∞ branches are orthogonal to the stream, and the
    MLP adds 1.
    """
    square = averaged(np.diff(read, axis=1) - 1.0, replicates, dim)
    std = np.sqrt(square.value)
    return Column(std, square.error / (2 * std), square.spread / (2 * std))


def chain(*, count: int, draws: int, seed: int) -> Arrays:
    """The standard deviation of the attention output in each layer, and the token correlation
    behind it.
    """
    statistics = [Statistic("std", variance, summary=output_std), "correlation"]
    return traced(network(count), statistics, draws, seed)


def _parts(settings: StudySettings) -> list[Chunk]:
    return parts(
        settings.either(4, 1), settings.seed, chain, count=UNIT_TOKENS, draws=settings.either(4, 2)
    )


def _tables(settings: StudySettings, results: Results) -> dict[str, Table]:
    found = pooled(_parts(settings), results)
    table = {"layer": np.arange(UNIT_DEPTH), "std": found["std"], "error": found["std_error"]}
    behind = {
        "correlation": found["correlation"][1:],
        "correlation_error": found["correlation_error"][1:],
    }
    return {"unit_scaling": rows({**table, **behind})}


def _logged(layer: int, expected: float) -> ClaimRule:
    def rule(tables: Tables) -> Claim:
        table = tables["unit_scaling"]
        found, error = float(table["std"][layer]), float(table["error"][layer])
        claim = (
            f"Standard deviation of the attention output in layer {layer} ({UNIT_TOKENS} "
            f"tokens, to {UNIT_MARGIN:.0%})"
        )
        holds = near(found, expected, UNIT_MARGIN)
        return Claim(
            "unit_scaling", claim, f"{expected} in the user's log", compact(found, error), holds
        )

    return ClaimRule(("unit_scaling",), rule)


def _unit(tables: Tables) -> Claim:
    """Does the attention output have unit scale, as the library promises?"""
    table = tables["unit_scaling"]
    holds = bool((np.abs(table["std"] - 1) < 0.1 + 5 * table["error"]).all())
    last = compact(float(table["std"][-1]), float(table["error"][-1]))
    correlated = compact(float(table["correlation"][-1]), float(table["correlation_error"][-1]))
    claim = "Unit scaling: the attention output has standard deviation 1 in every layer (to 10 %)"
    measured = f"{last} in layer {UNIT_DEPTH - 1}, where tokens have correlation {correlated}"
    return Claim("unit_scaling", claim, "1, for tokens that are not correlated", measured, holds)


def picture(table: Table) -> Picture:
    """A picture of attention output and correlation along depth."""
    layers = table["layer"]
    chain = look.line(
        0, layers, table["std"], table["error"], f"chain of kernels, {UNIT_TOKENS} tokens"
    )
    at, logged = np.array(LOGGED).T
    log = Curve(at, logged, look.PUBLISHED, "user's log")
    one = look.level((0.0, UNIT_DEPTH - 1.0), 1.0, "intended")
    left = Panel(PlotAxis("layer"), PlotAxis("sd of the attention output"), (chain, log, one))
    tied = look.line(0, layers, table["correlation"], table["correlation_error"])
    right = Panel(PlotAxis("layer"), PlotAxis("token correlation", limits=(0.0, 1.0)), (tied,))
    return Picture(((left, right),), (7.2, 3.4), 3)


UNIT_SCALING = Experiment(
    "unit_scaling",
    _parts,
    _tables,
    (*(_logged(*entry) for entry in LOGGED), ClaimRule(("unit_scaling",), _unit)),
    (
        Figure(
            "unit_scaling",
            "unit-scaling, issue 84",
            "growth of the attention output",
            "Left: standard deviation of the attention output in each of 12 layers, beside a "
            "user's log. Right: mean correlation between tokens behind each layer. The factor "
            "behind attention is made for tokens that are not correlated; averaging correlated "
            "ones takes less away.",
            picture,
            {"unit_scaling": ("layer", "std", "error", "correlation", "correlation_error")},
        ),
    ),
)
