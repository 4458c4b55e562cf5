"""The cost of drawing every matrix in NumPy, as the paper's scripts do: that of its random
numbers, measured once, since a timing beside the work would depend on the machine's load.
"""

from collections.abc import Iterable
from typing import NamedTuple


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


# Seconds of one core for a random number and all that is done with it, and where measured:
# (`tests/paper/test_catalogue.py` measures it again):
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
