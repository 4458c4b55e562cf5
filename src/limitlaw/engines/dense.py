"""The dense engine: the definition of a program. Every matrix is drawn and every vector has all its coordinates."""

import functools
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key

from limitlaw.arguments import as_key, is_traced, positive_int, require_float64
from limitlaw.engines import common, linear
from limitlaw.engines.compiling import Compiled
from limitlaw.engines.weights import BLOCK, DrawnWeights, Weights
from limitlaw.language import ops
from limitlaw.language.graph import ancestors, matrices_of
from limitlaw.language.ops import Matrix, Value
from limitlaw.language.shapes import finite_shape
from limitlaw.language.values import Wide
from limitlaw.progress import watched

Outputs = Any  # a value of a program, or a tuple, list or dict of them
MAX_BATCH = 2048  # draws compiled together; results do not depend on how many are asked for


def simulate(y: Outputs, width: int, samples: int, key: Any, coordinates: int | None = None) -> Any:
    """Draw the network `samples` times at width n = `width`, every matrix as the definition says.

    Returns coordinate 0 of y in each draw, shape (samples, *batch); with `coordinates=k` the first k, shape
    (samples, *batch, k). Numbers (scores, weights, averages) come whole. `y` may be a tuple, list or dict of values of
    one program: the same draws serve them all. Draw i depends only on (key, i).
    """
    require_float64("simulate")
    width, samples = positive_int("width", width), positive_int("samples", samples)
    values, structure = common.outputs(y)
    common.check_drawable("simulate", values, key)
    key = as_key(key)
    count = None if coordinates is None else positive_int("coordinates", coordinates)
    common.check_width(values, width, count)
    shapes = [(*finite_shape(v.shape), *_trailing(v, count)) for v in values]
    common.check_memory(samples, sum(map(math.prod, shapes)), "ask for fewer samples at a time")
    batch, draws = _compiled(values, width, count)
    results = [np.empty((samples, *shape)) for shape in shapes]
    with watched("simulate") as watch:
        for start in range(0, samples, batch):
            stop = min(start + batch, samples)
            for result, drawn in zip(results, draws(key, start), strict=True):
                if is_traced(drawn):
                    raise common.untraceable("simulate")
                result[start:stop] = drawn[: stop - start]
            watch.reached(stop, samples)
    return jax.tree.unflatten(structure, [jnp.asarray(result) for result in results])


def _trailing(value: Value, count: int | None) -> tuple[int, ...]:
    return (count,) if isinstance(value, Wide) and count is not None else ()


@functools.lru_cache(maxsize=32)
def _compiled(values: tuple[Value, ...], width: int, count: int | None) -> tuple[int, Callable[..., Any]]:
    """The number of draws computed together, and the compiled function (key, first draw) → their outputs."""
    everything = ancestors(values)
    batch = _batch_size(everything, width)
    leaves: list[Value | Matrix] = [v for v in everything if isinstance(v.op, ops.Initial)]
    leaves += matrices_of(everything)  # only leaves, so that asking for an intermediate value changes no draw
    number = {leaf: i for i, leaf in enumerate(leaves)}

    def draw(key: Key[Array, ""]) -> list[Float[Array, "..."]]:
        arrays = evaluate(values, width, DrawnWeights(key, width, number, common.reused(everything)))
        return [_observed(value, array, count) for value, array in zip(values, arrays, strict=True)]

    def draws(key: Key[Array, ""], start: Int[Array, ""] | int) -> list[Float[Array, "..."]]:
        keys = jax.vmap(functools.partial(jax.random.fold_in, key))(start + jnp.arange(batch))
        return jax.vmap(draw)(keys)

    return batch, Compiled(draws)


def _observed(value: Value, array: Float[Array, "..."], count: int | None) -> Float[Array, "..."]:
    if not isinstance(value, Wide):
        return array
    return array[..., 0] if count is None else array[..., :count]


