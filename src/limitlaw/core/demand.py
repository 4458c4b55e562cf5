"""Draw only what is asked for: rewrite a program so that it computes no more than its outputs
need.

Three rewrites, none of which knows about `attention()`:

- what is taken of an axis is taken at the leaves, through values that nothing else reads;
- Σ a (M x) becomes M (Σ a x) where x is Gaussian and read nowhere else;
- average(v·w) becomes an inner product, so that a norm does not need coordinates.
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from limitlaw import phi as nonlinearities
from limitlaw.core.analysis import Analysis
from limitlaw.core.instructions import (
    Apply,
    Constant,
    Contract,
    Data,
    Dot,
    MatMul,
    Places,
    Rename,
    Stack,
    Take,
)
from limitlaw.core.iterations import in_every_block
from limitlaw.core.kinds import Coordinatewise, Instruction, Number, Value
from limitlaw.core.labelled import Axes, Axis, Layout, union
from limitlaw.core.program import Program


class Chosen(NamedTuple):
    """Chosen places along an axis, and the axis they make; None for a single place."""

    places: np.ndarray
    new: Axis | None


Selection = Mapping[Axis, Chosen]


def demanded(outputs: Sequence[Value]) -> tuple[Value, ...]:
    """The same outputs, by a program that computes no more than they need."""

    def rewritten(outputs: Sequence[Value]) -> tuple[Value, ...]:
        done = _Rewriter(outputs).done
        return tuple(done[v] for v in outputs)

    return in_every_block(outputs, rewritten)


class _Mixing(NamedTuple):
    """Σ a (M x), rewritten as M (Σ a x): M x and its `rename` are not computed."""

    rename: Rename
    matmul: MatMul


class _Rewriter:
    """A backward pass finds what is read of each value, and a forward pass computes only that."""

    def __init__(self, outputs: Sequence[Value]):
        self.facts = Analysis(Program(tuple(outputs)))
        self.uses, self.reused = self.facts.uses, self.facts.reused
        self.wanted: dict[Value, Selection] = {}
        self.mixings: dict[Value, _Mixing] = {}
        self.absorbed: set[Value] = set()  # values that are made no more
        self.done: dict[Value, Value] = {}
        for value in reversed(self.facts.values):
            if value not in self.absorbed:
                self._ask(value)
        for value in self.facts.values:
            if value not in self.absorbed:
                self.done[value] = self._made(value)

    # --- back: what is wanted of a value ---------------------------------------------------------

    def _ask(self, value: Value) -> None:
        if isinstance(value.instruction, Contract):
            self._find_mixing(value, value.instruction)
        if isinstance(value.instruction, Dot) and value.is_average:
            self._find_product(value.instruction.inputs[0])
        for v, selection in self._requests(value):
            if self.uses[v] == 1 and selection:
                self.wanted[v] = selection

    def _requests(self, value: Value) -> list[tuple[Value, Selection]]:
        """Each value that is read and the part of it that is needed, in `_remade`'s order."""
        op, inside = value.instruction, self._inside(value)
        if isinstance(op, Take) and op.is_basic:
            return [(op.x, _after(_selection(op), self.wanted.get(value, {})))]
        if isinstance(op, Rename):
            return [(op.x, _before(op, op.x, inside))]
        if isinstance(op, Stack):
            rest = {axis: part for axis, part in inside.items() if axis is not op.axis}
            return [(term, _of(term, rest)) for term in _chosen(op, inside)]
        if value in self.mixings:
            assert isinstance(op, Contract)
            assert op.a is not None
            rename, matmul = self.mixings[value]
            x = matmul.x
            return [(op.a, _of(op.a, inside)), (x, _before(rename, x, inside))]
        return [(v, _of(v, inside)) for v in self._inputs(value)]

    def _inputs(self, value: Value) -> tuple[Value, ...]:
        """The values that an instruction reads; of an average of a product, the two factors."""
        op = value.instruction
        if isinstance(op, Dot) and op.q in self.absorbed:
            return op.q.inputs
        return op.inputs

    def _inside(self, value: Value) -> Selection:
        """The part of a value's selection that its instruction makes from parts of its inputs."""
        whole = value.instruction.whole(value.axes)
        return {
            axis: part for axis, part in self.wanted.get(value, {}).items() if axis not in whole
        }

    # --- forth: making it ------------------------------------------------------------------------

    def _made(self, value: Value) -> Value:
        """The selected part of a value; the same object where nothing changed."""
        inside, op = self._inside(value), value.instruction
        if isinstance(op, Constant | Data):
            return _cut(value, op, self.wanted.get(value, {}))
        read = [self._part(v, selection) for v, selection in self._requests(value)]
        if isinstance(op, Take) and op.is_basic:
            return read[0]
        outside = {
            axis: part for axis, part in self.wanted.get(value, {}).items() if axis not in inside
        }
        return _taken(self._remade(value, read, inside), outside)

    def _part(self, v: Value, selection: Selection) -> Value:
        """A selection of a value that is rewritten already."""
        if v in self.wanted or not selection:
            return self.done[v]
        if isinstance(v.instruction, Constant | Data):
            return _cut(v, v.instruction, selection)
        return _taken(self.done[v], selection)

    def _remade(self, value: Value, read: list[Value], inside: Selection) -> Value:
        """The instruction of a value, on parts of what it reads."""
        op = value.instruction
        axes = _left(value.axes, inside)
        if isinstance(op, Rename):
            return value if read[0] is op.x else _renamed(read[0], op)
        if isinstance(op, Stack):
            axis = inside[op.axis].new if op.axis in inside else op.axis
            if axis is None:  # one term is wanted
                return read[0]
            stacked = Stack(tuple(read), axis)
            return (
                value
                if read == list(op.terms)
                else dataclasses.replace(value, instruction=stacked, axes=axes)
            )
        if value in self.mixings:
            assert isinstance(op, Contract)
            return self._mixed_first(value, op, read)
        if isinstance(op, Dot) and op.q in self.absorbed:
            op = Dot(read[0], read[1], "linear", op.dim)
        else:
            op = _changed(op, dict(zip(op.inputs, read, strict=True)), inside)
        return (
            value
            if op is value.instruction
            else dataclasses.replace(value, instruction=op, axes=axes)
        )

    # --- Σ a (M x) → M (Σ a x) -------------------------------------------------------------------

    def _find_mixing(self, value: Value, op: Contract) -> None:
        """Note that Σ a (M x) may become M (Σ a x): only it reads M x, and M is constant in it."""
        product, rename, between = op.w, Rename(op.w, (), ()), [op.w]
        if isinstance(product.instruction, Rename) and self.uses[product] == 1:
            rename, product = product.instruction, product.instruction.x
            between.append(product)
        if (
            op.a is None
            or not op.over
            or not self._is_fresh_product(product)
            or self.uses[product] > 1
        ):
            return
        matmul = product.instruction
        assert isinstance(matmul, MatMul)
        x = matmul.x
        if set(matmul.family.axes) & {
            *rename.old,
            *rename.new,
            *op.over,
            *self.wanted.get(value, {}),
        }:
            return
        if self.uses[x] > 1 or not self._makes_fewer(value, op, rename.names_of(x.axes)):
            return
        if all(self._is_fresh_product(t) for t in self.facts.terms(x)):
            self.mixings[value] = _Mixing(rename, matmul)
            self.absorbed.update(between)

    def _makes_fewer(self, value: Value, op: Contract, axes: Axes) -> bool:
        """Does Σ a x, as far as it is needed, have fewer vectors than x? Else M x is better made
        first: its coefficients have no more columns.
        """
        assert op.a is not None
        wanted = self.wanted.get(value, {})
        new = [axis for axis in op.a.axes if axis not in (*axes, *op.over)]
        made = math.prod(wanted[a].places.size if a in wanted else a.size for a in new)
        return set(op.over) <= set(axes) and made < math.prod(axis.size for axis in op.over)

    def _mixed_first(self, value: Value, op: Contract, read: list[Value]) -> Value:
        rename, matmul = self.mixings[value]
        a, inner = read[0], _renamed(read[1], rename)
        left = tuple(axis for axis in union(inner.axes, a.axes) if axis not in op.over)
        mixed = Value(Contract(a, inner, op.over, op.normalised), left, inner.dim, value.source)
        axes = union(matmul.family.axes, left)
        product = dataclasses.replace(matmul, x=mixed)
        return dataclasses.replace(value, instruction=product, axes=axes)

    def _is_fresh_product(self, term: Value) -> bool:
        return isinstance(term.instruction, MatMul) and term.instruction.family not in self.reused

    def _find_product(self, w: Value) -> None:
        """Note that an average(v·w) of a product that nothing else reads is an inner product."""
        op = w.instruction
        is_product = isinstance(op, Coordinatewise) and op.phi is nonlinearities.multiply
        if is_product and self.uses[w] == 1 and all(v.is_vector for v in op.inputs):
            self.absorbed.add(w)


