"""Tempered sequential Monte Carlo for posteriors p(x) e^{ℓ(x)} over standard normals x.

Particles start as draws of the prior, and go through the laws p(x) e^{βℓ(x)}, 0 ≤ β ≤ 1 (Del
Moral, Doucet and Jasra, "Sequential Monte Carlo samplers", 2006). Each β is such that the weights
e^{Δβ ℓ} of half as many particles would be as good as all; particles are resampled by them, and
moved by split Hamiltonian Monte Carlo: a kick v += (h/2) β ∇ℓ, the exact rotation of (x, v) by the
angle h, which is the flow of the normal prior, and a kick (Shahbaba et al., "Split Hamiltonian
Monte Carlo", 2014). The evidence is the product of the mean weights.
"""

import dataclasses
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key
from scipy.special import logsumexp

LEAPS = 8  # kicks and rotations of a proposal
ACCEPTED = 0.8  # the share of proposals that the angle h is adapted to
FIRST_ANGLE, LARGEST_ANGLE, GAIN = 0.2, 0.5, 0.5
LEAST_STEP = 1e-9  # of β: below, the target is out of reach of the prior

Data = Any  # what the likelihood is of: a tree of arrays
Likelihood = Callable[[Data, Float[Array, " d"]], Float[Array, ""]]


class Particles(NamedTuple):
    """Latent normals x (N, d), their log-likelihoods ℓ and gradients ∇ℓ."""

    x: Float[Array, "N d"]
    value: Float[Array, " N"]
    gradient: Float[Array, "N d"]


@dataclasses.dataclass(frozen=True)
class Island:
    """One run of the sampler: particles of equal weight, their log-likelihoods, the log evidence,
    and how many temperatures it went through.
    """

    x: Float[np.ndarray, "N d"]
    value: Float[np.ndarray, " N"]
    log_evidence: float
    temperatures: int


def measured(ell: Likelihood, together: int) -> Callable[..., Particles]:
    """A function of (data, x) that gives particles, `together` of them at a time."""

    def one(data: Data, x: Float[Array, " d"]) -> tuple[Array, Array]:
        value, gradient = jax.value_and_grad(ell, argnums=1)(data, x)
        fine = jnp.isfinite(value) & jnp.isfinite(gradient).all()
        return jnp.where(fine, value, -jnp.inf), jnp.where(fine, gradient, 0.0)

    def all_of(data: Data, x: Float[Array, "N d"]) -> Particles:
        if len(x) <= together:
            return Particles(x, *jax.vmap(one, (None, 0))(data, x))
        return Particles(x, *jax.lax.map(lambda row: one(data, row), x, batch_size=together))

    return all_of


def mover(measure: Callable[..., Particles]) -> Callable[..., Any]:
    """A function of (data, particles, β, h, key, count) that makes `count` transitions, each of
    `LEAPS` leaps; it gives the particles and the angle h, adapted.
    """

    def leap(data: Data, beta: Array, h: Array, state: Any) -> Any:
        here, v = state
        v = v + 0.5 * h * beta * here.gradient
        x, v = here.x * jnp.cos(h) + v * jnp.sin(h), v * jnp.cos(h) - here.x * jnp.sin(h)
        here = measure(data, x)
        return here, v + 0.5 * h * beta * here.gradient

    def transition(data: Data, beta: Array, key: Key[Array, ""], state: Any) -> Any:
        here, h = state
        start, jitter, choice = jax.random.split(key, 3)
        v = jax.random.normal(start, here.x.shape)
        angles = h * jax.random.uniform(jitter, (len(v), 1), minval=0.5, maxval=1.5)
        there, w = jax.lax.fori_loop(
            0, LEAPS, lambda _, state: leap(data, beta, angles, state), (here, v)
        )

        def energy(p: Particles, v: Array) -> Array:
            return beta * p.value - 0.5 * jnp.sum(p.x**2 + v**2, axis=-1)

        chance = jnp.exp(jnp.minimum(energy(there, w) - energy(here, v), 0.0))
        chance = jnp.where(jnp.isnan(chance), 0.0, chance)
        taken = jax.random.uniform(choice, chance.shape) < chance
        here = jax.tree.map(
            lambda new, old: jnp.where(taken.reshape(-1, *[1] * (new.ndim - 1)), new, old),
            there,
            here,
        )
        h = jnp.minimum(h * jnp.exp(GAIN * (chance.mean() - ACCEPTED)), LARGEST_ANGLE)
        return here, h

    def move(
        data: Data, here: Particles, beta: Array, h: Array, key: Key[Array, ""], count: Array
    ) -> Any:
        step = lambda i, state: transition(data, beta, jax.random.fold_in(key, i), state)
        return jax.lax.fori_loop(0, count, step, (here, h))

    return move


def next_temperature(values: Float[np.ndarray, " N"], beta: float) -> float:
    """The largest β' ≤ 1 at which the weights e^{(β' − β)ℓ} have an effective number of at least
    half of the particles.
    """

    def enough(step: float) -> bool:
        w = np.exp(step * (values - values.max()))
        return bool(w.sum() ** 2 >= 0.5 * len(values) * (w**2).sum())

    if enough(1 - beta):
        return 1.0
    low, high = 0.0, 1 - beta
    while high - low > 1e-6 * high and high > LEAST_STEP:
        middle = 0.5 * (low + high)
        low, high = (middle, high) if enough(middle) else (low, middle)
    return beta + max(low, LEAST_STEP)


def systematic(weights: Float[np.ndarray, " N"], count: int, u: float) -> np.ndarray:
    """Indices drawn by weights, each as often as its share of `count`, rounded up or down."""
    ends = np.cumsum(weights)
    return np.minimum(
        np.searchsorted(ends / ends[-1], (np.arange(count) + u) / count), len(weights) - 1
    )


def island(
    data: Data,
    start: Callable[[Data, Array], Particles],
    move: Callable[..., Any],
    shape: tuple[int, int],
    count: int,
    key: Key[Array, ""],
) -> Island:
    """N particles in R^d, shape (N, d), from the prior to the posterior, with `count` transitions
    at each temperature.
    """
    here = start(data, jax.random.normal(jax.random.fold_in(key, 0), shape))
    beta, h, log_evidence, temperatures = 0.0, FIRST_ANGLE, 0.0, 0
    while beta < 1:
        temperatures += 1
        values = np.asarray(here.value)
        if not np.isfinite(values).any():
            raise FloatingPointError("no particle has a finite likelihood")
        following = next_temperature(np.where(np.isfinite(values), values, -1e300), beta)
        log_w = (following - beta) * values
        log_evidence += logsumexp(log_w) - math.log(len(values))
        one, two = jax.random.split(jax.random.fold_in(key, temperatures))
        u = float(jax.random.uniform(one))
        chosen = systematic(np.exp(log_w - log_w.max()), len(values), u)
        here = jax.tree.map(lambda a, chosen=chosen: a[chosen], here)
        beta = following
        here, h = move(data, here, jnp.asarray(beta), jnp.asarray(h), two, jnp.asarray(count))
    x, value = np.asarray(here.x), np.asarray(here.value)
    return Island(x, value, float(log_evidence), temperatures)
