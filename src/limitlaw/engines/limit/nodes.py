"""The limits of vectors at the nodes of quasi-Monte Carlo, for functions of several vectors or of
vectors that are not Gaussian: these are functions of Gaussian vectors, which are drawn jointly.
"""

import math
from collections.abc import Callable, Hashable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float

from limitlaw.core.covariance import Covariance, pair
from limitlaw.core.kinds import Coordinatewise, Linear, Value, no_rule
from limitlaw.core.labelled import Axes, Labelled, elementwise, sizes
from limitlaw.core.space import Dim
from limitlaw.numerics.factors import factor
from limitlaw.numerics.linear_algebra import diagonal, taken

# Variance, relative to its own, of a part that every later vector of a frame has alone, where
# matrices are used again and again: deep layers repeat earlier ones up to rounding, and regression
# on all of them is stable only with it.
BLUR = 1e-10
SPANNED = 1e-13  # share of its variance, below which what is left of a vector is rounding


class Joint:
    """Rows L of the Cholesky factor of a growing Gram matrix: new batches leave the rows of
    earlier ones as they are.

    Gaussian variables with this covariance are L ξ; vectors with this Gram matrix have the
    coordinates L. Leading axes of the inner products are for independent copies (heads). `row`
    gives the inner products of one batch with several others, where that takes less than one by
    one. `blur`: the variance, relative to its own, of an independent part of each vector of a
    later batch.
    """

    def __init__(
        self,
        inner: Callable[[Any, Any], Float[Array, "*copies m k"] | None],
        row: Callable[[Any, Any], Float[Array, "*copies m r"] | None] | None = None,
        blur: float = 0.0,
    ):
        self._inner, self._row, self._blur = inner, row, blur
        self._places: dict[Hashable, tuple[int, int]] = {}
        # L, with 1 for every missing pivot, and which pivots exist
        self._L, self._exists = jnp.zeros((0, 0)), jnp.zeros(0, bool)

    @property
    def L(self) -> Float[Array, "*copies r r"]:
        """The factor of all batches; columns without a pivot are zero."""
        return jnp.where(self._exists[..., None, :], self._L, 0.0)

    @property
    def size(self) -> int:
        """The number of axes of the frame."""
        return int(self._L.shape[-1])

    def rows(self, item: object) -> Float[Array, "*copies m r"]:
        """The rows of a batch, which is placed if it is new."""
        if item not in self._places:
            self._place(item)
        start, stop = self._places[item]
        return jnp.where(self._exists[..., None, :stop], self._L[..., start:stop, :stop], 0.0)

    def regression(
        self, item: object, inner: Callable[[Any, Any], Any] | None = None
    ) -> Float[Array, "*copies m r"]:
        """Coordinates of a batch on the axes so far, from inner products with placed batches."""
        return _regressed(self._L, self._exists, self._on_placed(item, inner))

    def _on_placed(
        self, item: object, inner: Callable[[Any, Any], Any] | None
    ) -> Float[Array, "*copies m r"]:
        if inner is None and self._row is not None and self._places:
            row = self._row(item, tuple(self._places))
            return jnp.zeros((1, self.size)) if row is None else row
        of = inner or self._inner
        blocks = [
            (stop - start, of(item, placed)) for placed, (start, stop) in self._places.items()
        ]
        known = [block for _, block in blocks if block is not None]
        if not known:
            return jnp.zeros((1, self.size))
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
        m, r = own.shape[-1], self.size
        if r and self._blur:
            own = own * (1 + self._blur * np.eye(m))
        B, new = _new_rows(self._L, self._exists, own, self._on_placed(item, None))
        exists = diagonal(new) > 0
        regular = new + jnp.where(exists, 0.0, 1.0)[..., None] * np.eye(m)
        # computed once, not again wherever it is read: the program that JAX compiles grows by no
        # more than what is written here
        self._L = lax.optimization_barrier(_bordered(self._L, B, regular))
        lead = np.broadcast_shapes(self._exists.shape[:-1], exists.shape[:-1])
        both = [jnp.broadcast_to(x, (*lead, x.shape[-1])) for x in (self._exists, exists)]
        self._exists = jnp.concatenate(both, axis=-1)
        self._places[item] = (r, r + m)


def _bordered(
    L: Float[Array, "*copies r r"], B: Float[Array, "*others m r"], new: Float[Array, "*new m m"]
) -> Float[Array, "..."]:
    """The triangular matrix (L 0; B new)."""
    B, new = _same_copies(B, new)
    wider = jnp.pad(L, [(0, 0)] * (L.ndim - 1) + [(0, new.shape[-1])])
    return jnp.concatenate(_same_copies(wider, jnp.concatenate([B, new], -1)), axis=-2)


def _regressed(
    L: Float[Array, "*copies r r"],
    exists: Bool[Array, "*copies r"],
    on_placed: Float[Array, "*others m r"],
) -> Float[Array, "*both m r"]:
    """B with B Lᵀ = the inner products with what is placed; 0 on axes that do not exist."""
    if not L.shape[-1] or on_placed.shape[-2] == 0:
        return on_placed
    L, right = _same_copies(L, jnp.swapaxes(on_placed, -1, -2))
    solution = jax.scipy.linalg.solve_triangular(L, right, lower=True)
    return jnp.where(exists[..., None, :], jnp.swapaxes(solution, -1, -2), 0.0)


