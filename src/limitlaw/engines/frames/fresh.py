"""Gaussian vectors that are not drawn yet: coefficients on roots.

Given what has been drawn so far, outputs of a fresh matrix are linear combinations c Ξ of *roots*:
independent standard Gaussian vectors Ξ of R^D. Linear operations change the coefficients only. The
roots are drawn when something asks for more than that: an inner product, a nonlinearity, the Gram
of the next MatMul.

Along some axes (heads, say) every entry has roots of its own, so that nothing is stored or drawn
for pairs of heads that never meet.

Also here: D of a space, the scores of fresh vectors, and `Form`, a drawn part + a fresh part.
"""

import dataclasses
import functools
import math
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float

from limitlaw.core.labelled import (
    FUSED,
    Axes,
    Axis,
    Labelled,
    Layout,
    NodeAxis,
    add,
    contract,
    multiply,
    sizes,
    stack,
    union,
)
from limitlaw.core.space import Dim
from limitlaw.numerics.factors import gram, pivoted_factor
from limitlaw.numerics.gaussian_vectors import bartlett
from limitlaw.numerics.random import Quasi, Source

# a number that is known, ∞, or an argument of a compiled function
SizeOrTraced = int | float | Float[Array, ""]


@dataclasses.dataclass(frozen=True)
class Dimension:
    """D of a space.

    A D that is an argument of a compiled function is taken to be larger than any number of axes
    that is asked for; `ask` is told each such number, so that the caller learns how large D must
    be.
    """

    size: SizeOrTraced
    ask: Callable[[int], None]

    @property
    def root(self) -> float | Float[Array, ""]:
        """√D."""
        return math.sqrt(self.size) if isinstance(self.size, int | float) else jnp.sqrt(self.size)

    def axes(self, vectors: int) -> int:
        """How many axes so many independent vectors span: min(vectors, D)."""
        if isinstance(self.size, int | float):
            return int(min(vectors, self.size))
        self.ask(vectors)
        return vectors


def at_width(dim: Dim, n: int | Float[Array, ""]) -> SizeOrTraced:
    """D of a space at width n, which may be an argument of a compiled function."""
    if isinstance(n, int) or not dim.wide:
        return dim.at(n if isinstance(n, int) else 1)
    return n * dim.factor.numerator / dim.factor.denominator


