"""Broadcasting in terms of axes: positions are aligned from the right, and entries meet along
axes.

The first operand that has an axis at a position names it, and that of the others is renamed. No
axis names two positions, so that w + wᵀ and x[:, None] + x[None, :] come out right.
"""

from collections.abc import Iterable

from limitlaw.core import instructions as core
from limitlaw.core import kinds
from limitlaw.core.labelled import Axes, Axis, Layout
from limitlaw.core.program import Output
from limitlaw.language.shapes import Shape
from limitlaw.language.tree import Value

Renaming = dict[Axis, Axis]


def lowered(value: Value) -> Output:
    """The core value, with the layout of its axes, of a value of the language."""
    return value.lowered


def new_axes(shape: Shape) -> Layout:
    """A layout with a new axis for each size other than 1."""
    return tuple(None if size == 1 else Axis(size) for size in shape)


def aligned(layout: Layout, shape: tuple[int, ...]) -> Layout:
    """The layout of an array of `shape` that broadcasts to `layout`."""
    tail = layout[len(layout) - len(shape) :]
    return tuple(None if size == 1 else axis for axis, size in zip(tail, shape, strict=True))


def names_between(layout: Layout, names: Layout) -> Renaming:
    """The renaming that takes the axes of one layout to those of another of the same shape."""
    return {a: b for a, b in zip(layout, names, strict=True) if a is not None and b is not None}


def met(*layouts: Layout, taken: Iterable[Axis] = ()) -> tuple[Layout, list[Renaming]]:
    """The common layout of operands that broadcast, and for each operand the renaming of its axes.

    Axes in `taken` are not used as names.
    """
    ndim = max(map(len, layouts))
    padded = [(*(None,) * (ndim - len(layout)), *layout) for layout in layouts]
    common: list[Axis | None] = [None] * ndim
    used = set(taken)
    for layout in padded:
        for i, axis in enumerate(layout):
            if axis is not None and common[i] is None:
                name = axis if axis not in used else Axis(axis.size)
                common[i] = name
                used.add(name)
    names = [
        {a: c for a, c in zip(layout, common, strict=True) if a is not None and c is not None}
        for layout in padded
    ]
    return tuple(common), names


def renamed(value: kinds.Value, names: Renaming) -> kinds.Value:
    """The value with its axes renamed; a constant is laid out anew, without an instruction."""
    changed = {a: b for a, b in names.items() if a is not b and a in value.axes}
    if not changed:
        return value
    axes = tuple(changed.get(a, a) for a in value.axes)
    given = value.instruction
    if isinstance(given, core.Constant):
        order = tuple(None if a is None else changed.get(a, a) for a in given.order)
        return kinds.Value(core.Constant(given.value, order), axes, None, value.source)
    instruction = core.Rename(value, tuple(changed), tuple(changed.values()))
    return kinds.Value(instruction, axes, value.dim, value.source)


def together(*operands: Output, taken: Iterable[Axis] = ()) -> tuple[Layout, list[kinds.Value]]:
    """The common layout of operands that broadcast, and their values with axes renamed to it."""
    layout, names = met(*(x.layout for x in operands), taken=taken)
    return layout, [renamed(x.value, n) for x, n in zip(operands, names, strict=True)]


def core_value(source: Value, instruction: kinds.Instruction, axes: Axes) -> kinds.Value:
    """The core value made by `instruction`, in the space of `source`, the language's value."""
    return kinds.Value(instruction, axes, getattr(source, "dim", None), source)
