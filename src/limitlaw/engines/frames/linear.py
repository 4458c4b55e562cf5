"""Rules of linear instructions at finite width: what they do to coordinates, and to coefficients
on the roots of fresh vectors.
"""

from typing import TYPE_CHECKING

from limitlaw.core import instructions as core
from limitlaw.core.kinds import Linear, Value
from limitlaw.core.labelled import Labelled, contract, stack
from limitlaw.engines.frames.fresh import (
    Form,
    Fresh,
    added,
    equal_length,
    side_by_side,
    stacked,
    total,
)

if TYPE_CHECKING:
    from limitlaw.engines.frames.draw import FramesDraw


def linear_rule(draw: "FramesDraw", value: Value, op: Linear) -> Form | Labelled:
    """A linear instruction that has no rule of its own: what it does to coordinates, or to
    coefficients on the roots of all that it reads.
    """
    numbers = {u: draw[u] for u in value.inputs if not u.is_vector}
    if not value.is_vector:
        return op.applied(draw.__getitem__, numbers)
    waiting = [f for f in map(draw.only_fresh, value.vectors) if f is not None]
    if len(waiting) < len(value.vectors) or len(set(value.vectors)) < len(waiting):
        settled = equal_length([draw.settled(v) for v in value.vectors])
        x = dict(zip(value.vectors, settled, strict=True))
        return Form(op.applied(x.__getitem__, numbers), None)
    mixed = op.mixes(value.axes)
    own = frozenset(a for a in value.axes if a not in mixed and all(a in f.own for f in waiting))
    c = dict(zip(value.vectors, side_by_side(waiting, own), strict=True))
    return Form(None, Fresh(op.applied(c.__getitem__, numbers), value.axes, own))


def contract_rule(draw: "FramesDraw", value: Value, op: core.Contract) -> Form | Labelled:
    if not value.is_vector:
        return linear_rule(draw, value, op)
    a = None if op.a is None else draw[op.a]
    return draw[op.w].mapped(
        lambda w: contract(a, w, op.over, op.normalised),
        lambda f: f.contract(a, op.over, op.normalised, value.axes),
    )


def add_rule(draw: "FramesDraw", value: Value, op: core.Add) -> Form | Labelled:
    if not value.is_vector:
        return linear_rule(draw, value, op)
    forms = [draw[t] for t in op.terms]
    drawn = [f.drawn for f in forms if f.drawn is not None]
    fresh = [f.fresh for f in forms if f.fresh is not None]
    return Form(total(drawn) if drawn else None, added(fresh, value.axes) if fresh else None)


def take_rule(draw: "FramesDraw", value: Value, op: core.Take) -> Form | Labelled:
    if not value.is_vector:
        return linear_rule(draw, value, op)
    places = [p.array for p in op.places]
    return draw[op.x].mapped(
        lambda w: w.take(op.axes, places, op.new),
        lambda f: f.take(op.axes, places, op.new, value.axes),
    )


def rename_rule(draw: "FramesDraw", value: Value, op: core.Rename) -> Form | Labelled:
    if not value.is_vector:
        return linear_rule(draw, value, op)
    return draw[op.x].mapped(lambda w: w.rename(op.names), lambda f: f.rename(op.names))


def stack_rule(draw: "FramesDraw", value: Value, op: core.Stack) -> Form | Labelled:
    if not value.is_vector:
        return linear_rule(draw, value, op)
    waiting = [f for f in map(draw.only_fresh, op.terms) if f is not None]
    if len(waiting) == len(op.terms) and len(set(op.terms)) == len(op.terms):
        return Form(None, stacked(waiting, op.axis, value.axes))
    return Form(stack(equal_length([draw.settled(t) for t in op.terms]), op.axis), None)
