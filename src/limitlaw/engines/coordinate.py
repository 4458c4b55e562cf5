"""One coordinate of the outputs of a draw at infinite width: Gaussian given what is drawn."""

import math
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float

from limitlaw.engines import linear
from limitlaw.engines.blocks import Block
from limitlaw.engines.infinite import InfiniteDraw
from limitlaw.engines.limit_.joint import SPANNED
from limitlaw.engines.nodes import Nodes
from limitlaw.language import ops
from limitlaw.language.dependence import terms
from limitlaw.language.ops import Value
from limitlaw.language.shapes import finite_shape
from limitlaw.language.values import Wide
from limitlaw.numerics.normals import normal

MeanAndCovariance = tuple[Float[Array, " m"], Float[Array, "m m"]]


def gaussian(draw: InfiniteDraw, parts: tuple[Value, ...]) -> MeanAndCovariance:
    """Mean and covariance of Gaussian vectors, jointly, over their flattened entries."""
    means = [draw.moments.mean(v) for v in parts]
    sizes = [math.prod(finite_shape(v.shape)) for v in parts]
    mean = [jnp.zeros(m) if k is None else k.reshape(m) for k, m in zip(means, sizes, strict=True)]
    return jnp.concatenate(mean), _joined(parts, draw.moments.covariance)


def mixed(draw: InfiniteDraw, parts: tuple[Any, ...]) -> MeanAndCovariance:
    """Mean and covariance of vectors y given one coordinate of the vectors on which their nonlinear terms depend.

    y = G + F with G Gaussian and F made of nonlinear terms. Those are functions of Gaussian vectors S, which are drawn;
    then y is F(S) + E[G | S], and Cov(G | S) is left.
    """
    part = _GaussianPart(draw)
    maps = [t for y in parts for t in terms(y) if isinstance(t.op, ops.Map)]
    known = dict.fromkeys(s for t in maps for s in draw.static.facts.gaussian_parts(t))
    z = normal(draw.key(parts[0], 2), (sum(math.prod(finite_shape(s.shape)) for s in known),))
    nodes = Nodes(draw.moments, z[None])
    values = [part.value(y, nodes).reshape(-1) for y in parts]
    joint = nodes.joint(parts[0].dim)
    r = joint.L.shape[-1]
    B = jnp.concatenate(
        [jnp.broadcast_to(joint.regression(y, part.flat), (v.size, r)) for y, v in zip(parts, values, strict=True)]
    )
    covariance = _joined(parts, part.covariance)
    left = covariance - B @ B.T if r else covariance
    real = jnp.diagonal(left) > SPANNED * jnp.diagonal(covariance)
    mean = jnp.concatenate(values)
    return mean + B @ z[:r] if r else mean, jnp.where(real[:, None] & real[None, :], left, 0.0)


def _joined(parts: tuple[Value, ...], covariance: Callable[[Value, Value], Block | None]) -> Float[Array, "m m"]:
    """The covariance of all parts over their flattened entries."""
    sizes = [math.prod(finite_shape(v.shape)) for v in parts]
    rows = []
    for v, m in zip(parts, sizes, strict=True):
        blocks = [covariance(v, w) for w in parts]
        rows.append([jnp.zeros((m, k)) if b is None else b.flat() for b, k in zip(blocks, sizes, strict=True)])
    return jnp.block(rows)


class _GaussianPart:
    """G of y = G + F: means and covariances with nonlinear terms left out."""

    def __init__(self, draw: InfiniteDraw):
        self.draw = draw
        self._gaussian = draw.static.facts.gaussian

    def covariance(self, v: Value, w: Value) -> Block | None:
        """Cov(G^v, G^w)."""
        if self._gaussian[v] and self._gaussian[w]:
            return self.draw.moments.covariance(v, w)
        if not self._gaussian[v]:
            if isinstance(v.op, ops.Map):
                return None
            return self.draw.moments.linear(v, lambda u: self.covariance(u, w))
        block = self.covariance(w, v)
        return None if block is None else block.swapped

    def flat(self, v: Value, w: Value) -> Float[Array, "m k"] | None:
        """The same over flattened entries."""
        block = self.covariance(v, w)
        return None if block is None else block.flat()

    def value(self, v: Any, nodes: Nodes) -> Float[Array, "..."]:
        """E G + F at the one node."""
        shape = finite_shape(v.shape)
        if self._gaussian[v]:
            mean = self.draw.moments.mean(v)
            return jnp.zeros(shape) if mean is None else mean
        if isinstance(v.op, ops.Map):
            return nodes.at(v)[..., 0]
        arrays: dict[Value, Any] = {u: self.value(u, nodes)[..., None] for u in v.op.inputs if isinstance(u, Wide)}
        return jnp.broadcast_to(linear.applied(v, arrays, self.draw.numbers)[..., 0], shape)
