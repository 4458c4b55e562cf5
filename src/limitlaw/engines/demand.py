"""Draw only what is asked for: rewrite a program so that it computes no more than its outputs need.

Three rewrites, none of which knows about `attention()`:

- indexing moves towards the leaves, through values that nothing else reads;
- a @ (M @ x) becomes M @ (a @ x) where x is Gaussian and read nowhere else;
- average(v * w) becomes an inner product, so that a norm does not need coordinates.
"""

import dataclasses
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np

from limitlaw import phi as nonlinearities
from limitlaw.core.space import Dim
from limitlaw.engines.common import reused
from limitlaw.language import ops, shapes
from limitlaw.language.dependence import terms
from limitlaw.language.graph import ancestors
from limitlaw.language.ops import Value
from limitlaw.language.shapes import Shape, Size
from limitlaw.language.values import Wide

Selection = tuple[slice, ...]  # one slice for each batch axis
WHOLE = slice(None)


@dataclasses.dataclass(frozen=True, eq=False)
class Inner(ops.Op):
    """D^{-1} Σ_α v_α w_α, entry by entry of the batch."""

    entrywise: ClassVar[bool] = True
    v: Value
    w: Value
    dim: Dim


def uses_of(outputs: Sequence[Value], values: Sequence[Value]) -> Counter[Value]:
    """How often each value is read, by instructions and as an output."""
    return Counter([*(v for value in values for v in value.op.inputs), *outputs])


def demanded(outputs: Sequence[Value]) -> tuple[Value, ...]:
    """The same outputs, by a program that computes less."""
    return tuple(map(_Rewriter(outputs).rebuilt, outputs))


