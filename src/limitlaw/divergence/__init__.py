"""How far two laws are apart: `Law`s, frozen distributions of scipy.stats and, where no density is
needed, plain samples.
"""

from limitlaw.divergence.compared import Divergence
from limitlaw.divergence.densities import hellinger, jensen_shannon, kl
from limitlaw.divergence.distances import kolmogorov, total_variation, wasserstein1
from limitlaw.divergence.transport import wasserstein2

__all__ = [
    "Divergence",
    "hellinger",
    "jensen_shannon",
    "kl",
    "kolmogorov",
    "total_variation",
    "wasserstein1",
    "wasserstein2",
]
