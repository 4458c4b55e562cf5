"""Cases from beginning to end: the reference,
limitlaw eagerly and under jax.jit, and the verdicts.
"""

import contextlib
import signal
from collections.abc import Iterator, Sequence
from typing import Any

from adversary.cases import Case
from adversary.compare import Verdict, judged
from adversary.figures import Figure
from adversary.library import Stated, eager, jitted, raising
from adversary.reference import answer

LIMIT = 120  # seconds of the processor for one case; what takes longer counts as a failure


class TooSlow(BaseException):
    """A case took longer than its limit. Not an Exception:
    those are answers of a figure, this ends the case.
    """


def examined(
    case: Case,
    draws: int,
    jit: Sequence[tuple[Figure, ...]] = (),
    seconds: int = LIMIT,
    again: int = 0,
) -> list[Verdict]:
    """The verdicts on all figures of a case, and once more on those that are asked
    for under jit, by one compiled function for each group of them.
    """
    found = answer(case, draws, again)
    known = dict(zip(case.structure.figures, found.estimates, strict=True))
    figures = case.structure.figures
    with _within(seconds):
        stated = _unless_slow(lambda: eager(case, found.scale, found.unit), len(figures))
    verdicts = [judged(case, f, s, known[f], found) for f, s in zip(figures, stated, strict=True)]
    for group in filter(None, jit):
        with _within(seconds):
            stated = _unless_slow(
                lambda group=group: jitted(case, found.scale, found.unit, group), len(group)
            )
        verdicts += [
            judged(case, f, s, known[f], found, jit=True)
            for f, s in zip(group, stated, strict=True)
        ]
    return verdicts


def confirmed(verdicts: list[Verdict], draws: int) -> list[Verdict]:
    """The same verdicts; where they failed against drawn references,
    against ten times as many other draws.
    """
    suspects = {
        v.case.seed: v.case for v in verdicts if v.failure == "wrong" and v.answer.how == "drawn"
    }
    later = {}
    for seed, case in suspects.items():
        found = answer(case, 10 * draws, again=1)
        later[seed] = found, dict(zip(case.structure.figures, found.estimates, strict=True))
    return [
        judged(
            v.case,
            v.figure,
            v.stated,
            later[v.case.seed][1][v.figure],
            later[v.case.seed][0],
            v.jit,
        )
        if v.failure == "wrong" and v.case.seed in later
        else v
        for v in verdicts
    ]


def _unless_slow(call: Any, count: int) -> list[Stated]:
    try:
        return call()
    except TooSlow as slow:
        return [raising(slow)] * count


@contextlib.contextmanager
def _within(seconds: int) -> Iterator[None]:
    """Raise TooSlow in this block after so many seconds of the processor."""

    def stop(*_: Any) -> None:
        raise TooSlow(f"more than {seconds} s")

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
