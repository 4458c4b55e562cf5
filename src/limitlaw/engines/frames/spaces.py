"""Where drawn vectors live: in a frame that grows with them, or as points with all their coordinates.

Both hold arrays with the batch axes in front and one more axis. `units` are coordinates divided by √D, whose products
are the entries of Gram matrices.
"""

import copy
import math

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, DTypeLike, Float

from limitlaw.core.labelled import Labelled
from limitlaw.engines.frames.fresh import Fresh, apply_roots
from limitlaw.numerics.bartlett import bartlett_unit
from limitlaw.numerics.factors import gram, pivoted_factor
from limitlaw.numerics.normals import normal
from limitlaw.numerics.quasi import Source, split


class Frame:
    """Coordinates/√D in an orthonormal frame of r ≤ D axes; arrays may be shorter, with zeros understood.

    The first axes are reserved for the vector **1** and for the observed coordinates e_1, …, e_k, where needed.
    """

    def __init__(self, D: int, has_one: bool, observed: int, dtype: DTypeLike = jnp.float64):
        self.D, self.dtype = D, dtype
        reserved = _reserved(D, has_one, observed)
        self.one = reserved[0] if has_one else None
        self.axes_of_coordinates = reserved[1:] if has_one else reserved
        self.r = reserved.shape[1] if len(reserved) else 0

    def draw(self, key: Source, fresh: Fresh) -> Labelled:
        """A block of Gaussian vectors: normals on the old axes, a Bartlett factor on new ones."""
        dense = fresh.shared(fresh.axes).compressed()
        old, new = split(key)
        N = projections(old, (dense.roots, self.r), self.D, self.dtype)
        T = bartlett_unit_below(new, dense.roots, self.r, self.D, self.dtype)
        self.r += T.shape[-1]
        return dense.c.mapped(lambda c: c @ jnp.concatenate([N, T], axis=-1))

    def carried(self, r: int) -> "Frame":
        """The same frame with r axes taken: what a turn of a loop starts from."""
        frame = copy.copy(self)
        frame.r = r
        return frame

    def turned(self, w: Float[Array, "vectors r"], old: int, r: int) -> Float[Array, "vectors r2"]:
        """Vectors in a frame of r axes, of which the first `old` stay: given their Gram, the others may be turned."""
        w = jnp.pad(w, [(0, 0), (0, max(0, old - w.shape[-1]))])
        rest = w[:, old:]
        if rest.shape[-1] > r - old:
            rest = pivoted_factor(gram(rest))[:, : r - old]
        return jnp.concatenate([w[:, :old], jnp.pad(rest, [(0, 0), (0, r - old - rest.shape[-1])])], axis=-1)

    def ones(self) -> Float[Array, " r"]:
        """The vector **1**, of unit length after division by √D."""
        assert self.one is not None
        return jnp.asarray(self.one, self.dtype)

    def average(self, w: Float[Array, "*batch r"]) -> Float[Array, "*batch"]:
        """D^{-1} Σ_α w_α."""
        return w @ self._padded_to(self.ones(), w.shape[-1])

    def units(self, w: Float[Array, "*batch r"]) -> Float[Array, "*batch r"]:
        """w itself."""
        return w

    def coordinates(self, w: Float[Array, "*batch r"]) -> Float[Array, "*batch k"]:
        """The observed coordinates."""
        axes = jnp.asarray(self.axes_of_coordinates, self.dtype).T
        return math.sqrt(self.D) * (w[..., : len(axes)] @ axes[: w.shape[-1]])

    def _padded_to(self, v: Float[Array, " r"], size: int) -> Float[Array, " size"]:
        return v[:size] if size < len(v) else jnp.pad(v, (0, size - len(v)))


class Points:
    """All D coordinates."""

    def __init__(self, D: int, observed: int, dtype: DTypeLike = jnp.float64):
        self.D, self.observed, self.dtype = D, observed, dtype

    def draw(self, key: Source, fresh: Fresh) -> Labelled:
        """D independent coordinates c Z."""
        dense = fresh.compressed()
        Z = normal(dense.source(key), (*dense.own_sizes, dense.roots, self.D), self.dtype)
        return apply_roots(dense.c, Labelled(Z, dense.own_axes))

    def ones(self) -> Float[Array, " D"]:
        """The vector **1**."""
        return jnp.ones(self.D, self.dtype)

    def average(self, w: Float[Array, "*batch D"]) -> Float[Array, "*batch"]:
        """D^{-1} Σ_α w_α."""
        return w.mean(axis=-1)

    def units(self, w: Float[Array, "*batch D"]) -> Float[Array, "*batch D"]:
        """w/√D."""
        return w / math.sqrt(self.D)

    def coordinates(self, w: Float[Array, "*batch D"]) -> Float[Array, "*batch k"]:
        """The observed coordinates."""
        return w[..., : self.observed]


Space = Frame | Points


def projections(key: Source, shape: tuple[int, ...], D: int, dtype: DTypeLike) -> Float[Array, "..."]:
    """Coordinates/√D of standard Gaussian vectors on given axes: N/√D."""
    return normal(key, shape, dtype) / math.sqrt(D)


def bartlett_unit_below(key: Source, m: int, r: int, D: int, dtype: DTypeLike) -> Float[Array, "m new"]:
    """T/√D for m standard Gaussian vectors of R^D in the complement of r axes."""
    left = D - r
    if left <= 0:
        return jnp.zeros((m, 0), dtype)
    return bartlett_unit(key, m, left, dtype=dtype) * math.sqrt(left / D)


def _reserved(D: int, has_one: bool, observed: int) -> Float[np.ndarray, "vectors axes"]:
    """Coordinates of **1**/√D and e_1, …, e_k in an orthonormal frame of their span."""
    vectors = int(has_one) + observed
    G = np.eye(vectors)
    if has_one:
        G[0, 1:] = G[1:, 0] = 1 / math.sqrt(D)
    L = np.zeros((vectors, vectors))
    for j in range(vectors):  # Cholesky; at D = k the last pivot is zero
        pivot = G[j, j] - L[j, :j] @ L[j, :j]
        if pivot > 1e-12:
            L[j:, j] = (G[j:, j] - L[j:, :j] @ L[j, :j]) / math.sqrt(pivot)
    return L[:, : min(D, vectors)]
