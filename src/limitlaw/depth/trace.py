"""`trace`: statistics after every layer of a network, at infinite width or at width n."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from limitlaw.arguments import positive_int, require_float64, shown
from limitlaw.core import instructions as core
from limitlaw.core.analysis import Analysis
from limitlaw.core.program import Output, Program, every_turn
from limitlaw.depth.statistics import STATISTICS, Statistic
from limitlaw.depth.table import Trace
from limitlaw.engines import engine
from limitlaw.engines.effort import Pace
from limitlaw.engines.frames.finite import drawn_statistic
from limitlaw.engines.infinite_width import checked
from limitlaw.engines.limit.conditions import Limit
from limitlaw.engines.limit.facts import LimitFacts
from limitlaw.engines.turns import Turns
from limitlaw.language import ops
from limitlaw.language.ops import Value, ancestors
from limitlaw.language.values import Wide, wide
from limitlaw.progress import watching

SAMPLES = 4096  # at most, where the user does not say
Asked = str | Statistic | Callable[..., Any]


@watching
def trace(
    network: Wide | Sequence[Wide],
    statistics: Iterable[Asked] | Mapping[str, Callable[..., Any]] | Asked | None = None,
    width: int | None = None,
    samples: int | None = None,
    key: object = None,
) -> Trace:
    """Statistics after every block of a network, with standard errors and their spread over draws.

    `network`: vectors behind blocks that were written with `repeat`, as those of `nn.transformer`;
    or a sequence of vectors, one for each layer. Row 0 is what the first block is given.
    `statistics`: names from `depth.STATISTICS` (all of them without), or functions
    f(kernel, scores) of your own, also as a dict {name: f}: `kernel` is n⁻¹⟨x_i, x_j⟩ over the
    tokens, `scores` what the softmax of the block reads (…, heads, s, t), −∞ where a mask hides
    (None in row 0 and without attention, a tuple where a block has several). `width=None` is the
    limit n → ∞.

    Without `samples` there are up to 4,096 draws: as many as take 20 seconds.
    """
    require_float64("trace")
    first, layers = stages(network)
    outputs = tuple(value.core for value in (first, *layers))
    chosen = _known(chosen_statistics(statistics), outputs, named=statistics is not None)
    if samples is not None:
        positive_int("samples", samples)
    functions = Turns(tuple(statistic.read for statistic in chosen))
    if width is None:
        arrays, effort, beyond = _at_infinity(first, layers, functions, samples, key)
        dim = math.inf
    else:
        pace = Pace(samples or SAMPLES, at_most=samples is None)
        arrays = drawn_statistic(
            "trace", outputs, width, pace, 0 if key is None else key, functions
        )
        beyond = ()
        effort, dim = pace.effort, layers[-1].dim.at(width)
    draws = [
        np.concatenate([np.asarray(part[i]) for part in arrays], axis=1)
        for i in range(len(chosen))
    ]
    columns = {s.name: s.summary(read, dim) for s, read in zip(chosen, draws, strict=True)}
    return Trace(
        columns, {s.name: s.label or s.name for s in chosen}, width, len(draws[0]), effort, beyond
    )


def _at_infinity(
    first: Wide, layers: Sequence[Wide], functions: Turns, samples: int | None, key: object
) -> tuple[Any, str, tuple[str, ...]]:
    _, beyond = checked("trace", layers[-1])
    program = program_at_infinity(first, layers, functions)
    if program.traced:
        raise engine.untraceable("trace")
    found = program.conditions(samples or SAMPLES, key, at_most=samples is None)
    if program.random:
        return found.arrays, found.effort, beyond
    twice = jax.tree.map(lambda a: np.repeat(a[:1], 2, axis=0), found.arrays)
    return twice, "nothing is random", beyond


def program_at_infinity(first: Wide, layers: Sequence[Wide], functions: Turns) -> Limit:
    """The layers of a network as n → ∞, and what is read off them;
    written out where a loop cannot be followed.
    """
    outputs = [value.core for value in (first, *layers)]
    program = Limit(outputs, functions)
    if not program.plan.unrolls:
        return program
    turns = every_turn([output.value for output in outputs])
    return Limit([Output(value, value.axes) for value in turns], functions)


def chosen_statistics(given: object) -> list[Statistic]:
    """What was asked for, as statistics."""
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
    """Those that are known of these layers: the law of a coordinate is where it is N(0, K_ii)
    given the kernel.
    """
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
    means = any(
        isinstance(v.instruction, core.Initial) and not v.instruction.centred for v in values
    )
    return not means and not any(_adds_a_constant(v.instruction) for v in values)


def _adds_a_constant(op: core.Instruction) -> bool:
    """c·**1** with a given c; LayerNorm has a random one, which vanishes for centred vectors."""
    if isinstance(op, core.Add):
        return any(isinstance(t.instruction, core.Ones) for t in op.terms)
    weighs = (
        isinstance(op, core.Contract)
        and op.a is not None
        and isinstance(op.a.instruction, core.Constant)
    )
    return weighs and isinstance(op.w.instruction, core.Ones)  # type: ignore[attr-defined]


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
    return Statistic(name or str(getattr(item, "__name__", "statistic")), item)


def stages(network: object) -> tuple[Wide, list[Wide]]:
    """What the first layer is given, and what each layer gives;
    a loop is one of them, for all of its turns.
    """
    if isinstance(network, Sequence):
        given = [wide(f"network[{i}]", x) for i, x in enumerate(network)]
        if len(given) < 2:
            raise ValueError(
                "network must be two or more vectors, the first of which is what the first layer "
                "is given"
            )
        return given[0], given[1:]
    loops = _loops(wide("network", network))
    if not loops:
        raise ValueError(
            "network must have blocks that were written with repeat, as nn.transformer has; of "
            "other networks hand in a sequence of vectors, one for each layer"
        )
    layers: list[Any] = []
    for value, op in loops:
        layers += op.turns if isinstance(op, ops.Unrolled) else [value]
    shapes = {x.shape for x in layers}
    if len(shapes) > 1:
        raise ValueError(
            "all blocks of network must have the same batch shape, got "
            f"{', '.join(map(str, shapes))}"
        )
    return wide("network", loops[0][1].x), layers


def _loops(network: Wide) -> list[tuple[Value, ops.Repeat | ops.Unrolled]]:
    """The loops of a program in order, without those inside their blocks."""
    kinds = ops.Repeat | ops.Unrolled
    found = [(v, v.op) for v in ancestors([network]) if isinstance(v.op, kinds)]
    inside: set[Value] = set()
    for _, op in found:
        last = [op.result] if isinstance(op, ops.Repeat) else op.turns
        inside |= set(ancestors(last)) - set(ancestors([op.x]))
    return [(v, op) for v, op in found if v not in inside]
