"""Many draws of one program, in compiled batches: draw i depends on (key, i) only, bitwise."""

import collections
import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, Key

from limitlaw.arguments import is_traced
from limitlaw.engines.bounds import reached
from limitlaw.engines.compiled import Compiled
from limitlaw.engines.effort import Pace
from limitlaw.engines.engine import untraceable
from limitlaw.numerics.replicates import INDEPENDENT, Replicates
from limitlaw.progress import watched

UNDER_WAY = 1  # batches that are computed at a time on each device

One = Callable[..., Any]  # (arguments, key of a draw) → a tree of arrays


@functools.partial(jax.jit, static_argnames="count")
def keys_of_draws(
    key: Key[Array, ""], start: Int[Array, ""] | int, count: int
) -> Key[Array, " count"]:
    """fold_in(key, i) for draws i = start, start + 1, …, however they are batched."""
    return jax.vmap(functools.partial(jax.random.fold_in, key))(start + jnp.arange(count))


def batched(one: One, batch: int) -> Callable[..., Any]:
    """A function of (arguments, key, first draw) that makes `batch` draws, a key for each."""

    def draws(arguments: object, key: Key[Array, ""], start: Int[Array, ""] | int) -> Any:
        return jax.vmap(functools.partial(one, arguments))(keys_of_draws(key, start, batch))

    return draws


def drawn(
    name: str,
    draws: Compiled,
    batch: int,
    arguments: object,
    pace: Pace,
    key: Key[Array, ""],
) -> Any:
    """Draws 0, 1, …, as many as `pace` says, by a `batched` function: arrays, draws first."""
    return in_batches(
        name,
        lambda i: draws(arguments, key, i * batch),
        lambda calls: draws.check(calls, arguments, key, 0),
        batch,
        pace,
    )


def in_batches(
    name: str,
    batch: Callable[[int], Any],
    check: Callable[[int], None],
    size: int,
    pace: Pace,
    replicates: Replicates = INDEPENDENT,
) -> Any:
    """Batches 0, 1, … of `size` draws each, until `pace` says that it is enough: arrays with the
    draws in front.

    This is the one driver of draws. `check(calls)` compiles the function that makes a batch, or
    refuses so many. With several devices, the i-th computes batches i, i + their number, …; a
    batch is the same wherever it is computed.
    """
    devices = _devices()
    results: list[np.ndarray] = []
    structure, asked, stop = None, 0, 0
    under_way: collections.deque[Any] = collections.deque()
    with watched(name) as watch:
        with jax.default_device(devices[0]):
            check(-(-pace.certain // size))
        watch.reached(0, pace.samples)
        while stop < pace.samples:
            most = UNDER_WAY * len(devices) if stop else 1
            while asked * size < pace.samples and len(under_way) < most:
                with jax.default_device(devices[asked % len(devices)]):
                    leaves, structure = jax.tree.flatten(batch(asked))
                if is_traced(*leaves):
                    raise untraceable(name)
                under_way.append(leaves)
                asked += 1
            leaves, start = under_way.popleft(), stop
            if not results:
                results = [
                    np.empty((pace.samples, *leaf.shape[1:]), leaf.dtype) for leaf in leaves
                ]
            stop = min(start + size, pace.samples)
            for result, leaf in zip(results, leaves, strict=True):
                result[start:stop] = leaf[: stop - start]
            so_far = functools.partial(_tree, structure, results, stop)
            pace.reached(stop, lambda found=so_far: (found(), replicates))  # type: ignore[misc]
            reached(watch, stop, pace.samples)
    return _tree(structure, results, pace.samples)


def _devices() -> list[Any]:
    """The devices of this process, or the user's choice; a single one is not named (None), as a
    named device is compiled for again.
    """
    chosen = jax.config.jax_default_device  # type: ignore[attr-defined]
    several = jax.local_devices() if chosen is None else []
    return several if len(several) > 1 else [chosen]


def _tree(structure: Any, results: list[np.ndarray], draws: int) -> Any:
    """The first draws of all results, in the tree in which a draw gives them."""
    return jax.tree.unflatten(structure, [result[:draws] for result in results])
