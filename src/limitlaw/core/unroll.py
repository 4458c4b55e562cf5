"""Loops written out: every turn a copy of the block,
with matrices and initial vectors of its own.
"""

import dataclasses
from collections.abc import Sequence

from limitlaw.core.instructions import Family, Initial, MatMul, Repeat, Value
from limitlaw.core.program import ancestors

Turns = dict[Value, list[Value]]


def unrolled(outputs: Sequence[Value], most: int | None = None) -> tuple[Value, ...]:
    """The same outputs without loops; with `most`, so many turns of each stand for more."""
    return _copied(outputs, {}, most, anew=False)


def every_turn(outputs: Sequence[Value]) -> tuple[Value, ...]:
    """The same outputs without loops; in place of one that is a loop all of its turns."""
    turns: Turns = {}
    written = _copied(outputs, {}, None, anew=False, turns=turns)
    pairs = zip(outputs, written, strict=True)
    return tuple(value for output, result in pairs for value in turns.get(output, [result]))


def _copied(
    outputs: Sequence[Value],
    known: dict[Value, Value],
    most: int | None,
    anew: bool,
    turns: Turns | None = None,
) -> tuple[Value, ...]:
    """Outputs on other values in place of those that are known;
    `anew` with other matrices and initial vectors.

    `turns` is filled with what each turn of a loop gives.
    """
    families: dict[Family, Family] = {}

    def renewed(item: object) -> object:
        if isinstance(item, Value):
            return known[item]
        if isinstance(item, Family) and anew:
            return families.setdefault(item, dataclasses.replace(item))
        return item

    for v in ancestors(outputs):
        op = v.instruction
        if v in known:
            continue
        if isinstance(op, Repeat):
            x = known[op.x]
            for _ in range(op.times if most is None else min(op.times, most)):
                (x,) = _copied((op.block.result,), {op.block.argument: x}, most, anew=True)
                if turns is not None:
                    turns.setdefault(v, []).append(x)
            known[v] = x
        elif all(known[u] is u for u in op.inputs) and not (
            anew and isinstance(op, Initial | MatMul)
        ):
            known[v] = v
        else:
            known[v] = dataclasses.replace(v, instruction=op.replaced(renewed))
    return tuple(known[v] for v in outputs)
