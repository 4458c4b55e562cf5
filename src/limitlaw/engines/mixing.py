"""The mixing law of one head: the law of the variance v of its output given its scores, as nodes and weights.

v is a smooth function of r normals. Directions on which it does not depend (softmax ignores a common shift; masked
tokens; singular kernels) are found from its gradients and dropped. Up to three are left for few tokens: then the
trapezoidal rule, whose error falls exponentially with its step (Trefethen and Weideman 2014), refined until nothing
changes. For more, and where χ variables occur, scrambled Sobol points.
"""

import math
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from limitlaw.engines import common
from limitlaw.engines.demand import demanded
from limitlaw.engines.evaluate import Conditions, Limit, prepared, seed_of
from limitlaw.engines.infinite import InfiniteDraw
from limitlaw.numerics.compression import compressed
from limitlaw.numerics.quasi import Points
from limitlaw.program import ops
from limitlaw.program.head_axis import head_axis
from limitlaw.program.ops import Value

MOST_DIMENSIONS = 3  # for the trapezoidal rule
RADII = 9.0, 12.5  # of the ball of its nodes: exp(−R²/2) is 1e-18, and 1e-34 where tails of 12 deviations need it
OFFSET = 0.5 / math.sqrt(2)  # of the lattice, so that no node is a special point, where v may be 0
COARSEST, FINER, MOST_NODES = 0.8, 1.25, 2**21
SETTLED = 1e-7  # change of the checked figures; the error left is about its power 3/2
BLOCKS = 16  # of Sobol points, whose spread is the stated error: the whole sequence does better than that
NODES, NODES_OF_MANY, MANY = 2**16, 2**15, 32  # points in each, fewer where a point has more numbers than MANY
NODES_TRACED = 2**10  # where derivatives are taken


class Mixing(NamedTuple):
    """Nodes v and weights (None: equal), how many heads are summed, whether the nodes are sampled, and why so few."""

    variances: Any
    weights: Any
    heads: int | float
    kind: str
    effort: str = ""


def mixing_law(y: Value, samples: int | None, key: Any) -> Mixing | None:
    """Of one output number; None where it is no sum of heads that are i.i.d. given a deterministic kernel."""
    (demand,) = demanded((y,))
    axis = head_axis(demand)
    term, heads = (y, 1) if axis is None else (axis.resized(1), axis.heads)
    if axis is not None and axis.kernel_is_random:
        return None
    if not all(isinstance(t.op, ops.MatMul) for t in common.gaussian_terms(term)):
        return None
    program = prepared((term,), _variance_figure)
    if not program.random or program.uses_nodes or program.head_recipe or program.overflows:
        return None
    rule = _trapezoidal(program)
    if rule is not None:
        return Mixing(*rule, heads, "quadrature")
    if heads == 1 and len(program.recipe) > MANY:
        return None  # a plain mixture says the same
    nodes = _sobol(program, samples, key)
    return Mixing(nodes.arrays, None, heads, "sampled", nodes.effort)


def _variance_figure(draw: InfiniteDraw) -> Any:
    (y,) = draw.plan.outputs
    return draw.moments.variance(y).reshape(())


