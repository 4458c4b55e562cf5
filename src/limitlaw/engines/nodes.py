"""Functions of several vectors, or of vectors that are not Gaussian: quasi-Monte Carlo over their Gaussian roots."""

from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float

from limitlaw.core.space import Dim
from limitlaw.engines import linear
from limitlaw.engines.blocks import Block
from limitlaw.engines.limit_.joint import Joint
from limitlaw.language import ops
from limitlaw.language.ops import Value
from limitlaw.language.shapes import finite_shape
from limitlaw.language.values import Wide


class Nodes:
    """The limits Z^v at the nodes of a table of normals: Gaussian vectors are L ξ, jointly, the rest follows.

    Without a table it only finds out how many dimensions the table needs.
    """

    def __init__(self, moments: Any, table: Float[Array, "nodes dimensions"] | None):
        self._moments, self._table = moments, table
        self.dimensions = 0
        self._joints: dict[Dim, Joint] = {}
        self._values: dict[Value, Float[Array, "..."]] = {}

    def covariance(self, v: Value, w: Value) -> Block:
        """The mean over nodes of (Z^v − E Z^v)(Z^w − E Z^w)."""
        first, second = (self._centred(u) for u in (v, w))
        m, k = first.reshape(-1, first.shape[-1]), second.reshape(-1, second.shape[-1])
        left, right = finite_shape(v.shape), finite_shape(w.shape)
        return Block((m @ k.T / m.shape[-1]).reshape(*left, *right), left, right)

    def _centred(self, v: Value) -> Float[Array, "*batch nodes"]:
        at = self.at(v)
        return at - at.mean(axis=-1, keepdims=True)

    def at(self, v: Any) -> Float[Array, "*batch nodes"]:
        """Z^v at each node."""
        if v not in self._values:
            self._values[v] = self._at(v, v.op)
        return self._values[v]

    def _at(self, v: Any, op: Any) -> Float[Array, "*batch nodes"]:
        numbers = self._moments.conditions.numbers
        if self._moments.facts.gaussian[v]:
            return self._gaussian(v)
        if isinstance(op, ops.Map):
            arrays = [self.at(u) if isinstance(u, Wide) else numbers[u][..., None] for u in op.args]
            value = op.phi(*arrays)
        else:
            value = linear.applied(v, {u: self.at(u) for u in op.inputs if isinstance(u, Wide)}, numbers)
        return jnp.broadcast_to(value, (*finite_shape(v.shape), value.shape[-1]))

    def _gaussian(self, v: Any) -> Float[Array, "*batch nodes"]:
        shape = finite_shape(v.shape)
        mean = self._moments.mean(v)
        shift = jnp.zeros(shape) if mean is None else mean
        if self._moments.covariance(v, v) is None:
            return jnp.broadcast_to(shift[..., None], (*shape, 2 if self._table is None else len(self._table)))
        L = self.joint(v.dim).rows(v)
        self.dimensions = max(self.dimensions, L.shape[1])
        if self._table is None:
            return jnp.zeros((*shape, 2))
        return shift[..., None] + (L @ self._table[:, : L.shape[1]].T).reshape(*shape, -1)

    def joint(self, dim: Dim) -> Joint:
        """The Gaussian vectors of a space, in the order in which they were needed."""
        return self._joints.setdefault(dim, Joint(self._flat))

    def _flat(self, v: Value, w: Value) -> Float[Array, "m k"] | None:
        block = self._moments.covariance(v, w)
        return None if block is None else block.flat()
