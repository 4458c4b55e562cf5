"""What a posterior is of: a program with its targets, and draws of its latent variables."""

import dataclasses
import math
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from limitlaw.engines.latents import LatentMap


class WithError(NamedTuple):
    """A number, or an array, and its standard error."""

    value: Any
    error: Any


@dataclasses.dataclass(frozen=True)
class Problem:
    """What was observed of which network.

    `map`: kernel and attention weights of all entries of y, as functions of latent normals, and
    `part` that of the training entries, if it is a function of the same normals. `train`: the flat
    places of those; `targets` (m, outputs), `single` if they came without an axis of outputs.
    `known`: a deterministic kernel, and its error.
    """

    map: LatentMap
    part: LatentMap | None
    shape: tuple[int, ...]
    train: np.ndarray
    targets: Float[np.ndarray, "m outputs"]
    single: bool
    noise: float
    width: int | None
    beyond: tuple[str, ...]
    known: tuple[np.ndarray, np.ndarray | None] | None = None

    @property
    def of_training(self) -> LatentMap:
        """The map that the likelihood reads."""
        return self.part or self.map

    @property
    def data(self) -> Any:
        """What the likelihood is of: the program's numbers, the selection of training entries,
        targets, noise.
        """
        entries = np.arange(math.prod(self.shape))
        in_order = self.part is not None or np.array_equal(self.train, entries)
        S = None if in_order else jnp.eye(len(entries))[self.train]
        return self.of_training.arrays, S, jnp.asarray(self.targets), jnp.asarray(self.noise)

    def kernel_at(self, x: Array) -> Array:
        """K of all entries, at one point."""
        (Phi, K), _ = self.map.read(x)
        return K if Phi is None else Phi @ Phi.T


@dataclasses.dataclass(frozen=True)
class Latents:
    """Draws x of latent normals with weights, from so many independent `blocks` of neighbours (0:
    all are independent), their log-likelihoods, the log evidence with its error, and `how` they
    were found.
    """

    x: Float[np.ndarray, "N d"]
    weights: Float[np.ndarray, " N"]
    blocks: int
    value: Float[np.ndarray, " N"] | None = None
    log_evidence: float = 0.0
    error: float = 0.0
    how: str = "closed form"
    stable: bool = True
    kind: str = "sampled"

    def effective_number(self) -> float:
        """(Σ w)²/Σ w² of independent draws; of islands, the variance of ℓ over that of its mean
        over an island, times the number of islands: at most the number of draws.
        """
        if self.blocks < 2 or self.value is None:
            return float(1 / np.sum(self.weights**2))
        each = self.value.reshape(self.blocks, -1)
        between, within = each.mean(axis=1).var(ddof=1), each.var(ddof=1)
        return float(min(len(self.x), self.blocks * within / between)) if between else len(self.x)

    def split_r_hat(self) -> float:
        """R̂ of ℓ over halves of islands: √((n − 1)/n + B/W), with B the variance of means of
        halves and W the mean of their variances (Gelman et al.); NaN for independent draws.
        """
        if self.blocks < 2 or self.value is None:
            return math.nan
        n = len(self.value) // (2 * self.blocks)
        halves = np.array_split(self.value, 2 * self.blocks)
        B = np.var([half.mean() for half in halves], ddof=1)
        W = np.mean([half.var(ddof=1) for half in halves])
        return float(np.sqrt((n - 1) / n + B / W)) if W > 0 else 1.0