def _batch_size(everything: list[Value], width: int) -> int:
    """As many draws as keep the numbers held at a time near one block of matrix entries."""
    kept = common.reused(everything)
    cost = 1
    for value in everything:
        cost += math.prod(finite_shape(value.shape)) * (value.dim.at(width) if isinstance(value, Wide) else 1)
    for matrix in matrices_of(everything):
        entries = math.prod(finite_shape(matrix.shape)) * matrix.rows.at(width) * matrix.cols.at(width)
        cost += entries if matrix in kept else min(entries, BLOCK)
    common.check_draw(width, cost, "ask for a smaller one, or take finite, which draws no wide matrix")
    return max(1, min(MAX_BATCH, 2 * BLOCK // cost))


# --- One rule per instruction: arrays have the batch axes in front and the coordinate axis last ----------------------


class Run:
    """One draw in progress: the arrays of the values computed so far."""

    def __init__(self, width: int, weights: Weights):
        self.width, self.weights = width, weights
        self.arrays: dict[Value, Float[Array, ...]] = {}

    def __getitem__(self, value: Value) -> Float[Array, "..."]:
        return self.arrays[value]

    def coordinates(self, value: Value) -> Float[Array, "..."]:
        """The array of `value` with a coordinate axis, of size 1 for numbers."""
        return self[value] if isinstance(value, Wide) else self[value][..., None]


def evaluate(values: tuple[Value, ...], width: int, weights: Weights) -> list[Float[Array, "..."]]:
    """The values of a program at width n = `width` for these weights and initial vectors."""
    run = Run(width, weights)
    for value in ancestors(values):
        run.arrays[value] = RULES[type(value.op)](value, value.op, run)
    return [run[value] for value in values]


def _initial(value: Any, op: ops.Initial, run: Run) -> Float[Array, "..."]:
    return run.weights.initial(value)


def _data(value: Any, op: ops.Data, run: Run) -> Float[Array, "..."]:
    return jnp.asarray(op.X)


def _ones(value: Any, op: ops.Ones, run: Run) -> Float[Array, "..."]:
    return jnp.ones(value.dim.at(run.width))


def _constant(value: Any, op: ops.Constant, run: Run) -> Float[Array, "..."]:
    return jnp.asarray(op.value)


def _matmul(value: Any, op: ops.MatMul, run: Run) -> Float[Array, "..."]:
    return run.weights.multiply(op.matrix, run[op.x])


def _map(value: Any, op: ops.Map, run: Run) -> Float[Array, "..."]:
    return op.phi(*map(run.coordinates, op.args))


def _dot(value: Any, op: ops.Dot, run: Run) -> Float[Array, "..."]:
    q, k = (run[v] if v.ndim else run[v][None] for v in (op.q, op.k))
    D = op.dim.at(run.width)
    p = q @ jnp.swapaxes(k, -1, -2) / (math.sqrt(D) if op.scaling == "sqrt" else D)
    return p.reshape(value.shape)


def _average(value: Any, op: ops.Average, run: Run) -> Float[Array, "..."]:
    return run[op.w].mean(axis=-1)


def _apply(value: Any, op: ops.Apply, run: Run) -> Float[Array, "..."]:
    return op.f(*(run[p] for p in op.args))


def _rotary(value: Any, op: ops.Rotary, run: Run) -> Float[Array, "..."]:
    w = run[op.w]
    D = w.shape[-1]
    angle = jnp.asarray(op.positions)[..., None] * op.base ** (-2 * jnp.arange(D // 2) / D)
    cos, sin = jnp.cos(angle), jnp.sin(angle)
    first, second = w[..., : D // 2], w[..., D // 2 :]
    return jnp.concatenate([first * cos - second * sin, first * sin + second * cos], axis=-1)


def _mix(value: Any, op: ops.Mix, run: Run) -> Float[Array, "..."]:
    return linear.mix(op, run[op.a], run[op.w])


def _scale(value: Any, op: ops.Scale, run: Run) -> Float[Array, "..."]:
    return run.coordinates(op.a) * run[op.w]


def _add(value: Any, op: ops.Add, run: Run) -> Float[Array, "..."]:
    return functools.reduce(jnp.add, (run[term] for term in op.terms))


def _sum(value: Any, op: ops.Sum, run: Run) -> Float[Array, "..."]:
    return linear.total(op, run[op.x])


def _stack(value: Any, op: ops.Stack, run: Run) -> Float[Array, "..."]:
    return linear.stack(op, [run[term] for term in op.terms])


def _index(value: Any, op: ops.Index, run: Run) -> Float[Array, "..."]:
    return linear.index(op, run[op.x])


def _reshape(value: Any, op: ops.Reshape, run: Run) -> Float[Array, "..."]:
    return linear.reshape(op, value.shape, run[op.x])


def _transpose(value: Any, op: ops.Transpose, run: Run) -> Float[Array, "..."]:
    return linear.transpose(op, run[op.x])


RULES: dict[type[ops.Op], Callable[[Any, Any, Run], Float[Array, "..."]]] = {
    ops.Initial: _initial,
    ops.Data: _data,
    ops.Ones: _ones,
    ops.Constant: _constant,
    ops.MatMul: _matmul,
    ops.Map: _map,
    ops.Dot: _dot,
    ops.Average: _average,
    ops.Apply: _apply,
    ops.Rotary: _rotary,
    ops.Mix: _mix,
    ops.Scale: _scale,
    ops.Add: _add,
    ops.Sum: _sum,
    ops.Stack: _stack,
    ops.Index: _index,
    ops.Reshape: _reshape,
    ops.Transpose: _transpose,
}
