"""One draw of a program, without its matrices, and one rule for each instruction: what it makes of
the drawn and of the fresh part of vectors. Written for one draw, vmapped.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float

from limitlaw.core import instructions as core
from limitlaw.core.analysis import Analysis, Component
from limitlaw.core.kinds import Coordinatewise, Family, Linear, Number, Value
from limitlaw.core.labelled import (
    Labelled,
    Layout,
    elementwise,
    finite_shape,
    labelled,
    multiply,
    sizes,
)
from limitlaw.core.space import Dim
from limitlaw.engines.engine import Draw, Rules, softmax
from limitlaw.engines.frames import linear
from limitlaw.engines.frames.forgetting import Forgetting
from limitlaw.engines.frames.fresh import (
    Dimension,
    Form,
    Fresh,
    SizeOrTraced,
    apply_roots,
    bartlett_units,
    inner,
    scaled,
    total,
)
from limitlaw.engines.frames.fresh_scores import fresh_scores, scores_with_drawn
from limitlaw.engines.frames.joining import Join, Split, join_rule, split_rule
from limitlaw.engines.frames.ledger import Ledger
from limitlaw.engines.frames.loop import scanned
from limitlaw.engines.frames.spaces import Frame, Points, Space
from limitlaw.numerics.factors import gram, pivoted_factor
from limitlaw.numerics.random import Source, fold_in


class FramesDraw(Draw):
    """One draw in progress: a `Form` for vectors, labelled arrays for numbers.

    `size` gives D of a space: n, or a fixed d; ∞ where only the limit draws. `asked`: for spaces
    whose D is an argument of what is compiled, the number of axes that D must exceed.
    """

    def __init__(
        self,
        facts: Analysis,
        numbers: Mapping[Number, Any],
        size: Callable[[Dim], SizeOrTraced],
        key: Source,
        observed: int = 1,
    ):
        super().__init__(numbers)
        self.facts, self.size, self.observed = facts, size, observed
        self.source = key
        self.ledgers: dict[Family, Ledger] = {}
        self.spaces: dict[Component, Space] = {}
        self.asked: dict[Dim, int] = {}
        self.forgetting = Forgetting(self)

    def evaluate(self, value: Value) -> None:
        """Numbers, or vectors, by the rule of the instruction.
        Vectors that are read more than once are settled.
        """
        self.forgetting.before(value)
        super().evaluate(value)
        if value.is_vector and self.facts.uses[value] > 1:
            self.settled(value)

    def key(self, value: Value, purpose: int = 0) -> Source:
        """A key for each purpose of each value: fold_in(fold_in(key, its position), purpose)."""
        return fold_in(fold_in(self.source, self.facts.position[value]), purpose)

    def given(self, slot: Number, order: Layout, hidden: int = 0) -> Labelled:
        """The numbers in a slot."""
        return labelled(jnp.asarray(self.numbers[slot], float), order, hidden)

    def dimension(self, dim: Dim) -> Dimension:
        """D of a space."""

        def ask(axes: int) -> None:
            self.asked[dim] = max(axes, self.asked.get(dim, 0))

        return Dimension(self.size(dim), ask)

    def dimension_of(self, value: Value) -> Dimension:
        """D of the space of a vector."""
        assert value.dim is not None
        return self.dimension(value.dim)

    def ratio(self, value: Value, op: core.DimensionRatio) -> Any:
        """√ of the ratio of two dimensions; its limit where both are infinite."""
        both_wide = op.over is not None and op.over.wide and op.under is not None and op.under.wide
        size = (lambda dim: dim.factor) if both_wide else self.size
        return op.at(lambda dim: jnp.asarray(size(dim), float))

    def space(self, value: Value) -> Space:
        """The space of the component of a vector."""
        component = self.facts.components[value]
        if component not in self.spaces:
            D = self.dimension_of(value)
            observed = self.observed if component.observed else 0
            if component.points:
                self.spaces[component] = Points(D, observed)
            else:
                self.spaces[component] = Frame(D, component.has_one, observed)
        return self.spaces[component]

    def settled(self, value: Value) -> Labelled:
        """The vector with nothing fresh left: what was, is drawn now."""
        form = self[value]
        if form.fresh is not None:
            new = self.space(value).draw(self.key(value, 1), form.fresh)
            drawn = new if form.drawn is None else total([form.drawn, new])
            self.results[value] = form = Form(drawn, None)
        assert form.drawn is not None
        return form.drawn

    def units(self, value: Value) -> Labelled:
        """The settled vector in coordinates whose products are Gram entries."""
        return self.settled(value).mapped(self.space(value).units)

    def second_moment(self, value: Value) -> Float[Array, "m m"]:
        """D^{-1} ⟨v_i, v_j⟩ over the flattened entries."""
        return gram(self.units(value).whole(value.axes).reshape(math.prod(sizes(value.axes)), -1))

    def frames_of_block(self, facts: Analysis, key: Source) -> "FramesDraw":
        """A draw of the block of a loop, at a known width or of fixed dimension."""
        draw = FramesDraw(facts, self.numbers, self.size, key, self.observed)
        draw.asked = self.asked
        return draw

    def read_iteration(
        self, inside: "FramesDraw", scan: Value, layer: Sequence[Value] | None = None
    ) -> dict[int, Any]:
        """What is read off an iteration of a loop, made of `layer`, for each carry that is an
        output.
        """
        if self.reader is None:
            return {}
        body = scan.instruction.body
        assert body is not None
        results, layer = body.results, inside.facts.values if layer is None else layer
        return {
            op.place: self.reader(inside, results[op.place], layer)
            for op in map(_as_carry, self.facts.program.outputs)
            if op is not None and op.scan is scan
        }

    def keep_read(self, scan: Value, read: Mapping[int, Any]) -> None:
        """What was read off all iterations, by time."""
        for v in self.facts.program.outputs:
            op = _as_carry(v)
            if op is not None and op.scan is scan and op.place in read:
                self.turns[v] = read[op.place]

    def only_fresh(self, value: Value) -> Fresh | None:
        """The fresh part of a vector that has no other."""
        form = self[value]
        return form.fresh if form.drawn is None else None


def _as_carry(v: Value) -> core.FromScan | None:
    """The instruction of a carry of a loop."""
    op = v.instruction
    return op if isinstance(op, core.FromScan) and not op.stacked else None


# --- Leaves and MatMul ---------------------------------------------------------------------------


def _initial(draw: FramesDraw, value: Value, op: core.Initial) -> Form:
    fresh = _independent(draw, value, op)
    if op.centred:
        return Form(None, fresh)
    mean = draw.given(op.mean, op.order).mapped(lambda m: m[..., None])
    return Form(multiply(mean, Labelled(draw.space(value).ones(), ())), fresh)


def _independent(draw: FramesDraw, value: Value, op: core.Initial) -> Fresh:
    """Initial vectors on their roots; independent ones have their own."""
    cov = jnp.asarray(draw.numbers[op.cov], float)
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


def _dimension_ratio(draw: FramesDraw, value: Value, op: core.DimensionRatio) -> Labelled:
    return Labelled(jnp.asarray(draw.ratio(value, op), float), ())


def _matmul(draw: FramesDraw, value: Value, op: core.MatMul) -> Form:
    """W x given the x's: coordinates i.i.d. N(0, std² G)
    with G the Gram of the x's, for each matrix of the family.
    """
    if op.family in draw.facts.reused:
        return _again(draw, value, op)
    own = frozenset(op.family.axes)
    std = draw.given(op.family.std, op.family.layout)
    waiting = draw.only_fresh(op.x)
    D = draw.dimension_of(op.x)
    if waiting is None:
        c = draw.units(op.x)
    elif isinstance(D.size, float):
        # ∞: roots are orthonormal, so that what they make keeps roots of its own
        own |= waiting.own
        c = waiting.c
    else:
        waiting = waiting.shared([axis for axis in waiting.axes if axis not in own]).compressed()
        T = bartlett_units(waiting.source(draw.key(value)), waiting.roots, D, waiting.own_sizes)
        c = apply_roots(waiting.c, Labelled(T, waiting.own_axes))
    return Form(None, scaled(Fresh(c, value.axes, own).compressed(), std, value.axes))


def _again(draw: FramesDraw, value: Value, op: core.MatMul) -> Form:
    """W x, or Wᵀ x, for a matrix that met other vectors: regression on those, and a fresh
    residual.
    """
    ledger = draw.ledgers.get(op.family)
    if ledger is None:
        std = jnp.asarray(draw.numbers[op.family.std], float)
        ledger = draw.ledgers[op.family] = Ledger(op.family, std)
    left, into = op.transposed, draw.space(value)
    regressed, fresh = ledger.regressed(draw.units(op.x), left)
    if draw.facts.is_last_product(value) and (not left) not in ledger.met:
        return Form(regressed and regressed.mapped(into.from_units), fresh)
    D = draw.dimension_of(op.x)
    product = ledger.extended(D, into, left, draw.key(value), regressed)
    return Form(product.mapped(into.from_units), None)


# --- Nonlin and dot products ---------------------------------------------------------------------


def _map(draw: FramesDraw, value: Value, op: Coordinatewise) -> Form:
    return Form(
        elementwise(op.phi, *(draw.settled(v) if v.is_vector else draw[v] for v in op.args)), None
    )


def _dot(draw: FramesDraw, value: Value, op: core.Dot) -> Labelled:
    """√D ⟨q, k⟩/D under "sqrt"; scores of fresh vectors need no more of them than their components
    along the others.
    """
    D = draw.dimension_of(op.q)
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


def _rotate(draw: FramesDraw, value: Value, op: core.Rotate) -> Form:
    positions = draw.given(op.positions, op.order)
    return Form(rotated(draw.settled(op.x), positions, op.base), None)


def _apply(draw: FramesDraw, value: Value, op: core.Apply) -> Labelled:
    arrays = [draw[p].whole(layout) for p, layout in zip(op.args, op.layouts, strict=True)]
    result = softmax(*arrays) if op.structure == "softmax" else op.f(*arrays)
    return labelled(jnp.asarray(result), op.layout)


# --- Loops ---------------------------------------------------------------------------------------


def _argument(draw: FramesDraw, value: Value, op: core.Argument) -> Form:
    raise ValueError("a block is followed by loops only")


def _from_scan(draw: FramesDraw, value: Value, op: core.FromScan) -> Form | Labelled:
    return draw.results[op.scan][op.place]


FRAME_RULES: Rules = {
    core.Initial: _initial,
    core.Data: _data,
    core.Ones: _ones,
    core.Constant: _constant,
    core.DimensionRatio: _dimension_ratio,
    core.MatMul: _matmul,
    Coordinatewise: _map,
    core.Dot: _dot,
    core.Rotate: _rotate,
    core.Apply: _apply,
    core.Contract: linear.contract_rule,
    core.Add: linear.add_rule,
    core.Take: linear.take_rule,
    core.Rename: linear.rename_rule,
    core.Stack: linear.stack_rule,
    Linear: linear.linear_rule,
    core.Argument: _argument,
    core.Scan: scanned,
    core.FromScan: _from_scan,
    Join: join_rule,
    Split: split_rule,
}
FramesDraw.rules = FRAME_RULES
