"""The adversary: 200 random cases against the independent reference,
eagerly, and a part of them under jax.jit.

`benchmarks/adversary.py` runs thousands, with random structures. Here structures are few, so that
few programs are compiled; their numbers are random, with fixed seeds.
"""

import math
from typing import NamedTuple

import pytest

from adversary.cases import Structure, case
from adversary.compare import Report
from adversary.figures import Figure
from adversary.run import examined

DRAWS = 100_000  # of the reference
# Cases of an everyday run in groups that take long; the long tests run all.
FEW = {
    "two tokens, one head": 8,
    "two tokens, two heads": 8,
    "two tokens, five heads": 3,
    "two tokens, 10⁶ heads": 3,
    "three tokens, a mask": 3,
    "four tokens, causal": 2,
}
JIT = {"two tokens, two heads": 3, "three tokens, a mask": 1}  # figures, the same way


class Group(NamedTuple):
    """Cases of one structure, and how many of its first figures are also asked for under jit."""

    structure: Structure
    cases: int
    jit: int = 0


VARIANCE, KURTOSIS, ENTROPY, MEAN = (
    Figure(name) for name in ("variance", "kurtosis", "entropy", "mean")
)
MOMENTS = (VARIANCE, KURTOSIS, Figure("cf", 1.3))
INNER = (Figure("pdf", 0.4), Figure("cdf", -1.1), Figure("ppf", 0.9), ENTROPY)
TAILS = (Figure("logpdf", 4.5), Figure("sf", 5.0), Figure("cdf", -3.0), Figure("moment", 6))
MEANS = (Figure("expect", "step"), Figure("expect", "hinge"), Figure("expect", "bell"))
NUMBERS = (MEAN, VARIANCE, Figure("cdf", 0.8), Figure("ppf", 0.3))
IMAGE = (
    VARIANCE,
    MEAN,
    Figure("cdf", 0.6),
    Figure("sf", 1.2),
    Figure("pdf", 0.3),
    Figure("ppf", 0.8),
)
USER = (VARIANCE, MEAN, KURTOSIS, Figure("cf", 0.7), Figure("expect", "step"))
HIDDEN = ((True, False, True), (True, True, True), (False, True, True))

