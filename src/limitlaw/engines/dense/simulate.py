"""`simulate`: draws of a program by its definition."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
from jaxtyping import Array, Float, Key

from limitlaw.arguments import as_key, positive_int
from limitlaw.core.analysis import Analysis
from limitlaw.core.labelled import finite_shape, sizes
from limitlaw.core.program import Output, Program, Written, without_numbers
from limitlaw.engines import bounds, engine
from limitlaw.engines.bounds import bounded
from limitlaw.engines.compiled import Compiled
from limitlaw.engines.dense.rules import DenseDraw
from limitlaw.engines.dense.weights import BLOCK, DrawnWeights, Weights, numbered, roots
from limitlaw.engines.effort import Pace
from limitlaw.engines.engine import PROGRAMS, slots
from limitlaw.engines.run import batched, drawn
from limitlaw.float64 import in_float64

MAX_BATCH = 2048  # draws compiled together; results do not depend on how many are asked for


@in_float64
@bounded("ask for fewer samples or a smaller width, or take finite, which draws no wide matrix")
def simulate(
    y: object,
    width: int,
    samples: int,
    key: object,
    coordinates: int | None = None,
    force: bool = False,
) -> Any:
    """Draw the network `samples` times at width n = `width`, every matrix as the definition says.

    Returns coordinate 0 of y in each draw, shape `(samples, *batch)`; with `coordinates=k` the
    first k, shape `(samples, *batch, k)`. Numbers (scores, weights, averages) come whole. `y` may
    be a tuple, list or dict of values of one program: the same draws serve them all. Draw i
    depends only on (key, i). A call that would take more memory than there is, or more than ten
    minutes, is refused without `force`.
    """
    width, samples = positive_int("width", width), positive_int("samples", samples)
    outputs, structure = engine.outputs(y)
    program = engine.program_of(outputs)
    engine.check_drawable("simulate", program, key)
    key = as_key(key)
    count = None if coordinates is None else positive_int("coordinates", coordinates)
    engine.check_width(program, width, count)
    numbers = sum(math.prod(_shape(output, count)) for output in outputs)
    bounds.check_memory(samples, numbers, "ask for fewer samples at a time")
    batch, draws = compiled(outputs, width, count)
    arguments = list(roots(program).values())
    results = drawn("simulate", draws, batch, arguments, Pace(samples, at_most=False), key)
    return jax.tree.unflatten(structure, results)


def _shape(output: Output, count: int | None) -> tuple[int, ...]:
    return (
        *finite_shape(output.layout),
        *((count,) if output.value.is_vector and count is not None else ()),
    )


def compiled(outputs: tuple[Output, ...], width: int, count: int | None) -> tuple[int, Compiled]:
    """The draws of a batch, and the compiled function of constants, a key and the first draw."""
    batch = batch_size(engine.program_of(outputs), width)
    name = ("dense", engine.structure(engine.program_of(outputs), outputs), width, count, batch)
    return batch, PROGRAMS.get(
        name, lambda: Compiled(batched(_draw(without_numbers(outputs), width, count), batch))
    )


def _draw(outputs: tuple[Output, ...], width: int, count: int | None) -> Callable[..., Any]:
    """A function of the program's constants and a key: what is observed in one draw."""
    program = engine.program_of(outputs)

    def draw(arguments: list[Any], key: Key[Array, ""]) -> list[Float[Array, "..."]]:
        given = slots(program, arguments)
        weights = DrawnWeights(key, width, numbered(program), Analysis(program).reused, given)
        run = DenseDraw(given, width, weights)
        run.run(program)
        return [_observed(output, run.at(output), count) for output in outputs]

    return draw


def _observed(
    output: Output, array: Float[Array, "..."], count: int | None
) -> Float[Array, "..."]:
    if not output.value.is_vector:
        return array
    return array[..., 0] if count is None else array[..., :count]


def batch_size(program: Program, width: int) -> int:
    """The draws of a batch: the numbers held stay near one block of matrix entries."""
    cost = 1
    for part in (program, *program.every_block):
        kept = Analysis(part).reused
        for value in part.values:
            cost += math.prod(sizes(value.axes)) * (
                1 if value.dim is None else value.dim.at(width)
            )
        for family in part.families:
            entries = math.prod(sizes(family.axes)) * family.rows.at(width) * family.cols.at(width)
            cost += entries if family in kept else min(entries, BLOCK)
    bounds.check_draw(
        width, cost, "ask for a smaller one, or take finite, which draws no wide matrix"
    )
    return max(1, min(MAX_BATCH, 2 * BLOCK // cost))


def evaluate(values: Sequence[Written], width: int, weights: Weights) -> list[Float[Array, "..."]]:
    """The values of a program at width n = `width` for these weights and initial vectors."""
    return evaluated(tuple(value.core for value in values), width, weights)


def evaluated(
    outputs: tuple[Output, ...], width: int, weights: Weights
) -> list[Float[Array, "..."]]:
    """The outputs of a core program at width n = `width` for these weights and initial vectors."""
    program = engine.program_of(outputs)
    draw = DenseDraw(slots(program, program.arrays), width, weights)
    draw.run(program)
    return [draw.at(output) for output in outputs]
