"""A rule for each instruction: arrays of values with all coordinates in a last, hidden axis."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from limitlaw.core import instructions as core
from limitlaw.core.analysis import Analysis
from limitlaw.core.kinds import Coordinatewise, Linear, Number, Value
from limitlaw.core.labelled import Labelled, elementwise, labelled, union
from limitlaw.core.program import Output, Program
from limitlaw.engines.dense.weights import DrawnWeights, Weights
from limitlaw.engines.engine import Draw, Rules

Remembered = tuple[tuple[Any, Any], ...]


class DenseDraw(Draw):
    """One draw at width n = `width`: an array for each value, by these weights and vectors."""

    def __init__(self, numbers: Mapping[Number, Any], width: int, weights: Weights):
        super().__init__(numbers)
        self.width, self.weights = width, weights
        self.facts = Analysis(Program(()))  # of the program that is run

    def run(self, program: Program) -> None:
        """Evaluate the values of a program, one after the other."""
        self.facts = Analysis(program)
        super().run(program)

    def remembered(self, values: Iterable[Value]) -> Remembered:
        """What is known of some values; of loops also what their iterations keep."""
        return tuple((self[v], self.kept.get(v)) for v in values)

    def restore(self, values: Iterable[Value], known: Remembered) -> None:
        """Know what was remembered of values."""
        for v, (result, kept) in zip(values, known, strict=True):
            self.results[v], self.kept[v] = result, kept

    def at(self, output: Output) -> Float[Array, "..."]:
        """The array of an output, laid out as the user wrote it."""
        return self[output.value].whole(output.layout)


def _initial(draw: DenseDraw, value: Value, op: core.Initial) -> Labelled:
    return labelled(draw.weights.initial(value), op.order, hidden=1)


def _data(draw: DenseDraw, value: Value, op: core.Data) -> Labelled:
    return labelled(draw.numbers[op.X], op.order, hidden=1)


def _ones(draw: DenseDraw, value: Value, op: core.Ones) -> Labelled:
    assert value.dim is not None
    return Labelled(jnp.ones(value.dim.at(draw.width)), ())


def _constant(draw: DenseDraw, value: Value, op: core.Constant) -> Labelled:
    return labelled(draw.numbers[op.value], op.order)


def _dimension_ratio(draw: DenseDraw, value: Value, op: core.DimensionRatio) -> Labelled:
    return Labelled(jnp.asarray(op.at(lambda dim: dim.at(draw.width))), ())


def _matmul(draw: DenseDraw, value: Value, op: core.MatMul) -> Labelled:
    """W x, the axes of the family last, where NumPy's broadcasting finds them."""
    x, W = draw[op.x], op.family
    others = tuple(axis for axis in x.axes if axis not in W.axes)
    product = draw.weights.multiply(W, x.laid((*others, *W.layout)), op.transposed)
    return labelled(product, (*others, *W.layout), hidden=1)


def _map(draw: DenseDraw, value: Value, op: Coordinatewise) -> Labelled:
    return elementwise(op.phi, *(draw[a] for a in op.args))


def _dot(draw: DenseDraw, value: Value, op: core.Dot) -> Labelled:
    if isinstance(op.k.instruction, core.Ones) and op.scaling == "linear":
        return draw[op.q].mapped(lambda w: w.mean(axis=-1))
    q, k = draw[op.q], draw[op.k]
    if op.base is not None:
        q, k = (
            rotated(x, labelled(draw.numbers[p], order), op.base)
            for x, p, order in zip((q, k), op.positions, op.orders, strict=True)
        )
    D = op.dim.at(draw.width)
    return inner(q, k).mapped(lambda p: p / (math.sqrt(D) if op.scaling == "sqrt" else D))


def inner(q: Labelled, k: Labelled) -> Labelled:
    """Σ_α q_α k_α over the hidden axis: by entry along common axes, by pairs along others."""
    axes = union(q.axes, k.axes)
    if set(q.axes) == set(k.axes):
        return Labelled((q.laid(axes) * k.laid(axes)).sum(axis=-1), axes)
    letter = {axis: i for i, axis in enumerate(axes)}
    last = len(axes)
    left, right = ([*(letter[a] for a in x.axes), last] for x in (q, k))
    return Labelled(jnp.einsum(q.array, left, k.array, right, list(range(last))), axes)


