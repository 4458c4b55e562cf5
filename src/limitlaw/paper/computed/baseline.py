"""What the obvious algorithm costs: every matrix is drawn, in NumPy, as in the paper's scripts."""

import functools
import time
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np


class Case(NamedTuple):
    """A network, and how often the paper draws it.
    Its nonlinearity costs nothing beside its matrices.
    """

    tokens: int
    heads: int
    head_dim: int | None
    width: int
    samples: int

    @property
    def normals(self) -> int:
        """Random numbers of one sample."""
        inner = self.width if self.head_dim is None else self.head_dim
        return self.width + self.tokens * self.width**2 + 4 * self.heads * inner * self.width

    def draw(self, rng: np.random.Generator) -> float:
        """One sample of y¹_1, from all its matrices."""
        n, d = self.width, self.width if self.head_dim is None else self.head_dim
        h = rng.standard_normal(n)
        x = np.stack(
            [rng.standard_normal((n, n)) @ h for _ in range(self.tokens)], axis=1
        ) / np.sqrt(n)
        x = np.clip(x, -100, 100)
        y = np.zeros(n)
        for _ in range(self.heads):
            Q, K, V = (rng.standard_normal((d, n)) / np.sqrt(n) for _ in range(3))
            O = rng.standard_normal((n, d)) / np.sqrt(d)
            p = (K @ x).T @ (Q @ x[:, 0]) / np.sqrt(d)
            A = np.exp(p - p.max())
            y += O @ (V @ x @ (A / A.sum()))
        return float(y[0] / np.sqrt(self.heads))


class Cost(NamedTuple):
    """Seconds that drawing every matrix would take, and how many of them were timed."""

    seconds: float
    timed: int
    samples: int


def cost(cases: Iterable[Case], most: int | float) -> Cost:
    """The time that these would take, from a few samples of each network up to `most` normals.

    Larger ones are scaled by their normals from the largest that was timed.
    """
    chosen = sorted(cases, key=lambda case: case.normals)
    seconds, each, timed = 0.0, 0.0, 0
    for case in chosen:
        if case.normals <= most:
            each, timed = _seconds(case._replace(samples=0)) / case.normals, timed + 1
        seconds += each * case.normals * case.samples
    return Cost(seconds, timed, sum(case.samples for case in chosen))


@functools.cache
def _seconds(case: Case) -> float:
    """Of one sample: the fastest of some, the first of which warms up."""
    rng = np.random.default_rng(0)
    times: list[float] = []
    while len(times) < 2 or (sum(times) < 0.05 and len(times) < 20):
        start = time.perf_counter()
        case.draw(rng)
        times.append(time.perf_counter() - start)
    return min(times)
