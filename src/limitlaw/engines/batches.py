"""Many draws of one program: compiled in batches of a fixed size, so that draw i depends only on (key, i), bitwise."""

import functools
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, Key

from limitlaw.arguments import is_traced
from limitlaw.engines.common import check_draw, untraceable
from limitlaw.engines.compiling import Compiled
from limitlaw.engines.demand import demanded
from limitlaw.engines.effort import Pace
from limitlaw.engines.plan import Plan
from limitlaw.language.ops import Value
from limitlaw.language.shapes import finite_shape
from limitlaw.language.values import Wide
from limitlaw.progress import watched

MAX_BATCH = 4096  # draws compiled together
HELD = 2**20  # numbers held at a time on a CPU: 8 MiB, about what its cache holds
MAX_BATCH_ELSEWHERE, HELD_ELSEWHERE = 2**18, 2**29  # a GPU wants all of its threads busy: 4 GiB

Drawer = Callable[[Plan, Key[Array, ""]], Any]  # one draw of a plan → arrays


def drawn(name: str, values: tuple[Value, ...], width: int, pace: Pace, key: Key[Array, ""], draw: Drawer) -> Any:
    """`draw` for draws 0, 1, … of the program of `values`, as many as `pace` says: arrays with the draws in front."""
    batch, draws = _compiled(values, width, draw)
    results: list[np.ndarray] = []
    structure, stop = None, 0
    with watched(name) as watch:
        while stop < pace.samples:
            start = stop
            leaves, structure = jax.tree.flatten(draws(key, start))
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


@functools.lru_cache(maxsize=32)
def _compiled(values: tuple[Value, ...], width: int, draw: Drawer) -> tuple[int, Callable[..., Any]]:
    """The number of draws computed together, and the compiled function (key, first draw) → their arrays."""
    plan = Plan(demanded(values))
    batch = _batch_size(plan, width)

    def draws(key: Key[Array, ""], start: Int[Array, ""] | int) -> Any:
        keys = jax.vmap(functools.partial(jax.random.fold_in, key))(start + jnp.arange(batch))
        return jax.vmap(functools.partial(draw, plan))(keys)

    return batch, Compiled(draws)


def _batch_size(plan: Plan, width: int) -> int:
    """As many draws as keep the numbers held at a time near `HELD`; frames count as a few numbers a vector."""
    cost = 16
    for value in plan.values:
        count = math.prod(finite_shape(value.shape))
        points = isinstance(value, Wide) and plan.component(value).points
        cost += count * (value.dim.at(width) if points else 8)  # type: ignore[attr-defined]
    check_draw(width, cost, "ask for a smaller one; this program needs every coordinate of its vectors")
    backend = jax.default_backend()
    ceiling, held = (MAX_BATCH, HELD) if backend == "cpu" else (MAX_BATCH_ELSEWHERE, HELD_ELSEWHERE)
    return max(1, min(ceiling, held // cost))
