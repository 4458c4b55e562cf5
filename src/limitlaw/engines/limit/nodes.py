"""The limits of vectors at the nodes of quasi-Monte Carlo, for functions of several vectors or of
vectors that are not Gaussian: by their Gaussian roots, which have the joint covariance of all.
"""

from collections.abc import Callable, Hashable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from limitlaw.core.covariance import Covariance, applied, pair
from limitlaw.core.instructions import Argument, Map, Repeat, Value
from limitlaw.core.labelled import Labelled, elementwise, sizes
from limitlaw.core.space import Dim
from limitlaw.engines.limit.loop import CannotCarry
from limitlaw.numerics.factors import factor

SPANNED = 1e-13  # of its variance, below which what is left of a vector is rounding


class Joint:
    """Rows L of the Cholesky factor of a growing Gram matrix:
    new batches leave the rows of earlier ones as they are.

    Gaussian variables with this covariance are L ξ; vectors with this Gram matrix have the
    coordinates L. Leading axes of the inner products are for independent copies (heads).
    """

    def __init__(self, inner: Callable[[Any, Any], Float[Array, "*copies m k"] | None]):
        self._inner = inner
        self._places: dict[Hashable, tuple[int, int]] = {}
        self.L = jnp.zeros((0, 0))

    def rows(self, item: object) -> Float[Array, "*copies m r"]:
        """The rows of a batch, which is placed if it is new."""
        if item not in self._places:
            self._place(item)
        start, stop = self._places[item]
        return self.L[..., start:stop, :stop]

    def regression(
        self, item: object, inner: Callable[[Any, Any], Any] | None = None
    ) -> Float[Array, "*copies m r"]:
        """Coordinates of a batch on the axes so far,
        from its inner products with what is placed.
        """
        on_placed = self._on_placed(item, inner or self._inner)
        if not self.L.shape[-1] or on_placed.shape[-2] == 0:
            return on_placed
        exists = jnp.diagonal(self.L, axis1=-2, axis2=-1)[..., None, :] > 0
        # columns without a pivot are zero
        L = self.L + jnp.where(exists, 0.0, 1.0) * jnp.eye(self.L.shape[-1])
        L, right = _same_copies(L, jnp.swapaxes(on_placed, -1, -2))
        solution = jax.scipy.linalg.solve_triangular(L, right, lower=True)
        return jnp.where(exists, jnp.swapaxes(solution, -1, -2), 0.0)

    def _on_placed(
        self, item: object, inner: Callable[[Any, Any], Any]
    ) -> Float[Array, "*copies m r"]:
        blocks = [
            (stop - start, inner(item, placed)) for placed, (start, stop) in self._places.items()
        ]
        known = [block for _, block in blocks if block is not None]
        if not known:
            return jnp.zeros((1, self.L.shape[-1]))
        lead = np.broadcast_shapes(*(block.shape[:-2] for block in known))
        m = known[0].shape[-2]
        arrays = [
            jnp.zeros((*lead, m, k)) if b is None else jnp.broadcast_to(b, (*lead, m, k))
            for k, b in blocks
        ]
        return jnp.concatenate(arrays, axis=-1)

    def _place(self, item: object) -> None:
        own = self._inner(item, item)
        assert own is not None
        m, r = own.shape[-1], self.L.shape[-1]
        B = self.regression(item)
        B = jnp.broadcast_to(B, (*B.shape[:-2], m, r))
        left = own - B @ jnp.swapaxes(B, -1, -2) if r else own
        real = jnp.diagonal(left, axis1=-2, axis2=-1) > SPANNED * jnp.diagonal(
            own, axis1=-2, axis2=-1
        )
        left = jnp.where(real[..., :, None] & real[..., None, :], left, 0.0)
        B, new = _same_copies(B, factor(left))
        L, below = _same_copies(
            jnp.pad(self.L, [(0, 0)] * (self.L.ndim - 1) + [(0, m)]), jnp.concatenate([B, new], -1)
        )
        self.L = jnp.concatenate([L, below], axis=-2)
        self._places[item] = (r, r + m)


def _same_copies(first: Float[Array, "..."], second: Float[Array, "..."]) -> tuple[Any, Any]:
    lead = np.broadcast_shapes(first.shape[:-2], second.shape[:-2])
    first, second = (jnp.broadcast_to(x, (*lead, *x.shape[-2:])) for x in (first, second))
    return first, second


class AtNodes:
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
        labels = (*(pair(a, None) for a in v.axes), *(pair(None, b) for b in w.axes))
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
