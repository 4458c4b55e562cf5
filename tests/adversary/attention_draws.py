"""Attention layers in plain NumPy, as draws: the random covariance of the outputs given the scores
(theory §2, §4, §5).

    S = σ_Qσ_K L T N Lᵀ/√d,   A = softmax(S),   C = σ_O²σ_V² H^{-1} Σ_a A L (T'T'ᵀ/d)
    Lᵀ Aᵀ,   K = L Lᵀ

with T Tᵀ/d = T'T'ᵀ/d = I for n × n matrices. Kernels may differ from draw to draw: (N, s, s).
"""

import dataclasses
import functools
import math
from typing import Any

import numpy as np

Array = Any
EPS = 1e-5  # of norms
BASE = 10_000.0  # of rotary embeddings


@dataclasses.dataclass(frozen=True)
class Layer:
    """One attention layer. Standard deviations are (H,), one for each head;
    `seen` is (s, s), True where i sees j.
    """

    heads: int
    head_dim: int | None
    scaling: str
    seen: Array
    q: Array
    k: Array
    v: Array
    o: Array
    positions: Array | None = None

    def score_scale(self, a: int) -> float:
        """σ_Qσ_K, under 1/√D; under 1/D scores vanish for D = n and are 1/√d times
        as large for D = d.
        """
        if self.scaling == "sqrt":
            return float(self.q[a] * self.k[a])
        return (
            0.0
            if self.head_dim is None
            else float(self.q[a] * self.k[a]) / math.sqrt(self.head_dim)
        )

    def value_scale(self, a: int) -> float:
        return float((self.v[a] * self.o[a]) ** 2)


def root(K: Array) -> Array:
    """L with L Lᵀ = K, by the correlations: variances may span many decades and may be zero."""
    sd = np.sqrt(np.diagonal(K, axis1=-2, axis2=-1))
    safe = np.where(sd > 0, sd, 1.0)
    eigenvalues, vectors = np.linalg.eigh(K / safe[..., :, None] / safe[..., None, :])
    return safe[..., :, None] * vectors * np.sqrt(np.maximum(eigenvalues, 0.0))[..., None, :]


def softmax(p: Array, seen: Array) -> Array:
    """exp(p_j)/Σ_k exp(p_k) over the tokens seen."""
    p = p if seen.all() else np.where(seen, p, -np.inf)
    e = np.exp(p - functools.reduce(np.maximum, np.moveaxis(p, -1, 0))[..., None])
    return e / sum(np.moveaxis(e, -1, 0))[..., None]  # NumPy's sum over few numbers is slow


def rotary_correlation(difference: Array) -> Array:
    """c(Δ) = lim (2/D) Σ_m cos(θ_m Δ), θ_m = base^{−2m/D}:
    the mean of cos(Δ base^{−u}) over u in [0, 1].
    """
    x, w = np.polynomial.legendre.leggauss(200)
    u = (x + 1) / 2
    return np.cos(np.asarray(difference)[..., None] * BASE**-u) @ w / 2


# --- one row of one head -------------------------------------------------------------------------


def row_variances(
    rng: np.random.Generator, N: int, K: Array, i: int, layer: Layer, heads: int
) -> Array:
    """v = H^{-1} Σ_a σ_V²σ_O² A_i K A_iᵀ of the first heads, N draws; with narrow heads two χ²
    more: |q_i|² and the length of the value.
    """
    L = root(K)
    total = np.zeros(N)
    for a in range(heads):
        S = _row_scores(rng, N, K, L, i, layer)
        A = softmax(layer.score_scale(a) * S, layer.seen[i])
        factor = _chi_square(rng, N, layer.head_dim) * layer.value_scale(a)
        total += factor * quadratic(A, L)
    return total / heads


def quadratic(A: Array, L: Array) -> Array:
    """A K Aᵀ ≥ 0 for rows A, as |A L|²: no cancellation where tokens cancel each other."""
    y = A @ L if L.ndim == 2 else np.einsum("...j,...jr->...r", A, L)
    return np.einsum("...r,...r->...", y, y)


def _chi_square(rng: np.random.Generator, N: int, d: int | None) -> Array:
    """χ²_d/d; 1 for d = ∞."""
    return np.ones(N) if d is None else rng.chisquare(d, N) / d


