"""Joint laws of several outputs that are sums over i.i.d. heads: many heads are drawn from pools
of single ones. And where joint densities are infinite.
"""

import math

import jax.numpy as jnp
import numpy as np

from limitlaw.core import instructions as core
from limitlaw.core.labelled import finite_shape
from limitlaw.core.program import Output, Program
from limitlaw.engines.bounds import check_memory, later
from limitlaw.engines.effort import BUDGET
from limitlaw.engines.heads.structure import HeadAxis
from limitlaw.engines.limit import statistics
from limitlaw.engines.limit.conditions import Limit, seed_of, seed_of_law
from limitlaw.laws import GaussianMixture
from limitlaw.laws.averages import BLOCKS
from limitlaw.numerics.random import Sobol

MANY = 64  # heads beyond which sums of them are drawn from a pool of single ones


def pooled(
    y: Output,
    axis: HeadAxis,
    samples: int | None,
    key: object,
    beyond: tuple[str, ...],
    inflated: bool = False,
) -> GaussianMixture:
    """The joint law of y given pools of draws of one head, of which H heads are a multinomial
    number of each.

    The conditional covariance of H^{-1/2} Σ_a y_a is the mean of the heads' covariances. Every
    block of draws has a pool of its own, so that the spread of blocks shows the error of the
    pools, too.
    """
    draws = BUDGET.pooled_draws if samples is None else samples
    pool = BUDGET.pool
    m = math.prod(finite_shape(y.layout))
    check_memory(draws, pool + m * m, "ask for fewer samples, or for fewer entries, as in y[0]")
    program = Limit((axis.resized(1),), statistics.covariance, inflated)
    seed, own, each = seed_of(key), seed_of_law(key), -(-draws // BLOCKS)
    points, rng = Sobol(program.recipe, seed), np.random.default_rng(seed)
    means = []
    for block in range(-(-draws // each)):
        C = np.asarray(program.at(points.take(pool), seed, block * pool))
        counts = rng.multinomial(int(axis.heads), np.full(pool, 1 / pool), size=each)
        means.append(counts.astype(float) @ C.reshape(pool, m * m) / axis.heads)
    mean = np.concatenate(means)[:draws]
    covariance = mean.reshape(draws, m, m) if y.layout else mean.reshape(draws)
    zeros = jnp.zeros((draws, *finite_shape(y.layout)))
    law = GaussianMixture(zeros, jnp.asarray(covariance), None, "sampled", beyond, BLOCKS, own)
    if program.is_unsure and not inflated:
        law.compared_with(later(lambda: pooled(y, axis, samples, key, beyond, inflated=True)))
    return law


def diverges(axis: HeadAxis, outputs: int) -> bool:
    """Is the joint density infinite where all outputs are equal: one head, and as many outputs as
    tokens that all of them see?

    Rows of A then differ by a square B, and |B Bᵀ|^{−1/2} = 1/|det B| has an infinite mean.
    """
    instructions = [v.instruction for v in Program((axis.term.value,)).values]
    softmax = [
        op for op in instructions if isinstance(op, core.Apply) and op.structure == "softmax"
    ]
    seen = [op.layouts[0][-1] for op in softmax if len(op.args) == 1]
    return axis.heads == 1 and any(
        outputs >= (1 if tokens is None else tokens.size) for tokens in seen
    )