def _of(v: Value, selection: Selection) -> Selection:
    """The part of a selection that is on axes of v."""
    return {axis: part for axis, part in selection.items() if axis in v.axes}


def _after(first: Selection, then: Selection) -> Selection:
    """Two selections, one after the other, as one."""
    made = {part.new for part in first.values()}
    both = {axis: part for axis, part in then.items() if axis not in made}
    for axis, part in first.items():
        again = then.get(part.new) if part.new is not None else None
        both[axis] = (
            part if again is None else Chosen(np.asarray(part.places[again.places]), again.new)
        )
    return both


def _chosen(op: Stack, selection: Selection) -> list[Value]:
    """The terms of a stack that a selection leaves."""
    if op.axis not in selection:
        return list(op.terms)
    return [op.terms[i] for i in selection[op.axis].places.reshape(-1)]


def _selection(op: Take) -> Selection:
    return {op.axes[0]: Chosen(op.places[0].array, op.new[0] if op.new else None)}


def _left(axes: Axes, selection: Selection) -> Axes:
    """The axes that are left after a selection."""
    found = [selection[a].new if a in selection else a for a in axes]
    return tuple(a for a in found if a is not None)


def _taken(x: Value, selection: Selection) -> Value:
    """x at the selected places, by one `Take` for each axis."""
    for axis, (places, new) in selection.items():
        op = Take(x, (axis,), (Places.of(places),), () if new is None else (new,))
        x = Value(op, _left(x.axes, {axis: Chosen(places, new)}), x.dim, x.source)
    return x


