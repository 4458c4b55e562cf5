"""Covariances of two batches of vectors, and what linear operations on one of them do.

Along some pairs of axes (heads, say) entries with different indices are uncorrelated, so that nothing is stored for
pairs of heads that never meet.
"""

import dataclasses
import functools
import math
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from limitlaw.engines import linear
from limitlaw.language import ops
from limitlaw.language.shapes import batch_index

SMALL = 512  # products up to which one fused loop beats a call of a matrix product

Sizes = tuple[int, ...]
Pair = tuple[int, int]


@dataclasses.dataclass(frozen=True)
class Block:
    """C[i, j] = Cov(v_i, w_j) for batches of shapes `left` and `right`, axes of v first.

    For each (a, b) in `pairs` the entry is zero unless the index on axis a of v is that on axis b of w; the array then
    has size 1 on the latter. Elsewhere an axis of size 1 stands for equal entries.
    """

    array: Float[Array, "..."]
    left: Sizes
    right: Sizes
    pairs: tuple[Pair, ...] = ()

    def __post_init__(self) -> None:
        """Axes of size 1 need no pair."""
        object.__setattr__(self, "pairs", tuple(p for p in self.pairs if self.left[p[0]] > 1))

    @property
    def swapped(self) -> "Block":
        """Cov(w_j, v_i)."""
        l, r = len(self.left), len(self.right)  # noqa: E741
        array = self.array
        for a, b in self.pairs:
            array = jnp.swapaxes(array, a, l + b)
        array = array.transpose(*range(l, l + r), *range(l))
        return Block(array, self.right, self.left, tuple((b, a) for a, b in self.pairs))

    def whole(self, axes: Sequence[int]) -> "Block":
        """With the axes of v among `axes` stored at their full size."""
        sizes = [self.left[i] if i in axes else size for i, size in enumerate(self.array.shape)]
        return dataclasses.replace(self, array=jnp.broadcast_to(self.array, sizes))

    def dense(self, axes: Sequence[int]) -> "Block":
        """With zeros written out for the pairs whose axis of v is among `axes`."""
        block = self
        for a, b in self.pairs:
            if a in axes:
                other = len(self.left) + b
                size = self.left[a]
                shape = [size if i in (a, other) else 1 for i in range(self.array.ndim)]
                eye = jnp.eye(size, dtype=self.array.dtype).reshape(shape)
                pairs = tuple(p for p in block.pairs if p != (a, b))
                block = Block(block.array * eye, self.left, self.right, pairs)
        return block

    def restricted(self, a: int, b: int) -> "Block":
        """The entries with equal indices on axis a of v and axis b of w; the others are taken to be zero."""
        if (a, b) in self.pairs:
            return self
        block = self.dense([a, *(x for x, y in self.pairs if y == b)])
        array, other = block.array, len(self.left) + b
        if array.shape[a] > 1 and array.shape[other] > 1:
            array = jnp.moveaxis(jnp.expand_dims(jnp.diagonal(array, axis1=a, axis2=other), -2), (-1, -2), (a, other))
        elif array.shape[other] > 1:
            array = jnp.swapaxes(array, a, other)
        return Block(array, self.left, self.right, (*block.pairs, (a, b)))

    def broadcast(self, left: Sizes) -> "Block":
        """v broadcast to the batch shape `left`: the same vectors, met more often."""
        missing = len(left) - len(self.left)
        array = self.array.reshape(*(1,) * missing, *self.array.shape)
        return Block(array, left, self.right, tuple((a + missing, b) for a, b in self.pairs))

    def spread(self, left: Sizes, right: Sizes) -> "Block":
        """Both v and w broadcast."""
        return self.broadcast(left).swapped.broadcast(right).swapped

    def on_left(self, x: Float[Array, "..."]) -> Float[Array, "..."]:
        """An array over the entries of v, aligned with `array`."""
        return x.reshape(*(1,) * (len(self.left) - x.ndim), *x.shape, *(1,) * len(self.right))

    def on_right(self, x: Float[Array, "..."]) -> Float[Array, "..."]:
        """An array over the entries of w, aligned with `array`."""
        x = x.reshape(*(1,) * (len(self.left) + len(self.right) - x.ndim), *x.shape)
        for a, b in self.pairs:
            x = jnp.swapaxes(x, a, len(self.left) + b)
        return x

    def flat(self) -> Float[Array, "m k"]:
        """The matrix over the flattened entries."""
        block = self.dense(range(len(self.left)))
        array = jnp.broadcast_to(block.array, (*self.left, *self.right))
        return array.reshape(math.prod(self.left), math.prod(self.right))

    def diagonal(self) -> Float[Array, "*left"]:
        """Cov(v_i, w_i) for two batches of one shape."""
        block = self
        for a in range(len(self.left)):
            block = block.restricted(a, a) if self.left[a] > 1 else block
        return jnp.broadcast_to(block.array.reshape(block.array.shape[: len(self.left)]), self.left)

    def times(self, other: "Block") -> "Block":
        """Entry by entry."""
        first, second = self, other
        for a, b in dict.fromkeys((*self.pairs, *other.pairs)):
            first, second = first.restricted(a, b), second.restricted(a, b)
        return Block(first.array * second.array, self.left, self.right, first.pairs)

    # --- one rule per linear instruction, applied to v ----------------------------------------------------------------

    def scaled(self, a: Float[Array, "..."], left: Sizes) -> "Block":
        """a * v."""
        block = self.broadcast(left)
        return dataclasses.replace(block, array=block.on_left(a) * block.array)

    def mixed(self, op: ops.Mix, a: Float[Array, "..."], left: Sizes) -> "Block":
        """a @ v: (…,i,j), (…,j) → (…,i)."""
        last = len(self.left) - 1
        block = self.dense([last]).whole([last])
        matrix = a if op.a.ndim > 1 else a[None]
        full = left if op.a.ndim > 1 else (*left, 1)
        lead = len(full) - 1
        block = block.broadcast((*full[:-1], self.left[-1]))
        flat = block.array.reshape(*block.array.shape[: lead + 1], -1)
        product = _product(matrix, flat)
        array = product.reshape(*product.shape[:-1], *block.array.shape[lead + 1 :])
        result = Block(array, full, self.right, block.pairs)
        return result if op.a.ndim > 1 else result._dropped([lead])

    def _dropped(self, axes: Sequence[int]) -> "Block":
        """Without axes of v that have size 1."""
        keep = [a for a in range(len(self.left)) if a not in axes]
        array = self.array.reshape(*(self.array.shape[a] for a in keep), *self.array.shape[len(self.left) :])
        pairs = tuple((keep.index(a), b) for a, b in self.pairs)
        return Block(array, tuple(self.left[a] for a in keep), self.right, pairs)

    def summed(self, op: ops.Sum) -> "Block":
        """Σ over axes of v: of a pair one term is left, which moves to the axis of w."""
        partner = dict(self.pairs)
        array, l = self.array, len(self.left)  # noqa: E741
        for a in op.axes:
            if a in partner:
                array = jnp.swapaxes(self._at_full_size(array, a), a, l + partner[a])
            elif array.shape[a] == 1:
                array = array * self.left[a]
            else:
                array = array.sum(axis=a, keepdims=True)
        if op.normalised:
            array = array / math.sqrt(math.prod(self.left[a] for a in op.axes))
        left = tuple(1 if a in op.axes else size for a, size in enumerate(self.left))
        pairs = tuple((a, b) for a, b in self.pairs if a not in op.axes)
        return Block(array, left, self.right, pairs)._dropped(op.axes)

    def reshaped_with_axis(self) -> "Block":
        """v with a last batch axis of size 1."""
        l = len(self.left)  # noqa: E741
        return Block(jnp.expand_dims(self.array, l), (*self.left, 1), self.right, self.pairs)

    def _at_full_size(self, array: Float[Array, "..."], a: int) -> Float[Array, "..."]:
        return jnp.broadcast_to(array, [self.left[i] if i == a else size for i, size in enumerate(array.shape)])

    def indexed(self, op: ops.Index, left: Sizes) -> "Block":
        """v[index]: axes taken whole keep their pairs."""
        parts = list(batch_index(op.index, op.x.ndim)) if _has_ellipsis(op.index) else list(op.index)
        if any(isinstance(p, np.ndarray) for p in parts):
            everything = range(len(self.left))
            block = self.dense(everything).whole(everything)
            return Block(linear.index(op, block.array), left, self.right)
        cut, new_axis, axis, new = [], {}, 0, 0
        for part in [*parts, *(slice(None),) * (len(self.left) - sum(p is not None for p in parts))]:
            if part is None:
                new += 1
                continue
            if isinstance(part, slice):
                new_axis[axis] = new
                new += 1
            if part != slice(None):
                cut.append(axis)
            axis += 1
        block = self.dense(cut).whole(cut)
        return Block(linear.index(op, block.array), left, self.right, tuple((new_axis[a], b) for a, b in block.pairs))

    def reshaped(self, left: Sizes) -> "Block":
        """Another batch shape."""
        everything = range(len(self.left))
        array = self.dense(everything).whole(everything).array
        return Block(array.reshape(*left, *array.shape[len(self.left) :]), left, self.right)

    def transposed(self, op: ops.Transpose, left: Sizes) -> "Block":
        """Another order of the batch axes."""
        pairs = tuple((op.axes.index(a), b) for a, b in self.pairs)
        return Block(linear.transpose(op, self.array), left, self.right, pairs)


