"""The dense engine with drawn matrices W, plus σ/√cols w for given w, and initial vectors plus w:
what JAX differentiates.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

import limitlaw as ll
from limitlaw.core.analysis import Analysis
from limitlaw.core.instructions import Initial
from limitlaw.core.program import Program
from limitlaw.engines.dense.rules import DenseDraw
from limitlaw.engines.dense.weights import DrawnWeights, Weights, numbered
from limitlaw.engines.engine import slots


class Moved(Weights):
    """Drawn matrices W, plus σ/√cols w."""

    def __init__(self, drawn: DrawnWeights, w: dict[Any, Any], given: Any, width: int):
        self.drawn, self.w, self.given, self.width = drawn, w, given, width

    def multiply(self, family: Any, x: Any, transposed: bool = False) -> Any:
        rows, cols = family.rows.at(self.width), family.cols.at(self.width)
        std = jnp.asarray(self.given[family.std])[..., None, None]
        W = std * self.w[family] / cols**0.5
        W = W.mT * (cols / rows) ** 0.5 if transposed else W
        return self.drawn.multiply(family, x, transposed) + (W @ x[..., None])[..., 0]

    def initial(self, value: Any) -> Any:
        return self.drawn.initial(value) + self.w.get(value, 0.0)


def moved(
    values: Sequence[ll.Wide | ll.Scalars], width: int, vectors: bool = False
) -> tuple[dict[Any, Any], Callable[[list[Any]], list[Any]]]:
    """w = 0 for each family of a program, and each batch of initial `vectors`, and the values, all
    coordinates, as a function of these w.
    """
    outputs = [y.core for y in values]
    program = Program(tuple(y.value for y in outputs))
    given = slots(program, program.arrays)
    weights = DrawnWeights(
        jax.random.key(3), width, numbered(program), Analysis(program).reused, given
    )
    w = {
        W: jnp.zeros((*(a.size if a else 1 for a in W.layout), W.rows.at(width), W.cols.at(width)))
        for W in program.families
    } | {
        v: jnp.zeros_like(weights.initial(v))
        for v in program.values
        if vectors and isinstance(v.instruction, Initial)
    }

    def run(arrays: list[Any]) -> list[Any]:
        moved = Moved(weights, dict(zip(w, arrays, strict=True)), given, width)
        draw = DenseDraw(given, width, moved)
        draw.run(program)
        return [draw.at(y) for y in outputs]

    return w, run
