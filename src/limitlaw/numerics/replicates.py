"""Means over draws and their errors: one model for averages over draws, nodes, or both.

Draws need not be independent of each other: those of one batch may share the nodes at which
nonlinearities are averaged, and the scrambling of their Sobol points. So they come in
*replicates*, groups that are independent of each other, and the spread of the means of replicates
gives the error of the mean of all, whatever it comes from.
"""

import dataclasses
import functools
import math
from collections.abc import Callable

import numpy as np
from jaxtyping import Float, Int

LEFT_OUT = 16  # groups of replicates that a jackknife leaves out, one after the other
ROUNDING_OF_MEAN = 2.0**-52


@dataclasses.dataclass(frozen=True)
class Replicates:
    """Independent groups of draws: runs of `size` in a row, the last perhaps shorter."""

    size: int = 1

    def mean(self, values: Float[np.ndarray, "draws *rest"]) -> Float[np.ndarray, "*rest"]:
        """The mean m = N⁻¹ Σ_i f_i over draws."""
        return np.asarray(np.mean(values, axis=0))

    def spread(self, values: Float[np.ndarray, "draws *rest"]) -> Float[np.ndarray, "*rest"]:
        """The standard deviation of f over draws; NaN for a single draw."""
        if len(values) < 2:
            return np.full(values.shape[1:], math.nan)
        return np.asarray(np.std(values, axis=0, ddof=1))

    def error(self, values: Float[np.ndarray, "draws *rest"]) -> Float[np.ndarray, "*rest"]:
        """The standard error of the mean m: with the means m_g of G replicates and their shares
        w_g of the draws,

            c_G √(Σ_g w_g² (m_g − m)² / (1 − Σ_g w_g²)).

        The mean lies within one such error of the truth with probability 0.683: c_G is the
        quantile of Student's t with G − 1 degrees of freedom, 1.84 for G = 2 and 1.02 for G = 32.
        NaN for a single replicate; never below the rounding of m, unless all draws are equal.
        """
        means, weights = self._means(values)
        if len(weights) < 2:
            return np.full(values.shape[1:], math.nan)
        w = weights.reshape(-1, *[1] * (values.ndim - 1))
        m = np.sum(w * means, axis=0)
        variance = np.sum((w * (means - m)) ** 2, axis=0) / (1.0 - np.sum(weights**2))
        error = student(len(weights)) * np.sqrt(variance)
        return np.where(error > 0, np.maximum(error, ROUNDING_OF_MEAN * np.abs(m)), error)

    def jackknife(
        self,
        values: Float[np.ndarray, "draws *rest"],
        figure: Callable[[Float[np.ndarray, "some *rest"]], float],
    ) -> tuple[float, float]:
        """A figure of the law of f, without its bias of order 1/N, and its standard error
        (Quenouille 1956; Tukey 1958).

        Replicates are left out in at most 16 groups.
        """
        groups = self._groups(len(values))
        whole, count = figure(values), len(groups)
        if count < 2:
            return whole, math.nan
        without = np.array([figure(np.delete(values, group, axis=0)) for group in groups])
        variance = (count - 1) / count * np.sum((without - without.mean()) ** 2)
        value = count * whole - (count - 1) * without.mean()
        return float(value), student(count) * math.sqrt(variance)

    def _means(
        self, values: Float[np.ndarray, "draws *rest"]
    ) -> tuple[Float[np.ndarray, "groups *rest"], Float[np.ndarray, " groups"]]:
        """The mean of each replicate, and its share of the draws."""
        starts = np.arange(0, len(values), self.size)
        sizes = np.diff([*starts, len(values)])
        sums = np.add.reduceat(values, starts, axis=0)
        return sums / sizes.reshape(-1, *[1] * (values.ndim - 1)), sizes / len(values)

    def _groups(self, draws: int) -> list[Int[np.ndarray, " some"]]:
        """The indices of draws, in at most 16 groups of whole replicates."""
        replicates = -(-draws // self.size)
        runs = np.array_split(np.arange(replicates), min(LEFT_OUT, replicates))
        return [
            np.arange(run[0] * self.size, min((run[-1] + 1) * self.size, draws)) for run in runs
        ]


INDEPENDENT = Replicates()  # every draw is independent of all others


@functools.cache
def student(replicates: int) -> float:
    """The quantile of Student's t, G − 1 degrees, that 15.9 % exceed, as N(0, 1) does 1."""
    from scipy.special import ndtr, stdtrit

    return float(stdtrit(replicates - 1, ndtr(1.0)))
