"""Posteriors by importance sampling over draws of the prior, in NumPy: every network written out,
nothing of limitlaw but the programs.
"""

import dataclasses
import math
from collections.abc import Callable, Iterator

import numpy as np

import limitlaw as ll

TRAIN, TEST, TOKENS, D, NOISE = 4, 2, 3, 3, 0.3
BATCH = 2**14


def inputs(seed: int) -> np.ndarray:
    """Sequences of tokens in R^D."""
    return np.random.default_rng(seed).normal(size=(TRAIN + TEST, TOKENS, D))


def softmax(p: np.ndarray) -> np.ndarray:
    """Over the last axis."""
    e = np.exp(p - p.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def layer(F, rng, heads, g, query, causal=False, d=None):
    """An infinitely wide attention layer on tokens with kernel F Fᵀ, F (B, m, s, r): the factor of
    what it gives, for one query or (None) all.
    """
    B, _, s, r = F.shape
    queries = F if query is None else F[:, :, [query]]
    seen = np.tril(np.ones((s, s), bool))
    seen = (seen if query is None else seen[[query]]) if causal else True
    parts = []
    for _ in range(heads):
        if d is None:
            p, v = queries @ (rng.normal(size=(B, 1, r, r)) @ F.swapaxes(2, 3)), F
        else:
            wq, wk, wv = rng.normal(size=(3, B, 1, r, d))
            p, v = (queries @ wq) @ (F @ wk).swapaxes(2, 3) / math.sqrt(d), F @ wv / math.sqrt(d)
        parts.append(softmax(np.where(seen, g * p, -np.inf)) @ v)
    return np.concatenate(parts, axis=-1) / math.sqrt(heads)


def dense(X, rng, heads, g, n, B):
    """y (B, m, n) of one layer at width n, query 0, every matrix drawn."""
    h = np.einsum("bnd,msd->bmsn", rng.normal(size=(B, n, D)), X) / math.sqrt(D)
    total = 0.0
    for _ in range(heads):
        wq, wk, wv, wo = rng.normal(size=(4, B, n, n)) / math.sqrt(n)
        q, k = np.einsum("bij,bmj->bmi", wq, h[:, :, 0]), np.einsum("bij,bmsj->bmsi", wk, h)
        A = softmax(g * np.einsum("bmi,bmsi->bms", q, k) / math.sqrt(n))
        mixed = np.einsum("bms,bmsn->bmn", A, h)
        total = total + np.einsum("bij,bjk,bmk->bmi", wo, wv, mixed)
    return total / math.sqrt(heads)


@dataclasses.dataclass(frozen=True)
class Network:
    """A program, and draws of its outputs' coordinates (B, m, r), whose Gram matrix is K."""

    program: Callable[[np.ndarray], ll.Wide]
    factors: Callable[[np.ndarray, np.random.Generator, int], np.ndarray]
    width: int | None = None

    def kernels(self, X: np.ndarray, count: int, seed: int) -> Iterator[np.ndarray]:
        """Draws of K, in batches."""
        rng = np.random.default_rng(seed)
        for _ in range(0, count, BATCH):
            Phi = self.factors(X, rng, BATCH)
            yield Phi @ Phi.swapaxes(1, 2) / (self.width or 1)


def embedded(X):
    """Tokens as wide vectors, by one random matrix."""
    return ll.Matrix(cols=D) @ ll.data(X)


def tokens(X, B):
    """The factor of their kernel, for each draw."""
    return np.broadcast_to(X / math.sqrt(D), (B, *X.shape))


def one_layer(heads, g, query=0, **options):
    """One infinitely wide layer."""
    mask = "causal" if options.get("causal") else None

    def program(X):
        d = options.get("d")
        return ll.attention(embedded(X), heads, d, q_std=g, mask=mask)[..., query]

    def factors(X, rng, B):
        return layer(tokens(X, B), rng, heads, g, query, **options)[:, :, 0]

    return Network(program, factors)


def two_layers(heads, g, residual=False):
    """Two infinitely wide layers, with a residual or without."""

    def program(X):
        x = embedded(X)
        h = ll.attention(x, heads, q_std=g)
        return ll.attention(x + h if residual else h, 1, q_std=g)[..., 0]

    def factors(X, rng, B):
        F = tokens(X, B)
        h = layer(F, rng, heads, g, None)
        h = np.concatenate([np.broadcast_to(F, (*h.shape[:3], D)), h], -1) if residual else h
        return layer(h, rng, 1, g, 0)[:, :, 0]

    return Network(program, factors)


def at_width(heads, g, n):
    """One layer at width n."""
    return Network(
        lambda X: ll.attention(embedded(X), heads, q_std=g)[..., 0],
        lambda X, rng, B: dense(X, rng, heads, g, n, B),
        n,
    )


NETWORKS = {
    "one head": one_layer(1, 3.0),
    "two heads, a mask": one_layer(2, 3.0, query=1, causal=True),
    "narrow heads": one_layer(2, 3.0, d=2),
    "one narrow head": one_layer(1, 2.0, d=1),
    "two layers": two_layers(1, 2.0),
    "a residual": two_layers(1, 2.0, residual=True),
    "two layers of two heads": two_layers(2, 2.0),
    "width 4": at_width(1, 2.0, 4),
    "width 2, two heads": at_width(2, 2.0, 2),
}


def targets_of(network: Network, X: np.ndarray, seed: int, train: int = TRAIN) -> np.ndarray:
    """Targets drawn from the prior."""
    rng = np.random.default_rng(seed)
    K = next(network.kernels(X, 1, seed))[0][:train, :train]
    return np.linalg.cholesky(K + NOISE**2 * np.eye(train)) @ rng.normal(size=train)


@dataclasses.dataclass(frozen=True)
class Reference:
    """Log evidence, predictive means and second moments E f_* f_*' with their errors, and the
    effective number of draws.
    """

    log_evidence: float
    moments: np.ndarray
    errors: np.ndarray
    error_of_evidence: float
    effective: float


def reference(network: Network, X, t, count: int, seed: int) -> Reference:
    """By importance sampling over so many draws of the prior."""
    found, logs, k = [], [], len(t)
    for K in network.kernels(X, count, seed):
        C = K[:, :k, :k] + NOISE**2 * np.eye(k)
        solved = np.linalg.solve(
            C, np.concatenate([np.broadcast_to(t[:, None], (len(K), k, 1)), K[:, :k, k:]], axis=-1)
        )
        across = K[:, k:, :k] @ solved
        mean = across[..., 0]
        second = K[:, k:, k:] - across[..., 1:] + mean[:, :, None] * mean[:, None]
        logs.append(
            -0.5 * (solved[..., 0] @ t + np.linalg.slogdet(C)[1] + k * math.log(2 * math.pi))
        )
        found.append(np.concatenate([mean, second.reshape(len(K), -1)], axis=1))
    log, values = np.concatenate(logs), np.concatenate(found)
    w = np.exp(log - log.max())
    share = w / w.sum()
    moments = share @ values
    errors = np.sqrt(share**2 @ (values - moments) ** 2)
    value = log.max() + math.log(w.mean())
    error = w.std() / w.mean() / math.sqrt(len(w))
    return Reference(value, moments, errors, error, 1 / np.sum(share**2))


def z_scores(found, expected: Reference) -> np.ndarray:
    """How many joint standard errors a posterior is away: evidence, means, second moments."""
    law, (value, error) = found.predict(), found.log_evidence()
    j = law.shape[0]
    mean, C = law.mean(), law.covariance()
    e_mean, e_C = law.error.mean(), law.error.covariance()
    second = (C + mean[:, None] * mean).reshape(-1)
    # of C + m mᵀ, taken as if both were independent
    e_second = np.sqrt(
        e_C**2 + (e_mean[:, None] * mean) ** 2 + (e_mean * mean[:, None]) ** 2
    ).reshape(-1)
    ours = np.concatenate([mean, second]), np.concatenate([e_mean, e_second])
    z = (ours[0] - expected.moments) / np.hypot(ours[1], expected.errors)
    assert len(z) == j + j * j
    first = (value - expected.log_evidence) / math.hypot(error, expected.error_of_evidence)
    return np.concatenate([[first], z])
