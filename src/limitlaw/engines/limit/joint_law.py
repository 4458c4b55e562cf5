"""The joint law of what passes through a loop at infinite width, and where it keeps vectors."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from jax import lax

from limitlaw.core.covariance import Covariance, pair
from limitlaw.core.kinds import Value
from limitlaw.core.labelled import Axes, Labelled, sizes
from limitlaw.core.space import Dim
from limitlaw.engines.limit.carrying import count


class SpaceLaw(NamedTuple):
    """In one space, of carries C and vectors Q outside: E (C, Q), Cov(C, (C, Q)), Cov(Q, Q)."""

    mean: Any
    carried: Any
    beside: Any


class Located(NamedTuple):
    """The place of vectors in a space: from `start` on, among the carries or beside them."""

    dim: Dim
    is_carry: bool
    start: Any
    axes: Axes
    has_mean: bool


class JointLaw:
    """Means and covariances of what passes through a loop, by space."""

    def __init__(self, laws: Mapping[Dim, SpaceLaw], places: Mapping[Value | int, Located]):
        self._laws, self._places = laws, places

    def __contains__(self, key: Value | int) -> bool:
        return key in self._places

    def mean(self, key: Value | int) -> Labelled | None:
        """The mean of vectors; None stands for zero."""
        place = self._places.get(key)
        if place is None or not place.has_mean:
            return None
        law = self._laws[place.dim]
        first = 0 if place.is_carry else len(law.carried)
        array = _cut(law.mean, first + place.start, count(place.axes))
        return Labelled(array.reshape(sizes(place.axes)), place.axes)

    def covariance(self, v: Value | int, w: Value | int) -> Covariance | None:
        """Cov(v, w); None stands for zero."""
        first, second = self._places[v], self._places[w]
        if first.dim != second.dim:
            return None
        law = self._laws[first.dim]
        if second.is_carry and not first.is_carry:
            return None if (found := self.covariance(w, v)) is None else found.swapped
        rows = law.carried if first.is_carry else law.beside
        shift = len(law.carried) if first.is_carry and not second.is_carry else 0
        rows = _cut(rows, first.start, count(first.axes))
        array = _cut(rows, shift + second.start, count(second.axes), axis=1)
        labels = (*(pair(a, None) for a in first.axes), *(pair(None, a) for a in second.axes))
        return Covariance(Labelled(array.reshape(*sizes(first.axes), *sizes(second.axes)), labels))


def _cut(array: Any, start: Any, size: int, axis: int = 0) -> Any:
    if isinstance(start, int):
        return lax.slice_in_dim(array, start, start + size, axis=axis)
    return lax.dynamic_slice_in_dim(array, start, size, axis=axis)


class Passed(NamedTuple):
    """The results of a loop: the law of vectors, and numbers."""

    law: JointLaw
    numbers: Mapping[int, Labelled]
