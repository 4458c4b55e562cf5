"""The dimension D of a space, which may be an argument of what is compiled."""

import dataclasses
import math
from collections.abc import Callable

import jax.numpy as jnp
from jaxtyping import Array, Float

from limitlaw.core.space import Dim

# a number that is known, ∞, or an argument of a compiled function
Size = int | float | Float[Array, ""]


@dataclasses.dataclass(frozen=True)
class Dimension:
    """D of a space.

    A D that is an argument of a compiled function is taken to be larger than any number of axes
    that is asked for; `ask` is told each such number, so that the caller learns how large D must
    be.
    """

    size: Size
    ask: Callable[[int], None]

    @property
    def root(self) -> float | Float[Array, ""]:
        """√D."""
        return math.sqrt(self.size) if isinstance(self.size, int | float) else jnp.sqrt(self.size)

    def axes(self, vectors: int) -> int:
        """How many axes so many independent vectors span: min(vectors, D)."""
        if isinstance(self.size, int | float):
            return int(min(vectors, self.size))
        self.ask(vectors)
        return vectors


def at_width(dim: Dim, n: int | Float[Array, ""]) -> Size:
    """D of a space at width n, which may be an argument of a compiled function."""
    if isinstance(n, int) or not dim.wide:
        return dim.at(n if isinstance(n, int) else 1)
    return n * dim.factor.numerator / dim.factor.denominator
