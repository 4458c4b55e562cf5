"""Covariances of programs that repeat themselves: recurrent networks, images.

Seconds of the processor, compilation included, beside an obvious loop in NumPy in the same run:
for a recurrent network one draw of width 1,024, step by step, which knows its kernel to 1/√1,024;
for images the recursion over pairs of pixels, one pair of images after the other.
"""

import argparse
import itertools
import resource
import time
from collections.abc import Callable
from typing import Any

import numpy as np


def main() -> None:
    """Print the tables."""
    import jax

    jax.config.update("jax_enable_x64", True)
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, nargs="*", default=[8, 16, 32, 64])
    parser.add_argument("--images", type=int, default=10)
    parser.add_argument("--pixels", type=int, default=32)
    options = parser.parse_args()
    images(options.images, options.pixels)
    for steps in options.steps:
        recurrent(steps)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"peak memory {peak:.2f} GiB")


def spent(function: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds of the processor, and the result."""
    start = time.process_time()
    result = np.asarray(function())
    return time.process_time() - start, result


def recurrent(steps: int) -> None:
    """The kernel of all states of a GRU."""
    import limitlaw as ll

    ours, K = spent(lambda: ll.kernel(ll.gru(ll.initial((steps,)))))
    theirs, Q = spent(lambda: one_gru(steps, 1024))
    gap = np.abs(K - Q).max()
    print(
        f"gru of {steps:3} steps: limitlaw {ours:6.1f} s, one network {theirs:5.2f} s, "
        f"ratio {theirs / ours:.2g}, gap {gap:.0e}"
    )


def one_gru(steps: int, n: int) -> Any:
    """Inner products of the states of one wide network."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(steps, n))
    W, U = (rng.normal(size=(3, n, n)) / np.sqrt(n) for _ in range(2))
    h, states = np.zeros(n), []
    for t in range(steps):
        a, b = W @ h, U @ x[t]
        z, r = (1 / (1 + np.exp(-(a[i] + b[i]))) for i in range(2))
        h = (1 - z) * np.tanh(b[2] + r * a[2]) + z * h
        states.append(h)
    return np.array(states) @ np.array(states).T / n


def images(count: int, pixels: int) -> None:
    """The kernel of two convolutions and an average readout."""
    import limitlaw as ll

    X = np.random.default_rng(0).normal(size=(count, pixels, pixels, 3))

    def kernel() -> Any:
        h = ll.data(X)
        for _ in range(2):
            h = ll.relu(ll.conv2d(h))
        return ll.kernel(ll.readout(h, axes=2))

    ours, K = spent(kernel)
    theirs, Q = spent(lambda: by_hand(X))
    gap = np.abs(K - Q).max()
    print(
        f"{count} images of {pixels} × {pixels}: limitlaw {ours:.1f} s, by hand {theirs:.1f} s, "
        f"ratio {theirs / ours:.1f}, gap {gap:.0e}"
    )


def by_hand(X: Any) -> Any:
    """The same, pair by pair: windows are sums over shifts."""
    variances = [_layers(x, x, None)[1] for x in X]
    K = np.empty((len(X), len(X)))
    for i, j in itertools.combinations_with_replacement(range(len(X)), 2):
        K[i, j] = K[j, i] = _layers(X[i], X[j], (variances[i], variances[j]))[0].mean()
    return K


def _layers(x: Any, y: Any, variances: Any) -> Any:
    """The last second moments, and the variances of every layer."""
    C, found = np.einsum("abd,efd->abef", x, y) / x.shape[-1], []
    for layer in range(2):
        padded = np.pad(C, 1)
        s = len(C)
        C = sum(
            padded[k : k + s, m : m + s, k : k + s, m : m + s] for k in range(3) for m in range(3)
        )
        C = C / 9
        found.append(np.einsum("abab->ab", C).copy())
        first, second = (found[-1],) * 2 if variances is None else (v[layer] for v in variances)
        scale = np.sqrt(first[:, :, None, None] * second)
        c = np.clip(C / scale, -1, 1)
        C = scale * (np.sqrt(1 - c * c) + (np.pi - np.arccos(c)) * c) / (2 * np.pi)
    return C, found


if __name__ == "__main__":
    main()
