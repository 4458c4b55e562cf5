"""The mixing law of one head: the law of the variance v of its output given its scores,
as nodes and weights.

v is a function of r normals z. Where these enter through softmax of scores ℓ = a + B z only, which
is read off the program, a few tokens take a quadrature: the trapezoidal rule where v is smooth
(the error falls exponentially with its step), and at every scale of the scores the rule of
`limitlaw.numerics.largest`. For more tokens, and where χ variables occur, scrambled Sobol points.
"""

import dataclasses
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Float

from limitlaw.arguments import frozen, is_traced
from limitlaw.core.demand import demanded
from limitlaw.core.instructions import MatMul
from limitlaw.core.last_step import has_pole, terms_of
from limitlaw.core.program import Output
from limitlaw.core.space import Dim
from limitlaw.engines.effort import BUDGET
from limitlaw.engines.heads.structure import SoftmaxScores, WithScores, head_axis, softmax_scores
from limitlaw.engines.limit.conditions import Limit, Outcomes, seed_of
from limitlaw.engines.limit.draw import variance
from limitlaw.engines.reading import Reading
from limitlaw.laws.averages import BLOCKS
from limitlaw.numerics.largest import TRACED_PANELS, sorted_scores
from limitlaw.numerics.nodes import compressed, lattice, lattice_size
from limitlaw.numerics.random import Sobol

MOST_FOR_QUADRATURE = 3  # for a quadrature
# standard deviations: exp(−R²/2) is 2e-17, and 1e-38 where tails of 12 deviations need it
REACHES = 8.8, 13.2
EDGE = 7.6  # beyond the first reach lies 5e-5 of what lies beyond this
# inside `jit`, for 0, 1, 2, 3 dimensions: 4e-11 lies beyond 6.6
FIXED_REACHES = (8.8, 13.2, 8.8, 6.6)
ORDERS = (1, 16, 12, 7)  # Gauss nodes of a panel for 0, 1, 2, 3 dimensions
TRACED_ORDERS, FIXED_ORDERS = (1, 12, 8, 5), (1, 12, 8, 6)  # with derivatives, and inside `jit`
# of the lattice, so that no node is a special point, where v may be 0
OFFSETS = 0.5 / math.sqrt(2), 0.85
COARSEST, FINER, MOST_NODES, TRACED_STEP = 0.64, 1.25, 2**18, 0.3
# share of the mean of v that is next to nothing, and how often its place is refined
CANCELLED, ZOOMS = 0.02, 4
STEEP = 3.0  # standard deviation of a difference of scores from which on no lattice is tried
SETTLED = 1e-8  # change of the checked figures; the error left is about its power 5/4

Weighted = tuple[Any, Any]  # z (N, r) or v (N,), and weights (N,)


class Mixing(NamedTuple):
    """Nodes v and weights (None: equal), how many heads are summed,
    the kind, and the same by a second rule.

    `narrow`: v has a density like v^{−1/2} at 0.
    `effort`: why there are so few sampled nodes, if so.
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
    """Of one output number, or of what `reading` reads off several; None where they are no sum
    of heads that are i.i.d. given a deterministic kernel.

    `by_quadrature`: None also where there is no quadrature for it.
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
    rule = _quadrature(program, samples)
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
    program: Limit, rule: "_Quadrature | _Either", samples: int | None
) -> Callable[[], Weighted] | None:
    """Other nodes, and integrals that are larger by their errors;
    None where there is nothing to compare with.
    """
    if program.has_integrals:
        return lambda: (_quadrature(program.inflated(), samples) or rule).rough()
    return None if rule.is_point else rule.rough


def dimension(dim: Dim) -> int | float:
    """Of a space as n → ∞."""
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


# --- quadrature ----------------------------------------------------------------------------------


def _quadrature(program: Limit, samples: int | None) -> "_Quadrature | _Either | None":
    """A rule for the normals of a program of few tokens; None where there is none.

    `samples` is for rules that cannot look at numbers:
    they take so many nodes, if that is more than by default.
    """
    if not np.isinf(program.recipe).all():
        return None
    still = program.without_derivatives()
    scores = softmax_scores(still)
    row = None if scores is None else scores.one_row(MOST_FOR_QUADRATURE + 1)
    directions = np.eye(len(program.recipe)) if scores is None else scores.directions
    if is_traced(directions):
        return _fixed(program, scores, row, directions, samples or 0)
    if len(directions) == 0:
        return _Quadrature(
            program,
            lambda reach, rough: (np.zeros((1, len(program.recipe))), np.ones(1)),
            is_point=True,
        )
    orders = TRACED_ORDERS if program.traced else ORDERS
    if scores and row and (len(directions) < MOST_FOR_QUADRATURE or scores.steepness > STEEP):
        return _sorted(program, row, orders, REACHES)
    step = _settled_step(still, directions)
    if step is not None:
        return _lattice_rule(program, directions, step, REACHES)
    return None if row is None else _sorted(program, row, orders, REACHES)


def _variances(program: Limit, z: Any) -> Any:
    """v at given normals."""
    v, _ = program.at(z)
    return v


@dataclasses.dataclass(frozen=True)
class _Quadrature:
    """`nodes(reach, rough)`: z and weights; `rough` asks for a second rule,
    whose difference shows the error.
    """

    program: Limit
    nodes: Callable[[float, bool], Weighted]
    reaches: tuple[float, ...] = REACHES[:1]
    is_point: bool = False

    def mixing(self, rough: bool = False) -> Weighted:
        """v and weights, on fewer nodes."""
        for reach in self.reaches:
            z, w = self.nodes(reach, rough)
            # where tokens cancel, a rounding of either sign is left
            v = abs(_variances(self.program, z))
            still = frozen(v)
            if is_traced(still) or not _far_matters(still, w, z):
                break
        return compressed(v, w)

    def rough(self) -> Weighted:
        """The same by the second rule."""
        return self.mixing(rough=True)


