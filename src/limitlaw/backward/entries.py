"""Is entry i of a batch of numbers a function of entry i of everything that it reads?

Then one reverse pass, from the sum of all entries, gives the backward vectors of each.
"""

from limitlaw.core.instructions import Rename, Stack, Take
from limitlaw.core.kinds import Value
from limitlaw.core.labelled import Axis
from limitlaw.core.program import ancestors


def entry_axis(f: Value, axis: Axis) -> dict[Value, Axis | None] | None:
    """What the axis of entries of f is called in every value that f reads, None where a value is
    the same for all entries; None in place of all that if entries are mixed.
    """
    names: dict[Value, Axis | None] = {f: axis}
    for v in reversed(ancestors([f])):
        name = names[v]
        if name is not None and v.inputs and not _stays_apart(v, name):
            return None
        for u in v.inputs:
            called = None if name is None else _called(v, name)
            called = called if called in u.axes else None
            if names.setdefault(u, called) is not called:
                return None
    known = {name for name in names.values() if name is not None}
    mixed = any(name is None and known & set(v.axes) for v, name in names.items())
    return None if mixed else names


def _stays_apart(v: Value, axis: Axis) -> bool:
    """Does entry i along an axis read nothing but entries i?"""
    op = v.instruction
    if op.body is not None or axis in op.mixes(v.axes):
        return False
    if isinstance(op, Take):
        return axis not in op.new
    return not (isinstance(op, Stack) and axis is op.axis)


def _called(v: Value, axis: Axis) -> Axis:
    """What an axis of v is called in what it reads."""
    op = v.instruction
    if isinstance(op, Rename) and axis in op.new:
        return op.old[op.new.index(axis)]
    return axis
