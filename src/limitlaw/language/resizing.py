"""A program written again: with an axis of heads of another size, or without derivatives."""

import dataclasses
from collections.abc import Callable
from typing import Any

from limitlaw.arguments import frozen, is_traced
from limitlaw.language.graph import ancestors
from limitlaw.language.ops import Matrix, Value
from limitlaw.language.shapes import Shape


def reshaped(outputs: tuple[Value, ...], shape: Callable[[Value | Matrix], Shape]) -> tuple[Value, ...]:
    """The same outputs, every value and matrix having the batch shape that `shape` gives it; matrices stay shared."""
    return _rewritten(outputs, shape, lambda number: number)


def without_derivatives(outputs: tuple[Value, ...]) -> tuple[Value, ...]:
    """The same outputs with numbers that have no derivative: no tracers are left, unless inside `jit` or `vmap`."""
    return _rewritten(outputs, lambda x: x.shape, lambda number: frozen(number) if is_traced(number) else number)


def _rewritten(
    outputs: tuple[Value, ...], shape: Callable[[Value | Matrix], Shape], number: Callable[[Any], Any]
) -> tuple[Value, ...]:
    """The program again, with other batch shapes and other numbers in its instructions and matrices."""
    rebuilt: dict[Value, Value] = {}
    matrices: dict[Matrix, Matrix] = {}

    def matrix(old: Matrix) -> Matrix:
        std = number(old.std)
        if std is old.std and shape(old) == old.shape:
            return old
        return matrices.setdefault(old, Matrix(std, shape(old), old.rows, old.cols))

    def replaced(content: Any) -> Any:
        if isinstance(content, Value):
            return rebuilt[content]
        if isinstance(content, Matrix):
            return matrix(content)
        return tuple(map(replaced, content)) if isinstance(content, tuple) else number(content)

    for v in ancestors(outputs):
        fields = {f.name: replaced(getattr(v.op, f.name)) for f in dataclasses.fields(v.op)}
        rebuilt[v] = dataclasses.replace(v, op=dataclasses.replace(v.op, **fields), shape=shape(v))
    return tuple(rebuilt[v] for v in outputs)