@functools.partial(
    jax.tree_util.register_dataclass, data_fields=["c"], meta_fields=["axes", "own"]
)
@dataclasses.dataclass(frozen=True)
class Fresh:
    """Vectors Σ_r c[…, r] Ξ_r with the axes `axes`;
    along those in `own` every entry has its own roots.

    c has one hidden axis, the roots; where it lacks an axis, coefficients are the same along it.
    """

    c: Labelled
    axes: Axes
    own: frozenset[Axis]

    @property
    def roots(self) -> int:
        """The number of roots of each entry."""
        return self.c.array.shape[-1]

    @functools.cached_property
    def own_axes(self) -> Axes:
        """The axes with own roots, in order."""
        return tuple(axis for axis in self.axes if axis in self.own)

    @functools.cached_property
    def own_sizes(self) -> tuple[int, ...]:
        """Their sizes: for so many entries roots are drawn apart."""
        return sizes(self.own_axes)

    def source(self, key: Source) -> Source:
        """Where its roots are drawn from: it is told which of the axes in front are nodes."""
        return at_nodes(key, self.own_axes)

    # --- changing the coefficients ---------------------------------------------------------------

    def shared(self, axes: Iterable[Axis]) -> "Fresh":
        """The same vectors with the roots of the own axes among `axes` thrown together."""
        fresh = self
        for axis in axes:
            if axis in fresh.own:
                size, c = int(axis.size), fresh.c.with_axes(union(fresh.c.axes, (axis,)))
                eye = Labelled(jnp.eye(size)[..., None], (axis,))
                spread = multiply(eye, c.mapped(lambda a: a[..., None, :]))
                spread = spread.mapped(
                    lambda a: a.reshape(*a.shape[:-2], a.shape[-2] * a.shape[-1])
                )
                fresh = Fresh(spread, fresh.axes, fresh.own - {axis})
        return fresh

    def compressed(self) -> "Fresh":
        """The same law with no more roots than vectors: c → L with L Lᵀ = c cᵀ."""
        owns = tuple(axis for axis in self.c.axes if axis in self.own)
        others = tuple(axis for axis in self.c.axes if axis not in self.own)
        count = math.prod(sizes(others))
        if self.roots <= count:
            return self
        c = self.c.laid((*owns, *others)).reshape(*sizes(owns), count, self.roots)
        # small, and read by every head: computed once
        L = lax.optimization_barrier(pivoted_factor(gram(c)))
        return Fresh(
            Labelled(L.reshape(*sizes((*owns, *others)), count), (*owns, *others)),
            self.axes,
            self.own,
        )

    # --- one operation for each linear instruction -----------------------------------------------

    def contract(self, a: Labelled | None, over: Axes, normalised: bool, axes: Axes) -> "Fresh":
        """Σ a·w over axes: own roots stay apart as so many roots more, shared ones add up."""
        owns = tuple(axis for axis in over if axis in self.own)
        plain = tuple(axis for axis in over if axis not in self.own)
        c = contract(a, self.c, plain)
        rest = tuple(axis for axis in c.axes if axis not in owns)
        array = c.whole((*rest, *owns)) if owns else c.array
        array = array.reshape(*sizes(rest), -1) if owns else array
        if normalised:
            array = array / math.sqrt(math.prod(sizes(over)))
        return Fresh(Labelled(array, rest if owns else c.axes), axes, self.own - set(over))

    def rename(self, names: dict[Axis, Axis]) -> "Fresh":
        """Axes called otherwise."""
        called = [names.get(axis, axis) for axis in self.axes]
        return Fresh(
            self.c.rename(names),
            tuple(called),
            frozenset(names.get(axis, axis) for axis in self.own),
        )

    def take(self, axes: Axes, places: Sequence[np.ndarray], new: Axes, left: Axes) -> "Fresh":
        """At given places: different ones of one axis keep their own roots,
        others throw roots together first.
        """
        apart = (
            len(axes) == 1
            and len(set(places[0].reshape(-1).tolist())) == places[0].size
            and len(new) < 2
        )
        fresh = self if apart else self.shared(axes)
        own = {axis for axis in fresh.own if axis not in axes}
        if apart and axes[0] in fresh.own:
            own |= set(new)
        return Fresh(fresh.c.take(axes, places, new), left, frozenset(own))

    # --- what is needed in the end ---------------------------------------------------------------

    def covariance(self, layout: Layout) -> Float[Array, "m m"]:
        """The covariance of one coordinate of all vectors of the batch, flattened."""
        fresh = self.shared(self.axes)
        return gram(fresh.c.whole(layout).reshape(-1, fresh.roots))


def at_nodes(source: Source, axes: Axes) -> Source:
    """The source for requests with these axes in front."""
    places = [i for i, axis in enumerate(axes) if isinstance(axis, NodeAxis)]
    return source.along(places[0]) if places and isinstance(source, Quasi) else source


def added(terms: list[Fresh], axes: Axes) -> Fresh:
    """The sum of vectors with different roots."""
    common = frozenset(axis for axis in axes if all(axis in t.own for t in terms))
    parts = [t.shared([axis for axis in t.axes if axis not in common]) for t in terms]
    stored = union(*(p.c.axes for p in parts))
    c = jnp.concatenate([p.c.whole(stored) for p in parts], axis=-1)
    return Fresh(Labelled(c, stored), axes, common)


def stacked(terms: list[Fresh], axis: Axis, axes: Axes) -> Fresh:
    """Vectors with different roots along a new axis, which has its own roots."""
    common = frozenset(a for a in axes if all(a in t.own for t in terms))
    parts = [t.shared([a for a in t.axes if a not in common]) for t in terms]
    roots = max(p.roots for p in parts)

    def padded(c: Labelled) -> Labelled:
        return c.mapped(lambda a: jnp.pad(a, [(0, 0)] * (a.ndim - 1) + [(0, roots - a.shape[-1])]))

    return Fresh(stack([padded(p.c) for p in parts], axis), axes, common | {axis})


