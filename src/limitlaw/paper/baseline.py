"""What the obvious algorithm costs: every matrix is drawn, in NumPy, as in the paper's scripts."""

import functools
import time
from typing import NamedTuple

import numpy as np

from limitlaw.paper.settings import Settings


class Case(NamedTuple):
    """A network, and how often the paper draws it."""

    figure: str
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
        x = np.stack([rng.standard_normal((n, n)) @ h for _ in range(self.tokens)], axis=1) / np.sqrt(n)
        x = np.maximum(x, 0) if self.figure == "fig5" else np.clip(x, -100, 100)
        y = np.zeros(n)
        for _ in range(self.heads):
            Q, K, V = (rng.standard_normal((d, n)) / np.sqrt(n) for _ in range(3))
            O = rng.standard_normal((n, d)) / np.sqrt(d)  # noqa: E741
            p = (K @ x).T @ (Q @ x[:, 0]) / np.sqrt(d)
            A = np.exp(p - p.max())
            y += O @ (V @ x @ (A / A.sum()))
        return float(y[0] / np.sqrt(self.heads))


def cases(settings: Settings) -> list[Case]:
    """All that the paper draws, at the counts of the settings; its limits are not counted."""
    many = settings.trials * settings.samples
    widths = (16, 64, 256, 1024)
    return [
        *(Case("fig1", 4, 2, None, n, many) for n in widths),
        *(Case("fig2", 4, H, None, 256, settings.samples) for H in (1, 256)),
        *(Case("fig3", 4, H, 64, 64 * H, many) for H in (1, 4, 16)),
        *(Case("fig4", settings.tokens, 2, None, n, many) for n in widths),
        *(Case("fig5", 4, 2, None, n, 2 * many) for n in widths),
    ]


class Cost(NamedTuple):
    """Seconds that drawing every matrix would take, and how many of them were timed."""

    seconds: float
    timed: int
    samples: int


def cost(figures: set[str], settings: Settings, most: float) -> Cost:
    """The time that these figures would take, from a few samples of each network up to `most` normals.

    Larger ones are scaled by their normals from the largest that was timed.
    """
    chosen = sorted((case for case in cases(settings) if case.figure in figures), key=lambda case: case.normals)
    seconds, each, timed = 0.0, 0.0, 0
    for case in chosen:
        if case.normals <= most:
            each, timed = _seconds(case._replace(figure="", samples=0)) / case.normals, timed + 1
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
