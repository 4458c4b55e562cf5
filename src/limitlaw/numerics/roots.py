"""Quantiles: the distribution function inverted by Newton's method inside a bracket."""

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

At = Float[Array, " q"]  # one number for each quantile
TailAt = Callable[[At], tuple[At, At]]


def invert(
    tail: TailAt,
    level: At,
    lower: Bool[Array, " q"],
    bracket: tuple[At, At],
    start: At,
    scale: float,
    newton: bool = True,
) -> At:
    """The smallest x in the bracket with P(Y ≤ x) ≥ level where `lower`, with P(Y > x) ≤ level
    elsewhere.

    `tail` gives that tail and the density at x. Newton's method runs on the logarithm of the tail,
    in which Gaussian-like tails are nearly straight; where it leaves the bracket, or where the cdf
    may jump (newton=False), the bracket is halved. Stops at 1e-14 of x and of `scale`.
    """
    lo, hi = bracket
    x = jnp.clip(start, lo, hi) if newton else (lo + hi) / 2
    for _ in range(200):
        x, lo, hi, done = _step(level, lower, x, lo, hi, tail(x), scale, newton)
        if bool(done):
            break
    return jnp.where(jnp.isnan(level), level, x if newton else hi)


@functools.partial(jax.jit, static_argnames="newton")
def _step(
    level: At,
    lower: Bool[Array, " q"],
    x: At,
    lo: At,
    hi: At,
    at_x: tuple[At, At],
    scale: Float[Array, ""],
    newton: bool,
) -> tuple[At, At, At, Bool[Array, ""]]:
    """The next x, the bracket around it, and whether every quantile is found."""
    tail, p = at_x
    below = jnp.where(lower, tail < level, tail > level)
    lo, hi = jnp.where(below, x, lo), jnp.where(below, hi, x)
    miss = jnp.log(tail / level)
    step = miss * (tail / p) * jnp.where(lower, -1, 1)
    good = newton & jnp.isfinite(step) & (x + step >= lo) & (x + step <= hi)
    new = jnp.where(good, x + step, lo + (hi - lo) / 2)
    size = jnp.abs(new) + scale
    # Newton's next step would be as small as the squares of these
    final = (jnp.abs(step) <= 1e-8 * size) & (jnp.abs(miss) <= 1e-7)
    close = jnp.where(good, final, hi - lo <= 1e-14 * size)
    return new, lo, hi, jnp.all(close | (hi <= lo) | jnp.isnan(level))
