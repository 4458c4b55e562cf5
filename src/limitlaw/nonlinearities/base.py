"""What a nonlinearity is: a function of numbers with a name and two facts that Theorem 3.1 asks for."""

import dataclasses
from collections.abc import Callable
from typing import Any


@dataclasses.dataclass(frozen=True)
class Nonlinearity:
    """φ, applied coordinate by coordinate, to one argument or several.

    `pseudo_lipschitz`: is |φ(x) − φ(y)| ≤ C (1 + |x|^k + |y|^k) |x − y| for some C and k? `bounded`: is |φ| ≤ C?
    None means unknown, as for a function that a user hands in.
    """

    name: str
    function: Callable[..., Any]
    pseudo_lipschitz: bool | None
    bounded: bool | None

    def __call__(self, *arguments: Any) -> Any:
        return self.function(*arguments)


def user_function(function: Callable[..., Any]) -> Nonlinearity:
    """A nonlinearity of which nothing is known; named ones pass through."""
    if isinstance(function, Nonlinearity):
        return function
    name = getattr(function, "__name__", type(function).__name__)
    return Nonlinearity("φ" if name == "<lambda>" else name, function, pseudo_lipschitz=None, bounded=None)
