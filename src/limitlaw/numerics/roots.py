"""Quantiles: the distribution function inverted by Newton's method inside a bracket."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

TailAt = Callable[[Float[Array, " q"]], tuple[Array, Array]]


def invert(
    tail: TailAt,
    level: Float[Array, " q"],
    lower: Array,
    bracket: tuple[Float[Array, " q"], Float[Array, " q"]],
    start: Float[Array, " q"],
    scale: float,
    newton: bool = True,
) -> Float[Array, " q"]:
    """The smallest x in the bracket with P(Y ≤ x)
    ≥ level where `lower`, with P(Y > x) ≤ level elsewhere.

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
    return x if newton else hi


@functools.partial(jax.jit, static_argnames="newton")
def _step(
    level: Any, lower: Any, x: Any, lo: Any, hi: Any, at_x: Any, scale: Any, newton: bool
) -> tuple[Any, Any, Any, Any]:
    """The next x, the bracket around it, and whether every quantile is found."""
    tail, p = at_x
    below = jnp.where(lower, tail < level, tail > level)
    lo, hi = jnp.where(below, x, lo), jnp.where(below, hi, x)
    miss = jnp.log(tail / level)
    step = miss * (tail / p) * jnp.where(lower, -1, 1)
    good = newton & jnp.isfinite(step) & (x + step >= lo) & (x + step <= hi)
    new = jnp.where(good, x + step, lo + (hi - lo) / 2)
    size = jnp.abs(new) + scale
    # Newton's next step would be of their squares
    final = (jnp.abs(step) <= 1e-8 * size) & (jnp.abs(miss) <= 1e-7)
    close = jnp.where(good, final, hi - lo <= 1e-14 * size)
    return new, lo, hi, jnp.all(close | (hi <= lo) | jnp.isnan(level))
