"""A program evaluated with given weights: plain NumPy,
one rule for each instruction of the language.

Every value is an array with its batch axes and, for vectors,
a last axis of coordinates. Independent of the engines.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from limitlaw.language import ops
from limitlaw.language.ops import Matrix, Value, ancestors
from limitlaw.language.values import Wide

Arrays = dict[Value, np.ndarray]


class Evaluation:
    """The arrays of values at width n = `width`, for `weights` by matrix (*shape,
    rows, cols) and initial vector.
    """

    def __init__(self, weights: Mapping[Matrix | Value, np.ndarray], width: int):
        self.weights, self.width = weights, width
        self.arrays: Arrays = {}

    def of(self, values: Iterable[Value]) -> list[np.ndarray]:
        """The arrays of these values."""
        wanted = list(values)
        for value in ancestors(wanted):
            if value not in self.arrays:
                if type(value.op) not in RULES:
                    raise TypeError(
                        f"a program with {type(value.op).__name__} cannot be replayed: write its "
                        "blocks out"
                    )
                self.arrays[value] = np.asarray(RULES[type(value.op)](self, value, value.op))
        return [self.arrays[value] for value in wanted]

    def __getitem__(self, value: Value) -> np.ndarray:
        return self.arrays[value]

    def weight(self, leaf: Matrix | Value) -> np.ndarray:
        """The given numbers of a matrix or of initial vectors."""
        if leaf not in self.weights:
            raise KeyError(f"weights has no array for {leaf!r}")
        return self.weights[leaf]


def _vectors(value: Value) -> int:
    """1 for vectors, whose last axis is that of coordinates, 0 for numbers."""
    return int(isinstance(value, Wide))


def _initial(e: Evaluation, value: Value, op: ops.Initial) -> ArrayLike:
    return e.weight(value)


def _data(e: Evaluation, value: Value, op: ops.Data) -> ArrayLike:
    return op.X


def _ones(e: Evaluation, value: Wide, op: ops.Ones) -> ArrayLike:
    return np.ones(value.dim.at(e.width))


def _constant(e: Evaluation, value: Value, op: ops.Constant) -> ArrayLike:
    return op.value


def _matmul(e: Evaluation, value: Value, op: ops.MatMul) -> ArrayLike:
    if op.transposed:
        raise TypeError("a program of a PyTorch module has no transposed matrices")
    return np.einsum("...rc,...c->...r", e.weight(op.matrix), e[op.x])


def _map(e: Evaluation, value: Value, op: ops.Map) -> ArrayLike:
    return op.phi(*(jnp.asarray(e[a] if _vectors(a) else e[a][..., None]) for a in op.args))


def _dot(e: Evaluation, value: Value, op: ops.Dot) -> ArrayLike:
    D = e[op.q].shape[-1]
    q, k = e[op.q], e[op.k]
    letters = ("s" if op.q.ndim else "") + ("t" if op.k.ndim else "")
    left, right = ("...sa" if op.q.ndim else "a"), ("...ta" if op.k.ndim else "a")
    lead = "..." if op.q.ndim or op.k.ndim else ""
    return np.einsum(f"{left},{right}->{lead}{letters}", q, k) / (
        math.sqrt(D) if op.scaling == "sqrt" else D
    )


def _average(e: Evaluation, value: Value, op: ops.Average) -> ArrayLike:
    return e[op.w].mean(axis=-1)


def _apply(e: Evaluation, value: Value, op: ops.Apply) -> ArrayLike:
    return op.f(*(jnp.asarray(e[a]) for a in op.args))


def _rotary(e: Evaluation, value: Value, op: ops.Rotary) -> ArrayLike:
    """Coordinates m and m + D/2 as one complex number, times e^{iθ}."""
    w = e[op.w]
    half = w.shape[-1] // 2
    angle = np.asarray(op.positions)[..., None] * op.base ** (-np.arange(half) / half)
    turned = (w[..., :half] + 1j * w[..., half:]) * np.exp(1j * angle)
    return np.concatenate([turned.real, turned.imag], axis=-1)


def _mix(e: Evaluation, value: Value, op: ops.Mix) -> ArrayLike:
    if op.a.ndim == 1:
        return np.einsum("j,...ja->...a", e[op.a], e[op.w])
    return np.einsum("...ij,...ja->...ia", e[op.a], e[op.w])


def _scale(e: Evaluation, value: Value, op: ops.Scale) -> ArrayLike:
    return e[op.a][..., None] * e[op.w]


def _add(e: Evaluation, value: Value, op: ops.Add) -> ArrayLike:
    return sum(e[t] for t in op.terms)


def _sum(e: Evaluation, value: Value, op: ops.Sum) -> ArrayLike:
    size = math.prod(int(op.x.shape[a]) for a in op.axes)
    return e[op.x].sum(axis=op.axes) / (math.sqrt(size) if op.normalised else 1)


def _stack(e: Evaluation, value: Value, op: ops.Stack) -> ArrayLike:
    return np.stack([e[t] for t in op.terms], axis=op.axis)


def _index(e: Evaluation, value: Value, op: ops.Index) -> ArrayLike:
    index = op.index if any(part is Ellipsis for part in op.index) else (*op.index, Ellipsis)
    whole = (slice(None),) * _vectors(op.x)
    return e[op.x][(*index, *whole)]


def _reshape(e: Evaluation, value: Value, op: ops.Reshape) -> ArrayLike:
    tail = e[op.x].shape[-1:] if _vectors(op.x) else ()
    return e[op.x].reshape(*map(int, op.shape), *tail)


def _transpose(e: Evaluation, value: Value, op: ops.Transpose) -> ArrayLike:
    return e[op.x].transpose(*op.axes, *((len(op.axes),) if _vectors(op.x) else ()))


def _unrolled(e: Evaluation, value: Value, op: ops.Unrolled) -> ArrayLike:
    return e[op.x]


RULES: dict[type[ops.Op], Callable[[Evaluation, Any, Any], ArrayLike]] = {
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
    ops.Unrolled: _unrolled,
}