class _Rewriter:
    def __init__(self, outputs: Sequence[Value]):
        values = ancestors(outputs)
        self.uses = uses_of(outputs, values)
        self.reused = reused(values)
        self.done: dict[Value, Value] = {}
        for value in values:  # inputs come first, so that nothing recurses through the whole program
            self.done[value] = self._rebuild(value)

    def rebuilt(self, value: Value) -> Value:
        """`value` rewritten; the same object where nothing changed."""
        return self.done[value]

    def _rebuild(self, value: Value) -> Value:
        op: Any = value.op
        if isinstance(op, ops.Index) and _is_basic(op.index):
            return self._indexed(op.x, _basic(op.index, op.x.shape))
        if isinstance(op, ops.Mix):
            return self._mixed(value, self.rebuilt(op.a), self.rebuilt(op.w), value.shape)
        if isinstance(op, ops.Average) and self._is_product(op.w):
            v, w = op.w.op.args  # type: ignore[attr-defined]
            return _replaced(value, Inner(self.rebuilt(v), self.rebuilt(w), op.dim), value.shape)
        changed = {v: self.rebuilt(v) for v in op.inputs}
        if all(old is new for old, new in changed.items()):
            return value
        return _replaced(value, _with_inputs(op, changed.__getitem__), value.shape)

    # --- indexing ---------------------------------------------------------------------------------------------------

    def _indexed(self, x: Value, parts: list[Any]) -> Value:
        """x[parts], parts being integers and slices, one for each axis of x, and None for new axes."""
        existing = [part for part in parts if part is not None]
        selection = tuple(slice(p, p + 1) if isinstance(p, int) else p for p in existing)
        selected = self._pushed(x, selection)
        rest = tuple(0 if isinstance(p, int) else None if p is None else WHOLE for p in parts)
        if all(part == WHOLE for part in rest):
            return selected
        return _index(selected, rest)

    def _pushed(self, x: Value, selection: Selection) -> Value:
        """x[selection], computed from selected inputs where x is read only here."""
        if all(_is_whole(part, size) for part, size in zip(selection, x.shape, strict=True)):
            return self.rebuilt(x)
        op: Any = x.op
        shape = tuple(_selected(size, part) for size, part in zip(x.shape, selection, strict=True))
        if isinstance(op, ops.Constant):
            return _replaced(x, ops.Constant(op.value[selection]), shape)
        if isinstance(op, ops.Data):
            return _replaced(x, ops.Data(op.X[selection]), shape)
        if self.uses[x] > 1:
            return _index(self.rebuilt(x), selection)
        return self._through(x, op, selection, shape)

    def _through(self, x: Value, op: Any, selection: Selection, shape: Shape) -> Value:
        def aligned(v: Value, part: Selection = selection) -> Value:
            """The entries of `v` that broadcasting needs for these of the result."""
            return self._pushed(v, _aligned(part, v.shape))

        match op:
            case ops.Average() if self._is_product(op.w):
                v, w = op.w.op.args  # type: ignore[attr-defined]
                return _replaced(x, Inner(aligned(v), aligned(w), op.dim), shape)
            case ops.Scale() | ops.Add() | ops.Map() | ops.Apply(core=0) | ops.Average():
                return _replaced(x, _with_inputs(op, aligned), shape)
            case ops.Apply(core=1):
                rows = (*selection[:-1], WHOLE)
                result = _replaced(x, _with_inputs(op, lambda v: aligned(v, rows)), (*shape[:-1], x.shape[-1]))
                return _index(result, (*(WHOLE,) * (x.ndim - 1), selection[-1]))
            case ops.MatMul():
                family = (1,) * (x.ndim - len(op.matrix.shape)) + op.matrix.shape
                shared = tuple(part if size == 1 else WHOLE for part, size in zip(selection, family, strict=True))
                own = tuple(WHOLE if size == 1 else part for part, size in zip(selection, family, strict=True))
                inner = aligned(op.x, shared)
                result = _replaced(x, ops.MatMul(op.matrix, inner), shapes.broadcast("@", op.matrix.shape, inner.shape))
                return _index(result, own)
            case ops.Mix():
                lead, rows = selection[: x.ndim - (op.a.ndim > 1)], selection[x.ndim - (op.a.ndim > 1) :]
                a = self._pushed(op.a, (*_aligned(lead, op.a.shape[:-2]), *rows, WHOLE))
                w = self._pushed(op.w, (*_aligned(lead, op.w.shape[:-1]), WHOLE))
                return self._mixed(x, a, w, shape)
            case ops.Dot():
                lead = selection[: x.ndim - bool(op.q.ndim) - bool(op.k.ndim)]
                tokens = list(selection[len(lead) :])
                q, k = (
                    self._pushed(v, (*_aligned(lead, v.shape[:-1]), tokens.pop(0)) if v.ndim else ())
                    for v in (op.q, op.k)
                )
                return _replaced(x, ops.Dot(q, k, op.scaling, op.dim), shape)
            case ops.Sum():
                kept = list(selection)
                inside = tuple(WHOLE if a in op.axes else kept.pop(0) for a in range(op.x.ndim))
                return _replaced(x, ops.Sum(self._pushed(op.x, inside), op.axes, op.normalised), shape)
            case ops.Stack():
                chosen = op.terms[selection[op.axis]]
                inside = tuple(part for a, part in enumerate(selection) if a != op.axis)
                return _replaced(x, ops.Stack(tuple(self._pushed(t, inside) for t in chosen), op.axis), shape)
            case ops.Transpose():
                inside = tuple(selection[op.axes.index(a)] for a in range(op.x.ndim))
                return _replaced(x, ops.Transpose(self._pushed(op.x, inside), op.axes), shape)
            case ops.Rotary():
                positions = op.positions[_aligned(selection, op.positions.shape)]
                return _replaced(x, ops.Rotary(aligned(op.w), positions, op.base), shape)
        return _index(self.rebuilt(x), selection)

    # --- a @ (M @ x) → M @ (a @ x) ----------------------------------------------------------------------------------

    def _mixed(self, value: Value, a: Value, w: Value, shape: Shape) -> Value:
        """a @ w for the Mix that made `value`, with rewritten operands."""
        original: Any = value.op
        if not self._can_swap(original.w) or not isinstance(w.op, ops.MatMul):
            same = a is original.a and w is original.w
            return value if same else _replaced(value, ops.Mix(a, w), shape)
        x = w.op.x
        mixed_shape = shapes.broadcast("a @ w", a.shape[:-2], x.shape[:-1]) + a.shape[-2:-1]
        if not x.ndim or shapes.broadcast("@", w.op.matrix.shape, mixed_shape) != shape:
            return _replaced(value, ops.Mix(a, w), shape)
        return _replaced(value, ops.MatMul(w.op.matrix, _replaced(x, ops.Mix(a, x), mixed_shape)), shape)

    def _can_swap(self, w: Value) -> bool:
        """Is w = M x with M the same along the axis that is summed over, and x Gaussian and read only here?"""
        if not isinstance(w.op, ops.MatMul) or self.uses[w] > 1 or w.op.matrix in self.reused:
            return False
        if w.op.matrix.shape[-1:] not in ((), (1,)) or self.uses[w.op.x] > 1:
            return False
        return all(isinstance(t.op, ops.MatMul) and t.op.matrix not in self.reused for t in terms(w.op.x))

    def _is_product(self, w: Value) -> bool:
        op = w.op
        return (
            isinstance(op, ops.Map)
            and op.phi is nonlinearities.multiply
            and self.uses[w] == 1
            and all(isinstance(v, Wide) for v in op.args)
        )


