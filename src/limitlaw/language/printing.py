"""Programs as text, one instruction a line in the paper's notation, and as a Mermaid diagram."""

import html
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import Array

from limitlaw import notebook
from limitlaw.arguments import is_traced
from limitlaw.core.space import Dim
from limitlaw.language import ops
from limitlaw.language.matrices import Matrix
from limitlaw.language.ops import matrices_of
from limitlaw.language.tree import Op, Value, ancestors
from limitlaw.language.values import Wide

# How the paper calls the result of an instruction: h initial, g MatMul, x Nonlin, p dot product.
_LETTERS = {
    ops.Initial: "h",
    ops.Gain: "γ",
    ops.Data: "d",
    ops.MatMul: "g",
    ops.Map: "x",
    ops.Dot: "p",
    ops.Average: "m",
    ops.Apply: "a",
}
_LINEAR = "y"
# These get no line of their own: they are written out where they are used.
_WRITTEN_OUT = ops.Constant | ops.Ones | ops.DimensionRatio | ops.Scan
_DIGITS = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")


def text(*outputs: Value) -> str:
    """The program of `outputs` as text: matrices, then instructions with shapes and spaces."""
    rows, output = _rows(outputs)
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    lines = [
        "  ".join(cell.ljust(w) for cell, w in zip(row, [*widths, 0], strict=True)).rstrip()
        for row in rows
    ]
    return "\n".join([*lines, output])


def in_notebook(*outputs: Value) -> str:
    """The program of `outputs` as an HTML table, which scrolls if it is long."""
    rows, output = _rows(outputs)
    listed = notebook.table(("", "instruction", "formula", "shape", "space"), rows)
    return notebook.block(
        "", f'<div style="max-height:30em;overflow:auto">{listed}</div>', html.escape(output)
    )


def _rows(outputs: tuple[Value, ...]) -> tuple[list[tuple[str, ...]], str]:
    """A row (name, kind, formula, shape, space) for each matrix and step, and the output's."""
    names = Names(outputs)
    rows: list[tuple[str, ...]] = [
        (name, "Matrix", _matrix(m), _shape(m.shape), f"{m.rows} × {m.cols}")
        for m, name in names.matrices.items()
    ]
    for value in names.listed:
        kind, formula = instruction(value, names)
        rows.append((names[value], kind, formula, _shape(value.shape), _space(value)))
    return rows, f"output {', '.join(names[value] for value in outputs)}"


def mermaid(*outputs: Value) -> str:
    """The graph of the program in Mermaid's language, which Markdown viewers draw."""
    for value in outputs:
        if not isinstance(value, Value):
            raise TypeError(
                f"mermaid takes values of a program (Wide or Scalars), got {type(value).__name__}"
            )
    names = Names(outputs)
    lines = ["flowchart TD"]
    for value in names.listed:
        kind, formula = instruction(value, names)
        label = (
            f"{names[value]}: {kind}<br/>{formula}<br/>{_shape(value.shape)} {_space(value)}"
        ).replace('"', "'")
        left, right = ("[", "]") if isinstance(value, Wide) else ("([", "])")
        lines.append(f'    v{names.number[value]}{left}"{label}"{right}')
    for value in names.listed:
        read = value.op.loop.inputs if isinstance(value.op, ops.FromScan) else value.op.inputs
        for source in dict.fromkeys(read):
            if source in names.number:
                lines.append(f"    v{names.number[source]} --> v{names.number[value]}")
    return "\n".join(lines)


