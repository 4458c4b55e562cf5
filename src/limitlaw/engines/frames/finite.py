"""The finite-width engine: the exact law at width n, without drawing a wide matrix."""

import math
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jaxtyping import Array, Float, Key

from limitlaw.arguments import as_key, positive_int
from limitlaw.core.analysis import Analysis
from limitlaw.core.demand import demanded
from limitlaw.core.instructions import Rename
from limitlaw.core.labelled import finite_shape, sizes
from limitlaw.core.last_step import has_pole, last_step
from limitlaw.core.program import Output, Program, without_numbers
from limitlaw.core.space import Dim
from limitlaw.core.unrolling import unrolled
from limitlaw.engines import bounds, engine
from limitlaw.engines.bounds import bounded
from limitlaw.engines.compiled import Compiled
from limitlaw.engines.effort import BUDGET, Pace, default_draws
from limitlaw.engines.engine import PROGRAMS, slots
from limitlaw.engines.frames.draw import FramesDraw
from limitlaw.engines.frames.fresh import at_width
from limitlaw.engines.frames.joined import joined
from limitlaw.engines.frames.statistics import Conditions, Samples
from limitlaw.engines.law import Last, law_given
from limitlaw.engines.reading import Reading
from limitlaw.engines.run import batched, drawn
from limitlaw.float64 import in_float64
from limitlaw.laws import Empirical, Law
from limitlaw.numerics.pooled import Pooled, pooled
from limitlaw.numerics.random import Source, random_seed

ADVICE_AT_WIDTH = "ask for fewer samples or a smaller width, or for fewer tokens, as in y[0]"


@in_float64
@bounded(ADVICE_AT_WIDTH)
def finite(
    y: object,
    width: int,
    samples: int,
    key: object,
    coordinates: int | None = None,
    force: bool = False,
) -> Law:
    """The exact law of one coordinate of y at width n = `width`,
    as a Gaussian mixture over `samples` conditions.

    Given everything but the last matrix y is Gaussian: each draw gives a component, with a mean
    and a covariance, and nothing is smoothed. Where the last step is a nonlinearity, it is the
    pushforward of that. `coordinates=k` gives the joint law of k coordinates, event shape (*batch,
    k). One token, y[0], costs less than all. What takes more memory than there is, or more than
    ten minutes, is refused without `force`.
    """
    return law_at_width(y, width, positive_int("samples", samples), key, coordinates)


@in_float64
def law_at_width(
    y: object, width: int, samples: int | None, key: object, coordinates: int | None = None
) -> Law:
    """`finite`; without `samples` as many draws as memory and time allow."""
    outputs, _, k = _checked("finite", y, width, key, coordinates)
    if len(outputs) > 1:
        raise TypeError(
            "finite gives the law of one value: stack several, or take finite_samples for plain "
            "draws"
        )
    most = default_draws((k or 1) * engine.entries(outputs[0])) if samples is None else samples
    pace = Pace(positive_int("samples", most), at_most=samples is None)
    law = _law(outputs[0], width, pace, key, k)
    law.effort = pace.effort
    return law


def _law(output: Output, width: int, pace: Pace, key: object, k: int | None) -> Law:
    if not output.value.is_vector:
        return Empirical(_drawn_samples("finite", (output,), width, pace, key, k)[0])
    phi, parts = last_step(output)
    numbers = (k or 1) * sum(map(engine.entries, parts))
    bounds.check_memory(
        pace.samples, numbers * (numbers + 1), "ask for fewer samples, or entries, as in y[0]"
    )
    mean, covariance = _draws("finite", parts, width, pace, key, Conditions(k or 1))
    observed = () if k is None else (k,)
    law = law_given(
        Last(phi, len(parts), (*finite_shape(output.layout), *observed)),
        mean,
        covariance,
        seed=random_seed(as_key(key)),
    )
    (value,) = demanded((output.value,))
    narrow = phi is None and has_pole(value, lambda dim: dim.at(width))
    return law.with_pole() if narrow and not law.discrete else law


@in_float64
@bounded(ADVICE_AT_WIDTH)
def finite_samples(
    y: object,
    width: int,
    samples: int,
    key: object,
    coordinates: int | None = None,
    force: bool = False,
) -> Any:
    """Plain draws from the exact law at width n, in the form of `simulate`:
    shape (samples, *batch) or (…, k).

    `y` may be a tuple, list or dict of values of one program;
    the same draws serve them all. Numbers come whole. `force` is that of `finite`.
    """
    pace = Pace(positive_int("samples", samples), at_most=False)
    outputs, structure, k = _checked("finite_samples", y, width, key, coordinates)
    return jax.tree.unflatten(
        structure, _drawn_samples("finite_samples", outputs, width, pace, key, k)
    )


def _drawn_samples(
    name: str, outputs: tuple[Output, ...], width: int, pace: Pace, key: object, k: int | None
) -> list[Float[np.ndarray, "samples ..."]]:
    numbers = sum(engine.entries(o) * (k or 1 if o.value.is_vector else 1) for o in outputs)
    bounds.check_memory(pace.samples, numbers, "ask for fewer samples at a time")
    arrays = _draws(name, outputs, width, pace, key, Samples(k or 1))
    arrays = [
        a[..., 0] if o.value.is_vector and k is None else a
        for o, a in zip(outputs, arrays, strict=True)
    ]
    return arrays


