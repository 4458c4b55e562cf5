"""The limit of gradients and tangent kernels against numbers from outside: those of `backward.md`
(theory by another program, 8,000 draws or more), mean (standard error) spread.

    python benchmarks/backward_tables.py [setting …] [--samples 8192]
"""

import argparse
import functools
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import limitlaw as ll

Layer = Callable[[ll.Wide], ll.Wide]
S = 4
PLACES = {"Q": 0, "V": 2, "W1": 4, "W2": 5}  # of the first block's matrices among all of them


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


layernorm, rmsnorm = (functools.partial(norm, gain=True) for norm in (ll.layernorm, ll.rmsnorm))

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
        lambda x: blocks(x, final=rmsnorm, normalise=rmsnorm, **narrow),
        {"G0": (2.645, 0.005, 0.45), "Q": (0.1493, 0.0012, 0.11), "V": (1.233, 0.005, 0.47),
         "W1": (0.7533, 0.0011, 0.098),
         "all": (6.991, 0.010, 0.90), "gains": (7.760, 0.009, 0.84)},
    ),
    "post": (
        {},
        lambda x: blocks(
            x, "post", final=lambda y: y, normalise=layernorm, **narrow, **causal
        ),
        {"G0": (6.95, 0.03, 2.66), "Q": (0.855, 0.011, 1.01), "V": (2.219, 0.010, 0.86),
         "W1": (1.618, 0.004, 0.39),
         "all": (16.10, 0.04, 3.6), "gains": (18.33, 0.03, 2.42)},
    ),
    "gated": (
        {},
        lambda x: blocks(
            x, final=rmsnorm, normalise=rmsnorm, gated=True, phi=ll.silu, **narrow
        ),
        {"G0": (7.64, 0.02, 1.60), "Q": (0.681, 0.005, 0.43), "V": (1.823, 0.007, 0.64),
         "all": (12.25, 0.02, 1.75), "gains": (11.94, 0.02, 1.64)},
    ),
    "rotary": (
        {},
        lambda x: blocks(
            x, final=layernorm, normalise=layernorm, heads=4, kv_heads=2,
            positions=ll.nn.Rotary(), **narrow, **causal,
        ),
        {"G0": (6.46, 0.02, 1.66), "Q": (0.826, 0.007, 0.63), "V": (2.030, 0.007, 0.64),
         "W1": (0.995, 0.002, 0.17),
         "all": (11.38, 0.02, 1.99), "gains": (10.92, 0.02, 1.80)},
    ),
    "bias": (
        {},
        lambda x: blocks(
            x, final=layernorm, normalise=layernorm, bias_std=0.5, mask="causal", **narrow
        ),
        {"G0": (2.588, 0.006, 0.50), "Q": (0.1394, 0.0013, 0.12), "V": (0.914, 0.003, 0.30),
         "W1": (0.5328, 0.0007, 0.064),
         "all": (6.119, 0.007, 0.64),
         "gains": (6.903, 0.007, 0.59), "biases": (1.960, 0.003, 0.31)},
    ),
    "two": (
        {"cov": np.kron([[1.0, 0.5], [0.5, 1.0]], np.eye(3))},
        lambda x: blocks(x, q_std=2.0, **narrow),
        {"Q": (0.048, 0.003, np.nan), "V": (0.357, 0.004, np.nan), "W1": (0.196, 0.001, np.nan),
         "W2": (0.300, 0.001, np.nan), "all": (2.177, 0.014, np.nan)},
    ),
}  # fmt: skip


def kernels(f: ll.Scalars, f2: ll.Scalars) -> dict[str, ll.Scalars]:
    """Those of the first block's matrices, of all matrices, of all gains and of all biases."""
    found = ll.parameters(f, f2)
    by_kind: dict[str, list[ll.Scalars]] = {"all": [], "gains": [], "biases": []}
    for name, kernel in zip(found, ll.ntk(f, f2, wrt=list(found.values())), strict=True):
        kind = {"W": "all", "γ": "gains"}.get(name[0], "biases")
        by_kind[kind].append(kernel)
    chosen = {name: by_kind["all"][place] for name, place in PLACES.items()}
    return chosen | {kind: sum(k[1:], k[0]) for kind, k in by_kind.items() if k}


def measured(
    first: dict[str, Any], net: Layer, names: list[str], samples: int
) -> tuple[list[str], ll.Law]:
    """The law of G0, of the kernels of the first block's matrices, and of all: those named. Of two
    sequences it is the kernel between them.
    """
    two = "cov" in first
    x = ll.initial((2, 3), **first) if two else tokens(**first)
    s = int(x.shape[-1])
    y, u = net(x), ll.initial((s,))
    f = sum((ll.dot(u[i], y[..., i]) for i in range(1, s)), ll.dot(u[0], y[..., 0]))
    found = kernels(f[0], f[1]) if two else kernels(f, f)
    if "G0" in names:
        b = ll.gradient(f, x)
        found["G0"] = ll.average(b * b).sum()
    names = [name for name in names if name in found]
    return names, ll.limit(ll.stack([found[name] for name in names]), samples=samples)


def main() -> None:
    """Print a table for each setting."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("settings", nargs="*", default=list(SETTINGS))
    parser.add_argument("--samples", type=int, default=2**13)
    arguments = parser.parse_args()
    for name in arguments.settings:
        first, net, expected = SETTINGS[name]
        start = time.perf_counter()
        names, law = measured(first, net, list(expected), arguments.samples)
        means, errors, spreads = law.mean(), law.error.mean(), law.std()
        of_spreads = law.error.std()
        print(
            f"{name}: {arguments.samples} draws, {time.perf_counter() - start:.0f} s", flush=True
        )
        for place, row in enumerate(names):
            mean, error, spread = expected[row]
            z = (means[place] - mean) / np.hypot(errors[place], error)
            print(
                f"  {row:6} {means[place]:8.4f}({errors[place]:.4f}) {spreads[place]:.3f}"
                f"({of_spreads[place]:.3f})   there {mean}({error}) {spread}   z = {z:+.1f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
