"""Errors along depth: Transformers whose nonlinearity is a function of the user's own.

The library knows nothing of these functions and averages them over nodes; the reference knows
the closed forms of their kernels, and is a chain of kernels in NumPy. Deviations in units of the
stated errors must be those of standard normals.
"""

import functools
import math
from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

import limitlaw as ll

KERNEL = np.array([[1.0, 0.3, 0.0], [0.3, 1.2, -0.2], [0.0, -0.2, 0.8]])
DEPTH, HEAD_DIM, HEADS = 3, 4, 2
OF_REFERENCE, DRAWS, KEYS = 40_000, 256, 8
Kernels = np.ndarray  # (draws, s, s)
STATISTICS = ("variance", "correlation", "entropy")


def _correlation(K: Kernels) -> tuple[np.ndarray, np.ndarray]:
    """√K_ii √K_jj and K_ij over that."""
    d = np.sqrt(np.einsum("...ii->...i", K))
    scale = d[..., :, None] * d[..., None, :]
    return scale, np.clip(K / scale, -1.0, 1.0)


def _squared_relu(K: Kernels) -> Kernels:
    """E[(u)₊² (v)₊²] (Cho and Saul 2009, order 2)."""
    scale, r = _correlation(K)
    angle = np.arccos(r)
    sines = 3 * np.sqrt(1 - r * r) * r
    return scale**2 * (sines + (math.pi - angle) * (1 + 2 * r * r)) / (2 * math.pi)


def _step(K: Kernels) -> Kernels:
    """E[1{u > 0} 1{v > 0}]."""
    return 0.25 + np.arcsin(_correlation(K)[1]) / (2 * math.pi)


def _wave(K: Kernels) -> Kernels:
    """E[sin 2u sin 2v] = e^{−2(K_ii + K_jj)} sinh 4K_ij."""
    d = np.einsum("...ii->...i", K)
    return np.exp(-2 * (d[..., :, None] + d[..., None, :])) * np.sinh(4 * K)


def _square(K: Kernels) -> Kernels:
    """E[u² v²] = K_ii K_jj + 2 K_ij²."""
    d = np.einsum("...ii->...i", K)
    return d[..., :, None] * d[..., None, :] + 2 * K * K


class Function(NamedTuple):
    """A function as a user writes it, and E[φ(u) φ(v)]."""

    phi: Callable[..., object]
    kernel: Callable[[Kernels], Kernels]


FUNCTIONS = {
    "squared ReLU": Function(lambda z: jnp.maximum(z, 0.0) ** 2, _squared_relu),
    "step": Function(lambda z: jnp.where(z > 0, 1.0, 0.0), _step),
    "wave": Function(lambda z: jnp.sin(2 * z), _wave),
    "square": Function(lambda z: z * z, _square),
}
NORMS = {"pre": 0.7, "post": 1.0, "none": 0.3}  # and the scale of branches


def network(name: str, norm: str, q_std: float = 1.5) -> ll.Wide:
    """Blocks whose MLP has this function."""
    return ll.transformer(
        ll.initial((3,), cov=KERNEL),
        DEPTH,
        HEADS,
        HEAD_DIM,
        norm,
        normalise=ll.rmsnorm,
        hidden=ll.n,
        phi=FUNCTIONS[name].phi,
        scale=NORMS[norm],
        q_std=q_std,
    )


@functools.cache
def reference(
    name: str, norm: str, q_std: float = 1.5
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Means of statistics after each block, and their standard errors."""
    rng, scale, phi = np.random.default_rng(5), NORMS[norm], FUNCTIONS[name].kernel
    K, rows = np.broadcast_to(KERNEL, (OF_REFERENCE, 3, 3)), []
    before, after = (_normed if norm == place else (lambda K: K) for place in ("pre", "post"))
    for _ in range(DEPTH):
        L = np.linalg.cholesky(before(K) + 1e-14 * np.eye(3))[:, None]
        q, k, v = L @ rng.normal(size=(3, OF_REFERENCE, HEADS, 3, HEAD_DIM))
        p = q_std * q @ k.swapaxes(-1, -2) / math.sqrt(HEAD_DIM)
        A = np.exp(p - p.max(axis=-1, keepdims=True))
        A /= A.sum(axis=-1, keepdims=True)
        out = A @ v
        attended = np.einsum("nhid,nhjd->nij", out, out) / (HEADS * HEAD_DIM)
        K = after(K + scale**2 * attended)
        K = after(K + scale**2 * phi(before(K)))
        entropy = -np.sum(A * np.log(np.maximum(A, 1e-300)), axis=-1).mean(axis=(-1, -2))
        off = _correlation(K)[1][:, *np.triu_indices(3, 1)].mean(axis=-1)
        rows.append((np.einsum("nii->n", K) / 3, off, entropy))
    found = np.array(rows)  # (blocks, statistics, draws)
    mean, error = found.mean(axis=-1), found.std(axis=-1) / math.sqrt(OF_REFERENCE)
    return {s: (mean[:, i], error[:, i]) for i, s in enumerate(STATISTICS)}


def _normed(K: Kernels) -> Kernels:
    root = 1 / np.sqrt(np.einsum("...ii->...i", K) + 1e-5)
    return K * root[..., :, None] * root[..., None, :]


CASES = (("squared ReLU", "pre"), ("step", "post"), ("wave", "none"), ("square", "pre"))


@functools.cache
def deviations(name: str, norm: str) -> np.ndarray:
    """Of every statistic after every block and for every key, in units of the joint error."""
    truth, found = reference(name, norm), []
    for key in range(KEYS):
        trace = ll.trace(network(name, norm), STATISTICS, samples=DRAWS, key=key)
        for statistic, (value, error) in truth.items():
            column = trace[statistic]
            joint = np.hypot(column.error[1:], error)
            found.append((column.value[1:] - value) / joint)
    return np.array(found)


def test_errors_of_traces() -> None:
    """288 figures: a standard deviation near 1, none beyond 5."""
    z = np.concatenate([deviations(*case).reshape(-1) for case in CASES])
    assert z.size == 288
    assert np.abs(z).max() < 5
    assert 0.8 < np.sqrt(np.mean(z**2)) < 1.25


def test_errors_of_solutions() -> None:
    """The scale at which entropy reaches that of a scale that is known."""
    name = "squared ReLU"
    value, error = (part[-1] for part in reference(name, "pre")["entropy"])
    z = []
    for key in range(4):
        found = ll.depth.solve(
            functools.partial(network, name, "pre"),
            "entropy",
            value,
            over=(0.5, 5.0),
            samples=DRAWS,
            key=key,
        )
        z.append((found.value - 1.5) / math.hypot(found.error, error / found.slope))
    assert np.abs(z).max() < 4
