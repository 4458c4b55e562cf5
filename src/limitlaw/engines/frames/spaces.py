"""Where drawn vectors live: in a frame that grows with them,
or as points with all their coordinates.

Both hold arrays with the batch axes in front and one more axis. `units` are coordinates divided by
√D, whose products are the entries of Gram matrices.
"""

import copy

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from limitlaw.core.labelled import Labelled
from limitlaw.engines.frames.fresh import Dimension, Fresh, apply_roots
from limitlaw.numerics.gaussian_vectors import bartlett
from limitlaw.numerics.random import Source, normal, split


class Frame:
    """Coordinates/√D in an orthonormal frame of r ≤ D axes;
    arrays may be shorter, with zeros understood.

    The first axes are reserved for the vector **1** and for the observed coordinates e_1,
    …, e_k, where needed. `taken`: which of the axes are taken, where that is known only to what is
    compiled; no vector has components along others.
    """

    def __init__(self, D: Dimension, has_one: bool, observed: int):
        self.D = D
        reserved = _reserved(D, has_one, observed)
        self.one = reserved[0] if has_one else None
        self.axes_of_coordinates = reserved[1:] if has_one else reserved
        self.r = self.reserved = reserved.shape[1] if len(reserved) else 0
        self.taken: Float[Array, " r"] | None = None

    def draw(self, key: Source, fresh: Fresh) -> Labelled:
        """A block of Gaussian vectors: normals on the old axes, a Bartlett factor on new ones."""
        dense = fresh.shared(fresh.axes).compressed()
        old, new = split(key)
        N = projections(old, (dense.roots, self.r), self.D)
        T = bartlett_below(new, dense.roots, self.r, self.D)
        self.r += T.shape[-1]
        if self.taken is not None:
            # χ²_{D−i} of the complement of those that are taken: the others are part of it
            free = jnp.sum(((1 - self.taken) * N) ** 2, axis=-1, keepdims=True)
            T = jnp.where(jnp.eye(len(T), T.shape[-1], dtype=bool), jnp.sqrt(T**2 + free), T)
            N = self.taken * N
            self.taken = jnp.pad(self.taken, (0, T.shape[-1]), constant_values=1.0)
        return dense.c.mapped(lambda c: c @ jnp.concatenate([N, T], axis=-1))

    def carried(self, r: int, taken: Float[Array, " r"] | None = None) -> "Frame":
        """The same frame with r axes: what an iteration of a loop starts from."""
        frame = copy.copy(self)
        frame.r, frame.taken = r, taken
        return frame

    def ones(self) -> Float[Array, " r"]:
        """The vector **1**, of unit length after division by √D."""
        assert self.one is not None
        return jnp.asarray(self.one, float)

    def average(self, w: Float[Array, "*batch r"]) -> Float[Array, "*batch"]:
        """D^{-1} Σ_α w_α."""
        return w @ self._padded_to(self.ones(), w.shape[-1])

    def units(self, w: Float[Array, "*batch r"]) -> Float[Array, "*batch r"]:
        """w itself."""
        return w

    def from_units(self, w: Float[Array, "*batch r"]) -> Float[Array, "*batch r"]:
        """w itself."""
        return w

    def coordinates(self, w: Float[Array, "*batch r"]) -> Float[Array, "*batch k"]:
        """The observed coordinates."""
        axes = jnp.asarray(self.axes_of_coordinates, float).T
        return self.D.root * (w[..., : len(axes)] @ axes[: w.shape[-1]])

    def _padded_to(self, v: Float[Array, " r"], size: int) -> Float[Array, " size"]:
        return v[:size] if size < len(v) else jnp.pad(v, (0, size - len(v)))


class Points:
    """All D coordinates."""

    def __init__(self, D: Dimension, observed: int):
        assert isinstance(D.size, int)
        self.D, self.observed = D, observed
        self.count = D.size

    def draw(self, key: Source, fresh: Fresh) -> Labelled:
        """D independent coordinates c Z."""
        dense = fresh.compressed()
        Z = normal(dense.source(key), (*dense.own_sizes, dense.roots, self.count))
        return apply_roots(dense.c, Labelled(Z, dense.own_axes))

    def ones(self) -> Float[Array, " D"]:
        """The vector **1**."""
        return jnp.ones(self.count)

    def average(self, w: Float[Array, "*batch D"]) -> Float[Array, "*batch"]:
        """D^{-1} Σ_α w_α."""
        return w.mean(axis=-1)

    def units(self, w: Float[Array, "*batch D"]) -> Float[Array, "*batch D"]:
        """w/√D."""
        return w / self.D.root

    def from_units(self, w: Float[Array, "*batch D"]) -> Float[Array, "*batch D"]:
        """√D w."""
        return w * self.D.root

    def coordinates(self, w: Float[Array, "*batch D"]) -> Float[Array, "*batch k"]:
        """The observed coordinates."""
        return w[..., : self.observed]


Space = Frame | Points


def projections(key: Source, shape: tuple[int, ...], D: Dimension) -> Float[Array, "..."]:
    """Coordinates/√D of standard Gaussian vectors on given axes: N/√D."""
    return normal(key, shape) / D.root


def bartlett_below(key: Source, m: int, r: int, D: Dimension) -> Float[Array, "m new"]:
    """The components of m such vectors in the complement of r axes, in a frame of its own."""
    assert not isinstance(D.size, float)  # in infinitely many dimensions there are no frames
    if D.axes(r + m) <= r:
        return jnp.zeros((m, 0))
    return bartlett(key, m, D.size - r) / D.root


def _reserved(
    D: Dimension, has_one: bool, observed: int
) -> Float[Array | np.ndarray, "vectors axes"]:
    """Coordinates of **1**/√D and e_1, …, e_k in an orthonormal frame of their span:
    Cholesky of their Gram.

    The e_j have the component c = 1/√D along **1**/√D. What is left of them has the Gram I − c²
    11ᵀ, whose pivots are L_jj² = (1 − (j+1)c²)/(1 − jc²), and L_ij = −c²/((1 − jc²) L_jj) below
    them, j = 0, 1, …; at D = k the last is zero.
    """
    if not has_one:
        return np.eye(observed)
    c = 1 / D.root
    j = np.arange(observed)
    before, after = 1 - j * c**2, 1 - (j + 1) * c**2
    pivots = jnp.sqrt(jnp.maximum(after / before, 0.0))
    below = jnp.tril(jnp.ones((observed, observed)), -1)
    safe = jnp.where(pivots > 0, pivots, 1.0)
    rest = jnp.diag(pivots) - below * c**2 / (before * safe)
    along = jnp.full((observed, 1), c)
    first = jnp.zeros((1, observed + 1)).at[0, 0].set(1.0)
    return jnp.concatenate([first, jnp.concatenate([along, rest], axis=1)])[
        :, : D.axes(observed + 1)
    ]
