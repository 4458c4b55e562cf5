"""Proposals for importance sampling of standard normals:
Gaussian mixtures that keep a share of the prior.

The prior's share bounds the weights (Hesterberg, "Weighted average importance sampling and
defensive mixture distributions", 1995); the other components are fitted to weighted draws by a few
steps of the EM algorithm (Cappé, Douc, Guillin, Marin and Robert, "Adaptive importance sampling in
general mixture classes", 2008).
"""

import math

import numpy as np
from jaxtyping import Float

from limitlaw.numerics.linear_algebra import inner, times

# the share of the prior, and how much wider than the fit proposals are: for one head
PRIOR, WIDER = 1 / 8, 0.3
# at most so many are fitted, shared out among the heads, in so many steps
COMPONENTS, STEPS = 12, 5
SMALLEST = 1e-3  # share of a component
SEED = 1  # for the first centres


class Proposal:
    """q = Σ_k a_k N(m_k, S_k) in R^d, to draw from in place of the prior N(0, I)."""

    def __init__(
        self,
        shares: Float[np.ndarray, " k"],
        means: Float[np.ndarray, "k d"],
        covariances: Float[np.ndarray, "k d d"],
    ):
        self.shares, self.means = shares, means
        scale, axes = np.linalg.eigh(covariances)
        # the first Sobol coordinates for the longest axes
        scale, axes = np.sqrt(scale[:, ::-1]), axes[:, :, ::-1]
        self._factors = axes * scale[:, None]
        self._whitening = axes / scale[:, None]
        self._offsets = np.log(shares) - np.log(scale).sum(axis=1)

    @classmethod
    def prior(cls, dimensions: int) -> "Proposal":
        """N(0, I) itself."""
        return cls(np.ones(1), np.zeros((1, dimensions)), np.eye(dimensions)[None])

    def draw(
        self, choice: Float[np.ndarray, " N"], e: Float[np.ndarray, "N d"]
    ) -> tuple[Float[np.ndarray, "N d"], Float[np.ndarray, " N"]]:
        """Points z of q from uniform and normal numbers, and the logarithms of their weights
        N(z; 0, I)/q(z).
        """
        if len(self.shares) == 1 and not self.means.any():
            return e, np.zeros(len(e))
        k = np.searchsorted(np.cumsum(self.shares)[:-1], choice, side="right")
        z = np.empty_like(e)
        for i, (mean, factor) in enumerate(zip(self.means, self._factors, strict=True)):
            z[k == i] = mean + times(e[k == i], factor.T)
        return z, -0.5 * np.einsum("nd,nd->n", z, z) - _log_sum(self.logs(z))

    def logs(self, z: Float[np.ndarray, "N d"]) -> Float[np.ndarray, "k N"]:
        """log(a_k N(z; m_k, S_k)) for each component, up to one constant, (2π)^{d/2}."""
        rows = [times(z, W) - m @ W for m, W in zip(self.means, self._whitening, strict=True)]
        return self._offsets[:, None] - 0.5 * np.stack([np.einsum("nd,nd->n", u, u) for u in rows])


def fitted(z: Float[np.ndarray, "N d"], weights: Float[np.ndarray, " N"], heads: int) -> Proposal:
    """A share of the prior, and components fitted to weighted draws:
    fewer components for fewer effective draws.

    Covariances are shrunk, by as much as 2d draws would: that of all draws towards I, those of
    components towards it. Then they are taken `wider` by a factor: too narrow a proposal is worse
    than too wide a one.
    """
    d = z.shape[1]
    w, effective = _tempered(weights, 4 * d)
    mean = inner(w[:, None], z)[0]
    common = (effective * _scatter(z - mean, w) + 2 * d * np.eye(d)) / (effective + 2 * d)
    count = max(1, min(int(effective / (10 * d)), COMPONENTS // heads))
    shares, means, covariances = np.ones(1), mean[None], common[None]
    if count > 1:
        start = np.random.default_rng(SEED).choice(len(w), size=count, p=w)
        shares, means = np.full(count, 1 / count), z[start]
        covariances = np.broadcast_to(0.7 * common, (count, d, d))
        kept = w > 1e-3 / len(w)
        for _ in range(STEPS):
            shares, means, covariances = _step(
                Proposal(shares, means, covariances), z[kept], w[kept], effective, common
            )
    prior = PRIOR / heads
    return Proposal(
        np.append(prior, (1 - prior) * shares),
        np.concatenate([np.zeros((1, d)), means]),
        np.concatenate([np.eye(d)[None], (1 + math.sqrt(WIDER / (heads * d))) * covariances]),
    )


def _step(
    q: Proposal,
    z: Float[np.ndarray, "N d"],
    w: Float[np.ndarray, " N"],
    effective: float,
    common: Float[np.ndarray, "d d"],
) -> tuple[Float[np.ndarray, " k"], Float[np.ndarray, "k d"], Float[np.ndarray, "k d d"]]:
    """One step of EM: shares, means and covariances from the probabilities that a
    draw belongs to a component.
    """
    logs = q.logs(z)
    belongs = np.exp(logs - _log_sum(logs)) * w
    shares = np.maximum(belongs.sum(axis=1), SMALLEST)
    means = inner(belongs.T, z) / shares[:, None]
    prior = 2 * z.shape[1]
    covariances = [
        (effective * _scatter(z - m, b) + prior * common) / (effective * a + prior)
        for a, m, b in zip(shares, means, belongs, strict=True)
    ]
    return shares / shares.sum(), means, np.stack(covariances)


def _tempered(
    weights: Float[np.ndarray, " N"], least: int
) -> tuple[Float[np.ndarray, " N"], float]:
    """Weights of sum one and their effective number 1/Σw²;
    roots are taken until that is `least`, or nearly all.
    """
    w = weights / weights.max()
    enough = min(least, 0.9 * np.count_nonzero(w))
    while (effective := w.sum() ** 2 / (w @ w)) < enough and len(w) > least:
        w = np.sqrt(w)
    return w / w.sum(), float(effective)


def _scatter(z: Float[np.ndarray, "N d"], w: Float[np.ndarray, " N"]) -> Float[np.ndarray, "d d"]:
    return inner(z, z * w[:, None])


def _log_sum(logs: Float[np.ndarray, "k N"]) -> Float[np.ndarray, " N"]:
    top = logs.max(axis=0)
    return np.asarray(top + np.log(np.exp(logs - top).sum(axis=0)))
