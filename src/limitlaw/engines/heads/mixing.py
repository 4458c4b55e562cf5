"""The mixing law of one head: the law of the variance v of its output given its scores, as nodes
and weights.

v is a function of r normals z. For a few tokens a quadrature is used (`quadrature.py`); for more,
and where χ variables occur, scrambled Sobol points.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from limitlaw.core.demand import demanded
from limitlaw.core.instructions import MatMul
from limitlaw.core.last_step import has_pole, terms_of
from limitlaw.core.program import Output
from limitlaw.core.space import Dim
from limitlaw.engines.effort import BUDGET
from limitlaw.engines.heads.quadrature import Either, Quadrature, Weighted, quadrature
from limitlaw.engines.heads.structure import WithScores, head_axis
from limitlaw.engines.limit.conditions import Limit, Outcomes, seed_of
from limitlaw.engines.limit.draw import variance
from limitlaw.engines.reading import Reading
from limitlaw.laws.averages import BLOCKS
from limitlaw.numerics.random import Sobol


class Mixing(NamedTuple):
    """Nodes v, weights (None: equal), the number of heads, the kind, and nodes and weights by a
    second rule.

    `narrow`: v has a density like v^{−1/2} at 0. `effort`: why sampled nodes are few.
    """

    variances: Any
    weights: Any
    heads: int | float
    kind: str
    rough: Callable[[], Weighted] | None = None
    narrow: bool = False
    effort: str = ""


def mixing_law(
    y: Output,
    samples: int | None,
    key: object,
    by_quadrature: bool = False,
    reading: Reading = variance,
) -> Mixing | None:
    """The mixing law of an output number, or of what `reading` reads off several; None unless
    heads are i.i.d. given a deterministic kernel, and with `by_quadrature` without a quadrature.
    """
    axis = head_axis(y)
    term, heads = (y, 1) if axis is None else (axis.resized(1), axis.heads)
    if axis is not None and axis.kernel_is_random:
        return None
    if not all(isinstance(t.instruction, MatMul) for t in terms_of(term.value)):
        return None  # it has a mean, or is not Gaussian
    program = Limit((term,), WithScores(reading))
    if not program.is_function_of_recipe:
        return None
    rule = quadrature(program, samples)
    if rule is not None:
        exact = rule.is_point and not program.has_integrals
        return Mixing(
            *rule.mixing(),
            heads,
            "exact" if exact else "quadrature",
            _second_rule(program, rule, samples),
        )
    if by_quadrature or (heads == 1 and len(program.recipe) > BUDGET.many):
        return None  # a plain mixture says the same
    narrow = has_pole(demanded((term.value,))[0], dimension)
    program = Limit((term,), reading)
    nodes = _sobol(program, samples, key)
    rough = (
        (lambda: (_sobol(program.inflated(), samples, key).arrays, None))
        if program.is_unsure
        else None
    )
    return Mixing(nodes.arrays, None, heads, "sampled", rough, narrow, nodes.effort)


def _second_rule(
    program: Limit, rule: Quadrature | Either, samples: int | None
) -> Callable[[], Weighted] | None:
    """Nodes and weights by another rule, with integrals that are larger by their errors; None
    where there is nothing to compare with.
    """
    if program.has_integrals:
        return lambda: (quadrature(program.inflated(), samples) or rule).rough()
    return None if rule.is_point else rule.rough


def dimension(dim: Dim) -> int | float:
    """The dimension of a space as n → ∞."""
    return math.inf if dim.wide else dim.at(1)


def _sobol(program: Limit, samples: int | None, key: object) -> Outcomes:
    """v at the points of one scrambled Sobol sequence, block after block."""
    few = len(program.recipe) <= BUDGET.many
    default = BUDGET.head_nodes if few else BUDGET.head_nodes_of_many
    if program.traced:
        default = BUDGET.head_nodes_traced
    each = default if samples is None else max(1, samples // BLOCKS)
    if not program.traced:
        return program.conditions(BLOCKS * each, key, at_most=samples is None)
    points = Sobol(program.recipe, seed_of(key))
    return Outcomes(
        program.at(np.concatenate([points.take(each) for _ in range(BLOCKS)])), "sampled"
    )
