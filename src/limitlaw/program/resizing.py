"""A program written again with other batch shapes: an axis of heads of another size."""

import dataclasses
from collections.abc import Callable
from typing import Any

from limitlaw.program.graph import ancestors
from limitlaw.program.ops import Matrix, Value
from limitlaw.program.shapes import Shape


def reshaped(outputs: tuple[Value, ...], shape: Callable[[Value | Matrix], Shape]) -> tuple[Value, ...]:
    """The same outputs, every value and matrix having the batch shape that `shape` gives it; matrices stay shared."""
    rebuilt: dict[Value, Value] = {}
    matrices: dict[Matrix, Matrix] = {}

    def replaced(content: Any) -> Any:
        if isinstance(content, Value):
            return rebuilt[content]
        if isinstance(content, Matrix) and shape(content) != content.shape:
            return matrices.setdefault(content, Matrix(content.std, shape(content), content.rows, content.cols))
        return tuple(map(replaced, content)) if isinstance(content, tuple) else content

    for v in ancestors(outputs):
        fields = {f.name: replaced(getattr(v.op, f.name)) for f in dataclasses.fields(v.op)}
        rebuilt[v] = dataclasses.replace(v, op=dataclasses.replace(v.op, **fields), shape=shape(v))
    return tuple(rebuilt[v] for v in outputs)
