"""Covariances of two batches of vectors, as arrays labelled by pairs of axes.

Cov(v, w) is a labelled array whose labels are pairs: `Pair(a, None)` is an axis of the first batch
v, `Pair(None, b)` one of the second batch w, and `Pair(a, b)` both at once: entries with different
indices are uncorrelated there (heads, say), so that nothing is stored for those that never meet.
Along axes that have no label all entries are equal.

`Equal` is a set of pairs of axes of which only entries with equal indices will be read (the pixels
of a convolutional network whose readout has a matrix for each pixel). The others are not computed,
and may be anything: they count as zero.
"""

import dataclasses
import functools
import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from limitlaw.core.labelled import (
    Axes,
    Axis,
    Labelled,
    Layout,
    contract,
    elementwise,
    finite_shape,
    multiply,
)


class Pair(Axis):
    """An axis of the first batch, of the second, or of both.

    There is one object for the same two axes, which `pair` gives.
    """

    __slots__ = ("__weakref__", "left", "right")

    def __init__(self, left: Axis | None, right: Axis | None):
        axis = left or right
        assert axis is not None
        self.size, self.left, self.right = axis.size, left, right


def pair(left: Axis | None, right: Axis | None) -> Pair:
    """The one `Pair` of these axes."""
    name = (id(left), id(right))
    found = _PAIRS.get(name)
    if found is None:
        found = _PAIRS[name] = Pair(left, right)
    return found


Equal = frozenset[Pair]
EVERYTHING: Equal = frozenset()  # all entries will be read
_PAIRS: weakref.WeakValueDictionary[tuple[int, int], Pair] = weakref.WeakValueDictionary()


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Covariance:
    """Cov(v, w) of two batches of vectors; the labels of `c` are pairs."""

    c: Labelled

    @property
    def labels(self) -> tuple[Pair, ...]:
        """The labels of the array, all of them pairs."""
        return self.c.axes  # type: ignore[return-value]

    @property
    def pairs(self) -> list[Pair]:
        """The labels along which entries with different indices are uncorrelated."""
        return [p for p in self.labels if p.left is not None and p.right is not None]

    @property
    def swapped(self) -> "Covariance":
        """Cov(w, v), which is the same array."""
        labels = tuple(pair(p.right, p.left) for p in self.labels)
        return Covariance(Labelled(self.c.array, labels))

    def label(self, axis: Axis) -> Pair | None:
        """The label of an axis of v; None if entries are equal along it."""
        return next((p for p in self.labels if p.left is axis), None)

    def dense(self, axes: Iterable[Axis]) -> "Covariance":
        """The same covariance with zeros written out for the pairs of these axes of v."""
        c = self.c
        for p in self.pairs:
            if p.left in tuple(axes):
                left, right = pair(p.left, None), pair(None, p.right)
                eye: Any = Labelled(jnp.eye(int(p.size)), (left, right))
                c = multiply(c.rename({p: left}), eye)
        return Covariance(c)

    def at(self, equal: Equal) -> "Covariance":
        """The covariance restricted to equal indices on the pairs that `equal` names."""
        block = self
        for p in equal:
            assert p.left is not None
            assert p.right is not None
            block = block.restricted(p.left, p.right)
        return block

    def restricted(self, a: Axis, b: Axis) -> "Covariance":
        """The entries with equal indices on axes a of v and b of w; others are taken as zero."""
        both = pair(a, b)
        if both in self.labels:
            return self
        c: Any = self.dense([a]).swapped.dense([b]).swapped.c
        left, right = pair(a, None), pair(None, b)
        if left in c.axes and right in c.axes:
            rest = tuple(p for p in c.axes if p not in (left, right))
            return Covariance(
                Labelled(
                    jnp.moveaxis(jnp.diagonal(c.laid((left, right, *rest))), -1, 0), (both, *rest)
                )
            )
        if left in c.axes or right in c.axes:
            return Covariance(c.rename({left: both, right: both}))
        return Covariance(c.with_axes((*c.axes, both)))

    # --- one operation for each linear instruction, applied to v ---------------------------------

    def contract(self, a: Labelled | None, over: Axes, normalised: bool = False) -> "Covariance":
        """Cov(Σ a·v, w), summed over the axes `over`; of a paired one, the term at w's index."""
        names: Any = {
            axis: self.label(axis) or pair(axis, None) for axis in (*(a.axes if a else ()), *over)
        }
        summed = tuple(names[axis] for axis in over if names[axis].right is None)
        c = contract(None if a is None else a.rename(names), self.c, summed)
        left = {p: pair(None, p.right) for p in map(names.get, over) if p not in summed}
        if left:
            c = c.rename(left)
        if normalised:
            c = c.mapped(lambda x: x / np.sqrt(np.prod([float(axis.size) for axis in over])))
        return Covariance(c)

    def paired(self, pairs: Iterable[Pair]) -> "Covariance":
        """Cov(v, w) at equal indices of pairs, for a v that is constant along the left axes."""
        new: Any = {pair(None, p.right): p for p in pairs}
        return Covariance(self.c.rename(new))

    def scaled(self, a: Labelled) -> "Covariance":
        """Cov(a·v, w)."""
        return self.contract(a, ())

    def rename(self, names: dict[Axis, Axis]) -> "Covariance":
        """The same covariance with axes of v renamed."""
        labels = tuple(
            p if p.left is None else pair(names.get(p.left, p.left), p.right) for p in self.labels
        )
        return Covariance(Labelled(self.c.array, labels))

    def take(
        self, axes: Axes, places: Sequence[np.ndarray], new: Axes, equal: Equal = EVERYTHING
    ) -> "Covariance":
        """Cov of v at given places; along an axis paired with one of w, other places give zero."""
        made: Any = tuple(pair(axis, None) for axis in new)
        paired = self.label(axes[0]) if len(axes) == 1 else None
        if paired is not None and paired.right is not None:
            right: Any = pair(None, paired.right)
            chosen = jnp.asarray(places[0][..., None] == np.arange(int(paired.size)), float)
            return Covariance(
                multiply(self.c.rename({paired: right}), Labelled(chosen, (*made, right)))
            )
        block = self.dense(axes)
        labels: Any = [pair(axis, None) for axis in axes]
        indices, made = list(places), list(made)
        for i, axis in enumerate(new):
            for p in equal:
                # w is read at the index of the new axis
                if p.left is axis and pair(None, p.right) in block.labels:
                    labels.append(pair(None, p.right))
                    indices.append(np.indices(places[0].shape)[i])
                    made[i] = p
        return Covariance(block.c.take(tuple(labels), indices, tuple(made)))

    # --- reading ---------------------------------------------------------------------------------

    def on_left(self, x: Labelled) -> Labelled:
        """An array over the entries of v, under the labels of this covariance."""
        return x.rename({a: self.label(a) or pair(a, None) for a in x.axes})

    def on_right(self, x: Labelled) -> Labelled:
        """An array over the entries of w, under the labels of this covariance."""
        swapped = self.swapped
        called = {a: swapped.label(a) or pair(a, None) for a in x.axes}
        return x.rename({a: pair(p.right, p.left) for a, p in called.items()})

    def whole(self, left: Layout, right: Layout) -> Float[Array, "..."]:
        """The array over all entries of v and w, in these layouts."""
        block: Any = self.dense([p.left for p in self.pairs if p.left is not None])
        layout: Any = [*(None if a is None else pair(a, None) for a in left)]
        layout += [None if b is None else pair(None, b) for b in right]
        return block.c.whole(tuple(layout))

    def flat(self, left: Layout, right: Layout) -> Float[Array, "m k"]:
        """The matrix over the flattened entries of v and of w."""
        m, k = (int(np.prod(finite_shape(x), dtype=int)) for x in (left, right))
        return self.whole(left, right).reshape(m, k)

    def diagonal(self, axes: Axes) -> Labelled:
        """Cov(v_i, w_i), for two batches with the same axes."""
        block = self
        for axis in axes:
            labels = block.labels
            if any(axis in (p.left, p.right) for p in labels):
                block = block.restricted(axis, axis)
        return Labelled(block.c.array, tuple(p.left for p in block.labels if p.left is not None))

    def times(self, other: "Covariance") -> "Covariance":
        """The entrywise product of two covariances."""
        first, second = self, other
        for p in dict.fromkeys((*self.pairs, *other.pairs)):
            assert p.left is not None
            assert p.right is not None
            first, second = first.restricted(p.left, p.right), second.restricted(p.left, p.right)
        return Covariance(multiply(first.c, second.c))

    def mapped(self, f: Callable[..., Any], *others: Labelled) -> "Covariance":
        """f, applied to the entries and to other arrays under the same labels."""
        return Covariance(elementwise(f, self.c, *others))


