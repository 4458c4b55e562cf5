"""Transformers in NumPy, every matrix drawn:
an independent reference for kernels after each block.
"""

import dataclasses
import math
from typing import Any

import numpy as np
from scipy.special import erf


@dataclasses.dataclass(frozen=True)
class Brute:
    """A small Transformer at width n, as `nn.transformer` describes it;
    x has shape (draws, sequences, tokens, n).
    """

    n: int
    heads: int
    head_dim: int
    kv_heads: int
    norm: str = "pre"
    rms: bool = False
    gated: bool = False
    rotary: bool = False
    alibi: bool = False
    causal: bool = False
    shared: bool = False
    bias_std: float = 0.0
    scale: float = 1.0

    def kernels(self, x: np.ndarray, depth: int, rng: np.random.Generator) -> np.ndarray:
        """n⁻¹⟨x_i, x_j⟩ over sequences and tokens, before the first block and after each:
        (draws, depth + 1, m, m).
        """
        found = [_kernel(x)]
        weights = self._weights(len(x), rng)
        for _ in range(depth):
            if not self.shared:
                weights = self._weights(len(x), rng)
            for layer in (self._attention, self._mlp):
                x = self._half(x, layer, weights)
            found.append(_kernel(x))
        return np.stack(found, axis=1)

    def _half(self, x: np.ndarray, layer: Any, weights: dict[str, np.ndarray]) -> np.ndarray:
        y = x + self.scale * layer(self._normed(x) if self.norm == "pre" else x, weights)
        return self._normed(y) if self.norm == "post" else y

    def _normed(self, x: np.ndarray) -> np.ndarray:
        c = x if self.rms else x - x.mean(axis=-1, keepdims=True)
        return c / np.sqrt((c * c).mean(axis=-1, keepdims=True) + 1e-5)

    def _weights(self, draws: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
        n, d, hidden = self.n, self.head_dim, 2 * self.n
        shapes = {
            "q": (self.heads * d, n),
            "k": (self.kv_heads * d, n),
            "v": (self.kv_heads * d, n),
            "o": (n, self.heads * d),
            "gate": (hidden, n),
            "up": (hidden, n),
            "down": (n, hidden),
        }
        weights = {
            name: rng.normal(size=(draws, *s)) / math.sqrt(s[-1]) for name, s in shapes.items()
        }
        biases = {
            f"{name}_bias": self.bias_std * rng.normal(size=(draws, s[0]))
            for name, s in shapes.items()
        }
        return weights | biases

    def _dense(self, x: np.ndarray, weights: dict[str, np.ndarray], name: str) -> np.ndarray:
        y = np.einsum("zab,zstb->zsta", weights[name], x)
        return y + weights[f"{name}_bias"][:, None, None]

    def _attention(self, x: np.ndarray, weights: dict[str, np.ndarray]) -> np.ndarray:
        z, s, t, _ = x.shape
        d, groups = self.head_dim, self.heads // self.kv_heads
        q = self._dense(x, weights, "q").reshape(z, s, t, self.heads, d)
        k, v = (
            self._dense(x, weights, w).reshape(z, s, t, self.kv_heads, d).repeat(groups, axis=3)
            for w in "kv"
        )
        if self.rotary:
            q, k = _turned(q), _turned(k)
        p = np.einsum("zsihd,zsjhd->zshij", q, k) / math.sqrt(d)
        i = np.arange(t)
        if self.alibi:
            slopes = 2.0 ** (-8 * np.arange(1, self.heads + 1) / self.heads)
            p = p - slopes[:, None, None] * np.abs(i[:, None] - i)
        if self.causal:
            p = np.where(i[:, None] >= i, p, -np.inf)
        A = np.exp(p - p.max(axis=-1, keepdims=True))
        A /= A.sum(axis=-1, keepdims=True)
        y = np.einsum("zshij,zsjhd->zsihd", A, v).reshape(z, s, t, self.heads * d)
        return self._dense(y, weights, "o")

    def _mlp(self, x: np.ndarray, weights: dict[str, np.ndarray]) -> np.ndarray:
        gate = self._dense(x, weights, "gate")
        if self.gated:
            h = gate / (1 + np.exp(-gate)) * self._dense(x, weights, "up")
        else:
            h = 0.5 * gate * (1 + erf(gate / math.sqrt(2)))
        return self._dense(h, weights, "down")


def _kernel(x: np.ndarray) -> np.ndarray:
    flat = x.reshape(len(x), -1, x.shape[-1])
    return flat @ flat.swapaxes(1, 2) / x.shape[-1]


def _turned(w: np.ndarray) -> np.ndarray:
    """Coordinates (m, m + d/2) of token i turned by i·10000^{−2m/d}."""
    half = w.shape[-1] // 2
    angle = (np.arange(w.shape[2])[:, None] * 10_000.0 ** (-np.arange(half) / half))[:, None, :]
    a, b = w[..., :half], w[..., half:]
    return np.concatenate(
        [a * np.cos(angle) - b * np.sin(angle), a * np.sin(angle) + b * np.cos(angle)], axis=-1
    )