def rotated(w: Labelled, positions: Labelled, base: float) -> Labelled:
    """Coordinates m and m + D/2 rotated by the angle position·base^{-2m/D}, m < D/2."""
    D = w.array.shape[-1]
    angle = positions.mapped(lambda p: p[..., None] * base ** (-2 * jnp.arange(D // 2) / D))
    first, second = w.mapped(lambda x: x[..., : D // 2]), w.mapped(lambda x: x[..., D // 2 :])
    here = elementwise(lambda x, y, a: x * jnp.cos(a) - y * jnp.sin(a), first, second, angle)
    there = elementwise(lambda x, y, a: x * jnp.sin(a) + y * jnp.cos(a), first, second, angle)
    return Labelled(jnp.concatenate([here.array, there.array], axis=-1), here.axes)


def _rotate(draw: DenseDraw, value: Value, op: core.Rotate) -> Labelled:
    return rotated(draw[op.x], labelled(draw.numbers[op.positions], op.order), op.base)


def _apply(draw: DenseDraw, value: Value, op: core.Apply) -> Labelled:
    arrays = [draw[p].whole(layout) for p, layout in zip(op.args, op.layouts, strict=True)]
    return labelled(jnp.asarray(op.f(*arrays)), op.layout)


def _linear(draw: DenseDraw, value: Value, op: Linear) -> Labelled:
    return op.applied(draw.__getitem__, draw.results)


def _argument(draw: DenseDraw, value: Value, op: core.Argument) -> Labelled:
    raise ValueError("a block is followed by loops only")


def _scan(draw: DenseDraw, value: Value, op: core.Scan) -> list[Labelled]:
    """A loop as one compiled `lax.scan`: the coordinates of carries pass from iteration to
    iteration, and each iteration draws its weights. What loops need that follow it is kept.
    """
    weights, stage = draw.weights, draw.facts.stage(value)
    if not isinstance(weights, DrawnWeights):
        raise TypeError(
            "a loop draws its weights in every iteration: write its blocks out where weights are "
            "given"
        )
    facts = draw.facts.of_iteration(value)
    before = draw.facts.kept_before(value)
    constants = dict(zip(op.invariant, map(draw.__getitem__, op.constants), strict=True))
    # matrices that are met again are drawn whole where that happens
    again = facts.reused if op.follows is not None else Analysis.of_block(op.block).reused

    def step(carries: list[Any], at: Any) -> tuple[list[Any], Any]:
        t, elements, made = at
        own = weights.of_iteration(value, t, again)
        inside = DenseDraw(draw.numbers, draw.width, own)
        inside.facts = facts
        inside.restore(before, made)
        inside.results |= constants
        inside.results |= dict(zip(op.carried, _labelled(carries, op.carried), strict=True))
        inside.results |= dict(zip(op.elements, _labelled(elements, op.elements), strict=True))
        inside.evaluate_all(stage.values)
        outputs = _arrays(inside, op.outputs, op.outputs)
        kept = inside.remembered(stage.kept)
        return _arrays(inside, op.following, op.carried), (outputs, kept)

    along = [
        draw[u].with_axes((op.axis, *v.axes)).array
        for u, v in zip(op.sequences, op.elements, strict=True)
    ]
    first = op.first or value
    at = jnp.arange(op.times), along, draw.kept[first] if before else ()
    starts = _arrays(draw, op.starts, op.carried)
    last, (outputs, draw.kept[first]) = lax.scan(step, starts, at, reverse=op.reverse)
    stacked = [Labelled(x, (op.axis, *y.axes)) for x, y in zip(outputs, op.outputs, strict=True)]
    return _labelled(last, op.carried) + stacked


def _arrays(draw: DenseDraw, values: Sequence[Value], like: Sequence[Value]) -> list[Any]:
    """The arrays of values, each with the axes of its counterpart in `like`."""
    return [draw[u].with_axes(v.axes).array for u, v in zip(values, like, strict=True)]


def _labelled(arrays: Sequence[Any], like: Sequence[Value]) -> list[Labelled]:
    return [Labelled(x, v.axes) for x, v in zip(arrays, like, strict=True)]


def _from_scan(draw: DenseDraw, value: Value, op: core.FromScan) -> Labelled:
    return draw.results[op.scan][op.place]


DENSE_RULES: Rules = {
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
    Linear: _linear,
    core.Argument: _argument,
    core.Scan: _scan,
    core.FromScan: _from_scan,
}
DenseDraw.rules = DENSE_RULES