def _replaced(value: Value, op: ops.Op, shape: Shape) -> Value:
    return dataclasses.replace(value, op=op, shape=shape)


def _with_inputs(op: ops.Op, new: Callable[[Value], Value]) -> ops.Op:
    """The instruction with its inputs replaced."""

    def replaced(content: Any) -> Any:
        if isinstance(content, Value):
            return new(content)
        return tuple(map(replaced, content)) if isinstance(content, tuple) else content

    return dataclasses.replace(op, **{f.name: replaced(getattr(op, f.name)) for f in dataclasses.fields(op)})


def _index(x: Value, parts: tuple[Any, ...]) -> Value:
    """x[parts], or x itself where nothing is left out."""
    slices = [part for part in parts if isinstance(part, slice)]
    if len(slices) == len(parts) and all(map(_is_whole, slices, x.shape)):
        return x
    return _replaced(x, ops.Index(x, parts), shapes.indexed("index", x.shape, parts))


def _is_basic(index: tuple[Any, ...]) -> bool:
    return all(part is None or part is Ellipsis or isinstance(part, int | np.integer | slice) for part in index)


def _basic(index: tuple[Any, ...], shape: Shape) -> list[Any]:
    """The index with one part for each axis (integers ≥ 0, slices) and None for new axes."""
    if not any(part is Ellipsis for part in index):
        index = (*index, Ellipsis)
    parts = list(shapes.batch_index(index, len(shape)))
    axis = 0
    for i, part in enumerate(parts):
        if part is None:
            continue
        if not isinstance(part, slice):
            parts[i] = int(part) % int(shape[axis])
        axis += 1
    return parts


def _selected(size: Size, part: slice) -> Size:
    """How many entries a slice takes of an axis; an infinite one is only taken whole."""
    return size if _is_whole(part, size) else len(range(int(size))[part])


def _is_whole(part: slice, size: Size) -> bool:
    return part == WHOLE or (size != float("inf") and range(int(size))[part] == range(int(size)))


def _aligned(selection: Selection, shape: Shape) -> Selection:
    """The selection for an operand of `shape` that broadcasts to the selected shape: axes of size 1 stay whole."""
    own = selection[len(selection) - len(shape) :]
    return tuple(WHOLE if size == 1 else part for part, size in zip(own, shape, strict=True))
