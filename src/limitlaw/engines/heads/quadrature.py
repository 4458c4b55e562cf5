"""Quadrature for the mixing law of one head: its variance v is a function of r normals z.

For few tokens, and where z enters only through a softmax of scores ℓ = a + B z (which is read off
the program), there is a quadrature: the trapezoidal rule where v is smooth (the error falls
exponentially with its step), and at every scale of the scores the rule of
`limitlaw.numerics.largest`.
"""

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jaxtyping import Float

from limitlaw.arguments import frozen, is_traced
from limitlaw.engines.heads.structure import SoftmaxScores, softmax_scores
from limitlaw.engines.limit.conditions import Limit
from limitlaw.numerics.largest import TRACED_PANELS, sorted_scores
from limitlaw.numerics.nodes import compressed, lattice, lattice_size

MOST_FOR_QUADRATURE = 3  # most dimensions of a quadrature
# standard deviations: exp(−R²/2) is 2e-17, and 1e-38 where tails of 12 deviations need it
REACHES = 8.8, 13.2
EDGE = 7.6  # beyond the first reach lies 5e-5 of what lies beyond this
# inside `jit`, for 0, 1, 2, 3 dimensions: 4e-11 lies beyond 6.6
FIXED_REACHES = (8.8, 13.2, 8.8, 6.6)
ORDERS = (1, 16, 12, 7)  # Gauss nodes of a panel for 0, 1, 2, 3 dimensions
TRACED_ORDERS, FIXED_ORDERS = (1, 12, 8, 5), (1, 12, 8, 6)  # with derivatives, and inside `jit`
# offsets of the lattice, so that no node is a special point, where v may be 0
OFFSETS = 0.5 / math.sqrt(2), 0.85
COARSEST, FINER, MOST_NODES, TRACED_STEP = 0.64, 1.25, 2**18, 0.3
# share of the mean of v that is next to nothing, and how often its place is refined
CANCELLED, ZOOMS = 0.02, 4
STEEP = 3.0  # standard deviation of a difference of scores from which on no lattice is tried
SETTLED = 1e-8  # change of the checked figures; the error left is about its power 5/4

Weighted = tuple[Any, Any]  # z (N, r) or v (N,), and weights (N,)


def quadrature(program: Limit, samples: int | None) -> "Quadrature | Either | None":
    """A rule for the normals of a program of few tokens, or None. `samples`: inside `jit` it takes
    as many nodes, if that is more than by default.
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
        return Quadrature(
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
    """v at these normals z."""
    v, _ = program.at(z)
    return v


@dataclasses.dataclass(frozen=True)
class Quadrature:
    """A quadrature rule for v. `nodes(reach, rough)` gives z and weights; `rough` asks for a
    second rule, whose difference shows the error.
    """

    program: Limit
    nodes: Callable[[float, bool], Weighted]
    reaches: tuple[float, ...] = REACHES[:1]
    is_point: bool = False

    def mixing(self, rough: bool = False) -> Weighted:
        """Nodes v and weights, compressed to fewer nodes."""
        for reach in self.reaches:
            z, w = self.nodes(reach, rough)
            # where tokens cancel, a rounding of either sign is left
            v = abs(_variances(self.program, z))
            still = frozen(v)
            if is_traced(still) or not _far_matters(still, w, z):
                break
        return compressed(v, w)

    def rough(self) -> Weighted:
        """Nodes v and weights by the second rule."""
        return self.mixing(rough=True)


def _sorted(
    program: Limit, row: Weighted, orders: tuple[int, ...], reaches: tuple[float, ...]
) -> Quadrature:
    """The rule by the largest score; the rough one has a node less, and another order."""
    a, B = row
    order = orders[len(a) - 1]
    special = _where_output_vanishes(program, row, order)

    def nodes(reach: float, rough: bool) -> Weighted:
        fewer = rough + (reach > REACHES[0])
        return sorted_scores(a, B, max(order - fewer, 1), reach, backwards=rough, special=special)

    return Quadrature(program, nodes, reaches)


def _where_output_vanishes(program: Limit, row: Weighted, order: int) -> float | None:
    """The difference of two scores at which v is smallest, where it is so small that two tokens
    cancel; else None.

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
    """The converged step of the trapezoidal rule on `directions`' span; None if too small."""
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
) -> Quadrature:
    """The trapezoidal rule; the second rule has another offset."""

    def nodes(reach: float, rough: bool) -> Weighted:
        z, w = lattice(len(directions), step, reach, OFFSETS[rough])
        return z @ directions, w

    return Quadrature(program, nodes, reaches)


def _fixed(
    program: Limit,
    scores: SoftmaxScores | None,
    row: Weighted | None,
    directions: Any,
    samples: int,
) -> "Quadrature | Either | None":
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
        else Either(scores.steepness <= STEEP, smooth, steep)
    )


@dataclasses.dataclass(frozen=True)
class Either:
    """The first rule if `condition`, a traced boolean, holds, else the second."""

    condition: Any
    first: Quadrature
    second: Quadrature
    is_point = False

    def mixing(self, rough: bool = False) -> Weighted:
        """Nodes v and weights, compressed to fewer nodes."""
        return jax.lax.cond(
            self.condition, lambda: self.first.mixing(rough), lambda: self.second.mixing(rough)
        )

    def rough(self) -> Weighted:
        """Nodes v and weights by the second rules of both."""
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
    """What must have converged: moments of v, its Laplace transform, its far tail's exponent."""
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
