"""The last step of a program: a nonlinearity, and the linear terms before it."""

import dataclasses
from collections.abc import Callable

from limitlaw.core.analysis import Analysis
from limitlaw.core.instructions import MatMul, Ones, Rename, Take
from limitlaw.core.kinds import Coordinatewise, Value
from limitlaw.core.program import Output, Program
from limitlaw.core.space import Dim
from limitlaw.phi import Nonlinearity


def last_step(output: Output) -> tuple[Nonlinearity | None, tuple[Output, ...]]:
    """The last nonlinearity and the distinct vectors it acts on; else None and the output."""
    behind: list[Value] = []  # the instructions that rearrange the result of the nonlinearity
    value = output.value
    while isinstance(value.instruction, Take | Rename):
        behind.append(value)
        value = value.instruction.x
    op = value.instruction
    if not isinstance(op, Coordinatewise) or not all(
        v.is_vector and set(v.axes) == set(value.axes) for v in op.args
    ):
        return None, (output,)
    parts = tuple(dict.fromkeys(op.args))
    arranged = tuple(Output(_arranged(part, behind), output.layout) for part in parts)
    if len(parts) == len(op.args):
        return op.phi, arranged
    places = [parts.index(v) for v in op.args]
    return dataclasses.replace(
        op.phi, function=lambda *u: op.phi(*(u[i] for i in places))
    ), arranged


def _arranged(part: Value, behind: list[Value]) -> Value:
    """An argument of the nonlinearity, taken and renamed as its result was."""
    for value in reversed(behind):
        op = dataclasses.replace(value.instruction, x=part)  # type: ignore[call-arg]
        part = dataclasses.replace(value, instruction=op, dim=part.dim)
    return part


def terms_of(value: Value) -> list[Value]:
    """The terms of a linear combination of vectors; **1** is one if the vector has a mean."""
    return Analysis(Program((value,))).terms(value)


def has_pole(y: Value, dimension: Callable[[Dim], int | float]) -> bool:
    """Is the density of y = W u infinite at 0, u being a single number, Gaussian given what comes
    before? Then y ~ N(0, u²) and E |u|^{−1} = ∞; with two numbers or heads it is finite.
    """
    terms = terms_of(y)
    if len(terms) != 1 or terms[0].axes or not isinstance(terms[0].instruction, MatMul):
        return False
    op = terms[0].instruction
    return dimension(op.family.cols) == 1 and all(
        isinstance(t.instruction, MatMul | Ones) for t in terms_of(op.x)
    )