class Names:
    """Names for a program's values and matrices; constants are written out where used."""

    def __init__(self, outputs: tuple[Value, ...]):
        everything = ancestors(outputs)
        self.listed = [v for v in everything if v in outputs or not isinstance(v.op, _WRITTEN_OUT)]
        self.number = {value: i for i, value in enumerate(self.listed, start=1)}
        used = matrices_of(everything)
        self.matrices = {
            matrix: "W" + str(i).translate(_DIGITS) for i, matrix in enumerate(used, start=1)
        }

    def __getitem__(self, value: Value | Matrix) -> str:
        if isinstance(value, Matrix):
            return self.matrices[value]
        if value in self.number:
            letter = _LETTERS.get(type(value.op), _LINEAR)
            return letter + str(self.number[value]).translate(_DIGITS)
        return "𝟏" if isinstance(value.op, ops.Ones) else instruction(value, self)[1]


def instruction(value: Value, names: Names) -> tuple[str, str]:
    """The kind of the instruction that made `value`, and its formula."""
    if type(value.op) not in _FORMULAS:
        return type(value.op).__name__, value.op.formula(names.__getitem__)
    kind, formula = _FORMULAS[type(value.op)]
    return kind, formula(value.op, names)


def _arguments(values: tuple[Value, ...], names: Names) -> str:
    return ", ".join(names[value] for value in values)


def _matmul(op: ops.MatMul, names: Names) -> str:
    matrix = op.matrix
    if not op.transposed:
        return f"{names[matrix]} {names[op.x]}"
    scale = "" if matrix.rows == matrix.cols else _root(matrix.cols, matrix.rows) + " "
    return f"{scale}{names[matrix]}ᵀ {names[op.x]}"


def _root(over: Dim | None, under: Dim | None) -> str:
    return f"√({over or 1}/{under})" if under is not None else f"√({over})"


def _dot(op: ops.Dot, names: Names) -> str:
    power = "-1/2" if op.scaling == "sqrt" else "-1"
    return f"{_power(op.dim, power)} {names[op.q]}ᵀ {names[op.k]}"


def _power(dim: object, power: str) -> str:
    base = str(dim)
    return f"{base if base == 'n' or base.isdigit() else f'({base})'}^{{{power}}}"


def _sum(op: ops.Sum, names: Names) -> str:
    axes = ", ".join(map(str, op.axes))
    size = math.prod(op.x.shape[a] for a in op.axes)
    factor = f"{'∞' if size == math.inf else size}^{{-1/2}} " if op.normalised else ""
    return f"{factor}Σ {names[op.x]} over axis {axes}"


def _scan(op: ops.Scan, names: Names) -> str:
    first = len(op.starts)
    elements = op.arguments[first : first + len(op.sequences)]
    along = _several(tuple(zip(elements, op.sequences, strict=True)), names)
    block = f"{_tuple(op.arguments, names)} ↦ {_tuple(op.results, names)}"
    start = _tuple(op.starts, names) if op.starts else "nothing"
    constants = op.arguments[first + len(op.sequences) :]
    given = _several(tuple(zip(constants, op.constants, strict=True)), names)
    backward = ", backward" if op.reverse else ""
    same = "" if op.follows is None else f", in the iterations of {names[op.follows]}"
    return f"{block}, {op.times} times from {start}{along}{given}{backward}{same}"


def _tuple(values: tuple[Value, ...], names: Names) -> str:
    return names[values[0]] if len(values) == 1 else f"({_arguments(values, names)})"


def _several(pairs: tuple[tuple[Value, Value], ...], names: Names) -> str:
    """For each pair (argument, sequence or constant), text that says what the first stands for."""
    return "".join(f", {names[inside]} of {names[outside]}" for inside, outside in pairs)


def _from_scan(op: ops.FromScan, names: Names) -> str:
    if len(op.loop.results) == 1:
        return names[op.scan]
    of = names[op.loop.results[op.place]]
    return f"{'every' if op.stacked else 'last'} {of} of {names[op.scan]}"


