"""`validate` compares what a linear instruction says of its axes with what it does to arrays."""

import dataclasses
import re
from collections.abc import Callable, Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import limitlaw as ll
from limitlaw.core.kinds import Linear, Value
from limitlaw.core.labelled import Axes, Axis, Labelled, multiply, union
from validity import validate


@dataclasses.dataclass(frozen=True, eq=False)
class Claiming(Linear):
    """What says of its axes what may be wrong."""

    x: Value
    array: Callable[[Labelled, Value], Labelled]
    mixed: Axes
    separated: Axes

    def applied(
        self, vectors: Callable[[Value], Labelled], numbers: Mapping[Value, Any]
    ) -> Labelled:
        x = vectors(self.x)
        return self.array(x.with_axes(union(x.axes, self.x.axes)), self.x)

    def mixes(self, axes: Axes) -> frozenset[Axis]:
        return frozenset(self.mixed)

    def separates(self) -> Axes:
        return self.separated


def reversed_(a: Labelled, x: Value) -> Labelled:
    return a.mapped(lambda w: jnp.flip(w, a.axes.index(x.axes[0])))


def cyclic_sum(a: Labelled, x: Value) -> Labelled:
    return a.mapped(lambda w: w + jnp.roll(w, 1, a.axes.index(x.axes[0])))


def weighed(a: Labelled, x: Value) -> Labelled:
    return multiply(Labelled(np.arange(1.0, 4.0), x.axes[:1]), a)


@pytest.mark.parametrize(
    ("array", "mixes", "separates", "claim"),
    [
        (reversed_, False, True, "it mixes Axis(3), and does not say so"),
        (cyclic_sum, False, False, "it mixes Axis(3), and does not say so"),
        (weighed, True, True, "it says that it mixes Axis(3), and does not"),
        (weighed, False, False, "it separates entries along Axis(3), and does not say so"),
        (reversed_, True, True, None),
        (cyclic_sum, True, False, None),
        (weighed, False, True, None),
    ],
)
def test_what_is_said_of_axes(
    array: Callable[[Labelled, Value], Labelled], mixes: bool, separates: bool, claim: str | None
) -> None:
    """`validate` compares `mixes` and `separates` with what `applied` does."""
    x = ll.initial((3, 2)).core.value
    said = [x.axes[:1] if says else () for says in (mixes, separates)]
    value = Value(Claiming(x, array, *said), x.axes, x.dim)
    if claim is None:
        return validate(value)
    with pytest.raises(ValueError, match=re.escape(claim)):
        validate(value)