def _sobol(program: Limit, samples: int | None, key: Any) -> Conditions:
    """v at the points of one scrambled Sobol sequence, block after block."""
    default = NODES_TRACED if program.traced else NODES if len(program.recipe) <= MANY else NODES_OF_MANY
    each = default if samples is None else max(1, samples // BLOCKS)
    if not program.traced:
        return program.conditions(BLOCKS * each, key, at_most=samples is None)
    points = Points(program.recipe, seed_of(key))
    return Conditions(jnp.concatenate([program.at(points.take(each)) for _ in range(BLOCKS)]), "sampled")


def _trapezoidal(program: Limit) -> tuple[Any, Any] | None:
    if len(program.recipe) > 8 or not np.isinf(program.recipe).all():
        return None
    if program.traced:
        return _fixed(program)
    basis = _active(program)
    d = basis.shape[0]
    if d > MOST_DIMENSIONS:
        return None
    step, figures, change = COARSEST, None, math.inf
    while nodes_in_ball(d, step, RADII[0]) <= MOST_NODES:
        z, w = lattice(d, step, RADII[0])
        v = np.asarray(program.at(z @ basis))
        before, figures = figures, _figures(v, w)
        change = math.inf if before is None else float(np.abs(figures - before).max())
        if change < SETTLED:
            break
        step /= FINER
    if change > 1e-5:
        return None
    if _far_matters(v, w, z) and nodes_in_ball(d, step, RADII[1]) <= MOST_NODES:
        z, w = lattice(d, step, RADII[1])
        v = np.asarray(program.at(z @ basis))
    return compressed(v, w)


def _fixed(program: Limit) -> tuple[Any, Any] | None:
    """A rule that does not look at numbers, for derivatives: no direction is dropped, and nothing refined."""
    d = len(program.recipe)
    if d > MOST_DIMENSIONS + 1:
        return None
    z, w = lattice(d, 0.4 if d <= MOST_DIMENSIONS else 0.75, 8.0)
    return program.at(z), w


def _far_matters(v: Float[np.ndarray, " N"], w: Float[np.ndarray, " N"], z: Float[np.ndarray, "N d"]) -> bool:
    """Do nodes near the edge of the ball contribute to the tail at 12 standard deviations?"""
    top = v.max()
    if top == 0:
        return False
    share = w * np.exp(72 * (v - top) / top)
    return bool(share[(z**2).sum(axis=1) > 7.0**2].sum() > 1e-9 * share.sum())


def _active(program: Limit) -> Float[np.ndarray, "active r"]:
    """An orthonormal basis of the directions on which v depends: the span of its slopes at some points."""
    r = len(program.recipe)
    points = 1.5 * np.random.default_rng(0).normal(size=(4 * r + 8, 1, 1, r))
    moved = points + 1e-4 * np.eye(r)[:, None] * np.array([[1.0], [-1.0]])
    v = np.asarray(program.at(moved.reshape(-1, r))).reshape(-1, r, 2)
    _, size, basis = np.linalg.svd(v[:, :, 0] - v[:, :, 1], full_matrices=False)
    return basis[size > 1e-6 * max(float(size.max()), 1e-300)]


def _figures(v: Float[np.ndarray, " N"], w: Float[np.ndarray, " N"]) -> Float[np.ndarray, " k"]:
    """What must have settled: moments of v, its Laplace transform, and the exponent of the far tail."""
    mean = w @ v
    if mean == 0:
        return np.zeros(1)
    u = v / mean
    e = np.exp(-2.0 * u)
    return np.array([np.log(mean), w @ u**2, w @ u**4, w @ e, w @ e**4, 1e-2 * np.log(w @ np.exp(12.0 * u))])


def lattice(dimensions: int, step: float, radius: float) -> tuple[Float[np.ndarray, "N d"], Float[np.ndarray, " N"]]:
    """Nodes step·Z^d in a ball, with weights of the standard normal density."""
    if dimensions == 0:
        return np.zeros((1, 0)), np.ones(1)
    ticks = step * (np.arange(-int(radius / step), int(radius / step)) + OFFSET)
    z = np.stack(np.meshgrid(*[ticks] * dimensions, indexing="ij"), axis=-1).reshape(-1, dimensions)
    square = (z**2).sum(axis=1)
    inside = square <= radius**2
    w = np.exp(-0.5 * square[inside])
    return z[inside], w / w.sum()


def nodes_in_ball(dimensions: int, step: float, radius: float) -> float:
    """About how many nodes `lattice` has."""
    return math.pi ** (dimensions / 2) / math.gamma(dimensions / 2 + 1) * (radius / step) ** dimensions
