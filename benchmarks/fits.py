"""What must fit: tied layers, wide rotary embeddings, long sequences, a hundred Transformers,
and a network that is too wide to be drawn. Each in a process of its own, compilation included.

    python benchmarks/fits.py               all
    python benchmarks/fits.py tied rotary   some

Beside tied and rotary layers: the obvious loop in NumPy, which draws every matrix at width 512 and
so knows the limit to 1/√512, in the same run.
"""

import argparse
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

TOKENS, HEADS, DRAWS, WIDTH = 64, 2, 64, 512


def tied() -> str:
    """24 blocks with the same weights, 64 tokens, 64 draws."""
    import limitlaw as ll

    net = ll.transformer(ll.initial((TOKENS,)), 24, HEADS, shared=True)
    return _beside_numpy(net, 24, rotary=False)


def rotary() -> str:
    """4 blocks with wide heads and rotary embeddings, 64 tokens, 64 draws."""
    import limitlaw as ll

    net = ll.transformer(ll.initial((TOKENS,)), 4, HEADS, positions=ll.nn.Rotary())
    return _beside_numpy(net, 4, rotary=True)


def solve() -> str:
    """The scale of queries at which the entropy of block 24 is 6.4, for 2,048 tokens, to 1 %."""
    import limitlaw as ll

    x = ll.initial((2048,))
    found = ll.depth.solve(
        lambda c: ll.transformer(x, 24, 12, 64, mask="causal", q_std=c),
        "entropy",
        6.4,
        over=(0.1, 10),
    )
    return f"{found!r}, error {100 * found.error / found.value:.2g} %"


def hundred() -> str:
    """A hundred different Transformers, one after the other."""
    import limitlaw as ll

    for i in range(100):
        x = ll.initial((2 + i % 5,))
        norm, mask = ("pre", "post", "none")[i % 3], (None, "causal")[i // 3 % 2]
        net = ll.transformer(x, 1 + i // 6, 1 + i % 4, (None, 4)[i % 2], norm, mask)
        ll.trace(net, ["variance", "entropy"], samples=8)
    return "a hundred Transformers"


def refused() -> str:
    """A width at which a draw would take minutes."""
    import limitlaw as ll

    y = ll.attention(ll.relu(ll.matrices(4) @ ll.initial()), heads=2)
    try:
        ll.simulate(y, width=100_000, samples=10, key=0)
    except ValueError as error:
        return str(error)
    raise SystemExit("simulate(width=100_000) was not refused")


def _beside_numpy(net: Any, depth: int, rotary: bool) -> str:
    import limitlaw as ll

    start = time.process_time()
    variance = ll.trace(net, ["variance"], samples=DRAWS, key=0)["variance"]
    ours = time.process_time() - start
    start = time.process_time()
    one = _numpy_draw(np.random.default_rng(0), depth, rotary)
    numpy = DRAWS * (time.process_time() - start)
    return (
        f"variance {variance.value[-1]:.4g} ± {variance.error[-1]:.2g} (one network {one:.4g}); "
        f"{ours:.1f} processor seconds, NumPy {numpy:.0f}, {numpy / ours:.1f} times"
    )


def _numpy_draw(rng: np.random.Generator, depth: int, rotary: bool) -> float:
    """The variance behind all blocks of one network: with the same weights in all blocks, or with
    rotary embeddings and weights of their own.
    """
    n, s = WIDTH, TOKENS
    x = rng.standard_normal((s, n))
    angle = np.arange(s)[:, None] * 10_000.0 ** (-np.arange(n // 2) / (n // 2))
    cos, sin = np.cos(angle), np.sin(angle)

    def turned(a: Any) -> Any:
        if not rotary:
            return a
        first, second = a[:, : n // 2], a[:, n // 2 :]
        return np.concatenate([first * cos - second * sin, first * sin + second * cos], axis=1)

    def weights() -> Any:
        heads = rng.standard_normal((HEADS, 4, n, n)) / np.sqrt(n)
        first = rng.standard_normal((4 * n, n)) / np.sqrt(n)
        return heads, first, rng.standard_normal((n, 4 * n)) / np.sqrt(4 * n)

    drawn = weights()
    for _ in range(depth):
        heads, first, second = weights() if rotary else drawn
        z = _layernorm(x)
        for Q, K, V, O in heads:
            p = turned(z @ Q.T) @ turned(z @ K.T).T / np.sqrt(n)
            A = np.exp(p - p.max(axis=-1, keepdims=True))
            x = x + A / A.sum(axis=-1, keepdims=True) @ (z @ V.T) @ O.T / np.sqrt(HEADS)
        x = x + _gelu(_layernorm(x) @ first.T) @ second.T
    return float(np.mean(x * x))


def _layernorm(x: Any) -> Any:
    return (x - x.mean(axis=-1, keepdims=True)) / np.sqrt(x.var(axis=-1, keepdims=True) + 1e-5)


def _gelu(x: Any) -> Any:
    from scipy.special import erf

    return 0.5 * x * (1 + erf(x / np.sqrt(2)))


# what is allowed of each, seconds by the clock and GiB
ALLOWED: dict[Callable[[], str], tuple[float, float]] = {
    tied: (60, 2.0),
    rotary: (60, 2.0),
    solve: (300, 24.0),
    hundred: (3600, 2.0),
    refused: (10, 2.0),
}


def main() -> None:
    """Print one line for each."""
    names = {function.__name__: function for function in ALLOWED}
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", help=f"of {', '.join(names)}; all without")
    parser.add_argument("--here", action="store_true", help="in this process")
    options = parser.parse_args()
    for name in options.names or names:
        if not options.here:
            subprocess.run([sys.executable, __file__, "--here", name], check=True)
            continue
        start = time.perf_counter()
        found = names[name]()
        seconds = time.perf_counter() - start
        gib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        most_seconds, most_gib = ALLOWED[names[name]]
        print(
            f"{name}: {seconds:.1f} s (allowed {most_seconds:g}), {gib:.2f} GiB "
            f"(allowed {most_gib:g})\n    {found}",
            flush=True,
        )


if __name__ == "__main__":
    main()