def _new_rows(
    L: Float[Array, "*placed r r"],
    exists: Bool[Array, "*placed r"],
    own: Float[Array, "*copies m m"],
    on_placed: Float[Array, "*others k r"],
) -> tuple[Float[Array, "*both m r"], Float[Array, "*both m m"]]:
    """The new rows of a Cholesky factor: their columns on the axes so far, and on new ones."""
    m, r = own.shape[-1], L.shape[-1]
    B = _regressed(L, exists, on_placed)
    B = jnp.broadcast_to(B, (*B.shape[:-2], m, r))
    left = own - B @ jnp.swapaxes(B, -1, -2) if r else own
    real = diagonal(left) > SPANNED * diagonal(own)
    left = jnp.where(real[..., :, None] & real[..., None, :], left, 0.0)
    return _same_copies(B, factor(left))


def extension(
    L: Float[Array, "*placed r r"],
    own: Float[Array, "*copies m m"],
    on_placed: Float[Array, "*others k r"],
) -> tuple[Float[Array, "*both m r"], Float[Array, "*both m m"]]:
    """The new rows of a Cholesky factor in which axes that do not exist are zero."""
    exists = diagonal(L) > 0
    regular = L + jnp.where(exists, 0.0, 1.0)[..., None] * np.eye(L.shape[-1])
    return _new_rows(regular, exists, own, on_placed)


def _same_copies(first: Float[Array, "..."], second: Float[Array, "..."]) -> tuple[Any, Any]:
    lead = np.broadcast_shapes(first.shape[:-2], second.shape[:-2])
    first, second = (jnp.broadcast_to(x, (*lead, *x.shape[-2:])) for x in (first, second))
    return first, second


class AtNodes:
    """The limits Z^v at nodes ξ of a table: Gaussian vectors are L ξ, all others functions of
    them.

    Without a table it finds its dimensions. Arrays have one hidden axis, the nodes.
    """

    def __init__(self, moments: Any, table: Float[Array, "nodes dimensions"] | None):
        self._moments, self._table = moments, table
        self.dimensions = 0
        self._joints: dict[Dim, Joint] = {}
        self._values: dict[Value, Labelled] = {}
        self._deviations: dict[Value, Float[Array, "*batch nodes"]] = {}

    def covariance(self, v: Value, w: Value) -> Covariance:
        """The mean over nodes of (Z^v − E Z^v)(Z^w − E Z^w)."""
        first, second = (self._centred(u) for u in (v, w))
        count = first.shape[-1]
        K = first.reshape(-1, count) @ second.reshape(-1, count).T / count
        labels = (*(pair(a, None) for a in v.axes), *(pair(None, b) for b in w.axes))
        return Covariance(Labelled(K.reshape(*sizes(v.axes), *sizes(w.axes)), labels))

    def _centred(self, v: Value) -> Float[Array, "*batch nodes"]:
        """Z^v − E Z^v; the mean over nodes would take its own variance out of the covariance."""
        if v not in self._deviations:
            mean, at = self._moments.mean(v), self.at(v).whole(v.axes)
            centre = 0.0 if mean is None else mean.whole(v.axes)[..., None]
            self._deviations[v] = at - centre
        return self._deviations[v]

    def at(self, v: Value) -> Labelled:
        """Z^v at each node."""
        if v not in self._values:
            facts = self._moments.facts
            grows = v in facts.terms
            at = facts.together.grown(v, self._values, self.at) if grows else self._at(v)
            self._values[v] = at.mapped(lax.optimization_barrier)
        return self._values[v]

    def _at(self, v: Value) -> Labelled:
        numbers = self._moments.numbers
        if self._moments.facts.gaussian[v]:
            return self._gaussian(v)
        op = v.instruction
        if isinstance(op, Coordinatewise):
            return elementwise(
                op.phi, *(self.at(u) if u.is_vector else numbers[u] for u in op.args)
            )
        if not isinstance(op, Linear):
            raise no_rule(type(op), "a function of vectors that are not Gaussian")
        return op.applied(self.at, numbers)

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
        return self._joints.setdefault(dim, Joint(self._flat, self._row))

    def _row(self, v: Value, others: tuple[Value, ...]) -> Float[Array, "m r"] | None:
        """Cov(v, w) for all w of `others`, side by side: those with the same axes at once."""
        alike: dict[Axes, list[int]] = {}
        for i, w in enumerate(others):
            if not self._moments.facts.independent(v, w):
                alike.setdefault(w.axes, []).append(i)
        if not alike:
            return None
        ends = np.cumsum([math.prod(sizes(w.axes)) for w in others])
        blocks, columns = [], []
        for axes, places in alike.items():
            stack = self._moments.facts.together.stack(others[i] for i in places)
            block = self._moments.covariance(v, stack)
            if block is not None:
                blocks.append(block.flat(v.axes, stack.axes))
                m = math.prod(sizes(axes))
                columns += [ends[i] - m + j for i in places for j in range(m)]
        if not blocks:
            return None
        row = jnp.concatenate(blocks, axis=-1)
        if columns == list(range(ends[-1])):
            return row
        order = np.full(ends[-1], len(columns))
        order[columns] = np.arange(len(columns))
        return taken(jnp.pad(row, [(0, 0), (0, 1)]), order, axis=1)

    def _flat(self, v: Value, w: Value) -> Float[Array, "m k"] | None:
        block = self._moments.covariance(v, w)
        return None if block is None else block.flat(v.axes, w.axes)