def side_by_side(parts: list[Fresh], own: Collection[Axis] = ()) -> list[Labelled]:
    """The coefficients of several batches on the roots of all of them, those of the axes `own`
    apart.
    """
    each = [f.shared([axis for axis in f.axes if axis not in own]) for f in parts]
    ends = np.cumsum([f.roots for f in each])

    def placed(f: Fresh, end: int) -> Labelled:
        sides = (end - f.roots, int(ends[-1]) - end)
        return f.c.with_axes(f.axes).mapped(
            lambda c: jnp.pad(c, [*[(0, 0)] * (c.ndim - 1), sides])
        )

    return [placed(f, int(end)) for f, end in zip(each, ends, strict=True)]


def scaled(fresh: Fresh, a: Labelled, axes: Axes) -> Fresh:
    """a·w."""
    return fresh.contract(a, (), False, axes)


def apply_roots(c: Labelled, Z: Labelled) -> Labelled:
    """Σ_r c[…, r] Z[…, r, :], where Z lacks the axes whose entries share their roots."""
    if c.array.shape[-1] <= 8:  # written out: XLA fuses this with the drawing of Z
        total: Any = None
        for r in range(c.array.shape[-1]):
            part = multiply(
                Labelled(c.array[..., r, None], c.axes), Labelled(Z.array[..., r, :], Z.axes)
            )
            total = part if total is None else Labelled(total.array + part.array, part.axes)
        return total
    axes = union(c.axes, Z.axes)
    letter = {axis: i for i, axis in enumerate(axes)}
    r, k = len(axes), len(axes) + 1
    of_c = [*(letter[a] for a in c.axes), r]
    of_Z = [*(letter[a] for a in Z.axes), r, k]
    array = jnp.einsum(c.array, of_c, Z.array, of_Z, [*range(len(axes)), k])
    return Labelled(array, axes)


def bartlett_units(
    key: Source, m: int, D: Dimension, shape: tuple[int, ...]
) -> Float[Array, "*shape m r"]:
    """T/√D: m standard Gaussian vectors of R^D, divided by √D, in a frame of their own.

    At D = ∞ they are orthonormal, T/√D = I, and nothing is drawn.
    """
    D.axes(m)
    if isinstance(D.size, float):
        assert D.size == math.inf
        return jnp.broadcast_to(jnp.eye(m), (*shape, m, m))
    return bartlett(key, m, D.size, shape) / D.root


# --- a drawn and a fresh part --------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Form:
    """A batch of vectors: drawn part + fresh part; at least one is there."""

    drawn: Labelled | None
    fresh: Fresh | None

    def mapped(
        self, on_drawn: Callable[[Labelled], Labelled], on_fresh: Callable[[Fresh], Fresh]
    ) -> "Form":
        """A linear operation, applied to both parts."""
        return Form(
            None if self.drawn is None else on_drawn(self.drawn),
            None if self.fresh is None else on_fresh(self.fresh),
        )


def total(arrays: list[Labelled]) -> Labelled:
    """The sum of vectors in a frame, of which shorter ones end in zeros."""
    return add(equal_length(arrays))


def equal_length(arrays: list[Labelled]) -> list[Labelled]:
    """With zeros at the end of shorter ones."""
    r = max(a.array.shape[-1] for a in arrays)

    def padded(a: Float[Array, "*batch r0"]) -> Float[Array, "*batch r"]:
        return (
            jnp.pad(a, [(0, 0)] * (a.ndim - 1) + [(0, r - a.shape[-1])]) if a.shape[-1] < r else a
        )

    return [a.mapped(padded) for a in arrays]


def inner(u: Labelled, v: Labelled) -> Labelled:
    """⟨u, v⟩ over the hidden axis, of which the shorter one ends in zeros:
    entry by entry along common axes.
    """
    r = min(u.array.shape[-1], v.array.shape[-1])
    u, v = u.mapped(lambda a: a[..., :r]), v.mapped(lambda a: a[..., :r])
    axes = union(u.axes, v.axes)
    if math.prod(sizes(axes)) * r <= FUSED:  # one fused loop beats a call of a matrix product
        return Labelled((u.laid(axes) * v.laid(axes)).sum(axis=-1), axes)
    both = tuple(axis for axis in u.axes if axis in v.axes)
    axes = union(both, axes)  # as a product of matrices gives them: not one more copy
    letter = {axis: i for i, axis in enumerate(axes)}
    left, right = ([*(letter[a] for a in x.axes), len(axes)] for x in (u, v))
    return Labelled(jnp.einsum(u.array, left, v.array, right, list(range(len(axes)))), axes)
