"""Which entries of a node a tensor reads, as digits.

The entries of a node are numbered by digits, as a clock numbers seconds: a row-major refinement of
its torch shape, in which heads and head coordinates are two digits of one feature axis. A tensor
reads them through its `ids`; each axis of its shape is cut until every piece moves one digit.
"""

import dataclasses
import itertools
import math
from collections.abc import Iterable, Sequence

import numpy as np

from limitlaw.torch.errors import ConversionError
from limitlaw.torch.nodes import Tensor

# for each axis, the sizes of its inner parts: {d} cuts H·d into (H, d)
Cuts = tuple[frozenset[int], ...]


@dataclasses.dataclass(frozen=True)
class Digits:
    """The digits of a node, none of size 1; `coordinate` is the digit that is the hidden axis of
    vectors, None for numbers. `narrow`: the dimension is that of heads and stays fixed as the
    width grows.
    """

    sizes: tuple[int, ...]
    coordinate: int | None
    narrow: bool = False

    @property
    def dimension(self) -> int:
        """The number of coordinates."""
        assert self.coordinate is not None
        return self.sizes[self.coordinate]

    @property
    def batch(self) -> tuple[int, ...]:
        """The sizes of the digits that are not coordinates."""
        return tuple(size for i, size in enumerate(self.sizes) if i != self.coordinate)


def divisors(number: int) -> list[int]:
    """All divisors, the largest first."""
    return [d for d in range(number, 0, -1) if number % d == 0]


def places(
    tensor: Tensor, sizes: Sequence[int], shape: Sequence[int] | None = None
) -> list[np.ndarray]:
    """For each digit, its value at every entry of the tensor; `shape` is a refinement of the
    tensor's shape.
    """
    ids = tensor.ids.contiguous().numpy().reshape(tensor.shape if shape is None else tuple(shape))
    return list(np.unravel_index(ids, tuple(sizes))) if sizes else []


def profile(place: np.ndarray) -> list[np.ndarray] | None:
    """How a digit moves along each axis: functions f_a(j) if it is Σ_a f_a(j_a); else None."""
    origin = place[(0,) * place.ndim]
    along = [
        place[(0,) * a + (slice(None),) + (0,) * (place.ndim - a - 1)] - origin
        for a in range(place.ndim)
    ]
    total = origin + sum(
        f.reshape((1,) * a + (-1,) + (1,) * (place.ndim - a - 1)) for a, f in enumerate(along)
    )
    return along if np.array_equal(total, place) else None


def cuts(tensor: Tensor, sizes: Sequence[int]) -> Cuts:
    """Where each axis of the tensor must be cut so that every piece moves a single digit,
    or none.
    """
    found = [profile(place) for place in places(tensor, sizes)]
    moves = [f for f in found if f is not None]
    return tuple(
        frozenset(_cut(np.stack([f[a] for f in moves]))) if moves else frozenset()
        for a in range(len(tensor.shape))
    )


def _cut(f: np.ndarray) -> list[int]:
    """The inner sizes at which an axis is cut; f has one row for each digit."""
    size = f.shape[1]
    moving = f[f.any(axis=1)]
    if len(moving) == 0:
        return []
    for p in divisors(size)[1:]:
        inner, outer = moving[:, :p], moving[:, ::p]
        additive = np.array_equal(
            (outer[:, :, None] + inner[:, None, :]).reshape(moving.shape), moving
        )
        if p == 1 or not additive:
            continue
        still, shared = not inner.any(), inner.any(axis=1).sum() == 1 and len(moving) > 1
        if still or shared or (len(moving) == 1 and not outer.any()):
            return [p, *(p * q for q in _cut(outer))]
    return []


def refined(
    shape: Sequence[int], cut: Iterable[Cuts], what: object
) -> tuple[list[int], list[int]]:
    """The sizes of all pieces of all axes (but those of size 1), and the axis of each."""
    pieces: list[int] = []
    axes: list[int] = []
    for a, size in enumerate(shape):
        inner = sorted({1, size}.union(*(c[a] for c in cut)))
        for small, large in itertools.pairwise(inner):
            if large % small:
                raise ConversionError(
                    f"{what}: an axis of {size} is cut into pieces of {small} and of {large}"
                )
        factors = [large // small for small, large in itertools.pairwise(inner)]
        pieces += reversed(factors)
        axes += [a] * len(factors)
    return pieces, axes


def coordinate_axis(tensor: Tensor, layout: Digits, shape: Sequence[int]) -> int | None:
    """The axis of the refined tensor along which the coordinate runs once and whole, or None."""
    if layout.coordinate is None:
        return None
    found = places(tensor, layout.sizes, shape)
    moves = profile(found[layout.coordinate])
    if moves is None:
        return None
    moving = [a for a, f in enumerate(moves) if f.any()]
    if len(moving) != 1 or not np.array_equal(moves[moving[0]], np.arange(layout.dimension)):
        return None
    (axis,) = moving
    for k, place in enumerate(found):
        first = np.take(place, [0], axis=axis)
        if k != layout.coordinate and not np.array_equal(
            np.broadcast_to(first, place.shape), place
        ):
            return None
    return axis


def piece_of_coordinate(tensor: Tensor, layout: Digits, shape: Sequence[int]) -> tuple[int, bool]:
    """The largest p < D so that the tensor reads the coordinate in whole runs of p; and whether
    several axes move it, so that it is reshaped, as that of heads is.
    """
    assert layout.coordinate is not None
    place = places(tensor, layout.sizes, shape)[layout.coordinate]
    moving = [a for a in range(place.ndim) if np.ptp(place, axis=a).any()]
    for p in divisors(layout.dimension)[1:]:
        for a in moving:  # runs q·p, …, q·p + p − 1 along an axis
            runs = np.moveaxis(place, a, -1).reshape(-1, p) if place.shape[a] % p == 0 else None
            if runs is None or (runs[:, 0] % p).any():
                continue
            if np.array_equal(runs, runs[:, :1] + np.arange(p)):
                return p, len(moving) > 1
    return 1, len(moving) > 1


def axis_of(layout: Digits, shape: Sequence[int], digit: int) -> tuple[int, int]:
    """The axis of `shape` of which a digit is a piece, and the size of the pieces inside it."""
    inside = math.prod(layout.sizes[digit + 1 :])
    for a in range(len(shape)):
        below = math.prod(shape[a + 1 :])
        if below <= inside < below * shape[a]:
            return a, inside // below
    raise AssertionError("a digit is a piece of an axis")
