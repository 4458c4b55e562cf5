"""One rule for each instruction: what it makes of drawn and of fresh vectors (theory
of frames).
"""

import math
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, Int

from limitlaw.core import instructions as core
from limitlaw.core.analysis import Analysis
from limitlaw.core.covariance import applied
from limitlaw.core.instructions import Value
from limitlaw.core.labelled import (
    Labelled,
    contract,
    elementwise,
    finite_shape,
    labelled,
    multiply,
    sizes,
    stack,
)
from limitlaw.engines.engine import Rules
from limitlaw.engines.frames.draw import Form, FramesDraw, equal_length, total
from limitlaw.engines.frames.fresh import Fresh, added, apply_roots, scaled, stacked
from limitlaw.engines.frames.ledger import Ledger
from limitlaw.engines.frames.spaces import (
    Frame,
    Space,
    bartlett_units,
    fresh_scores,
    inner,
    scores_with_drawn,
)
from limitlaw.numerics.factors import pivoted_factor
from limitlaw.numerics.quasi import Quasi

Vectors = Float[Array, "..."]  # a batch, its place in a frame or its coordinates last
Turn = int | Int[Array, ""]

# --- Leaves and MatMul ---------------------------------------------------------------------------


def _initial(draw: FramesDraw, value: Value, op: core.Initial) -> Form:
    fresh = _independent(draw, value, op)
    if op.centred:
        return Form(None, fresh)
    mean = draw.given(op.mean, op.order).mapped(lambda m: m[..., None])
    return Form(multiply(mean, Labelled(draw.space(value).ones(), ())), fresh)


def _independent(draw: FramesDraw, value: Value, op: core.Initial) -> Fresh:
    """Initial vectors on their roots; independent ones have their own."""
    cov = jnp.asarray(draw.numbers[op.cov], draw.dtype)
    shape = finite_shape(op.order)
    if op.diagonal:
        deviations = jnp.sqrt(cov).reshape(*shape, 1)
        return Fresh(labelled(deviations, op.order, hidden=1), value.axes, frozenset(value.axes))
    L = pivoted_factor(cov).reshape(*shape, len(cov))
    return Fresh(labelled(L, op.order, hidden=1), value.axes, frozenset())


def _data(draw: FramesDraw, value: Value, op: core.Data) -> Form:
    return Form(draw.given(op.X, op.order, hidden=1), None)


def _ones(draw: FramesDraw, value: Value, op: core.Ones) -> Form:
    return Form(Labelled(draw.space(value).ones(), ()), None)


def _constant(draw: FramesDraw, value: Value, op: core.Constant) -> Labelled:
    return draw.given(op.value, op.order)


def _matmul(draw: FramesDraw, value: Value, op: core.MatMul) -> Form:
    """W x given the x's: coordinates i.i.d. N(0, std² G)
    with G the Gram of the x's, for each matrix of the family.
    """
    if op.family in draw.facts.reused:
        return _again(draw, value, op)
    own = frozenset(op.family.axes)
    std = draw.given(op.family.std, op.family.layout)
    waiting = draw.only_fresh(op.x)
    D = draw.dimension(op.family.cols)
    if waiting is None:
        c = draw.units(op.x)
    elif isinstance(D.size, float):
        # ∞: roots are orthonormal, so that what they make keeps roots of its own
        own |= waiting.own
        c = waiting.c
    else:
        waiting = waiting.shared([axis for axis in waiting.axes if axis not in own]).compressed()
        T = bartlett_units(
            waiting.source(draw.key(value)), waiting.roots, D, waiting.own_sizes, draw.dtype
        )
        c = apply_roots(waiting.c, Labelled(T, waiting.own_axes))
    return Form(None, scaled(Fresh(c, value.axes, own).compressed(), std, value.axes))


def _again(draw: FramesDraw, value: Value, op: core.MatMul) -> Form:
    """W x for a matrix that met other vectors: regression on those, and a fresh residual."""
    ledger = draw.ledgers.get(op.family)
    if ledger is None:
        std = jnp.asarray(draw.numbers[op.family.std], draw.dtype)
        ledger = draw.ledgers[op.family] = Ledger(op.family, std)
    drawn, fresh = ledger.regressed(draw.units(op.x))
    if draw.facts.is_last_product(value):
        return Form(drawn, fresh)
    return Form(ledger.extended(draw.space(value), draw.key(value), drawn), None)


# --- Nonlin and dot products ---------------------------------------------------------------------


