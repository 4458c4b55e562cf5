"""Audits of PyTorch modules against many re-initialisations: what must hold, with the figures.

python benchmarks/audit.py laws        means and spreads of every layer and statistic, six
architectures python benchmarks/audit.py hundred     100 audits of healthy modules with different
seeds: findings and z python benchmarks/audit.py uniform     uniform weights: the difference falls
as 1/n python benchmarks/audit.py gpt2        GPT-2, 768 × 12: laws, and how long its audit takes
"""

import argparse
import importlib
import math
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

import limitlaw.torch as lt
from limitlaw.float64 import in_float64
from limitlaw.torch.auditing import over_seeds
from limitlaw.torch.converting import conversion
from limitlaw.torch.subject import subject_of

sys.path.append(str(Path(__file__).parents[1] / "tests" / "torch"))
HANDMADE: Any = importlib.import_module("handmade")
TRANSFORMERS: Any = importlib.import_module("architectures").TRANSFORMERS

TOKENS = torch.tensor([[3, 7, 1, 4]])
X = torch.randn(1, 4, 5, generator=torch.Generator().manual_seed(1))
CAUSAL = torch.ones(4, 4, dtype=torch.bool).triu(1)
Factory = Callable[[], nn.Module]


def normal(module: nn.Module, std: float = 0.2) -> nn.Module:
    """All that is random N(0, std²), biases too;
    of layers that were copies of each other, again.
    """
    known: dict[bytes, torch.Tensor] = {}
    for p in module.parameters():
        if p.ndim > 1 or bool((p != p[0]).any()):
            key = p.detach().numpy().tobytes()
            with torch.no_grad():
                p.copy_(known[key]) if key in known else nn.init.normal_(p, std=std)
            known.setdefault(key, p.detach().clone())
    return module


def _copied() -> nn.Module:
    """nn.TransformerEncoder: all layers are copies of the first."""
    return normal(HANDMADE.Encoder(True, layers=3))


CASES: dict[str, tuple[Factory, tuple[Any, ...], dict[str, Any]]] = {
    "hand-written GPT": (lambda: normal(HANDMADE.GPT(width=16, layers=3)), (TOKENS,), {}),
    "GPT-2": (lambda: TRANSFORMERS["GPT-2"]()[0], (), TRANSFORMERS["GPT-2"]()[2]),
    "BERT with padding": (
        lambda: TRANSFORMERS["BERT, padded"]()[0],
        (),
        TRANSFORMERS["BERT, padded"]()[2],
    ),
    "Llama": (lambda: TRANSFORMERS["Llama"]()[0], (), TRANSFORMERS["Llama"]()[2]),
    "encoder, identical layers": (_copied, (X, CAUSAL), {}),
}


# --- laws ----------------------------------------------------------------------------------------


@in_float64
def compared(
    name: str, case: tuple[Factory, tuple[Any, ...], dict[str, Any]], seeds: int, samples: int
) -> float:
    """The worst |z| of means and of spreads over all layers and statistics,
    printed and returned.
    """
    factory, inputs, kwargs = case
    subject = subject_of(conversion(factory, inputs, kwargs), None, kurtosis=False)
    predicted, measured = subject.predicted(samples), over_seeds(subject, factory, range(seeds))
    means, spreads, count = [], [], 0
    for layer, found in measured.items():
        for statistic, x in found.items():
            y = predicted[layer][statistic]
            count += 1
            if max(x.std(), y.std()) < 1e-6 * abs(y.mean()):
                continue  # what norms fix
            means.append(
                lt.Row(layer, statistic, *_estimates(x, y), None, float(y.std()), len(x)).z
            )
            spreads.append(_z((x - x.mean()) ** 2, (y - y.mean()) ** 2))
    worst = [max(map(abs, z)) for z in (means, spreads)]
    loop = "a loop" if subject.stages else "written out"
    print(
        f"{name:28s} {seeds} modules, {samples} draws, {loop}: {count} statistics, worst |z| of "
        f"means {worst[0]:.1f}, "
        f"of spreads {worst[1]:.1f}; mean z² {np.mean(np.square(means)):.2f}, "
        f"{np.mean(np.square(spreads)):.2f}",
        flush=True,
    )
    return max(worst)


def _estimates(x: np.ndarray, y: np.ndarray) -> tuple[tuple[float, float], tuple[float, float]]:
    return tuple((float(a.mean()), float(a.std(ddof=1) / math.sqrt(len(a)))) for a in (x, y))  # type: ignore[return-value]


def _z(x: np.ndarray, y: np.ndarray) -> float:
    return float(
        (x.mean() - y.mean())
        / math.hypot(x.std() / math.sqrt(len(x)), y.std() / math.sqrt(len(y)))
    )


def laws(seeds: int, samples: int) -> bool:
    """Every architecture at a small width."""
    return max([compared(name, case, seeds, samples) for name, case in CASES.items()]) < 5


# --- a hundred audits ----------------------------------------------------------------------------


def hundred(audits: int) -> bool:
    """Healthy modules: findings, and how z is distributed."""
    factory = CASES["hand-written GPT"][0]
    found: list[str] = []
    z: list[float] = []
    for i in range(audits):
        table = lt.audit(
            factory, TOKENS, seeds=range(32 * i, 32 * i + 32), samples=1024, limit=False
        )
        found += table.findings
        z += [row.z for row in table.rows]
    _said(f"{audits} audits of a factory, 32 seeds each", found, z)
    ahead: list[str] = []
    z = []
    for i in range(audits):
        torch.manual_seed(i)
        table = lt.audit(factory(), TOKENS, samples=1024, limit=False)
        ahead += table.findings
        z += [row.z for row in table.rows]
    _said(f"{audits} single modules, one step ahead", ahead, z)
    return not found and not ahead


