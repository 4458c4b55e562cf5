"""The limit of gradients and tangent kernels against numbers from outside: those of `backward.md`
(theory by another program, 8,000 draws or more), mean (standard error) spread.

    python benchmarks/backward_tables.py [setting …] [--samples 8192]
"""

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import limitlaw as ll

Layer = Callable[[ll.Wide], ll.Wide]
S = 4
Q, K, V, W1, W2 = 0, 1, 2, 4, 5  # places of the first block's matrices among the parameters


def blocks(
    x: ll.Wide, norm: str = "pre", final: Layer = ll.layernorm, depth: int = 2, **options: Any
) -> ll.Wide:
    """So many blocks, of two heads, and a last norm."""
    for _ in range(depth):
        x = ll.nn.block(x, norm=norm, **{"heads": 2, "hidden": 4 * ll.n, **options})
    return final(x)


def tokens(**options: Any) -> ll.Wide:
    """Four independent vectors."""
    return ll.initial((S,), **options)


# setting → (first vectors, network, {name: (mean, standard error, spread)})
narrow: dict[str, Any] = {"head_dim": 8}
causal: dict[str, Any] = {"mask": "causal", "q_std": 2.0}
SETTINGS: dict[str, tuple[dict[str, Any], Layer, dict[str, tuple[float, float, float]]]] = {
    "S1": (
        {},
        lambda x: blocks(x),
        {"G0": (5.475, 0.003, 0.472), "Q": (0.5103, 0.0015, 0.215), "V": (1.3505, 0.0006, 0.090),
         "W1": (1.0892, 0.0003, 0.047), "W2": (1.0543, 0.0003, 0.042),
         "all": (9.271, 0.004, 0.536)},
    ),
    "S2": (
        {},
        lambda x: blocks(x, **causal),
        {"G0": (6.435, 0.011, 1.56), "Q": (0.863, 0.005, 0.70), "V": (2.0147, 0.0014, 0.199),
         "W1": (0.9733, 0.0008, 0.107), "W2": (0.9087, 0.0006, 0.092),
         "all": (11.429, 0.013, 1.82)},
    ),
    "S3": (
        {},
        lambda x: blocks(x, **narrow),
        {"G0": (5.472, 0.008, 1.07), "Q": (0.4845, 0.0021, 0.299), "V": (1.334, 0.003, 0.460),
         "W1": (1.1019, 0.0010, 0.145), "W2": (1.0673, 0.0010, 0.147),
         "all": (9.171, 0.009, 1.26)},
    ),
    "S4": (
        {},
        lambda x: blocks(x, **narrow, **causal),
        {"G0": (6.472, 0.015, 2.1), "Q": (0.832, 0.006, 0.88), "V": (2.017, 0.005, 0.69),
         "W1": (0.9977, 0.0014, 0.197), "W2": (0.9323, 0.0013, 0.178),
         "all": (11.342, 0.018, 2.56)},
    ),
    "rms": (
        {"mean": 0.7},
        lambda x: blocks(x, final=ll.rmsnorm, normalise=ll.rmsnorm, **narrow),
        {"G0": (2.645, 0.005, 0.45), "Q": (0.1493, 0.0012, 0.11), "V": (1.233, 0.005, 0.47),
         "W1": (0.7533, 0.0011, 0.098),
         "all": (6.991, 0.010, 0.90)},
    ),
    "post": (
        {},
        lambda x: blocks(x, "post", final=lambda y: y, **narrow, **causal),
        {"G0": (6.95, 0.03, 2.66), "Q": (0.855, 0.011, 1.01), "V": (2.219, 0.010, 0.86),
         "W1": (1.618, 0.004, 0.39),
         "all": (16.10, 0.04, 3.6)},
    ),
    "gated": (
        {},
        lambda x: blocks(
            x, final=ll.rmsnorm, normalise=ll.rmsnorm, gated=True, phi=ll.silu, **narrow
        ),
        {"G0": (7.64, 0.02, 1.60), "Q": (0.681, 0.005, 0.43), "V": (1.823, 0.007, 0.64),
         "all": (12.25, 0.02, 1.75)},
    ),
    "rotary": (
        {},
        lambda x: blocks(x, heads=4, kv_heads=2, positions=ll.nn.Rotary(), **narrow, **causal),
        {"G0": (6.46, 0.02, 1.66), "Q": (0.826, 0.007, 0.63), "V": (2.030, 0.007, 0.64),
         "W1": (0.995, 0.002, 0.17),
         "all": (11.38, 0.02, 1.99)},
    ),
    "bias": (
        {},
        lambda x: blocks(x, bias_std=0.5, mask="causal", **narrow),
        {"G0": (2.588, 0.006, 0.50), "Q": (0.1394, 0.0013, 0.12), "V": (0.914, 0.003, 0.30),
         "W1": (0.5328, 0.0007, 0.064),
         "all": (6.119, 0.007, 0.64)},
    ),
}  # fmt: skip


def measured(first: dict[str, Any], net: Layer, samples: int) -> ll.Law:
    """The law of G0, of the kernels of the first block's matrices, and of all."""
    x = tokens(**first)
    f = ll.dot(tokens(), net(x))
    f = sum((f[i, i] for i in range(1, S)), f[0, 0])
    b = ll.gradient(f, x)
    kernels = ll.ntk(f, wrt=list(ll.parameters(f).values()))
    total = sum(kernels[1:], kernels[0])
    chosen = [kernels[place] for place in (Q, V, W1, W2)]
    return ll.limit(ll.stack([ll.average(b * b).sum(), *chosen, total]), samples=samples)


def main() -> None:
    """Print a table for each setting."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("settings", nargs="*", default=list(SETTINGS))
    parser.add_argument("--samples", type=int, default=2**13)
    arguments = parser.parse_args()
    for name in arguments.settings:
        first, net, expected = SETTINGS[name]
        start = time.perf_counter()
        law = measured(first, net, arguments.samples)
        means, errors, spreads = law.mean(), law.error.mean(), law.std()
        of_spreads = law.error.std()
        print(
            f"{name}: {arguments.samples} draws, {time.perf_counter() - start:.0f} s", flush=True
        )
        for place, row in enumerate(("G0", "Q", "V", "W1", "W2", "all")):
            if row in expected:
                mean, error, spread = expected[row]
                z = (means[place] - mean) / np.hypot(errors[place], error)
                print(
                    f"  {row:4} {means[place]:8.4f}({errors[place]:.4f}) {spreads[place]:.3f}"
                    f"({of_spreads[place]:.3f})   there {mean}({error}) {spread}   z = {z:+.1f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
