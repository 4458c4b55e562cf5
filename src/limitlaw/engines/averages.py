"""Averages over coordinates as n → ∞: Theorem 3.1 of Sakai, Karakida and Imaizumi (2025)."""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from limitlaw import phi as nonlinearities
from limitlaw.arguments import is_traced
from limitlaw.core.certain import settled
from limitlaw.core.instructions import Map
from limitlaw.core.kinds import Coordinatewise, Value
from limitlaw.core.labelled import finite_shape
from limitlaw.core.program import Output
from limitlaw.engines.asked import checked
from limitlaw.engines.bounds import bounded, later
from limitlaw.engines.infinite_width import ADVICE, Effort
from limitlaw.engines.limit import statistics
from limitlaw.engines.limit.conditions import Limit, Outcomes
from limitlaw.float64 import in_float64
from limitlaw.laws import Empirical
from limitlaw.laws.averages import BLOCKS, spread_of_blocks
from limitlaw.laws.tracing import NEEDS_NUMBERS, Psi, average_of
from limitlaw.phi import Nonlinearity, looked_at


@in_float64
@bounded(ADVICE)
def average_law(
    y: object,
    psi: Callable[[Any], Any],
    samples: int | None = None,
    key: object = None,
    force: bool = False,
) -> Empirical:
    """The law of lim n^{-1} Σ_α ψ(y_α) = E[ψ(Z^y) | scores]: Theorem 3.1.

    `psi` is a jnp function of arrays `(…, *shape)` of coordinates of y; what it returns starts
    with the same … axes. `samples`, `key` and `force` are those of `limit`.
    """
    output, beyond = checked("average_law", y)
    if not output.is_wide:
        raise TypeError(
            "average_law needs vectors (Wide) in a space that grows with n: averages over it "
            "converge"
        )

    def calculated(psi: Psi) -> tuple[Limit, Outcomes]:
        mapped = _mapped(output, psi)
        program = (
            Limit(settled((output,)), statistics.CoordinateAverage(psi))
            if mapped is None
            else Limit(settled((mapped,)), statistics.mean)
        )
        return program, Effort(samples, key, beyond).conditions(program, ())

    program, conditions = average_of(psi, finite_shape(output.layout), calculated, real=True)
    averages, kind = jnp.asarray(conditions.arrays), conditions.kind
    _check_averages(averages)
    if program.random:
        sampled = Empirical(averages, kind, beyond, BLOCKS)
        sampled.effort = conditions.effort
        if not program.is_unsure:
            return sampled
        inflated, draws = program.inflated(), len(averages)
        return sampled.compared_with(
            later(lambda: Empirical(inflated.conditions(draws, key).arrays, kind, beyond, BLOCKS))
        )
    average = averages.mean(axis=0, keepdims=True)
    law = Empirical(average, "exact" if kind == "exact" else "quadrature", beyond)
    if kind == "exact":
        return law

    def other() -> Empirical:
        if kind == "quadrature":
            return Empirical(program.inflated().conditions(1, key).arrays, kind, beyond)
        error = spread_of_blocks(averages - average)
        return Empirical(average + error, "quadrature", beyond)

    return law.compared_with(later(other))


def _mapped(output: Output, psi: Callable[[Any], Any]) -> Output | None:
    """ψ(y) as a vector of a program, for a function ψ of one number, so that its integrals are
    those of nonlinearities; None for other ψ.
    """
    y, op = output.value, output.value.instruction
    if output.layout:
        return None
    if isinstance(psi, Nonlinearity) and psi.mean and not isinstance(op, Coordinatewise):
        return _coordinatewise(psi, y)
    argument: Value = y
    inner: Callable[[Any], Any] = nonlinearities.identity
    if isinstance(op, Coordinatewise) and len(op.args) == 1:
        inner, argument = op.phi, op.args[0]
    real = _Real(psi, inner)
    try:
        shape = jax.eval_shape(real, jax.ShapeDtypeStruct((2,), jnp.float64)).shape
    except NEEDS_NUMBERS:
        return None
    return _coordinatewise(looked_at(real), argument) if shape == (2,) else None


@dataclasses.dataclass(frozen=True)
class _Real:
    """ψ(φ(x)) as a real number; equal for equal ψ and φ, so that it is compiled once."""

    psi: Callable[[Any], Any]
    inner: Callable[[Any], Any]

    def __call__(self, x: object) -> Any:
        return jnp.asarray(self.psi(self.inner(x))).astype(jnp.float64)


def _coordinatewise(phi: Nonlinearity, x: Value) -> Output:
    return Output(Value(Map(phi, (x,)), x.axes, x.dim), ())


def _check_averages(averages: Any) -> None:
    bad = 0 if is_traced(averages) else int((~jnp.isfinite(averages)).sum())
    if bad:
        raise ValueError(
            f"psi must have finite averages, got {bad} NaN or infinite of {averages.size}"
        )
