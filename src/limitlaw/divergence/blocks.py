"""A sampled law as the average of laws of independent blocks of its components: what errors and biases come from."""

import dataclasses
from collections.abc import Callable

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from limitlaw.laws import Empirical, GaussianMixture, Law, Pushforward, Tokens

BLOCKS = 16


@dataclasses.dataclass(frozen=True)
class Blocks:
    """p = Σ_b a_b p_b with a_b = `weights`. One block where the law is not sampled, or cannot be cut: `whole`."""

    whole: Law
    parts: tuple[Law, ...]
    weights: Float[np.ndarray, " b"]

    @property
    def several(self) -> bool:
        """Do the blocks show the noise?"""
        return len(self.parts) > 1

    @property
    def opaque(self) -> bool:
        """Is the law sampled, and known to err only point by point?"""
        return self.whole.kind == "sampled" and not self.several

    def rows(self, figure: Callable[[Law], object]) -> Float[np.ndarray, "b x"]:
        """A figure of each block."""
        return np.stack([np.asarray(figure(part)) for part in self.parts])

    def spread(self, rows: Float[np.ndarray, "b x"]) -> Float[np.ndarray, " x"]:
        """The standard error of Σ_b a_b rows_b: √(Σ a_b² (rows_b − mean)²/(1 − Σ a_b²)); 0 for one block."""
        if not self.several:
            return np.zeros(rows.shape[1:])
        a = self.weights[:, None]
        return np.sqrt(np.sum(a**2 * (rows - self.weights @ rows) ** 2, 0) / (1 - np.sum(a**2)))


def blocks(law: Law) -> Blocks:
    """The law in `BLOCKS` runs of neighbouring components, or fewer where it has fewer.

    Runs, not every 16th: where components come in antithetic pairs, or as points of a Sobol sequence, that keeps
    together what belongs together.
    """
    if isinstance(law, Tokens):
        law = law.joint  # whose log densities at thousands of points are fast
    one = Blocks(law, (law,), np.ones(1))
    if law.kind != "sampled" or not isinstance(law, GaussianMixture | Pushforward | Empirical):
        return one
    weights = np.asarray(law._components.weights)
    runs = [run for run in np.array_split(np.arange(len(weights)), min(BLOCKS, len(weights))) if weights[run].sum() > 0]
    if len(runs) < 4:
        return one
    parts = tuple(part(law, slice(run[0], run[-1] + 1)) for run in runs)
    total = np.array([weights[run].sum() for run in runs])
    return Blocks(law, parts, total / total.sum())


def part(law: Law, rows: slice) -> Law:
    """The law of some of the components."""
    if isinstance(law, Pushforward):
        base = part(law.base, rows)
        assert isinstance(base, GaussianMixture)
        return Pushforward(law.phi, base, law.kind, law.beyond)
    assert isinstance(law, GaussianMixture | Empirical)
    weights = np.asarray(law._components.weights)[rows]
    weights = weights / weights.sum()
    if isinstance(law, Empirical):
        return Empirical._grouped(law._components.parameters[rows], jnp.asarray(weights), law.beyond)
    mean, covariance = (np.asarray(a)[rows] for a in law._given)
    return GaussianMixture(mean.reshape(-1, *law.shape), covariance, weights, law.kind, law.beyond)


def thinned(law: Law, most: int = 1024) -> Law:
    """Some of the components, where they are many: good enough to choose panels by."""
    if not isinstance(law, GaussianMixture | Pushforward) or len(law._components) <= most:
        return law
    return part(law, slice(None, None, -(-len(law._components) // most)))