def _map(draw: FramesDraw, value: Value, op: core.Map) -> Form:
    return Form(
        elementwise(op.phi, *(draw.settled(v) if v.is_vector else draw[v] for v in op.args)), None
    )


def _dot(draw: FramesDraw, value: Value, op: core.Dot) -> Labelled:
    """√D ⟨q, k⟩/D under "sqrt"; scores of fresh vectors need no more of them than their components
    along the others.
    """
    D = draw.dimension(op.dim)
    q, k = (None if op.base is not None else draw.only_fresh(v) for v in (op.q, op.k))
    if q is not None and k is not None:
        p = fresh_scores(draw.key(value), q, k, D)
    elif k is not None:
        p = scores_with_drawn(draw.key(value), draw.units(op.q), k)
    elif q is not None:
        p = scores_with_drawn(draw.key(value), draw.units(op.k), q)
    else:
        p = inner(*_factors(draw, op)).mapped(lambda a: D.root * a)
    return p.mapped(lambda a: a / D.root) if op.scaling == "linear" else p


def _factors(draw: FramesDraw, op: core.Dot) -> list[Labelled]:
    """Both factors in units, turned by their positions."""
    units = [draw.units(v) for v in (op.q, op.k)]
    if op.base is None:
        return units
    given = zip(units, op.positions, op.orders, strict=True)
    return [rotated(x, draw.given(slot, order), op.base) for x, slot, order in given]


def rotated(w: Labelled, positions: Labelled, base: float) -> Labelled:
    """Coordinates m and m + D/2 turned by the angle position·base^{-2m/D}."""
    half = w.array.shape[-1] // 2
    angle = positions.mapped(lambda p: p[..., None] * base ** (-jnp.arange(half) / half))
    first, second = w.mapped(lambda x: x[..., :half]), w.mapped(lambda x: x[..., half:])
    here = elementwise(lambda x, y, a: x * jnp.cos(a) - y * jnp.sin(a), first, second, angle)
    there = elementwise(lambda x, y, a: x * jnp.sin(a) + y * jnp.cos(a), first, second, angle)
    return Labelled(jnp.concatenate([here.array, there.array], axis=-1), here.axes)


def _apply(draw: FramesDraw, value: Value, op: core.Apply) -> Labelled:
    arrays = [draw[p].whole(layout) for p, layout in zip(op.args, op.layouts, strict=True)]
    return labelled(jnp.asarray(op.f(*arrays)), op.layout)


# --- Linear operations ---------------------------------------------------------------------------


def _of_numbers(draw: FramesDraw, value: Value) -> Labelled:
    return applied(value, draw.__getitem__, {u: draw[u] for u in value.inputs})


def _contract(draw: FramesDraw, value: Value, op: core.Contract) -> Form | Labelled:
    if not value.is_vector:
        return _of_numbers(draw, value)
    a = None if op.a is None else draw[op.a]
    return draw[op.w].mapped(
        lambda w: contract(a, w, op.over, op.normalised),
        lambda f: f.contract(a, op.over, op.normalised, value.axes),
    )


def _add(draw: FramesDraw, value: Value, op: core.Add) -> Form | Labelled:
    if not value.is_vector:
        return _of_numbers(draw, value)
    forms = [draw[t] for t in op.terms]
    drawn = [f.drawn for f in forms if f.drawn is not None]
    fresh = [f.fresh for f in forms if f.fresh is not None]
    return Form(
        total(drawn, value.axes) if drawn else None, added(fresh, value.axes) if fresh else None
    )


def _take(draw: FramesDraw, value: Value, op: core.Take) -> Form | Labelled:
    if not value.is_vector:
        return _of_numbers(draw, value)
    places = [p.array for p in op.places]
    return draw[op.x].mapped(
        lambda w: w.take(op.axes, places, op.new),
        lambda f: f.take(op.axes, places, op.new, value.axes),
    )


def _rename(draw: FramesDraw, value: Value, op: core.Rename) -> Form | Labelled:
    if not value.is_vector:
        return _of_numbers(draw, value)
    names = dict(zip(op.old, op.new, strict=True))
    return draw[op.x].mapped(lambda w: w.rename(names), lambda f: f.rename(names))


def _stack(draw: FramesDraw, value: Value, op: core.Stack) -> Form | Labelled:
    if not value.is_vector:
        return _of_numbers(draw, value)
    waiting = [f for f in map(draw.only_fresh, op.terms) if f is not None]
    if len(waiting) == len(op.terms) and len(set(op.terms)) == len(op.terms):
        return Form(None, stacked(waiting, op.axis, value.axes))
    return Form(stack(equal_length([draw.settled(t) for t in op.terms]), op.axis), None)


