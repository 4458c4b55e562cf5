"""simulate against NumPy, in one process: milliseconds a sample and millions of normals a second,
every matrix drawn.

The network is an attention layer on four ReLU tokens. NumPy is measured twice: `loop` is the code
that everyone writes (one network at a time, W = standard_normal / √n), `batched` the best that we
could write (several networks at a time while they fit in the cache, 1/√n put on the products).
--one-core pins the process to one core.
"""

import argparse
import math
import os
from collections.abc import Callable

from timing import measure

SETTINGS = ((16, 2), (64, 2), (256, 2), (1024, 2), (256, 64))
TOKENS = 4
BATCH_ENTRIES = 2**18  # matrix entries that the batched NumPy code holds at a time


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--one-core", action="store_true", help="pin the process to one core")
    parser.add_argument("--seconds", type=float, default=1.0, help="length of one repetition")
    parser.add_argument("--repetitions", type=int, default=5, help="the best of this many counts")
    arguments = parser.parse_args()
    if arguments.one_core:  # before JAX and BLAS are imported: they size their thread pools by it
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    cores = len(os.sched_getaffinity(0))
    print(f"{cores} core{'s' if cores > 1 else ''}; ms a sample (million normals a second)\n")
    print(
        "| n | H | NumPy, loop | NumPy, batched | simulate | loop / simulate | batched / simulate "
        "|"
    )
    print("|--:|--:|--:|--:|--:|--:|--:|")
    for width, heads in SETTINGS:
        normals = (TOKENS + 4 * heads) * width**2 + width
        codes = [numpy_loop(width, heads), numpy_batched(width, heads), simulated(width, heads)]
        times = measure(codes, arguments.seconds, arguments.repetitions)
        cells = [f"{1e3 * t:.3g} ({normals / t / 1e6:.0f})" for t in times]
        ratios = [f"{times[0] / times[2]:.2f}", f"{times[1] / times[2]:.2f}"]
        print("| " + " | ".join([str(width), str(heads), *cells, *ratios]) + " |", flush=True)


def simulated(width: int, heads: int) -> Callable[[int], None]:
    """limitlaw."""
    import limitlaw as ll

    y = ll.attention(ll.relu(ll.matrices(TOKENS) @ ll.initial()), heads=heads)
    return lambda count: (ll.simulate(y, width=width, samples=count, key=0), None)[1]


def numpy_loop(n: int, heads: int) -> Callable[[int], None]:
    """One network at a time."""
    import numpy as np

    rng = np.random.default_rng(0)

    def W() -> "np.ndarray[tuple[int, int], np.dtype[np.float64]]":
        return rng.standard_normal((n, n)) / math.sqrt(n)

    def run(count: int) -> None:
        result = np.empty((count, TOKENS))
        for sample in range(count):
            h = rng.standard_normal(n)
            x = np.stack([np.maximum(W() @ h, 0.0) for _ in range(TOKENS)], axis=1)  # n × tokens
            y = np.zeros((n, TOKENS))
            for _ in range(heads):
                weights = np.exp((W() @ x).T @ (W() @ x) / math.sqrt(n))
                y += W() @ (W() @ x) @ (weights / weights.sum(axis=1, keepdims=True)).T
            result[sample] = y[0] / math.sqrt(heads)

    return run


def numpy_batched(n: int, heads: int) -> Callable[[int], None]:
    """Several networks at a time, all heads of a kind together where they fit."""
    import numpy as np

    rng = np.random.default_rng(0)
    batch = max(1, BATCH_ENTRIES // (max(heads, TOKENS) * n * n))
    group = max(1, min(heads, BATCH_ENTRIES // (n * n)))  # heads at a time
    block = np.empty(batch * max(group, TOKENS) * n * n)
    Array = np.ndarray[tuple[int, ...], np.dtype[np.float64]]

    def product(matrices: int, x: Array) -> Array:
        W = block[: batch * matrices * n * n].reshape(batch, matrices, n, n)
        rng.standard_normal(out=W)
        return np.asarray(W @ x / math.sqrt(n))

    def networks() -> Array:
        h = rng.standard_normal((batch, 1, n, 1))
        # batch × 1 × n × tokens
        x = np.maximum(product(TOKENS, h), 0.0)[..., 0].swapaxes(1, 2)[:, None]
        y = np.zeros((batch, n, TOKENS))
        for start in range(0, heads, group):
            m = min(group, heads - start)
            weights = np.exp(product(m, x).swapaxes(2, 3) @ product(m, x) / math.sqrt(n))
            A = weights / weights.sum(axis=-1, keepdims=True)
            y += (product(m, product(m, x)) @ A.swapaxes(2, 3)).sum(axis=1)
        return y[:, 0] / math.sqrt(heads)

    def run(count: int) -> None:
        for _ in range(math.ceil(count / batch)):
            networks()

    return run


if __name__ == "__main__":
    main()
