"""How the benchmarks time code: best of several repetitions, the codes taking turns."""

import math
import time
from collections.abc import Callable

CLOCK = time.perf_counter


def measure(codes: list[Callable[[int], None]], seconds: float, repetitions: int) -> list[float]:
    """Seconds a sample, best of several repetitions; the codes take turns so that the machine is
    the same for all.
    """
    counts = []
    for code in codes:
        code(1)  # warm-up and compilation
        count = 1
        while (spent := _time(code, count)) < seconds / 2:
            count = max(count + 1, min(8 * count, math.ceil(count * seconds / spent)))
        counts.append(count)
    best = [math.inf] * len(codes)
    for _ in range(repetitions):
        for i, (code, count) in enumerate(zip(codes, counts, strict=True)):
            best[i] = min(best[i], _time(code, count) / count)
    return best


def _time(code: Callable[[int], None], count: int) -> float:
    start = CLOCK()
    code(count)
    return CLOCK() - start
