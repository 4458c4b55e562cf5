"""Draws of the latent normals of a network given data: of the prior, weighed, or tempered."""

import functools
import math
import time
import warnings
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key
from scipy.special import logsumexp

from limitlaw.digits import plus_minus
from limitlaw.engines.latents import LatentPlan
from limitlaw.engines.run import keys_of_draws
from limitlaw.learning.problem import Latents, Problem
from limitlaw.learning.regression import log_likelihood
from limitlaw.learning.tempering import Island, island, measured, mover

ISLAND, LEAST_ISLANDS, MOST_ISLANDS = 256, 4, 16
FIRST_MOVES, MOST_MOVES = 5, 80  # transitions at each temperature, doubled from the first on
SECONDS = 60.0  # of sampling, beyond which moves are not doubled again
STABLE = 0.5  # spread, and change under doubling, of a log evidence that is called stable
HELD = 2**21  # numbers of kernels that are held together
PRIOR_BATCH = 2**10


def _likelihood(plan: LatentPlan) -> Callable[..., Any]:
    """ℓ(x) of the targets in `Problem.data`."""

    def ell(data: Any, x: Array) -> Array:
        arrays, S, t, noise = data
        given, _ = plan.read(arrays, x)
        return log_likelihood(given, S, t, noise)

    return ell


def _together(problem: Problem) -> int:
    m = len(problem.train)
    return max(1, min(ISLAND, HELD // (m * m)))


def importance_sampled(problem: Problem, samples: int, key: Key[Array, ""]) -> Latents:
    """Draws of the prior, weighed by the likelihood of the targets."""
    map, ell = problem.of_training, _likelihood(problem.of_training.plan)
    d, size = map.size, min(samples, PRIOR_BATCH, max(1, HELD // len(problem.train) ** 2))

    def batch(data: Any, key: Array, start: Array) -> Any:
        x = jax.vmap(lambda k: jax.random.normal(k, (d,)))(keys_of_draws(key, start, size))
        return x, jax.vmap(ell, (None, 0))(data, x)

    draws = map.plan.compiled(("prior", size), lambda: batch)
    source, data = jax.random.fold_in(key, 0), problem.data
    draws.check(-(-samples // size), data, source, 0)
    found = [draws(data, source, start) for start in range(0, samples, size)]
    x = np.concatenate([np.asarray(part) for part, _ in found])[:samples]
    value = np.concatenate([np.asarray(part) for _, part in found])[:samples]
    if not np.isfinite(value).any():
        raise ValueError("targets have no likelihood at any draw of the prior: noise is too small")
    w = np.exp(value - value.max())
    log_evidence = float(logsumexp(value) - math.log(samples))
    error = float(w.std(ddof=1) / w.mean() / math.sqrt(samples)) if samples > 1 else math.inf
    return Latents(x, w / w.sum(), 0, value, log_evidence, error, "importance sampling")


def islands_of(samples: int) -> tuple[int, int]:
    """How many islands, and of how many particles each."""
    count = min(MOST_ISLANDS, max(LEAST_ISLANDS, samples // ISLAND))
    return count, max(2, -(-samples // count))


def tempered(problem: Problem, samples: int, key: Key[Array, ""]) -> Latents:
    """Islands of particles, with moves doubled until the log evidence is stable."""
    run = _archipelago(problem, samples)
    began, count, before = time.monotonic(), FIRST_MOVES, None
    while True:
        last = time.monotonic()
        found = run(count, jax.random.fold_in(key, count))
        value, error = evidence_of(found)
        change = math.inf if before is None else abs(value - before)
        stable = error < STABLE and change < max(STABLE, 2 * error)
        now = time.monotonic()
        if stable or 2 * count > MOST_MOVES or now - began + 2 * (now - last) > SECONDS:
            break
        count, before = 2 * count, value
    if not stable:
        half = "" if before is None else f", {before:.2f} with half as many"
        warnings.warn(
            f"the log evidence is not stable: {plus_minus(value, error)} with {count} moves at "
            f"each temperature{half}; it may be higher, and predictions those of some of several "
            "modes: ask for more samples, or for fewer inputs or heads",
            stacklevel=6,
        )
    if math.isfinite(change) and not stable:
        error = math.hypot(error, change)
    log_z = np.array([each.log_evidence for each in found])
    share = np.exp(log_z - logsumexp(log_z))
    N = len(found[0].x)
    return Latents(
        np.concatenate([each.x for each in found]),
        np.repeat(share / N, N),
        len(found),
        np.concatenate([each.value for each in found]),
        value,
        error,
        f"tempered in {len(found)} islands of {N}, {count} moves at each of "
        f"{max(each.temperatures for each in found)} temperatures",
        stable,
    )


def evidence_of(found: list[Island]) -> tuple[float, float]:
    """The log of the mean evidence of islands, and its standard error from their spread."""
    log_z = np.array([each.log_evidence for each in found])
    value = float(logsumexp(log_z) - math.log(len(log_z)))
    relative = np.exp(log_z - value)
    return value, float(relative.std(ddof=1) / math.sqrt(len(log_z)))


def _archipelago(problem: Problem, samples: int) -> Callable[[int, Array], list[Island]]:
    """A function of the number of moves and a key that runs all islands, compiled; refused where
    it would take too long.
    """
    map, together = problem.of_training, _together(problem)
    islands, N = islands_of(samples)
    data, shape = problem.data, (N, map.size)
    measure = measured(_likelihood(map.plan), together)
    start = map.plan.compiled(("start", together), lambda: measure)
    move = map.plan.compiled(("move", together), lambda: mover(measure))
    here = start(data, jnp.zeros(shape))
    settings = jnp.asarray(0.5), jnp.asarray(0.1), jax.random.key(0)
    # at a few temperatures; a loop is counted twice
    move.check(islands * FIRST_MOVES, data, here, *settings, jnp.asarray(1))

    # one after the other: in threads beside each other, small Cholesky factors of XLA deadlock
    def run(count: int, key: Key[Array, ""]) -> list[Island]:
        one = functools.partial(island, data, start, move, shape, count)
        return [one(jax.random.fold_in(key, i)) for i in range(islands)]

    return run