def drawn_statistic(
    name: str,
    outputs: tuple[Output, ...],
    width: int,
    pace: Pace,
    key: object,
    reading: Reading,
) -> Any:
    """What a reading reads off draws at this width: arrays with the draws in front."""
    _check(name, outputs, width, key, None)
    return _draws(name, outputs, width, pace, key, reading)


def _checked(
    name: str, y: object, width: int, key: object, coordinates: int | None
) -> tuple[tuple[Output, ...], Any, int | None]:
    outputs, structure = engine.outputs(y)
    k = None if coordinates is None else positive_int("coordinates", coordinates)
    _check(name, outputs, width, key, k)
    return outputs, structure, k


def _check(name: str, outputs: tuple[Output, ...], width: int, key: object, k: int | None) -> None:
    program = engine.program_of(outputs)
    positive_int("width", width)
    engine.check_drawable(name, program, key)
    engine.check_width(program, width, k)


# --- draws ---------------------------------------------------------------------------------------


def _draws(
    name: str,
    outputs: tuple[Output, ...],
    width: int,
    pace: Pace,
    key: object,
    reading: Reading,
) -> Any:
    rewritten = demanded_outputs(outputs)
    batch, draws = compiled(rewritten, width, reading)
    arguments = engine.program_of(rewritten).arrays, float(width)
    return drawn(name, draws, batch, arguments, pace, as_key(key))


def demanded_outputs(outputs: tuple[Output, ...]) -> tuple[Output, ...]:
    """The same outputs, by a program that computes no more than they need, in which heads whose
    products are added up have one matrix; loops inside of loops with reverse loops are written
    out.
    """
    given = tuple(output.value for output in outputs)
    if Analysis(Program(given)).has_reverse_loops_and_others:
        given = unrolled(given)
    values = joined(demanded(given))
    return tuple(
        Output(value, output.layout) for value, output in zip(values, outputs, strict=True)
    )


def compiled(outputs: tuple[Output, ...], width: int, reading: Reading) -> tuple[int, Compiled]:
    """The number of draws computed together, and the compiled function of (slots,
    width), key and first draw.
    """
    program = engine.program_of(outputs)
    structure = engine.structure(program, outputs)
    batch = _batch_size(program, width)
    # one compiled function serves all widths from the least on; in it degrees of freedom are not
    # known, and χ variables not made at once
    least = math.inf
    if not reading.few:
        least = PROGRAMS.get(
            ("least width", structure, reading),
            lambda: least_width(without_numbers(outputs), reading),
        )
    fixed = None if width >= least else width

    def made() -> Compiled:
        plain = without_numbers(outputs)

        def draw(arguments: tuple[list[Any], Float[Array, ""]], key: Key[Array, ""]) -> Any:
            numbers, n = arguments
            width = n if fixed is None else fixed

            def of(source: Source) -> Any:
                return one_draw(plain, numbers, width, reading, source)

            return of(pooled(Pooled, key, of) if reading.few else key)

        return Compiled(batched(draw, batch), called_rarely=reading.few)

    return batch, PROGRAMS.get(("finite", structure, fixed, reading, batch), made)


def least_width(outputs: tuple[Output, ...], reading: Reading) -> int | float:
    """The width from which on n may be an argument of a compiled function:
    all axes of frames find room.

    ∞ where vectors have all their n coordinates.
    """
    program = engine.program_of(outputs)
    for part, _ in Analysis(program).parts():
        if any(component.points and component.dim.wide for component in part.components.values()):
            return math.inf
    found: dict[Dim, int] = {}

    def draw(numbers: list[Any], n: Float[Array, ""]) -> Any:
        run = followed(outputs, numbers, n, reading, jax.random.key(0))
        found.update(run.asked)
        return reading(run, outputs)

    jax.eval_shape(draw, program.arrays, 1.0)
    return max((math.floor(axes / dim.factor) + 1 for dim, axes in found.items()), default=1)


def one_draw(
    outputs: tuple[Output, ...],
    arguments: list[Any],
    width: int | Float[Array, ""],
    reading: Reading,
    key: Source,
) -> Any:
    """What `reading` reads off one draw."""
    return reading(followed(outputs, arguments, width, reading, key), outputs)


def followed(
    outputs: tuple[Output, ...],
    arguments: list[Any],
    width: int | Float[Array, ""],
    reading: Reading,
    key: Source,
) -> FramesDraw:
    """One draw of the program of the outputs."""
    program = engine.program_of(outputs)
    given = slots(program, arguments)
    draw = FramesDraw(
        Analysis(program), given, lambda dim: at_width(dim, width), key, reading.coordinates
    )
    draw.reader = reading.of_iteration if reading.iterations else None
    draw.run(program)
    return draw


def _batch_size(program: Program, width: int) -> int:
    """As many draws as keep the numbers held at a time near the budget."""
    cost = coordinates_held(program, lambda dim: dim.at(width))
    bounds.check_draw(
        width, cost, "ask for a smaller one; this program needs every coordinate of its vectors"
    )
    return engine.draws_together(cost, BUDGET.coordinates_elsewhere)


def coordinates_held(program: Program, coordinates: Callable[[Dim], int]) -> int:
    """The numbers that a draw holds, where vectors that need them have so many coordinates; frames
    count as a few numbers a vector.
    """
    cost = 16
    for part, times in Analysis(program).parts():
        components = part.components
        for value in part.values:
            if not isinstance(value.instruction, Rename):
                points = value.dim is not None and components[value].points
                each = coordinates(value.dim) if points and value.dim else 8
                cost += math.prod(sizes(value.axes)) * each * times
    return cost
