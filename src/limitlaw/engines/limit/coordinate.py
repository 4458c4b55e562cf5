"""One coordinate of a draw's outputs at infinite width: Gaussian given latent variables."""

import math
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float

from limitlaw.core.covariance import Covariance
from limitlaw.core.kinds import Coordinatewise, Linear, Value, no_rule
from limitlaw.core.labelled import Labelled, finite_shape, sizes
from limitlaw.core.linear_covariance import expanded
from limitlaw.core.program import Output
from limitlaw.engines.limit.draw import LimitDraw
from limitlaw.engines.limit.means import zeros
from limitlaw.engines.limit.nodes import SPANNED, AtNodes
from limitlaw.numerics.random import normal

MeanAndCovariance = tuple[Float[Array, " m"], Float[Array, "m m"]]


def gaussian(draw: LimitDraw, outputs: tuple[Output, ...]) -> MeanAndCovariance:
    """The joint mean and covariance of Gaussian vectors, over their flattened entries."""
    means = [(draw.moments.mean(v) or zeros(v)).whole(layout).reshape(-1) for v, layout in outputs]
    return jnp.concatenate(means), _joined(outputs, draw.moments.covariance)


def mixed(draw: LimitDraw, outputs: tuple[Output, ...]) -> MeanAndCovariance:
    """Mean and covariance of vectors y, given one coordinate of the vectors on which their
    nonlinear terms depend.

    y = G + F with G Gaussian and F made of nonlinear terms, which are functions of Gaussian
    vectors S. S is drawn; then y has the mean F(S) + E[G | S] and the covariance Cov(G | S).
    """
    part = _GaussianPart(draw)
    maps = [
        t
        for y, _ in outputs
        for t in draw.facts.terms(y)
        if isinstance(t.instruction, Coordinatewise)
    ]
    known = dict.fromkeys(s for t in maps for s in draw.static.facts.gaussian_parts(t))
    first = outputs[0].value
    z = normal(draw.key(first, 2), (sum(math.prod(sizes(s.axes)) for s in known),))
    nodes = AtNodes(draw.moments, z[None])
    for v in draw.static.facts.made_of(maps):  # in order, so that no recursion runs through them
        nodes.at(v)
    values = [part.value(y, nodes).whole(layout).reshape(-1) for y, layout in outputs]
    assert first.dim is not None
    joint = nodes.joint(first.dim)
    r = joint.size
    rows = [joint.regression(output, part.on_placed) for output in outputs]
    B = jnp.concatenate(
        [jnp.broadcast_to(b, (v.size, r)) for b, v in zip(rows, values, strict=True)]
    )
    covariance = _joined(outputs, part.covariance)
    left = covariance - B @ B.T if r else covariance
    real = jnp.diagonal(left) > SPANNED * jnp.diagonal(covariance)
    mean = jnp.concatenate(values)
    return mean + B @ z[:r] if r else mean, jnp.where(real[:, None] & real[None, :], left, 0.0)


def _joined(
    outputs: tuple[Output, ...], covariance: Callable[[Value, Value], Covariance | None]
) -> Float[Array, "m m"]:
    """The covariance of all outputs over their flattened entries."""
    counts = [math.prod(finite_shape(layout)) for _, layout in outputs]
    rows = []
    for (v, left), m in zip(outputs, counts, strict=True):
        blocks = [(covariance(v, w), right) for w, right in outputs]
        row = [None if block is None else block.flat(left, right) for block, right in blocks]
        rows.append(
            [jnp.zeros((m, k)) if b is None else b for b, k in zip(row, counts, strict=True)]
        )
    return jnp.block(rows)


class _GaussianPart:
    """G of y = G + F: means and covariances without the nonlinear terms."""

    def __init__(self, draw: LimitDraw):
        self.draw = draw
        self._gaussian = draw.static.facts.gaussian

    def covariance(self, v: Value, w: Value) -> Covariance | None:
        """Cov(G^v, G^w)."""
        if self._gaussian[v] and self._gaussian[w]:
            return self.draw.moments.covariance(v, w)
        if not self._gaussian[v]:
            if isinstance(v.instruction, Coordinatewise):
                return None
            return expanded(v, lambda u, _: self.covariance(u, w), self.draw.results)
        block = self.covariance(w, v)
        return None if block is None else block.swapped

    def on_placed(self, output: Output, w: Value) -> Float[Array, "m k"] | None:
        """Cov(G^v, G^w) over flattened entries, for an output v and a drawn vector w."""
        block = self.covariance(output.value, w)
        return None if block is None else block.flat(output.layout, w.axes)

    def value(self, v: Value, nodes: AtNodes) -> Labelled:
        """E G + F at the single node."""
        if self._gaussian[v]:
            return self.draw.moments.mean(v) or zeros(v)
        if isinstance(v.instruction, Coordinatewise):
            return nodes.at(v).mapped(lambda at: at[..., 0])
        if not isinstance(v.instruction, Linear):
            raise no_rule(type(v.instruction), "the law of a coordinate that is not Gaussian")
        values: dict[Value, Any] = {u: self.value(u, nodes) for u in v.vectors}
        return v.instruction.applied(values.__getitem__, self.draw.results)
