"""Gaussian integrals of nonlinearities, entry by entry of labelled arrays."""

from collections.abc import Callable
from typing import Any

from limitlaw.core.kinds import Coordinatewise, Value
from limitlaw.core.labelled import Labelled, elementwise
from limitlaw.phi import Nonlinearity, moments

# each moment without, and with, its error
MOMENTS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "mean": (moments.mean, moments.mean_with_error),
    "slope": (moments.slope, moments.slope_with_error),
    "product": (moments.product, moments.product_with_error),
}


class Integrals:
    """E φ(u), E φ'(u) and E[φ(u) ψ(t)] of Gaussian vectors; `inflated` by their errors, so that
    the difference in a result shows what these make of it.
    """

    def __init__(self, inflated: bool):
        self.inflated = inflated
        self.quadrature = False  # was an integral computed that has no closed form?
        self.unsure = False  # was one of them of a function whose kinks are not known?

    def moment(
        self, name: str, ops: list[Any], numbers: list[dict[Value, Labelled]], arguments: list[Any]
    ) -> Labelled:
        """The Gaussian moment of that name, by entries, plus its error if these are inflated."""
        given = [x for part in numbers for x in part.values()]
        known = [x for x in arguments if x is not None]

        def value(*arrays: Any) -> Any:
            rest = iter(arrays)
            functions = [
                _function(op, {p: next(rest) for p in part})
                for op, part in zip(ops, numbers, strict=True)
            ]
            means_and_kernels = [0.0 if x is None else next(rest) for x in arguments]
            return self._integral(name, functions, means_and_kernels)

        return elementwise(value, *given, *known)

    def take_note_of(self, others: "Integrals") -> None:
        """Take over the flags of integrals that an iteration of a loop computed."""
        self.quadrature |= others.quadrature
        self.unsure |= others.unsure

    def _integral(self, name: str, functions: list[Nonlinearity], arguments: list[Any]) -> Any:
        if name == "product":
            first, second = functions
            closed = moments.product_is_closed(first, second, *arguments[:2])
        else:
            closed = moments.mean_is_closed(*functions)
        self.quadrature |= not closed
        self.unsure |= any(phi.mean is None and phi.kinks is None for phi in functions)
        plain, with_error = MOMENTS[name]
        if closed or not self.inflated:
            return plain(*functions, *arguments)
        value, error = with_error(*functions, *arguments)
        return value + error


def _function(op: Coordinatewise, numbers: dict[Value, Any]) -> Nonlinearity:
    """φ as a function of its single vector, with its numbers filled in."""
    if len(op.args) == 1:
        return op.phi

    def function(x: object) -> Any:
        return op.phi(*(numbers.get(a, x) for a in op.args))

    return Nonlinearity(op.phi.name, function, op.phi.pseudo_lipschitz, op.phi.bounded)
