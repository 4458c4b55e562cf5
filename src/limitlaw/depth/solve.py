"""Choosing scales: the one at which a statistic reaches a target at some depth."""

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from limitlaw.arguments import positive_int, real_number, require_float64, shown
from limitlaw.depth.statistics import Statistic, averaged
from limitlaw.depth.trace import chosen_statistics, program_at_infinity, stages
from limitlaw.digits import plus_minus
from limitlaw.engines.turns import Turns
from limitlaw.language.values import Wide

STEPS = 60  # at most; bisection alone needs about 40
PRECISION = 1e-10  # of the root of the function that is drawn

Network = Callable[[Any], Wide]  # of a scale, which may be traced


@dataclasses.dataclass(frozen=True)
class Solution:
    """The scale at which the statistic is `target`, its standard error, and the slope d statistic
    / d scale there.
    """

    value: float
    error: float
    slope: float
    target: float
    samples: int

    def __float__(self) -> float:
        return self.value

    def __repr__(self) -> str:
        return f"Solution({plus_minus(self.value, self.error)}, {self.samples} draws)"


def solve(
    network: Network,
    statistic: str | Callable[..., Any],
    target: int | float,
    over: tuple[int | float, int | float],
    at: int | None = None,
    samples: int = 256,
    key: object = None,
) -> Solution:
    """The scale c in `over` for which the mean of a statistic of `network(c)` is `target` after
    block `at`, as n → ∞.

        network = lambda c: transformer(x, 24, 12, 64, q_std=c)
        solve(network, "entropy", 0.8 * math.log(s), over=(0.1, 10))

    `network` is a function of a scale, `statistic` a name or a function as in `trace`, `at` the
    last block without one. All scales have the same draws, so that their mean is a smooth function
    of c; its root is found by Newton's method, with pathwise derivatives, inside a bracket. Its
    error is that of the mean divided by the slope.
    """
    require_float64("solve")
    (chosen,) = chosen_statistics([statistic])
    if chosen.summary is not averaged:
        raise ValueError(
            "solve needs a statistic of each draw, as 'entropy' or 'correlation', got "
            f"{chosen.name!r}"
        )
    if not callable(network):
        raise TypeError(f"network must be a function of a scale, got {shown(network)}")
    low, high = sorted(real_number("over", bound) for bound in over)
    if not 0 < low < high:
        raise ValueError(f"over must be two different positive scales, got {over}")
    read = _read(network, chosen, at, positive_int("samples", samples), key)
    goal = real_number("target", target)
    return _root(read, goal, low, high, samples, chosen.name)


Read = Callable[[float], tuple[Float[np.ndarray, " draws"], Float[np.ndarray, " draws"]]]


def _read(
    network: Network, statistic: Statistic, at: int | None, samples: int, key: object
) -> Read:
    """The statistic of every draw and its derivative, as functions of ln c."""
    functions = Turns((statistic.read,))

    def of_draws(log_c: Float[Array, ""]) -> Float[Array, " draws"]:
        first, layers = stages(network(jnp.exp(log_c)))
        arrays = program_at_infinity(first, layers, functions).conditions(samples, key).arrays
        values = jnp.concatenate([part[0] for part in arrays], axis=1)
        last = values.shape[1] - 1
        layer = last if at is None else positive_int("at", at)
        if layer > last:
            raise ValueError(f"at must be one of the {last} blocks of network, got {layer}")
        return values[:, layer]

    both = jax.jit(lambda log_c: jax.jvp(of_draws, (log_c,), (jnp.ones(()),)))

    def read(log_c: float) -> tuple[np.ndarray, np.ndarray]:
        values, slopes = both(jnp.asarray(log_c))
        return np.asarray(values), np.asarray(slopes)

    return read


def _root(read: Read, target: float, low: float, high: float, samples: int, name: str) -> Solution:
    """Newton's method in ln c, with bisection where it leaves the bracket."""
    a, b = math.log(low), math.log(high)
    ends = [float(np.mean(read(x)[0])) - target for x in (a, b)]
    if not ends[0] * ends[1] <= 0:
        raise ValueError(
            f"target {target:g} is not reached in over=({low:g}, {high:g}): {name} is "
            f"{ends[0] + target:.6g} at one end and {ends[1] + target:.6g} at the other"
        )
    x = 0.5 * (a + b)
    for _ in range(STEPS):
        values, slopes = read(x)
        f, slope = float(np.mean(values)) - target, float(np.mean(slopes))
        a, b = (x, b) if f * ends[0] > 0 else (a, x)
        step = f / slope if slope else math.inf
        new = x - step if a < x - step < b else 0.5 * (a + b)
        if abs(new - x) <= PRECISION or f == 0:
            break
        x = new
    c = math.exp(x)
    draws = len(values)  # one where nothing is random
    error = math.nan if samples == 1 else 0.0
    if draws > 1:
        error = float(np.std(values, ddof=1)) / math.sqrt(draws)
    return Solution(c, c * error / abs(slope) if slope else math.inf, slope / c, target, draws)
