"""What a nonlinearity is: a function of numbers with a name, facts that Theorem 3.1 asks for, and Gaussian moments."""

import dataclasses
from collections.abc import Callable
from typing import Any

from limitlaw.arguments import shown


@dataclasses.dataclass(frozen=True)
class Kink:
    """A point where φ or φ' jumps: φ(at+) − φ(at−) = `jump`, φ'(at+) − φ'(at−) = `slope_jump`."""

    at: float
    jump: float = 0.0
    slope_jump: float = 0.0


@dataclasses.dataclass(frozen=True)
class Nonlinearity:
    """φ, applied coordinate by coordinate, to one argument or several.

    `pseudo_lipschitz`: is |φ(x) − φ(y)| ≤ C (1 + |x|^k + |y|^k) |x − y| for some C and k? `bounded`: is |φ| ≤ C?
    None means unknown, as for a function that a user hands in.

    The other fields serve `limitlaw.nonlinearities.moments` and may all be left out. `kinks`: where φ is not smooth, ()
    for nowhere, None for unknown; away from its kinks φ is smooth on a length scale of order 1. `mean(m, k)`: a closed
    form of E φ(u), u ~ N(m, k), elementwise and differentiable, also at k = 0. `product(m_u, m_v, K_uu, K_uv, K_vv)`:
    one of E φ(u)φ(v); its means are None where they are zero, and it may answer None where it has no closed form.
    """

    name: str
    function: Callable[..., Any]
    pseudo_lipschitz: bool | None
    bounded: bool | None
    kinks: tuple[Kink, ...] | None = None
    mean: Callable[..., Any] | None = None
    product: Callable[..., Any] | None = None

    def __call__(self, *arguments: Any) -> Any:
        return self.function(*arguments)


def user_function(function: Callable[..., Any]) -> Nonlinearity:
    """A nonlinearity of which nothing is known; named ones pass through."""
    if isinstance(function, Nonlinearity):
        return function
    if not callable(function):
        raise TypeError(f"phi must be a function of arrays, as jnp.tanh, got {shown(function)}")
    name = getattr(function, "__name__", type(function).__name__)
    return Nonlinearity("φ" if name == "<lambda>" else name, function, pseudo_lipschitz=None, bounded=None)
