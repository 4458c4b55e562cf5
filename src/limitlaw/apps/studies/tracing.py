"""Shared by the computations of several studies: traces in chunks, correlated tokens, published
numbers.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

import limitlaw as ll
from limitlaw.apps.paper.computed.networks import stream
from limitlaw.digits import compact
from limitlaw.runs import Arrays, Chunk, Results


def tokens(count: int, correlation: float = 0.0) -> ll.Wide:
    """The vectors of `count` tokens, of variance 1, with this correlation between any two."""
    return ll.initial((count,), cov=correlation + (1.0 - correlation) * np.eye(count))


def traced(
    network: ll.Wide | Sequence[ll.Wide],
    statistics: Iterable[Any],
    draws: int,
    seed: int,
    width: int | None = None,
) -> Arrays:
    """The result of `trace` as arrays: the values of each statistic along depth, and its errors as
    "…_error".
    """
    trace = ll.trace(network, list(statistics), width, draws, seed)
    found = {}
    for name in trace:
        found[name] = np.asarray(trace[name].value, float)
        found[f"{name}_error"] = np.asarray(trace[name].error, float)
    return found


def parts(
    number: int, seed: int, function: Callable[..., Arrays], /, **arguments: object
) -> list[Chunk]:
    """`number` chunks with the same arguments, each of which has draws of its own."""
    labels = [(function.__name__, *sorted(arguments.items()), part) for part in range(number)]
    return [Chunk.of(function, seed=stream(seed, *label), **arguments) for label in labels]


def pooled(chunks: Sequence[Chunk], results: Results) -> Arrays:
    """The mean of equal parts, and its error."""
    found = [results[chunk] for chunk in chunks]
    return {name: _pooled(name, np.stack([arrays[name] for arrays in found])) for name in found[0]}


def _pooled(name: str, values: np.ndarray) -> np.ndarray:
    if name.endswith("_error"):
        return np.sqrt(np.sum(values**2, axis=0)) / len(values)
    return np.mean(values, axis=0)


def column(found: Arrays, name: str, at: int | slice = slice(None)) -> dict[str, Any]:
    """A statistic and its error as columns of a table; `at`: after these layers."""
    return {name: found[name][at], "error": found[f"{name}_error"][at]}


def listed(values: Iterable[float], errors: Iterable[float]) -> str:
    """Numbers with their errors as text: 0.344(1), 0.478(2)."""
    return ", ".join(compact(float(v), float(e)) for v, e in zip(values, errors, strict=True))


def near(value: float, published: float, share: float) -> bool:
    """Is a number the published one, up to a share of it? Errors are not taken into account."""
    return math.isfinite(value) and abs(value - published) <= share * abs(published)
