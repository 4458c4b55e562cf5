"""The joint law of outputs whose single entries have laws of their own, to many digits."""

import math
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from limitlaw.laws import storage
from limitlaw.laws.base import Blocks, Content, Law
from limitlaw.laws.checking import entries
from limitlaw.laws.estimates import Atoms, Estimate, exact
from limitlaw.laws.tracing import Psi

SAVED = 64  # most entries of which a file holds the laws one by one


class Tokens(Law):
    """The law of outputs Y of `shape`: single entries have laws of their own, `marginal(i)`, and
    the joint law is a mixture.

    The mixture, `law.joint`, is drawn when a joint quantity is first asked for, with standard
    errors. `diverges` says that the joint density is infinite where all entries are equal, as for
    one head without a mask: there the log density is ∞, and near it no average over draws is
    reliable.
    """

    def __init__(
        self,
        shape: tuple[int, ...],
        joint: Callable[[], Law],
        entry: Callable[[tuple[int, ...]], Law],
        beyond: tuple[str, ...] = (),
        diverges: bool = False,
    ) -> None:
        super().__init__(shape, "sampled", beyond)
        self._make, self._entry, self._diverges = joint, entry, diverges
        self._made: Law | None = None

    @property
    def joint(self) -> Law:
        """The mixture of joint Gaussians."""
        if self._made is None:
            self._made = self._make()
            self.effort = self._made.effort
        return self._made

    def marginal(self, i: object) -> Law:
        """The law of Y[i]: its own for one entry, that of the mixture for several."""
        places, shape = entries(self.shape, i)
        if shape:
            return self.joint.marginal(i)
        return self._entry(tuple(int(k) for k in np.unravel_index(int(places[0]), self.shape)))

    def _sample(self, key: Key[Array, ""], shape: tuple[int, ...]) -> Float[Array, "..."]:
        """Independent draws of all entries."""
        return self.joint._sample(key, shape)

    def _logpdf(self, x: Array) -> Estimate:
        log = self.joint._logpdf(x)
        if not self._diverges:
            return log
        axes = tuple(range(-len(self.shape), 0))
        on_diagonal = jnp.max(x, axis=axes) == jnp.min(x, axis=axes)
        return Estimate(
            jnp.where(on_diagonal, jnp.inf, log.value),
            lambda: jnp.where(on_diagonal, 0.0, log.error()),
        )

    def _pdf(self, x: Array) -> Estimate:
        return self._logpdf(x).exp()

    def _cdf(self, x: Array) -> Estimate:
        return self.joint._cdf(x)

    def _sf(self, x: Array) -> Estimate:
        return self.joint._sf(x)

    def _log_tail(self, x: Array, above: bool) -> Estimate:
        return self.joint._log_tail(x, above)

    def _place(self, level: Array, lower: Array) -> Estimate:
        return self.joint._place(level, lower)

    def _cf(self, t: Array) -> Estimate:
        return self.joint._cf(t)

    def _mean(self) -> Estimate:
        return exact(jnp.zeros(self.shape))

    def _variance(self) -> Estimate:
        return self.joint._variance()

    def _covariance(self) -> Estimate:
        return self.joint._covariance()

    def _skewness(self) -> Estimate:
        return exact(jnp.zeros(self.shape))

    def _kurtosis(self) -> Estimate:
        return self.joint._kurtosis()

    def _moment(self, k: int) -> Estimate:
        return self.joint._moment(k)

    def _expect(self, psi: Psi) -> Estimate:
        return self.joint._expect(psi)

    def _entropy(self) -> Estimate:
        return self.joint._entropy()

    def _atoms(self) -> tuple[Atoms, Float[Array, " atoms"]]:
        return self.joint._atoms()

    def _content(self) -> Content:
        """The mixture, as drawn, and the laws of single entries where those are few; a loaded law
        takes all else from the mixture.
        """
        count = math.prod(self.shape)
        names = [str(i) for i in range(count)] if count <= SAVED else []
        entries = {name: self._entry(_index(name, self.shape)) for name in names}
        header, arrays = storage.joined({"joint": self.joint, **entries})
        return {**header, "shape": self.shape, "diverges": self._diverges}, arrays

    @classmethod
    def rebuilt(
        cls, header: dict[str, Any], parts: dict[str, Law], beyond: tuple[str, ...]
    ) -> "Tokens":
        """The law from the content of a file."""
        joint, shape = parts["joint"], tuple(header["shape"])

        def entry(i: tuple[int, ...]) -> Law:
            name = str(np.ravel_multi_index(i, shape))
            return parts[name] if name in parts else joint.marginal(i)

        return cls(shape, lambda: joint, entry, beyond, bool(header["diverges"]))

    def blocks(self) -> Blocks | None:
        """The blocks of the mixture."""
        return self.joint.blocks()

    def in_bulk(self) -> Law:
        """The mixture, whose log densities are fast."""
        return self.joint


def _index(name: str, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The index of an entry from its number in the flattened array."""
    return tuple(int(k) for k in np.unravel_index(int(name), shape))
