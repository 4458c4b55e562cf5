"""Which matrices a value depends on, down to single members of a family and single batch entries.

A fused `Matrix(shape=(3, H, 1)) @ x` makes queries, keys and values from one object: what counts for the theory is
which *members* meet, so dependence is an array of booleans, (*batch, members).
"""

import functools
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxtyping import Bool

from limitlaw.language import ops
from limitlaw.language.graph import ancestors
from limitlaw.language.ops import MatMul, Matrix, Value
from limitlaw.language.shapes import Shape, batch_index
from limitlaw.language.values import Scalars, Wide

Members = Bool[np.ndarray, "... members"]
LINEAR = (ops.Mix, ops.Scale, ops.Add, ops.Sum, ops.Stack, ops.Index, ops.Reshape, ops.Transpose, ops.Rotary)


def terms(value: Value) -> list[Value]:
    """The vectors of which `value` is a linear combination: outputs of MatMul and Nonlin, and leaves."""
    found: dict[Value, None] = {}
    seen: set[Value] = set()
    stack = [value]
    while stack:
        v = stack.pop()
        if v in seen:
            continue
        seen.add(v)
        if isinstance(v.op, LINEAR):
            stack.extend(u for u in v.op.inputs if isinstance(u, Wide))
        else:
            found[v] = None
    return list(found)


def made_by(matrix: Matrix, shape: Shape) -> Members:
    """For each entry of `matrix @ x`, of batch shape `shape`, the member of the family that made it."""
    family = _sizes(matrix.shape)
    count = math.prod(family)
    return np.broadcast_to(np.eye(count, dtype=bool).reshape(*family, count), (*_sizes(shape), count))


def entries(vectors: Value) -> Members:
    """For each of a batch of initial vectors, itself."""
    count = math.prod(_sizes(vectors.shape))
    return np.eye(count, dtype=bool).reshape(*_sizes(vectors.shape), count)


def depends(value: Value, source: Matrix | Value, through_numbers: bool) -> Members:
    """The members of `source`, a family of matrices or initial vectors, that each entry of `value` depends on,
    counting scores and averages if so asked."""
    arrays: dict[Value, Members] = {}
    count = math.prod(_sizes(source.shape))
    for v in ancestors([value]):
        arrays[v] = _inherited(v, arrays, count, through_numbers)
        if v is source:
            arrays[v] = arrays[v] | entries(v)
        elif isinstance(v.op, MatMul) and v.op.matrix is source:
            arrays[v] = arrays[v] | made_by(v.op.matrix, v.shape)
    return arrays[value]


def spread(value: Value, leaves: Mapping[Value, Members]) -> Members:
    """Member arrays of some terms of `value`, carried to its entries by linear operations; others count nothing."""
    arrays: dict[Value, Members] = dict(leaves)
    count = next(iter(leaves.values())).shape[-1]
    for v in ancestors([value]):
        if v not in arrays:
            linear = isinstance(v.op, LINEAR)
            arrays[v] = _inherited(v, arrays, count, False) if linear else _none(v, count)
    return arrays[value]


def _sizes(shape: Shape) -> tuple[int, ...]:
    """Two heads stand for infinitely many."""
    return tuple(2 if size == math.inf else int(size) for size in shape)


def _none(value: Value, count: int) -> Members:
    return np.zeros((*_sizes(value.shape), count), dtype=bool)


def _inherited(value: Value, arrays: Mapping[Value, Members], count: int, through_numbers: bool) -> Members:
    """The members that each entry of `value` inherits from what it reads."""
    op: Any = value.op
    none = _none(value, count)
    if isinstance(value, Scalars) and not through_numbers:
        return none
    match op:
        case ops.Index():
            return arrays[op.x][batch_index(op.index, op.x.ndim)]
        case ops.Sum():
            return np.asarray(arrays[op.x].any(axis=op.axes))
        case ops.Stack():
            return np.stack([arrays[t] for t in op.terms], axis=op.axis)
        case ops.Reshape():
            return arrays[op.x].reshape(none.shape)
        case ops.Transpose():
            return arrays[op.x].transpose(*op.axes, op.x.ndim)
        case ops.Mix():
            return none | _mixed(op, arrays[op.a], arrays[op.w])
        case ops.Dot():
            q, k = (arrays[v] if v.ndim else arrays[v][None] for v in (op.q, op.k))
            return (q[..., :, None, :] | k[..., None, :, :]).reshape(none.shape)
        case ops.Apply(core=1):
            rows = functools.reduce(np.logical_or, (arrays[v] for v in op.args), none)
            return none | rows.any(axis=-2, keepdims=True)
        case ops.Apply(core=None):
            return none | functools.reduce(np.logical_or, (arrays[v].reshape(-1, count).any(axis=0) for v in op.args))
    return functools.reduce(np.logical_or, (arrays[v] for v in op.inputs), none)  # entry by entry, and leaves


def _mixed(op: ops.Mix, a: Members, w: Members) -> Members:
    """Entry i of a @ w depends on each w_j with a_ij ≠ 0, and on a_ij itself."""
    a = a if op.a.ndim > 1 else a[None]
    seen = np.ones(a.shape[:-1], dtype=bool)
    if isinstance(op.a.op, ops.Constant) and isinstance(op.a.op.value, np.ndarray):
        seen = np.broadcast_to(op.a.op.value != 0, seen.shape)
    mixed = (seen[..., None] & w[..., None, :, :]).any(axis=-2) | a.any(axis=-2)
    return mixed if op.a.ndim > 1 else mixed[..., 0, :]