def _said(what: str, findings: list[str], z: list[float]) -> None:
    print(
        f"{what}: {len(findings)} findings in {len(z)} rows; largest |z| {max(map(abs, z)):.2f}, "
        f"mean z² {np.mean(np.square(z)):.2f}, beyond 3: {sum(abs(x) > 3 for x in z)} (normal: "
        f"{0.0027 * len(z):.1f})",
        flush=True,
    )
    for finding in findings:
        print("  !", finding, flush=True)


# --- uniform weights -----------------------------------------------------------------------------


@in_float64
def uniform(modules: int) -> bool:
    """Three layers of tanh with uniform weights on a given vector:
    the variance against that of normal weights.
    """
    scaled = []
    for n in (8, 16, 32):
        factory, x = (lambda n=n: _tanh(n)), torch.ones(1, n)
        subject = subject_of(conversion(factory, (x,), {}), None, kurtosis=False)
        last = list(subject.layers)[-1]
        draws = subject.predicted(modules)[last]["variance"]
        measured = _vectorised(_tanh(n), x, n, modules)
        difference, error = _difference(measured, draws)
        scaled.append((n * difference, n * error))
        print(
            f"n = {n:2d}: difference {difference:+.5f} ± {error:.5f}, times n "
            f"{n * difference:+.3f} ± {n * error:.3f}"
        )
    (first, e1), (last_one, e2) = scaled[0], scaled[-1]
    print(
        f"n = 8 against 32, times n: {(first - last_one) / math.hypot(e1, e2):+.1f} standard "
        "errors apart",
        flush=True,
    )
    (first, e1), *_, (last_one, e2) = scaled
    apart = (first - last_one) / math.hypot(e1, e2)
    print(f"times n, n = 8 and 32: {apart:+.1f} standard errors apart")
    return abs(first) > 5 * e1 and abs(apart) < 5


def _difference(x: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    return float(x.mean() - y.mean()), math.hypot(
        x.std() / math.sqrt(len(x)), y.std() / math.sqrt(len(y))
    )


def _tanh(n: int) -> nn.Module:
    layers = [nn.Linear(n, n, bias=False) for _ in range(3)]
    with torch.no_grad():
        for layer in layers:
            layer.weight.mul_(3.0)  # uniform with variance 3/n
    return nn.Sequential(layers[0], nn.Tanh(), layers[1], nn.Tanh(), layers[2], nn.Tanh())


def _vectorised(module: nn.Module, x: torch.Tensor, n: int, modules: int) -> np.ndarray:
    """The mean square of the last layer in so many modules at once:
    uniform on ±3/√n, as nn.Linear draws it.
    """
    torch.manual_seed(0)
    found = []
    run = torch.func.vmap(
        lambda weights: torch.func.functional_call(module, weights, (x.double(),))
    )
    names = [name for name, _ in module.named_parameters()]
    with torch.no_grad():
        for start in range(0, modules, 20_000):
            size = min(20_000, modules - start)
            weights = {
                name: (torch.rand(size, n, n).double() * 2 - 1) * 3 / math.sqrt(n)
                for name in names
            }
            found.append((run(weights) ** 2).mean(dim=(1, 2)).numpy())
    return np.concatenate(found)


# --- GPT-2 ---------------------------------------------------------------------------------------


def gpt2() -> bool:
    """768 × 12 on 16 tokens: one whole audit, timed, then what it says."""
    transformers: Any = importlib.import_module("transformers")
    config = transformers.GPT2Config(use_cache=False)
    tokens = torch.randperm(50257, generator=torch.Generator().manual_seed(0))[None, :16]
    start, cpu = time.time(), time.process_time()
    table = lt.audit(
        lambda: transformers.GPT2Model(config), input_ids=tokens, seeds=16, limit=False
    )
    took, used = time.time() - start, time.process_time() - cpu
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(table)
    z = [row.z for row in table.rows]
    print(f"16 seeds, 256 draws: {took:.0f} s, {used:.0f} s of the processor, {memory:.1f} GiB")
    spreads = [_of_spread(row, 256) for row in table.rows]
    print(
        f"worst |z| of means {max(map(abs, z)):.1f}, mean z² {np.mean(np.square(z)):.2f}; of "
        "spreads",
        end=" ",
    )
    print(
        f"{max(map(abs, spreads)):.1f}, {np.mean(np.square(spreads)):.2f}; {len(table.findings)} "
        "findings"
    )
    return max(map(abs, [*z, *spreads])) < 5


def _of_spread(row: lt.Row, draws: int) -> float:
    """The squared ratio of measured and predicted spreads by Wilson and Hilferty,
    as of normal numbers.
    """
    ratio = row.measured[1] * math.sqrt(row.seeds) / row.spread
    c = 2 / 9 * (1 / (row.seeds - 1) + 1 / (draws - 1))
    return (math.cbrt(ratio**2) - 1 + c) / math.sqrt(c)


def main() -> int:
    """Run what is asked for; 1 where something does not hold."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=("laws", "hundred", "uniform", "gpt2"))
    parser.add_argument("--modules", type=int, help="re-initialisations, or audits")
    parser.add_argument("--samples", type=int, default=4000)
    given = parser.parse_args()
    torch.set_num_threads(1)
    holds = {
        "laws": lambda: laws(given.modules or 1000, given.samples),
        "hundred": lambda: hundred(given.modules or 100),
        "uniform": lambda: uniform(given.modules or 200_000),
        "gpt2": gpt2,
    }[given.what]()
    print("holds" if holds else "DOES NOT HOLD")
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
