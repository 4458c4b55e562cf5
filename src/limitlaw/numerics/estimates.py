"""Means and covariances of draws that arrive in chunks and are not kept."""

import dataclasses

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Moments:
    """Count, mean and sums of squares Σ (x − mean)(x − mean)ᵀ of samples of a vector in R^p, or of a number.

    The standard error of any mean of f(x) is that of the `Moments` of the numbers f(x).
    """

    count: int | Int[Array, ""]
    mean: Float[Array, "*p"]
    m2: Float[Array, "*pp"]  # (p, p), or () for a number

    @classmethod
    def of(cls, samples: Float[Array, "count *p"]) -> "Moments":
        """The moments of samples along the first axis; none at all are fine."""
        count = samples.shape[0]
        mean = samples.sum(axis=0) / max(count, 1)
        centred = samples - mean
        return cls(count, mean, jnp.tensordot(centred, centred, axes=(0, 0)))

    def merge(self, other: "Moments") -> "Moments":
        """The moments of both sets of samples together; `a.merge(b)` and `b.merge(a)` are the same to the last bit.

        mean = (n_a mean_a + n_b mean_b)/n and M2 = M2_a + M2_b + δδᵀ n_a n_b/n, δ = mean_b − mean_a, n = n_a + n_b:
        Chan, Golub and LeVeque, "Updating formulae and a pairwise algorithm for computing sample variances", 1979.
        """
        count = self.count + other.count
        n = jnp.maximum(count, 1)
        mean = (self.count * self.mean + other.count * other.mean) / n
        gap = other.mean - self.mean
        weight = self.count * (other.count / n)
        return Moments(count, mean, (self.m2 + other.m2) + weight * jnp.tensordot(gap, gap, axes=0))

    @property
    def covariance(self) -> Float[Array, "*pp"]:
        """The unbiased estimate M2/(n − 1), NaN for fewer than two samples."""
        return self.m2 / jnp.where(jnp.asarray(self.count) > 1, self.count - 1, jnp.nan)

    @property
    def variance(self) -> Float[Array, "*p"]:
        """The diagonal of the covariance, shaped as the mean."""
        return self.covariance if self.mean.ndim == 0 else jnp.diagonal(self.covariance)

    @property
    def mean_error(self) -> Float[Array, "*p"]:
        """The standard error √(variance/n) of each mean."""
        return jnp.sqrt(self.variance / self.count)