def total(blocks: Sequence[Covariance]) -> Covariance:
    """Cov(Σ v, w), from the covariances of the terms v with w."""
    parts = comparable(blocks)
    return Covariance(
        functools.reduce(lambda a, b: elementwise(jnp.add, a, b), [p.c for p in parts])
    )


def comparable(blocks: Sequence[Covariance]) -> list[Covariance]:
    """The same covariances, with zeros written out for pairs that not all of them have."""
    common = set.intersection(*(set(b.pairs) for b in blocks))
    return [
        b.dense([p.left for p in b.pairs if p.left is not None and p not in common])
        for b in blocks
    ]


def stacked(blocks: Sequence[Covariance | None], axis: Axis) -> Covariance:
    """Cov(v, w) for v stacked along a new axis from parts, given theirs; None stands for zero."""
    known = comparable([b for b in blocks if b is not None])
    labels = tuple(dict.fromkeys(p for b in known for p in b.labels))
    arrays = iter([b.c.whole(labels) for b in known])
    sizes = tuple(int(p.size) for p in labels)
    full = [jnp.zeros(sizes) if b is None else next(arrays) for b in blocks]
    return Covariance(Labelled(jnp.stack(full), (pair(axis, None), *labels)))


def outer(m: Labelled, k: Labelled, equal: Equal = EVERYTHING) -> Covariance:
    """The covariance with entries m_i k_j."""
    left, right = sides(m.axes, k.axes, equal)
    return Covariance(multiply(m.rename(left), k.rename(right))).at(equal)


def sides(first: Axes, second: Axes, equal: Equal) -> tuple[dict[Axis, Axis], dict[Axis, Axis]]:
    """The labels of the axes of v, and of those of w, in their covariance."""
    left: dict[Axis, Axis] = {a: pair(a, None) for a in first}
    right: dict[Axis, Axis] = {b: pair(None, b) for b in second}
    for p in between(equal, first, second):
        assert p.left is not None
        assert p.right is not None
        left[p.left] = right[p.right] = p
    return left, right


def between(equal: Equal, first: Axes, second: Axes) -> Equal:
    """The pairs in `equal` that are of an axis of v (in `first`) and one of w (in `second`)."""
    return frozenset(p for p in equal if p.left in first and p.right in second)


def swapped(equal: Equal) -> Equal:
    """The pairs with v and w exchanged."""
    return frozenset(pair(p.right, p.left) for p in equal)
