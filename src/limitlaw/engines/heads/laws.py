"""Laws of outputs that are sums over i.i.d. heads:
φ_H(t) = φ_1(t/√H)^H for one number, mixtures for several.
"""

import math
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from limitlaw.arguments import is_traced
from limitlaw.core.labelled import finite_shape
from limitlaw.core.program import Output
from limitlaw.engines.effort import BUDGET, check_memory
from limitlaw.engines.heads.axis import HeadAxis, head_axis
from limitlaw.engines.heads.mixing import Mixing, mixing_law
from limitlaw.engines.heads.softmax import WithScores, softmax_scores
from limitlaw.engines.limit import statistics
from limitlaw.engines.limit.conditions import Limit, seed_of
from limitlaw.engines.limit.statistics import covariance
from limitlaw.laws import Gaussian, GaussianMixture, HeadSum, Law, Pushforward
from limitlaw.laws.averages import BLOCKS, pad, padded_size
from limitlaw.numerics import Floats
from limitlaw.numerics.compression import are_summable, mean_of
from limitlaw.numerics.importance import JointDensity
from limitlaw.numerics.linear_algebra import times
from limitlaw.numerics.quasi import MOST_DIMENSIONS, Points, chi_quantile
from limitlaw.phi import Nonlinearity

MANY = 64  # heads beyond which sums of them are drawn from a pool of single ones
# heads whose variances are convolved, or drawn one by one where the kernel is random
FEW, FEW_TRACED = 16, 2


def law_of_one_number(
    y: Output, samples: int | None, key: object, beyond: tuple[str, ...]
) -> Law | None:
    """The law of an output y without batch axes, where its heads are i.i.d.
    given a deterministic kernel.
    """
    mixing = mixing_law(y, samples, key)
    if mixing is None:
        return _given_random_kernels(y, samples, key, beyond)
    law = _given_mixing(mixing, beyond)
    law.effort = mixing.effort
    return law


def _given_mixing(mixing: Mixing, beyond: tuple[str, ...]) -> Law:
    if mixing.heads == math.inf:
        return _infinitely_many(mixing, beyond)
    if _is_point(mixing):
        return _gaussian(mixing, beyond)

    def head_sum(variances: object, weights: object) -> HeadSum:
        return HeadSum(
            variances,
            int(mixing.heads),
            weights,
            kind=mixing.kind,
            beyond=beyond,
            narrow=mixing.narrow,
        )

    return _compared(head_sum, mixing)


def image_of_one_number(
    phi: Nonlinearity, y: Output, samples: int | None, beyond: tuple[str, ...]
) -> Law | None:
    """The law of φ(y), where that of y is a mixture over few nodes."""
    mixing = mixing_law(y, samples, None, by_quadrature=True)
    if mixing is None:
        return None
    base = _as_mixture(mixing, beyond)
    return None if base is None else Pushforward(phi, base)


def _as_mixture(mixing: Mixing, beyond: tuple[str, ...]) -> GaussianMixture | None:
    """H^{−1/2} Σ_a y_a given the mean of the variances of its heads; None where those are many."""
    if _is_point(mixing) or mixing.heads == math.inf:
        return _given_mixing(mixing, beyond)  # type: ignore[return-value]
    if mixing.heads > (FEW_TRACED if is_traced(mixing.variances) else FEW):
        return None
    if mixing.heads > 1 and not are_summable(mixing.variances, mixing.weights):
        return None

    def mixture(variances: Floats, weights: Floats, rough: bool = False) -> GaussianMixture:
        v, w = mean_of(variances, weights, int(mixing.heads), rough)
        count = padded_size(len(v))  # few sizes, to compile for
        v, w = pad(jnp.asarray(v), count), jnp.pad(jnp.asarray(w), (0, count - len(v)))
        return GaussianMixture(jnp.zeros(count), v, w, mixing.kind, beyond)

    law, rough = mixture(mixing.variances, mixing.weights), mixing.rough
    return law if rough is None else law.compared_with(lambda: mixture(*rough(), rough=True))


def _given_random_kernels(
    y: Output, samples: int | None, key: object, beyond: tuple[str, ...]
) -> Law | None:
    """Many heads that are i.i.d. given a kernel that is random itself:
    φ_H(t) = E_K[φ_1(t/√H | K)^H].

    A group is a draw of the kernel; its nodes are the variances of one head at quasi-random
    scores, the same program with infinitely many heads. Few heads are drawn one by one, in a plain
    mixture.
    """
    axis = head_axis(y)
    if axis is None or not FEW < axis.heads < math.inf or not axis.kernel_is_random:
        return None
    program = Limit((axis.resized(math.inf),), statistics.variances)
    if not program.random or not program.plan.requests.head_recipe or program.plan.uses_nodes:
        return None
    groups = program.conditions(
        BUDGET.groups if samples is None else samples, key, at_most=samples is None
    )

    def head_sum(variances: Any) -> HeadSum:
        return HeadSum(variances, int(axis.heads), kind="sampled", beyond=beyond)

    law = head_sum(groups.arrays)
    law.effort = groups.effort
    if program.is_unsure:
        law.compared_with(
            lambda: head_sum(program.inflated().conditions(len(groups.arrays), key).arrays)
        )
    return law


