"""The infinite-width engine: kernels, conditions and accuracy, in one process, warm.

Times are medians. `by hand` is the same kernel written in NumPy with one arccos and two square
roots an entry.
"""

import functools
import resource
import time
from collections.abc import Callable
from typing import Any

import numpy as np

INPUTS, DIMENSION, LAYERS = 200, 64, 3


def main() -> None:
    """Print the tables."""
    import jax

    jax.config.update("jax_enable_x64", True)
    kernels()
    conditions()
    fixed_head_dimension()


def median(function: Callable[[], Any], repetitions: int = 30) -> float:
    """Seconds of one call, after one that compiles."""
    function()
    times = []
    for _ in range(repetitions):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return float(np.median(times))


def _waited(function: Callable[[Any], Any], argument: Any) -> None:
    function(argument).block_until_ready()


def _median(function: Callable[[Any], Any], argument: Any, repetitions: int) -> float:
    return median(lambda: function(argument), repetitions)


def by_hand(X: Any) -> Any:
    """K ← E[relu relu], three times, in NumPy."""
    K = X @ X.T / X.shape[1]
    for _ in range(LAYERS):
        d = np.sqrt(np.diag(K))
        scale = d[:, None] * d
        c = np.clip(K / scale, -1, 1)
        K = scale * (np.sqrt(1 - c * c) + (np.pi - np.arccos(c)) * c) / (2 * np.pi)
    return K


def ntk_by_hand(X: Any) -> Any:
    """Θ ← Θ E[relu' relu'] + E[relu relu], three times, in NumPy."""
    theta = K = X @ X.T / X.shape[1]
    for _ in range(LAYERS):
        d = np.sqrt(np.diag(K))
        scale = d[:, None] * d
        c = np.clip(K / scale, -1, 1)
        angle = np.pi - np.arccos(c)
        K = scale * (np.sqrt(1 - c * c) + angle * c) / (2 * np.pi)
        theta = theta * angle / (2 * np.pi) + K
    return theta


def kernels() -> None:
    """A ReLU MLP with three hidden layers on many inputs: its kernel and its tangent kernel."""
    import jax

    import limitlaw as ll

    def kernel(X: Any) -> Any:
        return ll.kernel(ll.mlp(ll.data(X), (ll.n,) * LAYERS))

    def ntk(X: Any) -> Any:
        return ll.kernel(ll.ntk(ll.dot(ll.initial(), ll.mlp(ll.data(X), (ll.n,) * LAYERS))))

    print(
        "ReLU MLP, 3 hidden layers, 64 dimensions                  limitlaw    by hand   ratio   "
        "difference"
    )
    for function, hand in ((kernel, by_hand), (ntk, ntk_by_hand)):
        compiled = jax.jit(function)
        for inputs in (INPUTS, 10 * INPUTS):
            X = np.random.default_rng(0).normal(size=(inputs, DIMENSION))
            repetitions = 30 if inputs == INPUTS else 3
            ours = _median(functools.partial(_waited, compiled), X, repetitions)
            theirs = _median(hand, X, repetitions)
            gap = np.abs(np.asarray(compiled(X)) - hand(X)).max()
            line = f"{function.__name__:8}{inputs:5} × {inputs:<5}"
            print(
                f"{line:56}{1e3 * ours:7.2f} ms {1e3 * theirs:7.2f} ms {theirs / ours:7.1f}   "
                f"{gap:.0e}"
            )
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"peak memory {peak:.2f} GiB")


def conditions() -> None:
    """Draws of the scores of one attention layer, s = 4 and H = 2,
    as means and covariances of all tokens.
    """
    import limitlaw as ll
    from limitlaw.engines.limit import statistics
    from limitlaw.engines.limit.conditions import Limit

    program = Limit((ll.attention(ll.initial((4,)), 2).core,), statistics.conditions)
    seconds = median(lambda: program.conditions(100_000, None), 5)
    print(f"\n100,000 conditions of an attention layer, s = 4, H = 2: {seconds:.2f} s")


def fixed_head_dimension() -> None:
    """theory: one head, s = 4, K = I, against the numbers of independent quadrature."""
    import limitlaw as ll

    known = {8: (0.385685, 1.1160), 64: (0.391129, 0.35144), 128: (0.391548, 0.29734)}
    print("\nfixed head dimension d        variance (error)        kurtosis (error)     seconds")
    for d, (variance, kurtosis) in known.items():
        start = time.perf_counter()
        laws = [
            ll.limit(ll.attention(ll.initial((4,)), 1, head_dim=d)[0], 2**20, key)
            for key in range(8)
        ]
        v = float(np.mean([law.variance() for law in laws]))
        k = float(np.mean([law.kurtosis() for law in laws]))
        seconds = time.perf_counter() - start
        print(
            f"{d:5}                    {v:.7f} ({v - variance:+.0e})    {k:.6f} "
            f"({k - kurtosis:+.0e})    {seconds:.1f}"
        )


if __name__ == "__main__":
    main()
