"""The cost of the obvious algorithm: every matrix is drawn, in NumPy, as in the paper's scripts.

Its time is that of its random numbers, and was measured once: a figure that is timed beside the
work would depend on what else the machine does.
"""

import time
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np


class Case(NamedTuple):
    """A network, and how often the paper draws it; its nonlinearity costs next to nothing."""

    tokens: int
    heads: int
    head_dim: int | None
    width: int
    samples: int

    @property
    def normals(self) -> int:
        """The number of normals that one sample takes."""
        inner = self.width if self.head_dim is None else self.head_dim
        return self.width + self.tokens * self.width**2 + 4 * self.heads * inner * self.width

    def draw(self, rng: np.random.Generator) -> float:
        """One sample of y¹_1, with all matrices drawn."""
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


# Seconds of one core for a random number and all that is done with it, and where measured:
# networks of the figures take 8.9e-9 to 1.1e-8 at widths from 64 to 1024, more at smaller ones.
SECONDS_PER_NORMAL = 9.3e-9
REFERENCE = "one core of an AMD EPYC, NumPy 2.4.6, November 2026"


class Cost(NamedTuple):
    """Seconds of one core that drawing every matrix would take."""

    seconds: float
    samples: int


def cost(cases: Iterable[Case]) -> Cost:
    """The time that these cases would take, by the reference measurement."""
    chosen = list(cases)
    normals = sum(case.normals * case.samples for case in chosen)
    return Cost(SECONDS_PER_NORMAL * normals, sum(case.samples for case in chosen))


def seconds_per_normal(case: Case, least: float = 1.5) -> float:
    """Processor time of one sample, the fastest of those drawn in `least` seconds, per random
    number. The reference was measured with one thread: OPENBLAS_NUM_THREADS=1.
    """
    rng = np.random.default_rng(0)
    times: list[float] = []
    while sum(times) < least:
        start = time.process_time()
        case.draw(rng)
        times.append(time.process_time() - start)
    return min(times) / case.normals