def _sorted(
    program: Limit, row: Weighted, orders: tuple[int, ...], reaches: tuple[float, ...]
) -> _Quadrature:
    """By the largest score; the second rule has one node less and takes the scores
    in another order.
    """
    a, B = row
    order = orders[len(a) - 1]
    special = _where_output_vanishes(program, row, order)

    def nodes(reach: float, rough: bool) -> Weighted:
        fewer = rough + (reach > REACHES[0])
        return sorted_scores(a, B, max(order - fewer, 1), reach, backwards=rough, special=special)

    return _Quadrature(program, nodes, reaches)


def _where_output_vanishes(program: Limit, row: Weighted, order: int) -> float | None:
    """The distance of two scores at which v is smallest,
    where it is so small that two tokens cancel; else None.

    There N(0, v) has a peak, which panels of the width of softmax do not see. As many points as
    the rule has nodes are laid between the neighbours of the lowest one, again and again.
    """
    a, B = map(frozen, row)
    if len(a) != 2 or is_traced(a, B):
        return None
    z, w = sorted_scores(a, B, order, REACHES[0])
    v = frozen(_variances(program, z))
    if is_traced(v) or v.min() > CANCELLED * (w @ v):
        return None
    b = B[0] - B[1]
    u = a[0] - a[1] + z @ b
    v = v[np.argsort(u)]
    u = np.sort(u)
    for _ in range(ZOOMS):
        lowest = int(np.argmin(v))
        u = np.linspace(u[max(lowest - 1, 0)], u[min(lowest + 1, len(u) - 1)], len(u))
        v = frozen(_variances(program, (u - a[0] + a[1])[:, None] * b / (b @ b)))
    return float(abs(u[np.argmin(v)]))


def _settled_step(program: Limit, directions: Float[np.ndarray, "d r"]) -> float | None:
    """The step at which the trapezoidal rule on the span of `directions` has settled;
    None where that takes long.
    """
    d = len(directions)
    if d > MOST_FOR_QUADRATURE:
        return None
    step = COARSEST
    figures: Any = None
    while lattice_size(d, step, REACHES[0]) <= MOST_NODES:
        z, w = lattice(d, step, REACHES[0], OFFSETS[0])
        before, figures = figures, _figures(_variances(program, z @ directions), w)
        if before is not None and np.abs(figures - before).max() < SETTLED:
            return step
        step /= FINER
    return None


def _lattice_rule(
    program: Limit, directions: Any, step: float, reaches: tuple[float, ...]
) -> _Quadrature:
    """The trapezoidal rule; the second rule has another offset."""

    def nodes(reach: float, rough: bool) -> Weighted:
        z, w = lattice(len(directions), step, reach, OFFSETS[rough])
        return z @ directions, w

    return _Quadrature(program, nodes, reaches)


def _fixed(
    program: Limit,
    scores: SoftmaxScores | None,
    row: Weighted | None,
    directions: Any,
    samples: int,
) -> "_Quadrature | _Either | None":
    """A rule of fixed size, inside `jit` and `vmap`, where numbers cannot be looked at."""
    d = len(directions)
    smooth = (
        _lattice_rule(program, directions, TRACED_STEP, REACHES[:1])
        if d <= MOST_FOR_QUADRATURE
        else None
    )
    if scores is None or row is None:
        return smooth
    order = math.ceil((samples / (d + 1)) ** (1 / d) / TRACED_PANELS)
    orders = tuple(max(order, default) for default in FIXED_ORDERS)
    reach = FIXED_REACHES[d] if order <= FIXED_ORDERS[d] else max(FIXED_REACHES[d], REACHES[0])
    steep = _sorted(program, row, orders, (reach,))
    return (
        steep
        if smooth is None or d < MOST_FOR_QUADRATURE
        else _Either(scores.steepness <= STEEP, smooth, steep)
    )


@dataclasses.dataclass(frozen=True)
class _Either:
    """The first rule if `condition`, a traced one, holds, else the second."""

    condition: Any
    first: _Quadrature
    second: _Quadrature
    is_point = False

    def mixing(self, rough: bool = False) -> Weighted:
        """v and weights, on fewer nodes."""
        return jax.lax.cond(
            self.condition, lambda: self.first.mixing(rough), lambda: self.second.mixing(rough)
        )

    def rough(self) -> Weighted:
        """The same by the second rules of both."""
        return self.mixing(rough=True)


def _far_matters(
    v: Float[np.ndarray, " N"], w: Float[np.ndarray, " N"], z: Float[np.ndarray, "N r"]
) -> bool:
    """Do nodes near the edge of the ball contribute to the tail at 12 standard deviations?"""
    top = v.max()
    if top == 0:
        return False
    share = w * np.exp(72 * (v - top) / top)
    return bool(share[(z**2).sum(axis=1) > EDGE**2].sum() > 1e-6 * share.sum())


def _figures(v: Float[np.ndarray, " N"], w: Float[np.ndarray, " N"]) -> Float[np.ndarray, " k"]:
    """What must have settled: moments of v, its Laplace transform,
    and the exponent of the far tail.
    """
    mean = w @ v
    if mean == 0:
        return np.zeros(1)
    u = v / mean
    e = np.exp(-2.0 * u)
    density = w @ (u + 1e-3) ** -0.5  # at 0, or nearly so
    return np.array(
        [
            np.log(mean),
            w @ u**2,
            w @ u**4,
            w @ e,
            w @ e**4,
            density,
            1e-2 * np.log(w @ np.exp(12.0 * u)),
        ]
    )