_FORMULAS: dict[type[Op], tuple[str, Callable[[Any, Names], str]]] = {
    ops.Initial: ("initial", lambda op, names: f"N({_numbers(op.mean)}, {_covariance(op.cov)})"),
    ops.Data: ("data", lambda op, names: "given coordinates"),
    ops.Ones: ("constant", lambda op, names: "(1, …, 1)"),
    ops.Gain: ("gain", lambda op, names: "(1, …, 1)"),
    ops.Trained: ("trained", lambda op, names: f"{names[op.w]}, by {names[op.vector]}"),
    ops.Constant: ("constant", lambda op, names: _numbers(op.value)),
    ops.DimensionRatio: ("constant", lambda op, names: _root(op.over, op.under)),
    ops.MatMul: ("MatMul", _matmul),
    ops.Map: ("Nonlin", lambda op, names: f"{op.phi.name}({_arguments(op.args, names)})"),
    ops.Dot: ("dot product", _dot),
    ops.Average: ("average", lambda op, names: f"{_power(op.dim, '-1')} Σ_α {names[op.w]}"),
    ops.Apply: ("scalars", lambda op, names: f"{op.name}({_arguments(op.args, names)})"),
    ops.Rotated: (
        "rotary",
        lambda op, names: f"rotate {names[op.w]} by position, base {op.base:g}",
    ),
    ops.Rotate: (
        "rotary",
        lambda op, names: f"rotate {names[op.w]} by position, base {op.base:g}",
    ),
    ops.Mix: ("linear", lambda op, names: f"{names[op.a]} @ {names[op.w]}"),
    ops.Scale: ("linear", lambda op, names: f"{names[op.a]} * {names[op.w]}"),
    ops.Add: ("linear", lambda op, names: " + ".join(names[term] for term in op.terms)),
    ops.Sum: ("linear", _sum),
    ops.Stack: (
        "linear",
        lambda op, names: f"stack({_arguments(op.terms, names)}; axis {op.axis})",
    ),
    ops.Index: ("linear", lambda op, names: f"{names[op.x]}[{', '.join(map(_index, op.index))}]"),
    ops.Reshape: ("linear", lambda op, names: f"reshape({names[op.x]})"),
    ops.Argument: ("argument", lambda op, names: "of a block"),
    ops.Scan: ("scan", _scan),
    ops.FromScan: ("scan", _from_scan),
    ops.Unrolled: (
        "unrolled",
        lambda op, names: f"{names[op.turns[-1]]}, {len(op.turns)} blocks: {op.why}",
    ),
    ops.Transpose: (
        "linear",
        lambda op, names: f"transpose({names[op.x]}; {', '.join(map(str, op.axes))})",
    ),
}


def _matrix(matrix: Matrix) -> str:
    variance = f"{_numbers(matrix.std)}²/{matrix.cols}"
    return f"N(0, {variance})"


def _space(value: Value) -> str:
    return f"in R^{value.dim}" if isinstance(value, Wide) else "numbers"


def _shape(shape: tuple[int | float, ...]) -> str:
    sizes = ["∞" if size == math.inf else str(size) for size in shape]
    return f"({', '.join(sizes)}{',' if len(sizes) == 1 else ''})"


def _numbers(array: object) -> str:
    """A single number as it is, and of an array only its shape."""
    if is_traced(array):
        return "traced"
    array = np.asarray(array)
    if array.size == 1:
        return f"{array.item():g}"
    return f"array{_shape(array.shape)}"


def _covariance(cov: Array | np.ndarray) -> str:
    """A covariance, as "c I" where it is diagonal with equal entries."""
    if not is_traced(cov) and cov.ndim == 1 and len(cov) > 1 and (cov == cov[0]).all():
        return "I" if cov[0] == 1 else f"{cov[0]:g} I"
    return _numbers(cov)


def _index(part: object) -> str:
    if isinstance(part, slice):
        ends = ["" if end is None else str(end) for end in (part.start, part.stop)]
        return ":".join(ends if part.step is None else [*ends, str(part.step)])
    if part is Ellipsis:
        return "…"
    return f"array{_shape(part.shape)}" if isinstance(part, np.ndarray) else str(part)
