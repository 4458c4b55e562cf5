"""Which values are part of an iteration of a loop that was written out."""

import weakref
from collections.abc import Iterable

from limitlaw.language import ops
from limitlaw.language.tree import Value, ancestors

# the outermost loop of each; referred to weakly, as what came out of a loop must not keep it
_LOOP_OF: weakref.WeakKeyDictionary[Value, weakref.ref[Value]] = weakref.WeakKeyDictionary()


def add_to_iteration(v: Value, loop: Value) -> None:
    """Write down that v is part of an iteration of a loop, which may itself be part of one."""
    _LOOP_OF[v] = _LOOP_OF.get(loop, weakref.ref(loop))


def reads_twice(values: Iterable[Value]) -> bool:
    """Do values of one program read a loop, and iterations of it that were written out?"""
    found = ancestors(values)
    loops = {v.op.scan for v in found if isinstance(v.op, ops.FromScan)}
    return any(v in _LOOP_OF and _LOOP_OF[v]() in loops for v in found)
