"""Distributions with a density, a cdf, quantiles, moments, samples and error bars."""

from limitlaw.laws.base import Law
from limitlaw.laws.empirical import Combination, Empirical
from limitlaw.laws.estimates import Atoms
from limitlaw.laws.from_scipy import ScipyLaw
from limitlaw.laws.gaussian import Gaussian
from limitlaw.laws.head_sum import HeadSum
from limitlaw.laws.kernel_matrix import KernelMatrix, RandomKernel
from limitlaw.laws.mixture import GaussianMixture
from limitlaw.laws.pushforward import Pushforward
from limitlaw.laws.storage import load
from limitlaw.laws.tokens import Tokens

__all__ = [
    "Atoms",
    "Combination",
    "Empirical",
    "Gaussian",
    "GaussianMixture",
    "HeadSum",
    "KernelMatrix",
    "Law",
    "Pushforward",
    "RandomKernel",
    "ScipyLaw",
    "Tokens",
    "load",
]
