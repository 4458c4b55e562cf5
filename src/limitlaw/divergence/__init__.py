"""How far two laws are apart: Kullback–Leibler divergence, total variation, Wasserstein and Kolmogorov distance."""

from limitlaw.divergence.distances import kolmogorov, total_variation, wasserstein1
from limitlaw.divergence.kullback_leibler import kl
from limitlaw.divergence.result import Divergence

__all__ = ["Divergence", "kl", "kolmogorov", "total_variation", "wasserstein1"]