# --- Loops ---------------------------------------------------------------------------------------


def _argument(draw: FramesDraw, value: Value, op: core.Argument) -> Form:
    raise ValueError("a block is followed by `repeat` only")


def _repeat(draw: FramesDraw, value: Value, op: core.Repeat) -> Form:
    """One compiled loop for all turns but the last, of which a fresh part may be left;
    for all, if each is read.

    What passes from turn to turn is x: its coordinates, or its place in a frame. The axes of the
    frame before the loop stay; of the rest only inner products matter, so that it may be turned to
    as many axes as there are vectors.
    """
    loop = _Loop(draw, value, op)
    x = draw.settled(op.x).with_axes(value.axes).array
    if draw.reader is not None:
        x, draw.turns[value] = loop.turns(loop.start(x), op.times)
        loop.close()
        return Form(Labelled(x, value.axes), None)
    if op.times > 1:
        x, _ = loop.turns(loop.start(x), op.times - 1)
        loop.close()
    return loop.within(x, op.times - 1, draw.space(value))[op.block.result]


class _Loop:
    """The turns of a loop, in the space of x."""

    def __init__(self, draw: FramesDraw, value: Value, op: core.Repeat):
        self.draw, self.value, self.op = draw, value, op
        self.facts = Analysis.of_block(op.block)
        self.count = math.prod(sizes(value.axes))
        self.space = draw.space(value)
        self.old = self.space.r if isinstance(self.space, Frame) else 0
        self.r = self.space.D.axes(self.old + self.count)

    def within(self, x: Vectors, i: Turn, space: Space) -> FramesDraw:
        """Turn i, from x on."""
        draw, argument = self.draw, self.op.block.argument
        key = draw.key(self.value)
        key = key if isinstance(key, Quasi) else jax.random.fold_in(key, i)
        inside = FramesDraw(self.facts, draw.numbers, draw.size, key, draw.observed, draw.dtype)
        inside.asked = draw.asked
        if argument in self.facts.components:
            inside.spaces[self.facts.components[argument]] = space
        inside.results[argument] = Form(Labelled(x, self.value.axes), None)
        inside.run(self.facts.program)
        return inside

    def start(self, x: Vectors) -> Vectors:
        """x in as many axes as it has in later turns."""
        return self._turned(x) if isinstance(self.space, Frame) else x

    def turns(self, x: Vectors, count: int) -> tuple[Vectors, Any]:
        """x after so many turns, and what is read off them.

        A `Quasi` hands out its numbers in order, so that its turns are written out.
        """
        if not isinstance(self.draw.source, Quasi):
            return lax.scan(self.turn, x, jnp.arange(count))
        read = []
        for i in range(count):
            x, at_turn = self.turn(x, i)
            read.append(at_turn)
        return x, jax.tree.map(lambda *parts: jnp.stack(parts), *read)

    def turn(self, x: Vectors, i: Turn) -> tuple[Vectors, Any]:
        """x after turn i, and what is read off it."""
        space = self.space.carried(self.r) if isinstance(self.space, Frame) else self.space
        inside = self.within(x, i, space)
        w = inside.settled(self.op.block.result).with_axes(self.value.axes).array
        read = self.draw.read(inside, self.op.block.result, self.facts.program)
        return self._turned(w) if isinstance(self.space, Frame) else w, read

    def close(self) -> None:
        """What came out of the loop is part of the frame."""
        if isinstance(self.space, Frame):
            self.space.r = self.r

    def _turned(self, w: Vectors) -> Vectors:
        assert isinstance(self.space, Frame)
        flat = self.space.turned(w.reshape(self.count, -1), self.old, self.r)
        return flat.reshape(*w.shape[:-1], self.r)


RULES: Rules = {
    core.Initial: _initial,
    core.Data: _data,
    core.Ones: _ones,
    core.Constant: _constant,
    core.MatMul: _matmul,
    core.Map: _map,
    core.Dot: _dot,
    core.Apply: _apply,
    core.Contract: _contract,
    core.Add: _add,
    core.Take: _take,
    core.Rename: _rename,
    core.Stack: _stack,
    core.Argument: _argument,
    core.Repeat: _repeat,
}
FramesDraw.rules = RULES
