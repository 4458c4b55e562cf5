"""The quantities of a law under the names of scipy.stats, with SciPy's meaning."""

from collections.abc import Callable

import jax
import numpy as np
from jaxtyping import Array, Float, Key

from limitlaw.arguments import as_key, integer, shown
from limitlaw.float64 import methods_in_float64
from limitlaw.laws.estimates import Estimates
from limitlaw.laws.tracing import quantity


@methods_in_float64
class ScipyNames(Estimates):
    """Quantities under SciPy's names; `law.error` has the error of each."""

    sample: Callable[..., Float[Array, "..."]]

    @quantity
    def logcdf(self, x: object) -> Float[Array, "..."]:
        """log P(Y ≤ x), relatively accurate also where cdf(x) underflows, or rounds to 1."""
        return self._logcdf(self._numbers("logcdf", "x", x)).value

    @quantity
    def logsf(self, x: object) -> Float[Array, "..."]:
        """log P(Y > x), relatively accurate also where sf(x) underflows, or rounds to 1."""
        return self._logsf(self._numbers("logsf", "x", x)).value

    @quantity
    def isf(self, q: object) -> Float[Array, "..."]:
        """The smallest x with sf(x) ≤ q: ppf(1 − q), also where 1 − q rounds to 1."""
        return self._isf(self._levels("isf", q)).value

    @quantity
    def median(self) -> Float[Array, ""]:
        """The median ppf(½)."""
        return self._ppf(self._levels("median", 0.5)).value

    @quantity
    def interval(
        self, confidence: object = 0.95
    ) -> tuple[Float[Array, "..."], Float[Array, "..."]]:
        """The ends between which Y lies with this probability, as much outside on either side."""
        low, high = self._interval(self._levels("interval", confidence, "confidence"))
        return low.value, high.value

    def std(self) -> Float[Array, "..."]:
        """The standard deviation √Var Y, entry by entry."""
        return self._std().value

    def skewness(self) -> Float[Array, "..."]:
        """The skewness E (Y − m)³/Var(Y)^{3/2}, entry by entry: 0 for a symmetric law."""
        return self._skewness().value

    def rvs(
        self, size: int | tuple[int, ...] | None = None, random_state: object = None
    ) -> Float[Array, "..."]:
        """Independent draws of shape `(*size, *event)`, one without `size`.

        `random_state`: an integer seed, a NumPy Generator or RandomState (which moves on), or a
        JAX key; None takes NumPy's global state, as SciPy does. `sample(key, shape)` is the same
        with a key that must be named.
        """
        return self.sample(_key(random_state), () if size is None else size)


def _key(random_state: object) -> Key[Array, ""]:
    """A JAX key from what SciPy takes as a random state."""
    if isinstance(random_state, np.random.Generator):
        return jax.random.key(int(random_state.integers(2**63)))
    if random_state is None or random_state is np.random:
        random_state = np.random.mtrand._rand  # what np.random.seed sets
    if isinstance(random_state, np.random.RandomState):
        return jax.random.key(int(random_state.randint(2**63, dtype=np.int64)))
    if integer(random_state) is not None or isinstance(random_state, jax.Array):
        return as_key(random_state)
    raise TypeError(
        "random_state must be an integer seed, a NumPy Generator or RandomState, a JAX key or "
        f"None, got {shown(random_state)}"
    )
