"""Random numbers of a draw that are made at once: a generator takes long to compile, and a draw of
a long program asks for numbers hundreds of times.
"""

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float, Key

from limitlaw.numerics.gaussian_vectors import chi
from limitlaw.numerics.random import Quasi, normal


class Pooled(Quasi):
    """A source whose normals are made at once, so that one generator is compiled and not hundreds.
    Its χ_df variables of known df are `lengths`, made at once as well.
    """

    def __init__(
        self,
        key: Key[Array, ""],
        row: Float[Array, " numbers"] | None = None,
        lengths: Float[Array, " lengths"] | None = None,
    ):
        super().__init__(key, row, most=math.inf)
        self.lengths = lengths
        self.degrees: list[float] = []  # of freedom of the χ variables that were asked for

    def take(self, shape: tuple[int, ...], df: ArrayLike) -> Float[Array, "..."] | None:
        """Standard normals, or χ_df; None where df is an argument of what is compiled."""
        if isinstance(df, jax.Array):
            return None
        df = np.broadcast_to(np.asarray(df, float), shape)
        if np.isinf(df).all():
            return self._next(self.recipe, df, self.row)
        return self._next(self.degrees, df, self.lengths)

    def _next(
        self,
        asked: list[float],
        df: Float[np.ndarray, "..."],
        given: Float[Array, " numbers"] | None,
    ) -> Float[Array, "..."]:
        start = len(asked)
        asked += df.reshape(-1).tolist()
        if given is None:
            return jnp.ones(df.shape)
        return given[start : len(asked)].reshape(df.shape)


class Far(Pooled):
    """A pooled source for draws in spaces of very many dimensions."""

    def take(self, shape: tuple[int, ...], df: ArrayLike) -> Float[Array, "..."] | None:
        """χ_df is √df + Z/√2, up to O(df^{−1/2}), where df is an argument of what is compiled."""
        if isinstance(df, jax.Array):
            Z = self._next(self.recipe, np.full(shape, math.inf), self.row)
            return jnp.sqrt(df) + Z * math.sqrt(0.5)
        return super().take(shape, df)


def pooled(kind: type[Pooled], key: Key[Array, ""], run: Callable[[Pooled], Any]) -> Pooled:
    """As many normals and χ variables, made at once, as `run` takes of such a source."""
    asked = kind(jax.random.key(0))
    jax.eval_shape(lambda: run(asked))
    first, second, other = jax.random.split(key, 3)
    row, df = normal(first, (len(asked.recipe),)), np.array(asked.degrees, int)
    return kind(other, row, chi(second, df, df.shape) if len(df) else None)
