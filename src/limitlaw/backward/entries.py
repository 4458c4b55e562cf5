"""Is entry i of a batch of numbers a function of entry i of everything that it reads?

Then one reverse pass, from the sum of all entries, gives the backward vectors of each.
"""

from collections.abc import Sequence

from limitlaw.core.instructions import FromScan, Rename, Scan, Stack, Take
from limitlaw.core.kinds import Value
from limitlaw.core.labelled import Axis
from limitlaw.core.program import ancestors

Names = dict[Value, Axis | None]


def entry_axis(f: Value, axis: Axis) -> Names | None:
    """What the axis of entries of f is called in every value that f reads, those in the blocks of
    loops included, None where a value is the same for all entries; None in place of all that if
    entries are mixed.
    """
    names: Names = {f: axis}
    if not _spread([f], names):
        return None
    known = {name for name in names.values() if name is not None}
    mixed = any(name is None and known & set(v.axes) for v, name in names.items())
    return None if mixed else names


def _spread(outputs: Sequence[Value], names: Names) -> bool:
    """Add the names of all that outputs read, which have theirs. Do entries stay apart?"""
    for v in reversed(ancestors(outputs)):
        op, name = v.instruction, names.setdefault(v, None)
        if isinstance(op, Scan):
            if not _spread_in_block(op, names):
                return False
        elif isinstance(op, FromScan):
            if name is op.loop.axis or names.setdefault(op.result, name) is not name:
                return False
        elif name is not None and v.inputs and not _stays_apart(v, name):
            return False
        else:
            called = None if name is None else _called(v, name)
            if not all(_agrees(u, called, names) for u in v.inputs):
                return False
    return True


def _spread_in_block(op: Scan, names: Names) -> bool:
    """What is read of a loop has names: so have the values of its block, and what it reads. Axes
    of arguments are called as those of what they stand for.
    """
    ends = {y: names[y] for y in op.block.results if y in names}
    while True:
        inside = dict(ends)
        if not _spread(op.block.results, inside):
            return False
        carries = zip(op.following, op.carried, strict=True)
        back = {y: inside[c] for y, c in carries if inside.get(c) is not None}
        if all(ends.get(y) is name for y, name in back.items()):
            break
        if any(y in ends and ends[y] is not name for y, name in back.items()):
            return False
        ends |= back
    names |= inside
    read = (*op.starts, *op.sequences, *op.constants)
    given = zip(read, op.block.arguments, strict=True)
    return all(_agrees(u, inside.get(argument), names) for u, argument in given)


def _agrees(u: Value, name: Axis | None, names: Names) -> bool:
    """Give a value a name, unless it has another one."""
    called = name if name in u.axes else None
    return names.setdefault(u, called) is called


def _stays_apart(v: Value, axis: Axis) -> bool:
    """Does entry i along an axis read nothing but entries i?"""
    op = v.instruction
    if axis in op.mixes(v.axes):
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
