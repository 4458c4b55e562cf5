"""One rule for each instruction: arrays with all coordinates, in a last, hidden axis."""

import math
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, Int

from limitlaw.core import instructions as core
from limitlaw.core.kinds import Coordinatewise, Linear, Number, Value
from limitlaw.core.labelled import Labelled, elementwise, labelled, union
from limitlaw.core.program import Output, Program
from limitlaw.engines.dense.weights import DrawnWeights, Weights
from limitlaw.engines.engine import Draw, Rules


class DenseDraw(Draw):
    """One draw at width n = `width`: an array for each value,
    by these weights and initial vectors.

    `probes`: what is added to some values, for a loop after each of its turns;
    zeros, to differentiate in.
    """

    def __init__(
        self,
        numbers: Mapping[Number, Any],
        width: int,
        weights: Weights,
        probes: Mapping[Value, Float[Array, "..."]] | None = None,
    ):
        super().__init__(numbers)
        self.width, self.weights, self.probes = width, weights, probes or {}

    def evaluate(self, value: Value) -> None:
        """By its rule, and what is added to it."""
        super().evaluate(value)
        if value in self.probes and not isinstance(value.instruction, core.Repeat):
            self.results[value] = Labelled(
                self[value].with_axes(value.axes).array + self.probes[value], value.axes
            )

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
    """Σ_α q_α k_α over the hidden axis: entry by entry along common axes,
    for all pairs along others.
    """
    axes = union(q.axes, k.axes)
    if set(q.axes) == set(k.axes):
        return Labelled((q.laid(axes) * k.laid(axes)).sum(axis=-1), axes)
    letter = {axis: i for i, axis in enumerate(axes)}
    last = len(axes)
    left, right = ([*(letter[a] for a in x.axes), last] for x in (q, k))
    return Labelled(jnp.einsum(q.array, left, k.array, right, list(range(last))), axes)


def rotated(w: Labelled, positions: Labelled, base: float) -> Labelled:
    """Coordinates m and m + D/2 turned by the angle position·base^{-2m/D}, m < D/2."""
    D = w.array.shape[-1]
    angle = positions.mapped(lambda p: p[..., None] * base ** (-2 * jnp.arange(D // 2) / D))
    first, second = w.mapped(lambda x: x[..., : D // 2]), w.mapped(lambda x: x[..., D // 2 :])
    here = elementwise(lambda x, y, a: x * jnp.cos(a) - y * jnp.sin(a), first, second, angle)
    there = elementwise(lambda x, y, a: x * jnp.sin(a) + y * jnp.cos(a), first, second, angle)
    return Labelled(jnp.concatenate([here.array, there.array], axis=-1), here.axes)


def _apply(draw: DenseDraw, value: Value, op: core.Apply) -> Labelled:
    arrays = [draw[p].whole(layout) for p, layout in zip(op.args, op.layouts, strict=True)]
    return labelled(jnp.asarray(op.f(*arrays)), op.layout)


def _linear(draw: DenseDraw, value: Value, op: Linear) -> Labelled:
    return op.applied(draw.__getitem__, draw.results)


def _argument(draw: DenseDraw, value: Value, op: core.Argument) -> Labelled:
    raise ValueError("a block is followed by `repeat` only")


def _repeat(draw: DenseDraw, value: Value, op: core.Repeat) -> Labelled:
    """One compiled loop: the coordinates of x pass from turn to turn,
    the weights are those of the turn.
    """
    body, weights = Program((op.block.result,)), draw.weights
    if not isinstance(weights, DrawnWeights):
        raise TypeError(
            "a loop draws its weights in every turn: write its blocks out where weights are given"
        )

    def turn(
        x: Float[Array, "..."], at: tuple[Int[Array, ""], Any]
    ) -> tuple[Float[Array, "..."], None]:
        i, probe = at
        inside = DenseDraw(draw.numbers, draw.width, weights.of_turn(value, i))
        inside.results[op.block.argument] = Labelled(x, value.axes)
        inside.run(body)
        result = inside[op.block.result].with_axes(value.axes).array
        return result if probe is None else result + probe, None

    probes = draw.probes.get(value)
    # matrices are drawn again rather than kept for derivatives
    one = turn if probes is None else jax.checkpoint(turn)
    last, _ = lax.scan(one, draw[op.x].with_axes(value.axes).array, (jnp.arange(op.times), probes))
    return Labelled(last, value.axes)


RULES: Rules = {
    core.Initial: _initial,
    core.Data: _data,
    core.Ones: _ones,
    core.Constant: _constant,
    core.DimensionRatio: _dimension_ratio,
    core.MatMul: _matmul,
    Coordinatewise: _map,
    core.Dot: _dot,
    core.Apply: _apply,
    Linear: _linear,
    core.Argument: _argument,
    core.Repeat: _repeat,
}
DenseDraw.rules = RULES
