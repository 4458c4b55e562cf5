"""The law of a number that sums i.i.d. heads, φ_H(t) = φ_1(t/√H)^H, and its image."""

import math
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp

from limitlaw.arguments import is_traced
from limitlaw.core.program import Output
from limitlaw.engines.bounds import later
from limitlaw.engines.effort import BUDGET
from limitlaw.engines.heads.mixing import Mixing, mixing_law
from limitlaw.engines.heads.structure import head_axis
from limitlaw.engines.limit.conditions import Limit
from limitlaw.engines.limit.draw import variances
from limitlaw.laws import Gaussian, GaussianMixture, HeadSum, Law, Pushforward
from limitlaw.laws.averages import BLOCKS, pad, padded_size
from limitlaw.numerics import Floats
from limitlaw.numerics.nodes import are_summable, mean_of
from limitlaw.phi import Nonlinearity

# heads whose variances are convolved, or drawn one by one where the kernel is random
MANY_HEADS, MANY_HEADS_TRACED = 16, 2


def law_of_one_number(
    y: Output, samples: int | None, key: object, beyond: tuple[str, ...]
) -> Law | None:
    """The law of an output y of one number whose heads are i.i.d. given the kernel; else None."""
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
    """The law of φ(y), where that of y is a mixture over few nodes; else None."""
    mixing = mixing_law(y, samples, None, by_quadrature=True)
    if mixing is None:
        return None
    base = _as_mixture(mixing, beyond)
    return None if base is None else Pushforward(phi, base)


def _as_mixture(mixing: Mixing, beyond: tuple[str, ...]) -> GaussianMixture | None:
    """The law of H^{−1/2} Σ_a y_a as a mixture over mean variances; None for many heads."""
    if _is_point(mixing) or mixing.heads == math.inf:
        return _given_mixing(mixing, beyond)  # type: ignore[return-value]
    if mixing.heads > (MANY_HEADS_TRACED if is_traced(mixing.variances) else MANY_HEADS):
        return None
    if mixing.heads > 1 and not are_summable(mixing.variances, mixing.weights):
        return None

    def mixture(variances: Floats, weights: Floats, rough: bool = False) -> GaussianMixture:
        v, w = mean_of(variances, weights, int(mixing.heads), rough)
        count = padded_size(len(v))  # few sizes, to compile for
        v, w = pad(jnp.asarray(v), count), jnp.pad(jnp.asarray(w), (0, count - len(v)))
        return GaussianMixture(jnp.zeros(count), v, w, mixing.kind, beyond)

    law, rough = mixture(mixing.variances, mixing.weights), mixing.rough
    return (
        law if rough is None else law.compared_with(later(lambda: mixture(*rough(), rough=True)))
    )


def _given_random_kernels(
    y: Output, samples: int | None, key: object, beyond: tuple[str, ...]
) -> Law | None:
    """The law of a sum over many heads that are i.i.d. given a random kernel K: φ_H(t) =
    E_K[φ_1(t/√H | K)^H].

    A group is a draw of the kernel; its nodes are the variances of one head at quasi-random
    scores, the same program with infinitely many heads. Few heads are drawn one by one, in a plain
    mixture.
    """
    axis = head_axis(y)
    if axis is None or not MANY_HEADS < axis.heads < math.inf or not axis.kernel_is_random:
        return None
    program = Limit((axis.resized(math.inf),), variances)
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
            later(lambda: head_sum(program.inflated().conditions(len(groups.arrays), key).arrays))
        )
    return law


def _is_point(mixing: Mixing) -> bool:
    """Is the variance v of one head deterministic?"""
    return mixing.weights is not None and len(mixing.variances) == 1


def _infinitely_many(mixing: Mixing, beyond: tuple[str, ...]) -> Law:
    """N(0, E v) (Hron et al. 2020); of a sampled v, a component for each block's mean."""
    if mixing.weights is not None:
        return _gaussian(mixing, beyond)

    def blocks(variances: Any, _: None) -> GaussianMixture:
        means = jnp.asarray(variances).reshape(BLOCKS, -1).mean(axis=1)
        return GaussianMixture(jnp.zeros(BLOCKS), means, kind=mixing.kind, beyond=beyond)

    return _compared(blocks, mixing)


def _gaussian(mixing: Mixing, beyond: tuple[str, ...]) -> Law:
    """The Gaussian law N(0, E v)."""

    def gaussian(variances: Any, weights: Any) -> Gaussian:
        return Gaussian(0.0, jnp.asarray(variances) @ jnp.asarray(weights), mixing.kind, beyond)

    return _compared(gaussian, mixing)


def _compared(made: Callable[..., Law], mixing: Mixing) -> Law:
    """The law of nodes and weights, compared with the one by the second rule, if any."""
    law, rough = made(mixing.variances, mixing.weights), mixing.rough
    return law if rough is None else law.compared_with(later(lambda: made(*rough())))
