"""Vectors of a Hilbert space placed in one frame,
one batch after another, given their inner products only.
"""

from collections.abc import Callable, Hashable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

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
