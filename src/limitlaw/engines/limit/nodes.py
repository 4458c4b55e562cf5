"""Functions of several vectors, or of vectors that are not Gaussian:
quasi-Monte Carlo over their Gaussian roots.
"""

from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float

from limitlaw.core.axes import sizes
from limitlaw.core.covariance import Covariance, Pair
from limitlaw.core.instructions import Argument, Map, Repeat, Value
from limitlaw.core.labelled import Labelled, elementwise
from limitlaw.core.linear import applied
from limitlaw.core.space import Dim
from limitlaw.engines.limit.joint import Joint
from limitlaw.engines.limit.loop import CannotCarry


class Nodes:
    """The limits Z^v at the nodes of a table of normals:
    Gaussian vectors are L ξ, jointly, the rest follows.

    Without a table it only finds out how many dimensions the table needs.
    Arrays have one hidden axis, the nodes.
    """

    def __init__(self, moments: Any, table: Float[Array, "nodes dimensions"] | None):
        self._moments, self._table = moments, table
        self.dimensions = 0
        self._joints: dict[Dim, Joint] = {}
        self._values: dict[Value, Labelled] = {}

    def covariance(self, v: Value, w: Value) -> Covariance:
        """The mean over nodes of (Z^v − E Z^v)(Z^w − E Z^w)."""
        first, second = (self._centred(u) for u in (v, w))
        count = first.shape[-1]
        K = first.reshape(-1, count) @ second.reshape(-1, count).T / count
        labels = (*(Pair(a, None) for a in v.axes), *(Pair(None, b) for b in w.axes))
        return Covariance(Labelled(K.reshape(*sizes(v.axes), *sizes(w.axes)), labels))

    def _centred(self, v: Value) -> Float[Array, "*batch nodes"]:
        at = self.at(v).whole(v.axes)
        return at - at.mean(axis=-1, keepdims=True)

    def at(self, v: Value) -> Labelled:
        """Z^v at each node."""
        if v not in self._values:
            self._values[v] = self._at(v)
        return self._values[v]

    def _at(self, v: Value) -> Labelled:
        numbers = self._moments.numbers
        if self._moments.facts.gaussian[v]:
            return self._gaussian(v)
        op = v.instruction
        if isinstance(op, Map):
            return elementwise(
                op.phi, *(self.at(u) if u.is_vector else numbers[u] for u in op.args)
            )
        if isinstance(op, Argument | Repeat):
            raise CannotCarry(
                "a nonlinearity acts on what passes through a loop, which is not Gaussian"
            )
        return applied(v, self.at, numbers)

    def _gaussian(self, v: Value) -> Labelled:
        mean = self._moments.mean(v)
        shift = jnp.zeros(sizes(v.axes)) if mean is None else mean.whole(v.axes)
        count = 2 if self._table is None else len(self._table)
        if self._moments.covariance(v, v) is None:
            return Labelled(jnp.broadcast_to(shift[..., None], (*shift.shape, count)), v.axes)
        assert v.dim is not None
        L = self.joint(v.dim).rows(v)
        self.dimensions = max(self.dimensions, L.shape[1])
        if self._table is None:
            return Labelled(jnp.zeros((*shift.shape, count)), v.axes)
        return Labelled(
            shift[..., None] + (L @ self._table[:, : L.shape[1]].T).reshape(*shift.shape, -1),
            v.axes,
        )

    def joint(self, dim: Dim) -> Joint:
        """The Gaussian vectors of a space, in the order in which they were needed."""
        return self._joints.setdefault(dim, Joint(self._flat))

    def _flat(self, v: Value, w: Value) -> Float[Array, "m k"] | None:
        block = self._moments.covariance(v, w)
        return None if block is None else block.flat(v.axes, w.axes)
