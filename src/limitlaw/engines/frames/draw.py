"""One draw of a program, without its matrices: a drawn and a fresh part of each vector.
Written for one, vmapped.
"""

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, DTypeLike, Float

from limitlaw.core.analysis import Analysis, Component
from limitlaw.core.instructions import Family, Number, Value
from limitlaw.core.labelled import Axes, Labelled, Layout, add, labelled, sizes
from limitlaw.core.space import Dim
from limitlaw.engines.engine import Draw
from limitlaw.engines.frames.fresh import Fresh
from limitlaw.engines.frames.ledger import Ledger
from limitlaw.engines.frames.spaces import Dimension, Frame, Points, Size, Space
from limitlaw.numerics.factors import gram
from limitlaw.numerics.quasi import Source, fold_in


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


class FramesDraw(Draw):
    """One draw in progress: a `Form` for vectors, labelled arrays for numbers.

    `size` gives D of a space: n, or a fixed d; ∞ where only the limit draws. `asked`: for spaces
    whose D is an argument of what is compiled, the number of axes that D must exceed.
    """

    def __init__(
        self,
        facts: Analysis,
        numbers: Mapping[Number, Any],
        size: Callable[[Dim], Size],
        key: Source,
        observed: int = 1,
        dtype: DTypeLike = jnp.float64,
    ):
        super().__init__(numbers)
        self.facts, self.size, self.observed, self.dtype = facts, size, observed, dtype
        self.source = key
        self.ledgers: dict[Family, Ledger] = {}
        self.spaces: dict[Component, Space] = {}
        self.asked: dict[Dim, int] = {}

    def evaluate(self, value: Value) -> None:
        """Numbers, or vectors, by the rule of the instruction.
        Vectors that are read more than once are settled.
        """
        super().evaluate(value)
        if value.is_vector and self.facts.uses[value] > 1:
            self.settled(value)

    def key(self, value: Value, purpose: int = 0) -> Source:
        """A key for each purpose of each value: fold_in(fold_in(key, its position), purpose)."""
        return fold_in(fold_in(self.source, self.facts.position[value]), purpose)

    def given(self, slot: Number, order: Layout, hidden: int = 0) -> Labelled:
        """The numbers in a slot."""
        return labelled(jnp.asarray(self.numbers[slot], self.dtype), order, hidden)

    def dimension(self, dim: Dim) -> Dimension:
        """D of a space."""

        def ask(axes: int) -> None:
            self.asked[dim] = max(axes, self.asked.get(dim, 0))

        return Dimension(self.size(dim), ask)

    def space(self, value: Value) -> Space:
        """The space of the component of a vector."""
        component = self.facts.components[value]
        if component not in self.spaces:
            D = self.dimension(component.dim)
            observed = self.observed if component.observed else 0
            if component.points:
                self.spaces[component] = Points(D, observed, self.dtype)
            else:
                self.spaces[component] = Frame(D, component.has_one, observed, self.dtype)
        return self.spaces[component]

    def settled(self, value: Value) -> Labelled:
        """The vector with nothing fresh left: what was, is drawn now."""
        form = self[value]
        if form.fresh is not None:
            new = self.space(value).draw(self.key(value, 1), form.fresh)
            drawn = new if form.drawn is None else total([form.drawn, new], value.axes)
            self.results[value] = form = Form(drawn, None)
        assert form.drawn is not None
        return form.drawn

    def units(self, value: Value) -> Labelled:
        """The settled vector in coordinates whose products are Gram entries."""
        return self.settled(value).mapped(self.space(value).units)

    def second_moment(self, value: Value) -> Float[Array, "m m"]:
        """D^{-1} ⟨v_i, v_j⟩ over the flattened entries."""
        return gram(self.units(value).whole(value.axes).reshape(math.prod(sizes(value.axes)), -1))

    def only_fresh(self, value: Value) -> Fresh | None:
        """The fresh part of a vector that has no other."""
        form = self[value]
        return form.fresh if form.drawn is None else None


def total(arrays: list[Labelled], axes: Axes) -> Labelled:
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