GROUPS = {
    "two tokens, one head": Group(Structure("marginal", 2, (*MOMENTS, *INNER)), 20, jit=3),
    "two tokens, two heads": Group(
        Structure("marginal", 2, (*MOMENTS, *TAILS), heads=2), 12, jit=4
    ),
    "two tokens, five heads": Group(
        Structure("marginal", 2, (VARIANCE, *MEANS), token=1, heads=5), 8
    ),
    "two tokens, 10⁶ heads": Group(Structure("marginal", 2, (*MOMENTS, *INNER), heads=10**6), 8),
    "two tokens, infinitely many": Group(
        Structure("marginal", 2, (VARIANCE, *INNER), heads=math.inf), 8, jit=1
    ),
    "three tokens, a mask": Group(
        Structure("marginal", 3, (*MOMENTS, *INNER), heads=2, mask=HIDDEN), 8, jit=3
    ),
    "four tokens, causal": Group(
        Structure("marginal", 4, (*MOMENTS, *TAILS), heads=8, mask="causal", token=3), 5
    ),
    "four tokens": Group(Structure("marginal", 4, (*MOMENTS, *INNER), heads=2), 3, jit=2),
    "six tokens": Group(Structure("marginal", 6, (*MOMENTS, *MEANS), token=2), 2),
    "one token, narrow": Group(
        Structure("marginal", 1, (*MOMENTS, *INNER), heads=2, head_dim=2), 1
    ),
    "three tokens, narrow": Group(
        Structure("marginal", 3, (*MOMENTS, *TAILS), heads=2, head_dim=8), 2
    ),
    "linear scaling": Group(Structure("marginal", 3, (*MOMENTS, *INNER), scaling="linear"), 10),
    "heads that differ": Group(
        Structure("marginal", 2, (*MOMENTS, Figure("cdf", 0.5)), heads=2, per_head="qo"), 3
    ),
    "relu tokens": Group(
        Structure("limit", 2, (*MOMENTS, *TAILS), heads=4, front="relu"), 6, jit=2
    ),
    "tokens with a kink": Group(Structure("limit", 2, (*MOMENTS, *INNER), front="hinge"), 3),
    "tokens with jumps": Group(Structure("limit", 3, MOMENTS, heads=2, front="stairs"), 2),
    "tanh behind": Group(Structure("limit", 2, IMAGE[:4], heads=2, behind="tanh"), 1),
    "abs behind": Group(Structure("limit", 3, IMAGE, behind="abs"), 1),
    "a jump behind": Group(Structure("limit", 2, (VARIANCE, *MEANS[:1]), behind="leap"), 1),
    "clip": Group(
        Structure("limit", 1, (*IMAGE, Figure("atom", 0.8)), depth=0, behind="clip"), 15, jit=2
    ),
    "silu": Group(Structure("limit", 1, IMAGE, depth=0, behind="silu"), 14),
    "a hat": Group(Structure("limit", 1, USER, depth=0, behind="hat"), 6, jit=3),
    "stairs": Group(Structure("limit", 1, USER, depth=0, behind="stairs"), 6),
    "kernel of gelu": Group(
        Structure("kernel", 2, (Figure("entry"),), depth=0, front="gelu", entry=(0, 1)), 15, jit=1
    ),
    "kernel of clip": Group(
        Structure("kernel", 2, (Figure("entry"),), depth=0, front="clip", entry=(0, 1), dense=2),
        10,
    ),
    "kernel of a kink": Group(
        Structure("kernel", 2, (Figure("entry"),), depth=0, front="hinge", entry=(0, 1)), 4, jit=1
    ),
    "kernel of a jump": Group(
        Structure("kernel", 2, (Figure("entry"),), depth=0, front="step", entry=(0, 1), dense=1), 2
    ),
    "kernel of attention": Group(Structure("kernel", 2, NUMBERS, heads=2, entry=(0, 1)), 4),
    "kernel of infinitely many": Group(
        Structure("kernel", 2, (MEAN,), heads=math.inf, entry=(0, 1)), 5
    ),
    "an average": Group(Structure("average", 2, NUMBERS, heads=2, psi="hinge"), 3),
    "all tokens": Group(
        Structure(
            "joint",
            2,
            (Figure("covariance", (0, 1)), Figure("cf", (0.7, -0.4)), Figure("products", (0, 1))),
            heads=2,
        ),
        2,
    ),
    "two layers": Group(
        Structure(
            "limit",
            2,
            (VARIANCE, KURTOSIS, Figure("sf", 2.0)),
            depth=2,
            residual=True,
            norm="rmsnorm",
        ),
        4,
    ),
    "a constant added": Group(
        Structure("limit", 2, (MEAN, VARIANCE, *TAILS[1:]), heads=2, shift=1.5), 2, jit=2
    ),
    "rotary": Group(
        Structure("limit", 3, (*MOMENTS, Figure("cdf", 0.5)), heads=2, rotary=True, token=1), 4
    ),
}


def test_there_are_two_hundred_cases() -> None:
    """Of all kinds of questions, some of them under jit."""
    assert sum(group.cases for group in GROUPS.values()) == 200
    assert {group.structure.asked for group in GROUPS.values()} == {
        "marginal",
        "limit",
        "kernel",
        "average",
        "joint",
    }
    assert sum(group.cases for group in GROUPS.values() if group.jit) > 80


def check(name: str, count: int, jit: int) -> None:
    """Every figure within five errors of the reference,
    and errors not more than a hundred times too large.
    """
    shape = GROUPS[name].structure
    first = 1000 * list(GROUPS).index(name)
    report = Report()
    for seed in range(first, first + count):
        report.verdicts += examined(case(shape, seed), DRAWS, [shape.figures[:jit]])
    assert not report.failures, (
        f"{len(report.failures)} of {len(report.verdicts)} figures\n{report}"
    )
    assert not report.overstated(), str(report)


@pytest.mark.parametrize("name", GROUPS)
def test_group(name: str) -> None:
    _, count, jit = GROUPS[name]
    check(name, FEW.get(name, count), JIT.get(name, jit))


@pytest.mark.long
@pytest.mark.parametrize("name", FEW)
def test_whole_group(name: str) -> None:
    check(name, *GROUPS[name][1:])