def _row_scores(
    rng: np.random.Generator, N: int, K: Array, L: Array, i: int, layer: Layer
) -> Array:
    """S_i· for σ_Q = σ_K = 1: N(0, K_ii K_jl c(j − l)),
    given the length of q_i where heads are narrow.
    """
    s = K.shape[-1]
    length = K[..., i, i]
    if layer.positions is None:
        factor = np.sqrt(length * _chi_square(rng, N, layer.head_dim))
        z = factor[:, None] * rng.normal(size=(N, s))
        return z @ L.T if K.ndim == 2 else np.einsum("njr,nr->nj", L, z)
    difference = layer.positions[:, None] - layer.positions
    if layer.head_dim is None:
        turned = root(length * K * rotary_correlation(difference))
        return rng.normal(size=(N, s)) @ turned.T
    half = layer.head_dim // 2
    angles = difference[..., None] * BASE ** (-np.arange(half) / half)
    energy = length * rng.chisquare(2, (N, half)) / layer.head_dim
    covariance = K * np.einsum("nm,jlm->njl", energy, np.cos(angles))
    return np.einsum("njr,nr->nj", root(covariance), rng.normal(size=(N, s)))


# --- all rows of one head ------------------------------------------------------------------------


def covariances(rng: np.random.Generator, N: int, K: Array, layer: Layer) -> Array:
    """C = H^{-1} Σ_a σ_V²σ_O² A^a (V^aV^aᵀ/d) A^aᵀ, N draws (N, s, s)."""
    total = np.zeros((N, K.shape[-1], K.shape[-1]))
    L = np.broadcast_to(root(K), total.shape)
    for a in range(layer.heads):
        A = softmax(layer.score_scale(a) * _scores(rng, L, K, layer), layer.seen)
        V = A @ L @ _factor(rng, N, K.shape[-1], layer.head_dim)
        total += layer.value_scale(a) * V @ np.swapaxes(V, -1, -2)
    return total / layer.heads


def _factor(rng: np.random.Generator, N: int, s: int, d: int | None) -> Array:
    """G/√d with normals G (s × d): G Gᵀ/d → I as d → ∞."""
    return np.eye(s) if d is None else rng.normal(size=(N, s, d)) / math.sqrt(d)


def _scores(rng: np.random.Generator, L: Array, K: Array, layer: Layer) -> Array:
    """S = L N Lᵀ; (L G)(L G')ᵀ/√d for heads of dimension d;
    with rotary embeddings from its s² × s² covariance.
    """
    N, s, _ = L.shape
    if layer.positions is not None:
        if layer.head_dim is not None or K.ndim > 2:
            raise NotImplementedError("rotary: all rows only for n × n matrices and one kernel")
        ahead = layer.positions[None, :] - layer.positions[:, None]  # j − i
        turned = rotary_correlation(ahead[:, :, None, None] - ahead[None, None])
        joint = np.einsum("ik,jl,ijkl->ijkl", K, K, turned).reshape(s * s, s * s)
        return (rng.normal(size=(N, s * s)) @ root(joint).T).reshape(N, s, s)
    d = layer.head_dim
    inner = rng.normal(size=(N, s, s)) if d is None else _products(rng, N, s, d)
    return L @ inner @ np.swapaxes(L, -1, -2)


def _products(rng: np.random.Generator, N: int, s: int, d: int) -> Array:
    q, k = rng.normal(size=(2, N, s, d))
    return q @ np.swapaxes(k, -1, -2) / math.sqrt(d)


# --- between layers ------------------------------------------------------------------------------


def normalised(K: Array, mean: Array, norm: str) -> tuple[Array, Array]:
    """Kernel and means behind a norm: c = x − m (LayerNorm)
    or x (RMSNorm), divided by √(E c² + ε).
    """
    if norm == "layernorm":
        K, mean = K - mean[..., :, None] * mean[..., None, :], np.zeros_like(mean)
    scale = 1 / np.sqrt(np.diagonal(K, axis1=-2, axis2=-1) + EPS)
    return K * scale[..., :, None] * scale[..., None, :], mean * scale
