"""Second moments of which only the entries with equal indices on some axes are needed.

Each matrix of a family meets its own vectors only. Where those are windows of the same vectors (a convolution), the
restriction moves through the instructions that cut out the windows, so that pairs of different windows never arise.
"""

from collections.abc import Callable
from typing import Any

from limitlaw.engines.blocks import Block
from limitlaw.language import ops
from limitlaw.language.ops import Value
from limitlaw.language.shapes import finite_shape

Second = Callable[[Value, Value], Block | None]


def restricted_second(second: Second, numbers: Any, v: Any, w: Any, axes: frozenset[int]) -> Block | None:
    """E[v w] where v and w have equal indices on `axes`, counted −1, −2, … from the last; other entries are zero."""
    axes = frozenset(a for a in axes if v.ndim >= -a and w.ndim >= -a and v.shape[a] == w.shape[a] != 1)
    block = _through(second, numbers, v, w, axes) if axes and type(v.op) is type(w.op) else second(v, w)
    if block is None:
        return None
    for a in axes:
        block = block.restricted(v.ndim + a, w.ndim + a)
    return block


def _through(second: Second, numbers: Any, v: Any, w: Any, axes: frozenset[int]) -> Block | None:
    """Both sides by their instruction, from the restricted moments of what they read."""
    left, right = finite_shape(v.shape), finite_shape(w.shape)
    match v.op, w.op:
        case ops.Transpose() as p, ops.Transpose() as q:
            moved = [(p.axes[a] - len(left), q.axes[a] - len(right)) for a in axes]
            if any(a != b for a, b in moved):
                return second(v, w)
            block = restricted_second(second, numbers, p.x, q.x, frozenset(a for a, _ in moved))
            return None if block is None else block.transposed(p, left).swapped.transposed(q, right).swapped
        case ops.Index() as p, ops.Index() as q if _adds_axes(p) and _adds_axes(q):
            kept = _kept(p), _kept(q)
            inner = frozenset(kept[0][a] for a in axes if a in kept[0])
            if any(kept[0].get(a) != kept[1].get(a) for a in axes):
                return second(v, w)
            block = restricted_second(second, numbers, p.x, q.x, inner)
            return None if block is None else block.indexed(p, left).swapped.indexed(q, right).swapped
        case ops.Mix() as p, ops.Mix() as q if _is_known(p, numbers) and _is_known(q, numbers) and -1 not in axes:
            block = restricted_second(second, numbers, p.w, q.w, axes)
            if block is None:
                return None
            block = block.spread((*left[:-1], block.left[-1]), (*right[:-1], block.right[-1]))
            for a in axes:
                block = block.restricted(len(left) + a, len(right) + a)
            return block.mixed(p, numbers[p.a], left).swapped.mixed(q, numbers[q.a], right).swapped
    return second(v, w)


def _is_known(op: ops.Mix, numbers: Any) -> bool:
    """Is op a matrix of known numbers times vectors?"""
    return op.a.ndim > 1 and op.a in numbers


def _adds_axes(op: ops.Index) -> bool:
    """Does the index only insert new axes?"""
    return all(part is None or part is Ellipsis or _is_whole(part) for part in op.index)


def _is_whole(part: Any) -> bool:
    return isinstance(part, slice) and part == slice(None)


def _kept(op: ops.Index) -> dict[int, int]:
    """Where the axes of x[index] come from, both counted from the last."""
    parts = list(op.index) if Ellipsis in op.index else [*op.index, Ellipsis]
    at = parts.index(Ellipsis)
    whole = op.x.ndim - sum(part == slice(None) for part in parts)
    parts[at : at + 1] = [slice(None)] * whole
    source, places = 0, {}
    for result, part in enumerate(reversed(parts), start=1):
        if part is not None:
            source += 1
            places[-result] = -source
    return places
