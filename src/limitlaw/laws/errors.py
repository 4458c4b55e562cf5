"""The error of each quantity of a law, under the name of the quantity."""

from collections.abc import Callable

import jax.numpy as jnp
from jaxtyping import Array, Float

from limitlaw.float64 import methods_in_float64
from limitlaw.laws.checking import order
from limitlaw.laws.estimates import Estimate, Estimates, no_less_than_rounding
from limitlaw.laws.tracing import Psi, average_of


@methods_in_float64
class Errors:
    """The errors of a law's quantities, each by the name and arguments of its quantity."""

    def __init__(self, law: Estimates) -> None:
        self._law = law

    def _of(self, quantity: Callable[[Estimates], Estimate]) -> Float[Array, "..."]:
        """An estimate's own error, combined with the difference to the law by another rule."""
        estimate = quantity(self._law)
        error = estimate.error()
        if self._law._other is None:
            return no_less_than_rounding(error, estimate.value)
        value, other = estimate.value, quantity(self._law._other()).value
        difference = jnp.where(
            value == other, 0.0, jnp.abs(value - jnp.where(value == other, 0.0, other))
        )
        return no_less_than_rounding(jnp.hypot(error, difference), value)

    def pdf(self, x: object) -> Float[Array, "..."]:
        """The error of the density."""
        x = self._law._points("x", x)
        return self._law._at_poles(x, 0.0, self._of(lambda law: law._pdf(x)))

    def logpdf(self, x: object) -> Float[Array, "..."]:
        """The error of the log density."""
        x = self._law._points("x", x)
        return self._law._at_poles(x, 0.0, self._of(lambda law: law._logpdf(x)))

    def cdf(self, x: object) -> Float[Array, "..."]:
        """The error of P(Y ≤ x)."""
        x = self._law._numbers("cdf", "x", x)
        return self._of(lambda law: law._cdf(x))

    def sf(self, x: object) -> Float[Array, "..."]:
        """The error of P(Y > x)."""
        x = self._law._numbers("sf", "x", x)
        return self._of(lambda law: law._sf(x))

    def ppf(self, q: object) -> Float[Array, "..."]:
        """The error of the quantile: the cdf's there over the density; 0 inside an atom's jump."""
        q = self._law._levels("ppf", q)
        return self._of(lambda law: law._ppf(q))

    def isf(self, q: object) -> Float[Array, "..."]:
        """The error of the quantile that is counted from above."""
        q = self._law._levels("isf", q)
        return self._of(lambda law: law._isf(q))

    def median(self) -> Float[Array, ""]:
        """The error of the median."""
        return self.ppf(0.5)

    def interval(
        self, confidence: object = 0.95
    ) -> tuple[Float[Array, "..."], Float[Array, "..."]]:
        """The errors of the two ends of the interval."""
        level = self._law._levels("interval", confidence, "confidence")
        return self._of(lambda law: law._interval(level)[0]), self._of(
            lambda law: law._interval(level)[1]
        )

    def logcdf(self, x: object) -> Float[Array, "..."]:
        """The error of log P(Y ≤ x), which is the relative one of P(Y ≤ x)."""
        x = self._law._numbers("logcdf", "x", x)
        return self._of(lambda law: law._logcdf(x))

    def logsf(self, x: object) -> Float[Array, "..."]:
        """The error of log P(Y > x), which is the relative one of P(Y > x)."""
        x = self._law._numbers("logsf", "x", x)
        return self._of(lambda law: law._logsf(x))

    def cf(self, t: object) -> Float[Array, "..."]:
        """The error of the characteristic function, in modulus."""
        t = self._law._points("t", t)
        return self._of(lambda law: law._cf(t))

    def mean(self) -> Float[Array, "..."]:
        """The error of the mean."""
        return self._of(lambda law: law._mean())

    def variance(self) -> Float[Array, "..."]:
        """The error of the variance."""
        return self._of(lambda law: law._variance())

    def covariance(self) -> Float[Array, "..."]:
        """The error of each entry of the covariance."""
        return self._of(lambda law: law._covariance())

    def std(self) -> Float[Array, "..."]:
        """The error of the standard deviation."""
        return self._of(lambda law: law._std())

    def skewness(self) -> Float[Array, "..."]:
        """The error of the skewness."""
        return self._of(lambda law: law._skewness())

    def kurtosis(self) -> Float[Array, "..."]:
        """The error of the excess kurtosis κ = E(Y − m)⁴/v² − 3.

        Where two rules are compared, both differ from the truth in v and in the fourth moment, and
        may do so alike: what the difference of v alone makes of κ counts, too.
        """
        error = self._of(lambda law: law._kurtosis())
        if self._law._other is None:
            return error
        v, other = self._law._variance().value, self._law._other()._variance().value
        share = jnp.abs(v - other) / jnp.where(v > 0, v, 1.0)
        alone = 2 * jnp.abs(self._law._kurtosis().value + 3) * share
        return jnp.where(error > 0, jnp.hypot(error, alone), error)

    def moment(self, k: int) -> Float[Array, "..."]:
        """The error of E Y^k."""
        k = order(k)
        return self._of(lambda law: law._moment(k))

    def expect(self, psi: Psi) -> Float[Array, "..."]:
        """The error of E ψ(Y)."""
        return average_of(psi, self._law.shape, lambda psi: self._of(lambda law: law._expect(psi)))

    def entropy(self) -> Float[Array, ""]:
        """The error of the entropy."""
        return self._of(lambda law: law._entropy())

    def atoms(self) -> Float[Array, " atoms"]:
        """The errors of the masses of atoms."""
        atoms, error = self._law._atoms()
        if self._law._other is None:
            return error
        other, _ = self._law._other()._atoms()
        same = other.masses.shape == atoms.masses.shape
        return jnp.hypot(error, jnp.abs(atoms.masses - (other.masses if same else 0.0)))
