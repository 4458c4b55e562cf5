"""Means E Z^v of wide vectors at infinite width: one rule for each instruction that makes them."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp

from limitlaw.core import instructions as core
from limitlaw.core.kinds import Coordinatewise, Instruction, Linear, Value
from limitlaw.core.labelled import Labelled, multiply
from limitlaw.engines.limit.facts import independent_factors
from limitlaw.engines.limit.nonlin import numbers_of

if TYPE_CHECKING:
    from limitlaw.engines.limit.moments import Moments


def of_sum(moments: "Moments", v: Value, op: Linear) -> Labelled | None:
    """E of a linear combination: that combination of the means."""
    if all(moments.mean(u) is None for u in v.vectors):
        return None
    return op.applied(lambda u: moments.mean(u) or zeros(u), moments.numbers)


def of_initial(moments: "Moments", v: Value, op: core.Initial) -> Labelled | None:
    """E h, the mean that the program gives."""
    return None if op.centred else moments.given.given(op.mean, op.order)


def of_argument(moments: "Moments", v: Value, op: core.Argument) -> Labelled | None:
    """E of a carry, or of another vector that a block is given."""
    return moments.given.law.mean(v)


def of_result(moments: "Moments", v: Value, op: core.FromScan) -> Labelled | None:
    """E of a result of a loop."""
    return moments.given.passed(op.scan).law.mean(op.place)


def of_map(moments: "Moments", v: Value, op: Coordinatewise) -> Labelled | None:
    """E φ(Z), a Gaussian integral."""
    u = moments.facts.argument.get(v)
    if u is not None:
        numbers = numbers_of(moments, op)
        return moments.integrals.moment(
            "mean", [op], [numbers], [moments.mean(u), moments.variance(u)]
        )
    factors = independent_factors(moments.facts, op)
    if factors is None:
        return moments.nodes.at(v).mapped(lambda z: z.mean(axis=-1))
    first, second = (moments.mean(f) for f in factors)
    return None if first is None or second is None else multiply(first, second)


# E of a vector, by the instruction that made it; None stands for zero
MEANS: Mapping[type[Instruction], Callable[["Moments", Value, Any], Labelled | None]] = {
    core.Ones: lambda moments, v, op: Labelled(jnp.ones(()), ()),
    core.Initial: of_initial,
    core.MatMul: lambda moments, v, op: None,
    Coordinatewise: of_map,
    Linear: of_sum,
    core.Argument: of_argument,
    core.FromScan: of_result,
}


def zeros(v: Value) -> Labelled:
    """The mean of v, written out where it is zero."""
    return Labelled(jnp.zeros(()), ())