def _cut(x: Value, op: Constant | Data, selection: Selection) -> Value:
    """The selected entries of constants."""
    if not selection:
        return x
    slot = op.value if isinstance(op, Constant) else op.X
    cut, order = _cut_numbers(slot, op.order, selection)
    return dataclasses.replace(x, instruction=type(op)(cut, order), axes=_left(x.axes, selection))


def _cut_numbers(slot: Number, order: Layout, selection: Selection) -> tuple[Number, Layout]:
    if not any(axis in selection for axis in order):
        return slot, order
    array = slot.array
    for i, axis in enumerate(order):
        if axis is not None and axis in selection:
            array = array[(slice(None),) * i + (selection[axis].places.reshape(-1),)]
    return Number(array), tuple(
        a if a is None or a not in selection else selection[a].new for a in order
    )


def _before(rename: Rename, x: Value, wanted: Selection) -> Selection:
    """The selection of x that amounts to `wanted`, a selection of x renamed."""
    if not wanted:
        return {}
    named = zip(x.axes, rename.names_of(x.axes), strict=True)
    return {axis: wanted[name] for axis, name in named if name in wanted}


def _renamed(x: Value, rename: Rename) -> Value:
    """x renamed, as far as it still has the axes."""
    pairs = [(o, n) for o, n in zip(rename.old, rename.new, strict=True) if o in x.axes]
    if not pairs:
        return x
    op = Rename(x, tuple(o for o, _ in pairs), tuple(n for _, n in pairs))
    return Value(op, op.names_of(x.axes), x.dim, x.source)


def _changed(op: Instruction, inputs: Mapping[Value, Value], selection: Selection) -> Instruction:
    """The instruction on other inputs, with layouts after a selection; itself if none changed."""
    if isinstance(op, Dot) and op.positions:
        cut = [
            _cut_numbers(slot, order, selection)
            for slot, order in zip(op.positions, op.orders, strict=True)
        ]
        positions, orders = tuple(slot for slot, _ in cut), tuple(order for _, order in cut)
        if positions != op.positions:
            op = dataclasses.replace(op, positions=positions, orders=orders)
    if all(inputs[v] is v for v in op.inputs):
        return op
    new: dict[object, object] = {v: inputs[v] for v in op.inputs}
    if isinstance(op, Apply):
        new |= {axis: part.new for axis, part in selection.items()}
    return op.replaced(new)
