"""Random programs over all instructions, with shared matrices:
the exact engine against the definition.
"""

import functools

import pytest
from eager import defined, exact
from random_programs import BothSides, Writer

import limitlaw as ll
from instructions import INSTRUCTIONS
from limitlaw.core.analysis import Analysis
from limitlaw.core.demand import demanded
from limitlaw.core.instructions import (
    Argument,
    DimensionRatio,
    FromScan,
    Rotate,
    Scan,
)
from limitlaw.core.program import Program
from statistics_of_samples import disagreement
from validity import validate

PROGRAMS, EVERYDAY = 70, 40
WIDTHS = (1, 2, 3, 5, 8)
DRAWS = 3000


@functools.cache
def program(seed: int) -> ll.Wide:
    """The random program of a seed."""
    return Writer(seed).program()


@pytest.mark.parametrize(
    "seed",
    [
        pytest.param(seed, marks=() if seed < EVERYDAY else pytest.mark.long)
        for seed in range(PROGRAMS)
    ],
)
def test_random_program(seed: int) -> None:
    """About 20 statistics each, at 5σ: one false alarm in a thousand runs,
    and the seeds are fixed.
    """
    width = WIDTHS[seed % len(WIDTHS)]
    y = program(seed)
    assert (
        disagreement(defined(y, width, DRAWS, seed), exact(y, width, DRAWS, 10**6 + seed)) < 1
    ), repr(y)


@pytest.mark.parametrize(
    "seed",
    [
        pytest.param(seed, marks=() if seed < EVERYDAY // 2 else pytest.mark.long)
        for seed in range(PROGRAMS)
    ],
)
def test_both_sides(seed: int) -> None:
    """Programs with transposes, and gradients of programs."""
    width = WIDTHS[seed % len(WIDTHS)]
    y = BothSides(seed).program()
    first, second = defined(y, width, DRAWS, seed), exact(y, width, DRAWS, 10**6 + seed)
    assert disagreement(first, second) < 1, repr(y)


def test_the_programs_meet_everything() -> None:
    """Every instruction, matrices used again, vectors in frames and vectors with coordinates."""
    plans = [Analysis(Program(demanded((program(seed).core.value,)))) for seed in range(PROGRAMS)]
    for plan in plans:
        validate(*plan.program.outputs)
    met = {type(value.instruction) for plan in plans for value in plan.values}
    elsewhere = {Argument, DimensionRatio, FromScan, Rotate, Scan}
    assert met == set(INSTRUCTIONS) - elsewhere
    assert sum(bool(plan.reused) for plan in plans) > PROGRAMS / 3
    points = [plan.components[v].points for plan in plans for v in plan.values if v.is_vector]
    assert 0.1 < sum(points) / len(points) < 0.9
