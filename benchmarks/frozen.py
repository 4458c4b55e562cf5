"""What a change of the inside must not change: figures of every engine and every kind of law, with
their errors.

`python benchmarks/frozen.py --write before.json` at one commit, and `python benchmarks/frozen.py
before.json` at another: a figure may move by its stated errors, where both runs drew their own
numbers, or by rounding. Parts may be named: `before.json limits kernels`.
"""

import argparse
import json
import math
import pathlib
import time
from collections.abc import Callable, Iterator

import jax
import jax.numpy as jnp
import numpy as np

import limitlaw as ll
from limitlaw import divergence

KEY = jax.random.key(26)
DEVIATIONS, ROUNDING = 5.0, 1e-12  # of the stated errors; relative to the figure
NAMED: dict[str, Callable[[ll.Wide], ll.Wide]] = {
    "relu": ll.relu,
    "gelu": ll.gelu,
    "tanh": ll.tanh,
    "silu": ll.silu,
    "sin": ll.sin,
}
Figures = Iterator[tuple[str, object, object]]  # name, value, error

LAW = ("variance", "kurtosis", "entropy")
PLACES = {"pdf": 0.3, "logpdf": 2.5, "cdf": 1.1, "logsf": 3.0, "ppf": 0.93}


def _of_law(law: ll.Law) -> Figures:
    """What is asked of a law of one number."""
    for name in LAW:
        yield name, getattr(law, name)(), getattr(law.error, name)()
    for name, place in PLACES.items():
        yield name, getattr(law, name)(place), getattr(law.error, name)(place)


def _tokens(count: int, phi: Callable[[ll.Wide], ll.Wide] = ll.identity) -> ll.Wide:
    """phi of correlated Gaussian tokens."""
    K = 0.5 + 0.5 * np.eye(count) + 0.05 * np.diag(np.arange(count))
    return phi(ll.initial((count,), cov=K))


def _limits() -> dict[str, ll.Wide]:
    """Single outputs whose limit is a law of one number."""
    x, steep = _tokens(4), lambda w: ll.map(lambda z: jnp.maximum(z - 0.3, 0) ** 2, w)
    return {
        "one head": ll.attention(x, heads=1)[0],
        "two heads of ReLU": ll.attention(_tokens(4, ll.relu), heads=2)[1],
        "many heads": ll.attention(x, heads=256, q_std=3.0)[0],
        "infinitely many heads": ll.attention(x, heads=math.inf)[0],
        "causal": ll.attention(x, heads=2, mask="causal")[2],
        "narrow heads": ll.attention(_tokens(3), heads=2, head_dim=8)[0],
        "linear": ll.attention(x, heads=2, scaling="linear")[0],
        "five tokens": ll.attention(_tokens(5), heads=2)[0],
        "image": ll.gelu(ll.attention(_tokens(3), heads=1))[0],
        "own function": ll.attention(_tokens(3, steep), heads=2)[0],
        "MLP on top": ll.mlp(ll.attention(_tokens(3), heads=1), phi=ll.erf)[0],
        "residual": (x + ll.attention(ll.layernorm(x), heads=2))[3],
    }


def _kernels() -> dict[str, ll.Wide]:
    """Outputs whose mean kernel is asked for."""
    x = _tokens(3)

    def block(w: ll.Wide) -> ll.Wide:
        w = w + ll.attention(ll.layernorm(w), heads=2)
        return w + ll.mlp(ll.layernorm(w), phi=ll.gelu)

    return {
        **{name: NAMED[name](x) for name in NAMED},
        "clip": ll.clip(x, 1.2),
        "hinge": ll.map(lambda z: jnp.maximum(z - 0.3, 0.0), x),
        "deep MLP": ll.mlp(x, hidden=(ll.n, ll.n), phi=ll.erf, bias_std=0.3),
        "rnn": ll.rnn(x),
        "lstm": ll.lstm(x),
        "blocks": ll.repeat(block, x, 3),
        "shared blocks": ll.repeat(block, x, 3, shared=True),
    }


def _networks() -> dict[str, ll.Wide]:
    """Transformers whose blocks are traced."""
    x = ll.initial((3,))
    return {
        "pre-norm": ll.transformer(x, 3, 2, norm="pre", mask="causal"),
        "rotary": ll.transformer(
            x, 2, 2, 4, norm="pre", positions=ll.nn.Rotary(), normalise=ll.rmsnorm
        ),
        "gated, tied": ll.transformer(x, 2, 1, norm="post", shared=True),
    }


