"""Many draws of one program: compiled in batches of a fixed size, so that draw i depends only on (key, i), bitwise."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, Key

from limitlaw.arguments import is_traced
from limitlaw.engines.asked import untraceable
from limitlaw.engines.effort import Pace
from limitlaw.progress import watched

One = Callable[..., Any]  # (arguments, key of a draw) → a tree of arrays


def batched(one: One, batch: int) -> Callable[..., Any]:
    """(arguments, key, first draw) → `batch` draws, each with its own key."""

    def draws(arguments: Any, key: Key[Array, ""], start: Int[Array, ""] | int) -> Any:
        keys = jax.vmap(functools.partial(jax.random.fold_in, key))(start + jnp.arange(batch))
        return jax.vmap(functools.partial(one, arguments))(keys)

    return draws


def drawn(name: str, draws: Callable[..., Any], batch: int, arguments: Any, pace: Pace, key: Key[Array, ""]) -> Any:
    """Draws 0, 1, … as many as `pace` says, by a function of `batched`: arrays with the draws in front."""
    results: list[np.ndarray] = []
    structure, stop = None, 0
    with watched(name) as watch:
        while stop < pace.samples:
            start = stop
            leaves, structure = jax.tree.flatten(draws(arguments, key, start))
            if any(map(is_traced, leaves)):
                raise untraceable(name)
            if not results:
                results = [np.empty((pace.samples, *leaf.shape[1:]), leaf.dtype) for leaf in leaves]
            stop = min(start + batch, pace.samples)
            for result, leaf in zip(results, leaves, strict=True):
                result[start:stop] = leaf[: stop - start]
            pace.reached(stop)
            watch.reached(stop, pace.samples)
    return jax.tree.unflatten(structure, [result[: pace.samples] for result in results])
