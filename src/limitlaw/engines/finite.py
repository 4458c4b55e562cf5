"""The finite-width engine: the exact law at width n, without drawing a wide matrix."""

import functools
import math
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, DTypeLike, Float, Key

from limitlaw.arguments import as_key, positive_int, require_float64
from limitlaw.engines import common
from limitlaw.engines.batches import drawn
from limitlaw.engines.conditional import Draw
from limitlaw.engines.demand import demanded
from limitlaw.engines.effort import Pace, default_draws
from limitlaw.engines.observed import observed
from limitlaw.engines.plan import Plan
from limitlaw.engines.spaces import apply_roots
from limitlaw.laws import Combination, Empirical, GaussianMixture, Law, Pushforward
from limitlaw.numerics.normals import normal
from limitlaw.language.ops import Value
from limitlaw.language.shapes import finite_shape
from limitlaw.language.values import Scalars, Wide


def finite(y: Wide | Scalars, width: int, samples: int, key: Any, coordinates: int | None = None) -> Law:
    """The exact law of one coordinate of y at width n = `width`, as a Gaussian mixture over `samples` conditions.

    Given everything but the last matrix y is Gaussian: each draw gives a component, with a mean and a covariance, and
    nothing is smoothed. Where the last step is a nonlinearity, it is the pushforward of that. `coordinates=k` gives
    the joint law of k coordinates, event shape (*batch, k). One token, y[0], costs less than all.
    """
    return law_at_width(y, width, positive_int("samples", samples), key, coordinates)


def law_at_width(y: Wide | Scalars, width: int, samples: int | None, key: Any, coordinates: int | None = None) -> Law:
    """`finite`; without `samples` as many draws as memory and time allow."""
    values, _, k = _checked("finite", y, width, key, coordinates)
    if len(values) > 1:
        raise TypeError("finite gives the law of one value: stack several, or take finite_samples for plain draws")
    most = default_draws((k or 1) * math.prod(finite_shape(values[0].shape))) if samples is None else samples
    pace = Pace(positive_int("samples", most), at_most=samples is None)
    law = _law(values[0], width, pace, key, k)
    law.effort = pace.effort
    return law


def _law(value: Any, width: int, pace: Pace, key: Any, k: int | None) -> Law:
    if not isinstance(value, Wide):
        return Empirical(_drawn_samples("finite", (value,), width, pace, key, k)[0])
    phi, parts = common.last_step(value)
    common.check_memory(pace.samples, common.components(parts, k or 1), "ask for fewer samples, or entries, as in y[0]")
    mean, covariance = drawn("finite", parts, width, pace, as_key(key), _cached(_conditions, width, k or 1))
    samples = len(mean)
    event = (len(parts),) * (phi is not None and len(parts) > 1) + finite_shape(value.shape) + ((k,) if k else ())
    if not covariance.any():
        points = mean.reshape(samples, *event)
        parted = jnp.moveaxis(jnp.asarray(points), 1, 0) if len(parts) > 1 else jnp.asarray(points)[None]
        return Empirical(parted[0] if phi is None else phi(*parted))
    mixture = GaussianMixture(
        jnp.asarray(mean.reshape(samples, *event)),
        jnp.asarray(covariance if event else covariance.reshape(samples)),
        kind="sampled",
    )
    if phi is None:
        return mixture.with_pole() if common.has_pole(demanded(parts)[0], lambda dim: dim.at(width)) else mixture
    return Pushforward(phi, mixture) if len(parts) == 1 else Combination(phi, mixture)


def finite_samples(y: Any, width: int, samples: int, key: Any, coordinates: int | None = None) -> Any:
    """Plain draws from the exact law at width n, in the form of `simulate`: shape (samples, *batch) or (…, k).

    `y` may be a tuple, list or dict of values of one program; the same draws serve them all. Numbers come whole.
    """
    pace = Pace(positive_int("samples", samples), at_most=False)
    values, structure, k = _checked("finite_samples", y, width, key, coordinates)
    return jax.tree.unflatten(structure, _drawn_samples("finite_samples", values, width, pace, key, k))


def _drawn_samples(
    name: str, values: tuple[Value, ...], width: int, pace: Pace, key: Any, k: int | None
) -> list[Float[Array, "samples ..."]]:
    sizes = [math.prod(finite_shape(v.shape)) * (k or 1 if isinstance(v, Wide) else 1) for v in values]
    common.check_memory(pace.samples, sum(sizes), "ask for fewer samples at a time")
    arrays = drawn(name, values, width, pace, as_key(key), _cached(_samples, width, k or 1))
    arrays = [a[..., 0] if isinstance(v, Wide) and k is None else a for v, a in zip(values, arrays, strict=True)]
    return [jnp.asarray(a) for a in arrays]


def _checked(
    name: str, y: Any, width: int, key: Any, coordinates: int | None
) -> tuple[tuple[Value, ...], Any, int | None]:
    require_float64(name)
    positive_int("width", width)
    values, structure = common.outputs(y)
    common.check_drawable(name, values, key)
    k = None if coordinates is None else positive_int("coordinates", coordinates)
    common.check_width(values, width, k)
    return values, structure, k


@functools.cache
def _cached(function: Any, *arguments: Any) -> Any:
    """One object for each choice of arguments, so that compiled programs are found again."""
    return functools.partial(function, *arguments)


def _conditions(
    width: int, k: int, plan: Plan, key: Key[Array, ""], dtype: DTypeLike = jnp.float64
) -> tuple[Float[Array, " M"], Float[Array, "M M"]]:
    """Mean and covariance of k coordinates of all outputs, given everything that one draw conditions on."""
    draw = Draw(plan, lambda dim: dim.at(width), key, k, dtype)
    return observed(draw, plan.outputs, k)


def _samples(width: int, k: int, plan: Plan, key: Key[Array, ""]) -> list[Float[Array, "..."]]:
    """k coordinates of each output that is a vector, and the outputs that are numbers."""
    draw = Draw(plan, lambda dim: dim.at(width), key, k)
    return [_sampled(draw, v, k) if isinstance(v, Wide) else draw.numbers[v] for v in plan.outputs]


def _sampled(draw: Draw, value: Value, k: int) -> Float[Array, "*batch k"]:
    form = draw.forms[value]
    total: Any = 0.0 if form.drawn is None else draw.space(value).coordinates(form.drawn)
    if form.fresh is not None:
        fresh = form.fresh.compressed()
        z = normal(draw.key(value, 2), (*fresh.own_sizes, fresh.roots, k), draw.dtype)
        total = total + apply_roots(fresh.whole(tuple(range(len(fresh.shape)))), z)
    return total