def limits() -> Figures:
    """Laws as n → ∞."""
    for name, y in _limits().items():
        for figure, value, error in _of_law(ll.limit(y, samples=1024, key=0)):
            yield f"limit/{name}/{figure}", value, error


def kernels() -> Figures:
    """Means of kernels, and an average over coordinates."""
    for name, y in _kernels().items():
        K = ll.kernel(y, samples=1024, key=0)
        found = K.mean() if isinstance(K, ll.RandomKernel) else K
        error = K.error.mean() if isinstance(K, ll.RandomKernel) else getattr(K, "error", 0.0)
        yield f"kernel/{name}", found, error
    square = ll.average_law(_limits()["one head"], lambda z: z**2, samples=4096, key=0)
    for figure in ("mean", "variance"):
        yield f"average/{figure}", getattr(square, figure)(), getattr(square.error, figure)()


def finite() -> Figures:
    """The exact law at width n, and draws of every matrix."""
    for name in ("one head", "causal", "narrow heads", "MLP on top", "residual"):
        law = ll.finite(_limits()[name], width=16, samples=2000, key=KEY)
        for figure, value, error in _of_law(law):
            yield f"finite/{name}/{figure}", value, error
    y = _limits()["two heads of ReLU"]
    for name, drawn in (
        ("simulate", ll.simulate(y, width=8, samples=4000, key=KEY)),
        ("finite_samples", ll.finite_samples(y, width=8, samples=4000, key=KEY)),
    ):
        yield f"{name}/square", np.mean(drawn**2), np.std(drawn**2) / len(drawn) ** 0.5


def traces() -> Figures:
    """Statistics of blocks."""
    for name, net in _networks().items():
        for width in (None, 16):
            found = ll.trace(net, ["variance", "correlation", "entropy"], width, 512, key=KEY)
            for statistic in ("variance", "correlation", "entropy"):
                at = found[statistic]
                yield f"trace/{name}/{width}/{statistic}", at.value, at.error


def divergences() -> Figures:
    """Distances between laws."""
    p = ll.attention_law(np.eye(3), heads=1).marginal(0)
    q = ll.attention_law(np.eye(3), heads=8).marginal(0)
    for name in (
        "kl",
        "jensen_shannon",
        "hellinger",
        "total_variation",
        "wasserstein1",
        "kolmogorov",
    ):
        found = getattr(divergence, name)(p, q)
        yield f"divergence/{name}", float(found), found.error


PARTS: dict[str, Callable[[], Figures]] = {
    part.__name__: part for part in (limits, kernels, finite, traces, divergences)
}
Table = dict[str, tuple[list[float], list[float]]]


def computed(parts: list[str]) -> Table:
    """All figures of some parts: values and errors, flattened."""
    found: Table = {}
    for part in parts:
        for name, value, error in PARTS[part]():
            values, errors = np.broadcast_arrays(
                *(np.asarray(x, float).ravel() for x in (value, error))
            )
            found[name] = values.tolist(), errors.tolist()
    return found


def moved(before: Table, now: Table) -> list[str]:
    """The figures that differ by more than their errors allow, each in a line."""
    lines = []
    for name, (values, errors) in now.items():
        old, old_errors = map(np.asarray, before[name])
        new, allowed = np.asarray(values), np.hypot(errors, old_errors)
        equal = (new == old) | np.isnan(new) & np.isnan(old)
        if not (equal | (abs(new - old) <= DEVIATIONS * allowed + ROUNDING * abs(old))).all():
            lines.append(f"{name}: {old} ± {old_errors} → {new} ± {np.asarray(errors)}")
    return lines


def main() -> None:
    """Write figures, or compare with those of a file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=pathlib.Path)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], help="all without")
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    start = time.process_time()
    now = computed(arguments.parts or list(PARTS))
    seconds = time.process_time() - start
    if arguments.write:
        arguments.file.write_text(json.dumps(now, indent=0) + "\n", encoding="utf-8")
        print(f"{len(now)} figures written, {seconds:.0f} s of the processor")
        return
    lines = moved(json.loads(arguments.file.read_text(encoding="utf-8")), now)
    print(*lines, f"{len(lines)} of {len(now)} figures moved, {seconds:.0f} s", sep="\n")
    raise SystemExit(bool(lines))


if __name__ == "__main__":
    main()