def _is_point(mixing: Mixing) -> bool:
    """Is v a number?"""
    return mixing.weights is not None and len(mixing.variances) == 1


def _infinitely_many(mixing: Mixing, beyond: tuple[str, ...]) -> Law:
    """N(0, E v) (Hron et al. 2020); where v is sampled,
    one component for the mean of each block of points.
    """
    if mixing.weights is not None:
        return _gaussian(mixing, beyond)

    def blocks(variances: Any, _: None) -> GaussianMixture:
        means = jnp.asarray(variances).reshape(BLOCKS, -1).mean(axis=1)
        return GaussianMixture(jnp.zeros(BLOCKS), means, kind=mixing.kind, beyond=beyond)

    return _compared(blocks, mixing)


def _gaussian(mixing: Mixing, beyond: tuple[str, ...]) -> Law:
    """N(0, E v)."""

    def gaussian(variances: Any, weights: Any) -> Gaussian:
        return Gaussian(0.0, jnp.asarray(variances) @ jnp.asarray(weights), mixing.kind, beyond)

    return _compared(gaussian, mixing)


def _compared(made: Callable[..., Law], mixing: Mixing) -> Law:
    """The law made of nodes and weights, compared with that by the second rule,
    if there is one.
    """
    law, rough = made(mixing.variances, mixing.weights), mixing.rough
    return law if rough is None else law.compared_with(lambda: made(*rough()))


def pooled(
    y: Output,
    axis: HeadAxis,
    samples: int | None,
    key: object,
    beyond: tuple[str, ...],
    inflated: bool = False,
) -> GaussianMixture:
    """The joint law of y given pools of draws of one head:
    H heads are a multinomial number of each.

    The conditional covariance of H^{-1/2} Σ_a y_a is the mean of the heads' covariances. Every
    block of draws has a pool of its own, so that their spread shows what is missing in the pools,
    too.
    """
    draws = BUDGET.pooled_draws if samples is None else samples
    pool = BUDGET.pool
    m = math.prod(finite_shape(y.layout))
    check_memory(draws, pool + m * m, "ask for fewer samples, or for fewer entries, as in y[0]")
    program = Limit((axis.resized(1),), statistics.covariance, inflated)
    seed, each = seed_of(key), -(-draws // BLOCKS)
    points, rng = Points(program.recipe, seed), np.random.default_rng(seed)
    means = []
    for block in range(-(-draws // each)):
        C = np.asarray(program.at(points.take(pool), seed, block * pool))
        counts = rng.multinomial(int(axis.heads), np.full(pool, 1 / pool), size=each)
        means.append(counts.astype(float) @ C.reshape(pool, m * m) / axis.heads)
    mean = np.concatenate(means)[:draws]
    covariance = mean.reshape(draws, m, m) if y.layout else mean.reshape(draws)
    zeros = jnp.zeros((draws, *finite_shape(y.layout)))
    law = GaussianMixture(zeros, jnp.asarray(covariance), None, "sampled", beyond, BLOCKS)
    if program.is_unsure and not inflated:
        law.compared_with(lambda: pooled(y, axis, samples, key, beyond, inflated=True))
    return law


def joint_density(axis: HeadAxis, key: object) -> JointDensity | None:
    """Of the sum over heads; None where there is no density,
    or the covariance of a head is no function of normals.
    """
    program = Limit((axis.resized(1),), WithScores(covariance))
    if program.traced or not program.is_function_of_recipe:
        return None
    basis = _active(program)
    heads = int(axis.heads)
    if not len(basis) or heads * (len(basis) + 1) > MOST_DIMENSIONS:
        return None
    density = JointDensity(
        lambda z: _covariance(program, times(z, basis)), len(basis), heads, seed_of(key)
    )
    return density if density.exists else None


def _covariance(program: Limit, z: Float[np.ndarray, "N r"]) -> Float[np.ndarray, "N m m"]:
    """The covariance of one head at given normals, some of which become χ variables
    with the same quantiles.
    """
    x = z.copy()
    for j in np.flatnonzero(np.isfinite(program.recipe)):
        x[:, j] = chi_quantile(program.recipe[j], z[:, j])
    C, _ = program.at(x)
    return C.reshape(len(z), *C.shape[-2:])


def _active(program: Limit) -> Float[np.ndarray, "active r"]:
    """An orthonormal basis of the directions on which the covariance may depend;
    steepest first, where that is known.

    Softmax ignores a common shift, and masked scores do nothing. Of χ variables all are kept.
    """
    scores = softmax_scores(program) if np.isinf(program.recipe).all() else None
    return np.eye(len(program.recipe)) if scores is None else scores.directions
