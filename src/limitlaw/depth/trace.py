"""`trace`: statistics after every layer of a network, at infinite width or at width n."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from limitlaw.arguments import positive_int, relative_error, shown
from limitlaw.core.analysis import Analysis
from limitlaw.core.kinds import Instruction
from limitlaw.core.program import Output, Program
from limitlaw.core.unrolling import every_iteration
from limitlaw.depth.gradients import gradients as backward_half
from limitlaw.depth.layers import stages, tied_loop
from limitlaw.depth.statistics import STATISTICS, Column, Statistic
from limitlaw.depth.summaries import columns_of, deterministic
from limitlaw.depth.table import Trace
from limitlaw.engines import engine
from limitlaw.engines.asked import checked
from limitlaw.engines.bounds import bounded
from limitlaw.engines.effort import BUDGET, Drawn, Pace
from limitlaw.engines.frames.finite import drawn_statistic
from limitlaw.engines.limit.conditions import Limit
from limitlaw.engines.limit.facts import LimitFacts
from limitlaw.engines.limit.followed import Followed
from limitlaw.engines.turns import Turns
from limitlaw.float64 import in_float64
from limitlaw.functions import by_value
from limitlaw.language.values import Wide
from limitlaw.numerics.replicates import INDEPENDENT

TRACE_DRAWS = 4096  # most draws, where the user does not say
Asked = str | Statistic | Callable[..., Any]


@in_float64
@bounded("ask for fewer samples, blocks or tokens")
def trace(
    network: Wide | Sequence[Wide],
    statistics: Iterable[Asked] | Mapping[str, Callable[..., Any]] | Asked | None = None,
    width: int | None = None,
    samples: int | None = None,
    key: object = None,
    rtol: float | None = None,
    force: bool = False,
    gradients: bool = False,
) -> Trace:
    """Statistics after every block of a network, with standard errors and their spread over draws.

    `network`: vectors behind blocks that were written with `repeat`, as those of `nn.transformer`;
    or a sequence of vectors, one for each layer. Row 0 is the input of the first block.
    `statistics`: names from `depth.STATISTICS` (by default all of them), or functions f(kernel,
    scores) of your own, also as a dict {name: f}: `kernel` is n⁻¹⟨x_i, x_j⟩ over the tokens,
    `scores` what the softmax of the block reads (…, heads, s, t), −∞ where a mask hides (None in
    row 0 and without attention, a tuple where a block has several). `width=None` is the limit n →
    ∞.

    Without `samples` there are as many draws as a standard error of `rtol` (0.01) takes, of every
    statistic in every row, relative to its mean or its spread over draws, whichever is larger
    (kurtosis κ to 3 + κ, a divergence to 1); up to 4,096, and no more than take 20 seconds. Long
    sequences average by themselves, and take few. A call that would take more memory than there
    is, or more than ten minutes, is refused without `force`.

    `gradients=True` adds the statistics of `gradients`, of what comes back to the same layers from
    a random readout, with the same options. They are made by another program, from draws of their
    own: the two halves of a row are not of the same networks.
    """
    found = _forward(network, statistics, width, samples, key, rtol)
    if not gradients:
        return found
    return found.beside(backward_half(network, width, samples, key, rtol=rtol))


def _forward(
    network: Wide | Sequence[Wide],
    statistics: Any,
    width: int | None,
    samples: int | None,
    key: object,
    rtol: float | None,
) -> Trace:
    """Statistics of the kernel and the scores of each layer."""
    first, layers = stages(network)
    outputs = tuple(value.core for value in (first, *layers))
    chosen = _known(chosen_statistics(statistics), outputs, named=statistics is not None)
    dim = math.inf if width is None else layers[-1].dim.at(positive_int("width", width))
    labels = {s.name: s.label or s.name for s in chosen}
    pace = pace_of(samples, rtol, chosen, dim)
    functions = Turns(tuple(statistic.function for statistic in chosen))
    if width is not None:
        arrays = drawn_statistic(
            "trace", outputs, width, pace, 0 if key is None else key, functions
        )
        columns = columns_of(chosen, arrays, INDEPENDENT, dim)
        return Trace(columns, labels, width, len(arrays[0][0]), pace.effort)
    _, beyond = checked("trace", layers[-1])
    program = program_at_infinity(first, layers, functions, tied_loop(network))
    if program.traced:
        raise engine.untraceable("trace")
    found = program.replicated(pace, key)
    columns = columns_of(chosen, found.arrays, found.replicates, dim)
    if program.random:
        return Trace(columns, labels, None, len(found.arrays[0][0]), found.effort, beyond)
    inflated: dict[str, Column] = {}
    if found.kind == "quadrature":
        again = program.inflated().conditions(1, key)
        inflated = columns_of(chosen, again.arrays, INDEPENDENT, dim)
    columns = {name: deterministic(c, inflated.get(name)) for name, c in columns.items()}
    return Trace(columns, labels, None, 1, "nothing is random", beyond)


def pace_of(
    samples: int | None, rtol: float | None, chosen: Sequence[Statistic], dim: int | float
) -> Pace:
    """`samples` draws, or as many as a relative error of `rtol` takes."""
    goal = relative_error(samples, rtol, BUDGET.rtol)
    if samples is not None:
        return Pace(positive_int("samples", samples), at_most=False)

    def error(found: Drawn) -> float:
        columns = columns_of(chosen, *found, dim)
        return max(statistic.relative_error(columns[statistic.name]) for statistic in chosen)

    return Pace(TRACE_DRAWS, at_most=True, error=error, rtol=goal)


def program_at_infinity(
    first: Wide, layers: Sequence[Wide], functions: Turns, tied: Wide | None = None
) -> Limit:
    """The layers of a network as n → ∞, and what is read off them; `tied`: all layers as one loop.

    Loops are written out where they cannot be followed.
    """
    for outputs in ways_to_follow(first, layers, tied):
        if not Followed.of(outputs, functions).why_written_out:
            break
    return Limit(outputs, functions)


def ways_to_follow(
    first: Wide, layers: Sequence[Wide], tied: Wide | None
) -> Iterator[list[Output]]:
    """The same layers as outputs of different programs, the shortest one first."""
    if tied is not None:
        yield [first.core, tied.core]
    outputs = [value.core for value in (first, *layers)]
    yield outputs
    written_out = every_iteration([output.value for output in outputs])
    yield [Output(value, value.axes) for value in written_out]


def chosen_statistics(given: object) -> list[Statistic]:
    """The statistics that a user asks for, by names, functions or a dict."""
    if given is None:
        return list(STATISTICS.values())
    if isinstance(given, Mapping):
        return [_statistic(f, str(name)) for name, f in given.items()]
    several = given if isinstance(given, Iterable) and not isinstance(given, str) else [given]
    chosen = [_statistic(item) for item in several]
    names = [statistic.name for statistic in chosen]
    if not chosen or len(set(names)) < len(names):
        raise ValueError(f"statistics must be one or more with different names, got {names}")
    return chosen


def _known(chosen: list[Statistic], outputs: tuple[Output, ...], named: bool) -> list[Statistic]:
    """The statistics defined here; those `of_the_law` need coordinates N(0, K_ii) given K."""
    program = engine.program_of(outputs)
    gaussian = LimitFacts(Analysis(program)).gaussian
    if all(gaussian.get(output.value, False) for output in outputs) and _is_centred(program):
        return chosen
    unknown = [statistic.name for statistic in chosen if statistic.of_the_law]
    if unknown and named:
        raise ValueError(
            f"statistics: {' and '.join(unknown)} need layers whose coordinates are Gaussian "
            "given the kernel and centred, and in network a layer ends in a nonlinearity, or "
            "vectors have a mean; leave them out, or take limit(x[i]) of a layer"
        )
    return [statistic for statistic in chosen if not statistic.of_the_law]


def _is_centred(program: Program) -> bool:
    """Is no vector given a mean: by an initial one, or by a constant that is added?"""
    values = [v for part in (program, *program.every_block) for v in part.values]
    ops = [v.instruction for v in values]
    return not any((op.meets_one and not op.given) or _adds_a_constant(op) for op in ops)


def _adds_a_constant(op: Instruction) -> bool:
    """Does it add c·**1** with a constant c?

    LayerNorm adds a random multiple, which vanishes for centred vectors.
    """
    ones = any(v.instruction.meets_one and v.instruction.given for v in op.inputs)
    return op.linear and ones and all(v.is_vector or v.instruction.given for v in op.inputs)


def _statistic(item: object, name: str | None = None) -> Statistic:
    if isinstance(item, Statistic):
        return item
    if isinstance(item, str):
        if item not in STATISTICS:
            raise ValueError(
                f"statistics must be functions or among {', '.join(STATISTICS)}, got {item!r}"
            )
        return STATISTICS[item]
    if not callable(item):
        raise TypeError(
            f"statistics must be names or functions of (kernel, scores), got {shown(item)}"
        )
    return Statistic(name or str(getattr(item, "__name__", "statistic")), by_value(item))
