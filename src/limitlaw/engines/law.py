"""From conditions to a law: what is Gaussian given conditions is a mixture over them,
perhaps under a last function, which is the last step of the program.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp

from limitlaw.arguments import is_traced
from limitlaw.core.analysis import Analysis
from limitlaw.core.instructions import Map, MatMul, Ones, Rename, Take, Value
from limitlaw.core.program import Output, Program
from limitlaw.core.space import Dim
from limitlaw.laws import Combination, Empirical, Gaussian, GaussianMixture, Law, Pushforward
from limitlaw.phi import Nonlinearity


def last_step(output: Output) -> tuple[Nonlinearity | None, tuple[Output, ...]]:
    """A last nonlinearity of vectors and what it acts on, each once;
    else None and the output itself.
    """
    behind: list[Value] = []  # what rearranges the result of the nonlinearity
    value = output.value
    while isinstance(value.instruction, Take | Rename):
        behind.append(value)
        value = value.instruction.x
    op = value.instruction
    if not isinstance(op, Map) or not all(
        v.is_vector and set(v.axes) == set(value.axes) for v in op.args
    ):
        return None, (output,)
    parts = tuple(dict.fromkeys(op.args))
    arranged = tuple(Output(_arranged(part, behind), output.layout) for part in parts)
    if len(parts) == len(op.args):
        return op.phi, arranged
    places = [parts.index(v) for v in op.args]
    return dataclasses.replace(
        op.phi, function=lambda *u: op.phi(*(u[i] for i in places))
    ), arranged


def _arranged(part: Value, behind: list[Value]) -> Value:
    """A part, taken and renamed as the result of the nonlinearity was."""
    for value in reversed(behind):
        op = dataclasses.replace(value.instruction, x=part)  # type: ignore[call-arg]
        part = dataclasses.replace(value, instruction=op, dim=part.dim)
    return part


def terms_of(value: Value) -> list[Value]:
    """The terms of which a vector is a linear combination; **1** is one, if it has a mean."""
    return Analysis(Program((value,))).terms(value)


def has_pole(y: Value, dimension: Callable[[Dim], int | float]) -> bool:
    """Is the density of one number y = W u infinite at 0:
    is u, Gaussian given what comes before, a single number?

    Given u it is N(0, u²), and E |u|^{−1} = ∞; two numbers,
    or two heads, are enough for it to be finite.
    """
    terms = terms_of(y)
    if len(terms) != 1 or terms[0].axes or not isinstance(terms[0].instruction, MatMul):
        return False
    op = terms[0].instruction
    return dimension(op.family.cols) == 1 and all(
        isinstance(t.instruction, MatMul | Ones) for t in terms_of(op.x)
    )


@dataclasses.dataclass(frozen=True)
class Last:
    """The last step of an output: φ, if there is one,
    of parts that have the shape `event` each.
    """

    phi: Nonlinearity | None
    parts: int
    event: tuple[int, ...]

    @property
    def of_several(self) -> bool:
        """Is φ a function of more than one part?"""
        return self.phi is not None and self.parts > 1

    @property
    def shape(self) -> tuple[int, ...]:
        """Of all parts together."""
        return (self.parts, *self.event) if self.of_several else self.event


def law_given(
    last: Last,
    mean: Any,
    covariance: Any,
    kind: str = "sampled",
    beyond: tuple[str, ...] = (),
    blocks: int = 0,
    effort: str = "",
) -> Law:
    """The law of outputs that are N(mean, covariance)
    given each condition, conditions in front.
    """
    count = len(mean)
    points = jnp.asarray(mean).reshape(count, *last.shape)
    law: Law
    if not is_traced(covariance) and not covariance.any():
        law = Empirical(_applied(last, points), kind, beyond, blocks)
        law.effort = effort
        return law
    if count == 1 and kind != "sampled":
        law = Gaussian(
            points[0], covariance[0] if last.shape else covariance.reshape(()), kind, beyond
        )
    else:
        second = jnp.asarray(covariance) if last.shape else jnp.asarray(covariance).reshape(count)
        law = GaussianMixture(points, second, kind=kind, beyond=beyond, blocks=blocks)
    law.effort = effort
    if last.phi is None:
        return law
    return Combination(last.phi, law) if last.of_several else Pushforward(last.phi, law)


def _applied(last: Last, points: Any) -> Any:
    """φ of the parts of each point."""
    if last.phi is None:
        return points
    return last.phi(*jnp.moveaxis(points, 1, 0)) if last.of_several else last.phi(points)
