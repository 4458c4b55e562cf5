"""Distributions of scipy.stats as laws, so that divergences can compare them."""

import warnings
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from limitlaw.laws import expectation
from limitlaw.laws.base import Content, Law
from limitlaw.laws.checking import entries
from limitlaw.laws.estimates import Atoms, Estimate, exact, no_atoms
from limitlaw.laws.gaussian import Gaussian
from limitlaw.laws.tracing import Psi
from limitlaw.numerics.meshes import FineStructure

FAR_OUT = 10.0 ** -np.array([300, 200, 130, 80, 50, 30, 20])  # levels of a law's tails


class ScipyLaw(Law):
    """A frozen continuous distribution of scipy.stats, whose figures are SciPy's own."""

    def __init__(
        self, distribution: Any, kind: str = "exact", beyond: tuple[str, ...] = ()
    ) -> None:
        super().__init__((), kind, beyond)
        self.distribution = distribution

    def _of(self, method: str, x: Array) -> Estimate:
        return exact(jnp.asarray(getattr(self.distribution, method)(np.asarray(x))))

    def _pdf(self, x: Array) -> Estimate:
        return self._of("pdf", x)

    def _logpdf(self, x: Array) -> Estimate:
        return self._of("logpdf", x)

    def _cdf(self, x: Array) -> Estimate:
        return self._of("cdf", x)

    def _sf(self, x: Array) -> Estimate:
        return self._of("sf", x)

    def _log_tail(self, x: Array, above: bool) -> Estimate:
        return self._of("logsf" if above else "logcdf", x)

    def _place(self, level: Array, lower: Array) -> Estimate:
        return exact(jnp.where(lower, self._of("ppf", level).value, self._of("isf", level).value))

    def _cf(self, t: Array) -> Estimate:
        raise ValueError(
            "SciPy's distributions know no characteristic function; law.expect gives any average"
        )

    def _stat(self, which: str) -> Estimate:
        return exact(jnp.asarray(float(self.distribution.stats(moments=which))))

    def _mean(self) -> Estimate:
        return self._stat("m")

    def _variance(self) -> Estimate:
        return self._stat("v")

    def _covariance(self) -> Estimate:
        return self._stat("v")

    def _skewness(self) -> Estimate:
        return self._stat("s")

    def _kurtosis(self) -> Estimate:
        return self._stat("k")

    def _moment(self, k: int) -> Estimate:
        return exact(jnp.asarray(float(self.distribution.moment(k))))

    def _expect(self, psi: Psi) -> Estimate:
        """E ψ(Y) by SciPy; its error is taken as the difference to a rule over panels."""
        value = jnp.asarray(self.distribution.expect(lambda y: float(psi(jnp.asarray([y]))[0])))

        def error() -> Array:
            x, scales = super(ScipyLaw, self).places()
            ends = np.array([x.min(), x.max()])
            places = np.append(x, ends), np.append(scales, 0 * ends)
            low, high = map(float, self.distribution.support())
            density = self.distribution.pdf
            found = expectation.on_panels(psi, density, places, support=(low, high))
            return jnp.abs(found.value - value)

        return Estimate(value, error)

    def _entropy(self) -> Estimate:
        return exact(jnp.asarray(float(self.distribution.entropy())))

    def _atoms(self) -> tuple[Atoms, Array]:
        return no_atoms()

    def _sample(self, key: Key[Array, ""], shape: tuple[int, ...]) -> Float[Array, "..."]:
        seed = np.asarray(jax.random.key_data(key)).tolist()
        return jnp.asarray(
            self.distribution.rvs(size=shape, random_state=np.random.default_rng(seed))
        )

    def marginal(self, i: object) -> "ScipyLaw":
        """The law itself: Y is one number."""
        _, shape = entries(self.shape, i)
        if shape:
            raise IndexError(f"i must leave the one number of the law, got {i!r}")
        return self

    def places(self) -> FineStructure:
        """The usual quantiles, and some far out on the scale of their distance from the median.

        Tails may be heavy, so that what lies beyond a level of 1e-16 still counts in an average.
        """
        d = self.distribution
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            sides = (d.ppf(FAR_OUT), d.logcdf), (d.isf(FAR_OUT), d.logsf)
            far = [x[np.abs(log(x) - np.log(FAR_OUT)) < 1] for x, log in sides]  # SciPy may fail
        x, core = super().places()
        scales = np.concatenate([core, *(np.abs(at - d.median()) / 4 for at in far)])
        x = np.concatenate([x, *far])
        return x, np.where((x == x.min()) | (x == x.max()), 0.0, scales)

    def breaks(self) -> Float[np.ndarray, " breaks"]:
        """The finite ends of the support."""
        ends = np.array(self.distribution.support(), float)
        return ends[np.isfinite(ends)]

    def _content(self) -> Content:
        raise TypeError(
            "a distribution of scipy.stats is saved by its name and parameters, not as a law"
        )

    @property
    def description(self) -> str:
        """The name of the distribution in scipy.stats."""
        return f"scipy.stats.{self.distribution.dist.name}"


def from_scipy(distribution: Any) -> Law | None:
    """A frozen distribution of scipy.stats as a law, else None; discrete ones are refused."""
    if not type(distribution).__module__.startswith("scipy.stats"):
        return None
    if hasattr(distribution, "cov_object") and hasattr(distribution, "mean"):
        return Gaussian(distribution.mean, distribution.cov)
    if hasattr(distribution, "pmf"):
        raise TypeError(
            "discrete distributions of scipy.stats have no density: give a sample of it instead"
        )
    if not all(hasattr(distribution, name) for name in ("dist", "logpdf", "logsf", "support")):
        raise TypeError(
            f"{type(distribution).__name__} of scipy.stats is no frozen distribution of one "
            "number: write scipy.stats.norm(0, 1), with its parameters"
        )
    return ScipyLaw(distribution)