def total(blocks: Sequence[Block], left: Sizes) -> Block:
    """Cov(Σ v, w)."""
    parts = [b.broadcast(left) for b in blocks]
    common = set.intersection(*(set(p.pairs) for p in parts))
    parts = [p.dense([a for a, b in p.pairs if (a, b) not in common]) for p in parts]
    return Block(functools.reduce(jnp.add, [p.array for p in parts]), left, parts[0].right, parts[0].pairs)


def stacked(op: ops.Stack, blocks: Sequence[Block | None], left: Sizes) -> Block:
    """Cov of vectors stacked along a new axis; None for zero."""
    known: list[Any] = [b for b in blocks if b is not None]
    common = set.intersection(*(set(b.pairs) for b in known))
    dense = [None if b is None else b.dense([x for x, y in b.pairs if (x, y) not in common]) for b in blocks]
    sizes = np.broadcast_shapes(*(b.array.shape for b in dense if b is not None))
    arrays = [jnp.zeros(sizes) if b is None else jnp.broadcast_to(b.array, sizes) for b in dense]
    pairs = tuple((a + (a >= op.axis), b) for a, b in next(b for b in dense if b is not None).pairs)
    return Block(jnp.stack(arrays, axis=op.axis), left, known[0].right, pairs)


def outer(m: Float[Array, "..."], k: Float[Array, "..."]) -> Block:
    """m_i k_j."""
    return Block(m.reshape(*m.shape, *(1,) * k.ndim) * k, m.shape, k.shape)


def _product(a: Float[Array, "*#lead i j"], x: Float[Array, "*#lead j r"]) -> Float[Array, "*#lead i r"]:
    if a.shape[-2] * a.shape[-1] * x.shape[-1] <= SMALL:
        return (a[..., :, :, None] * x[..., None, :, :]).sum(axis=-2)
    return a @ x


def _has_ellipsis(index: tuple[Any, ...]) -> bool:
    return any(part is Ellipsis for part in index)
