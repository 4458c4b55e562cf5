"""Contractions: scores, and vectors mixed by numbers."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

import limitlaw as ll
from limitlaw.torch import nodes
from limitlaw.torch.errors import ConversionError
from limitlaw.torch.nodes import Tensor, pulled
from limitlaw.torch.reading import filled, merged, ordered, shaped
from limitlaw.torch.writer import Writer

CLOSE = 1e-12


def contraction(writer: Writer, node: nodes.Contraction) -> Any:
    a, b = (
        _side(writer, t, *found)
        for t, found in zip((node.a, node.b), writer.layouts.meeting[node], strict=True)
    )
    if a.inside:
        return _scores(writer, node, a, b)
    if b.vectors:
        return _mixed(node, a, b, flipped=False)
    if a.vectors:
        return _mixed(node, b, a, flipped=True)
    left, right = a.grouped(), b.grouped()
    swap = (*range(right.ndim - 2), right.ndim - 1, right.ndim - 2)
    product = left @ right.transpose(swap)
    return shaped(_scaled(product, node.scale), (*a.of("lead"), *a.of("row"), *b.of("row")))


class _Side:
    """One factor of a contraction: its value with axes (lead…, row…, k…) less the coordinate."""

    def __init__(
        self, value: object, shape: Sequence[int], roles: Sequence[str], axis: int | None
    ):
        self.value = value
        self.rotated: Any = None  # the value with axes (lead…, rows), turned
        self.vectors = axis is not None
        self.inside = axis is not None and roles[axis] == "k"
        kept = [(s, r) for i, (s, r) in enumerate(zip(shape, roles, strict=True)) if i != axis]
        self.sizes, self.roles = [s for s, _ in kept], [r for _, r in kept]

    def of(self, role: str) -> tuple[int, ...]:
        """The sizes of the batch axes of a role."""
        return tuple(s for s, r in zip(self.sizes, self.roles, strict=True) if r == role)

    def grouped(self) -> Any:
        """The value with axes (lead…, rows, k), rows and k as one axis each."""
        lead, row, k = (len(self.of(r)) for r in ("lead", "row", "k"))
        return merged(self.value, [*(1,) * lead, row, k], self.sizes)


def _side(
    writer: Writer, tensor: Tensor, shape: Sequence[int], roles: Sequence[str], axis: int | None
) -> _Side:
    if isinstance(tensor.node, nodes.Rotation):
        return _rotated(writer, tensor, tensor.node, shape, roles, axis)
    return _Side(writer.read(tensor, shape), shape, roles, axis)


def _rotated(
    writer: Writer, tensor: Tensor, node: nodes.Rotation, shape: Any, roles: Any, axis: Any
) -> _Side:
    """What is turned, read as its rotation is; the rotation follows,
    when the axes have their places.
    """
    side = _Side(writer.read(pulled(tensor, node.x), shape), shape, roles, axis)
    every = np.broadcast_to(node.positions[..., None], node.shape).reshape(-1)
    positions = every[tensor.ids.numpy().reshape(shape)].take(0, axis=axis)
    lead, row = len(side.of("lead")), len(side.of("row"))
    if len(side.of("k")):
        raise ConversionError(
            f"{node.label}: a rotary embedding over several pieces of a head has no rule"
        )
    value = merged(side.value, [*(1,) * lead, row], side.sizes)
    places = positions.reshape(*side.sizes[:lead], math.prod(side.sizes[lead:]))
    for a in range(places.ndim):
        if value.shape[a] == 1 or (places == places.take([0], axis=a)).all():
            places = places.take([0], axis=a)
    side.rotated = ll.rotary(value, places, node.base)
    return side


def _scores(writer: Writer, node: nodes.Contraction, a: _Side, b: _Side) -> Any:
    """D^{1/2}·scale times the dot products of a model's own scaling,
    summed over the pieces of k.
    """
    factors = []
    for side in (a, b):
        if side.rotated is not None:
            factors.append(side.rotated)
            continue
        lead, row, k = (len(side.of(r)) for r in ("lead", "row", "k"))
        order = (*range(lead), *range(lead + row, lead + row + k), *range(lead, lead + row))
        sizes = [side.sizes[i] for i in order]
        factors.append(merged(ordered(side.value, order), [*(1,) * (lead + k), row], sizes))
    p = ll.dot(*factors)
    pieces, lead = len(a.of("k")), len(a.of("lead"))
    if pieces:
        p = p.sum(tuple(range(lead, lead + pieces)))
    D = writer.layout(node.a.node).dimension
    whole = (*a.of("lead"), *a.of("row"), *b.of("row"))
    return shaped(_scaled(p, node.scale * math.sqrt(D)), _shape(p.shape, lead, whole))


def _shape(shape: Sequence[Any], lead: int, sizes: Sequence[int]) -> tuple[int, ...]:
    """The sizes, but for leading axes that are broadcast."""
    return (*(int(s) for s in shape[:lead]), *sizes[lead:])


def _scaled(value: Any, factor: float) -> Any:
    return value if abs(factor - 1) < CLOSE else factor * value


def _mixed(node: nodes.Contraction, a: _Side, w: _Side, flipped: bool) -> Any:
    """Numbers times vectors: a @ w, the rows of w beside its coordinate kept."""
    lead, rows, others = len(a.of("lead")), a.of("row"), w.of("row")
    numbers = a.grouped()
    vectors = merged(w.value, [*(1,) * (lead + len(others)), len(w.of("k"))], w.sizes)
    if vectors.shape[-1] != numbers.shape[-1]:
        vectors = filled(vectors, (*vectors.shape[:-1], math.prod(w.of("k"))))
        numbers = filled(numbers, (*numbers.shape[:-1], math.prod(a.of("k"))))
    if others:
        numbers = numbers[(*(slice(None),) * lead, *(None,) * len(others))]
    mixed = _scaled(numbers @ vectors, node.scale)  # (lead…, others…, rows)
    mixed = shaped(mixed, (*mixed.shape[: lead + len(others)], *rows))
    if flipped:
        return mixed
    end = lead + len(others)
    return ordered(mixed, [*range(lead), *range(end, end + len(rows)), *range(lead, end)])
