"""The law of one attention output against the paper's way:
50,000 samples and a Gaussian kernel density estimate.

One token of four, K = I. The density on the paper's grid of 500 points; errors are against
90-point tensor Gauss–Hermite quadrature of the characteristic function, computed here. Then many
heads, and cold processes.
"""

import subprocess
import sys
import time
from typing import Any

import numpy as np

TOKENS, SAMPLES, POINTS = 4, 50_000, 500


def main() -> None:
    """Print the tables."""
    against_smoothing()
    many_heads()
    cold()


def one_head(t: Any) -> Any:
    """φ_1(t) = E exp(−t² v/2), v = |A|², A = softmax(p):
    p in the three dimensions orthogonal to (1, 1, 1, 1).
    """
    x, w = np.polynomial.hermite_e.hermegauss(90)
    w = w / w.sum()
    basis = np.linalg.svd(np.ones((1, TOKENS)))[2][1:]
    total = np.zeros(len(t))
    for i, first in enumerate(x):
        z = np.stack(np.meshgrid([first], x, x, indexing="ij"), axis=-1).reshape(-1, 3)
        weight = w[i] * np.outer(w, w).reshape(-1)
        keep = weight > 1e-30
        v = (softmax(z[keep] @ basis) ** 2).sum(axis=1)
        total += weight[keep] @ np.exp(-0.5 * v[:, None] * t**2)
    return total


def softmax(p: Any) -> Any:
    """Along the last axis."""
    e = np.exp(p - p.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def reference(heads: int, x: Any) -> Any:
    """The density by the trapezoidal rule on φ_H(t) = φ_1(t/√H)^H."""
    t = np.arange(0, 40, 0.1)
    phi = one_head(t / np.sqrt(heads)) ** heads
    weights = np.where(t == 0, 0.5, 1.0) * 0.1 / np.pi
    return np.cos(np.outer(x, t)) @ (weights * phi)


def smoothed(heads: int, x: Any, seed: int) -> Any:
    """The paper's way, from its limit: draw scores and outputs,
    then a Gaussian kernel density estimate.
    """
    from scipy.stats import gaussian_kde

    rng = np.random.default_rng(seed)
    v = (softmax(rng.standard_normal((SAMPLES, heads, TOKENS))) ** 2).sum(axis=-1).mean(axis=-1)
    return gaussian_kde(np.sqrt(v) * rng.standard_normal(SAMPLES))(x)


def against_smoothing() -> None:
    """Time and largest error of the density, both ways."""
    import limitlaw as ll

    x = np.linspace(-4, 4, POINTS)
    print(
        "heads   KDE seconds   error     limitlaw seconds (law and density; density again)   "
        "error     ratio of errors"
    )
    for heads in (1, 2, 16):
        exact = reference(heads, x)
        start = time.perf_counter()
        estimate = smoothed(heads, x, 0)
        kde = time.perf_counter() - start
        start = time.perf_counter()
        law = ll.attention_law(np.eye(TOKENS), heads).marginal(0)
        density = np.asarray(law.pdf(x))
        first = time.perf_counter() - start
        start = time.perf_counter()
        law.pdf(x)
        again = time.perf_counter() - start
        errors = np.abs(estimate - exact).max(), np.abs(density - exact).max()
        print(
            f"{heads:5} {kde:12.3f}   {errors[0]:.1e} {first:18.3f} {1e3 * again:12.2f} ms"
            f"{errors[1]:26.1e} {errors[0] / errors[1]:16.1e}"
        )


def many_heads() -> None:
    """The density at 1,000 points, warm, for many heads."""
    import limitlaw as ll

    x = np.linspace(-3, 3, 1000)
    print("\nheads        density at 1,000 points, warm")
    for heads in (1, 256, 10**6):
        law = ll.attention_law(np.eye(TOKENS), heads).marginal(0)
        law.pdf(x)
        start = time.perf_counter()
        for _ in range(10):
            law.pdf(x)
        print(f"{heads:<12} {100 * (time.perf_counter() - start):.2f} ms")


def cold() -> None:
    """From the start of a process to the first density, and the command."""
    code = (
        "import numpy as np; import limitlaw as ll;"
        "print(ll.attention_law(np.eye(4), 2).marginal(0).pdf(0.0))"
    )
    commands = {
        "import, law and first density": [sys.executable, "-c", code],
        "limitlaw law --heads 2 --tokens 4": [
            sys.executable,
            "-m",
            "limitlaw",
            "law",
            "--heads",
            "2",
            "--tokens",
            "4",
        ],
    }
    print("\ncold process, best of 3")
    for name, command in commands.items():
        times = []
        for _ in range(3):
            start = time.perf_counter()
            subprocess.run(command, check=True, capture_output=True)
            times.append(time.perf_counter() - start)
        print(f"{name:36} {min(times):.2f} s")


if __name__ == "__main__":
    main()
