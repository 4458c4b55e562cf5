"""What a nonlinearity is: a function of numbers with a name, and all that is known of it."""

import dataclasses
from collections.abc import Callable
from typing import Any

from limitlaw.nonlinearities.branches import Branches


@dataclasses.dataclass(frozen=True)
class Kink:
    """A point where φ or φ' jumps: φ(at+) − φ(at−) = `jump`, φ'(at+) − φ'(at−) = `slope_jump`."""

    at: float
    jump: float = 0.0
    slope_jump: float = 0.0


@dataclasses.dataclass(frozen=True)
class Nonlinearity:
    """φ, applied coordinate by coordinate, to one argument or several.

    All that is known of φ stands here, and what is unknown is None; the name decides nothing. `pseudo_lipschitz`: is
    |φ(x) − φ(y)| ≤ C (1 + |x|^k + |y|^k) |x − y| for some C and k? `bounded`: is |φ| ≤ C?

    For Gaussian moments: `kinks`, where φ is not smooth, () for nowhere; away from its kinks φ is smooth on a length
    scale of order 1. `mean(m, k)`: a closed form of E φ(u), u ~ N(m, k), elementwise and differentiable, also at k = 0.
    `product(m_u, m_v, K_uu, K_uv, K_vv)`: one of E φ(u)φ(v); its means are None where they are zero, and it may answer
    None where it has no closed form. `accuracy`: the relative error of these two, 0 for closed forms in earnest.

    For the density of φ(Y): `branches(lo, hi)`, the monotone branches that meet (lo, hi). `saved`: the family and the
    parameter by which `nonlinearities.rebuild` finds φ again.
    """

    name: str = dataclasses.field(compare=False)
    function: Callable[..., Any]
    pseudo_lipschitz: bool | None
    bounded: bool | None
    kinks: tuple[Kink, ...] | None = None
    mean: Callable[..., Any] | None = None
    product: Callable[..., Any] | None = None
    accuracy: float = 0.0
    branches: Branches | None = None
    saved: tuple[str, float | None] | None = None

    def __call__(self, *arguments: Any) -> Any:
        return self.function(*arguments)


def user_function(function: Callable[..., Any]) -> Nonlinearity:
    """A nonlinearity of which nothing is known; named ones pass through."""
    if isinstance(function, Nonlinearity):
        return function
    name = getattr(function, "__name__", type(function).__name__)
    return Nonlinearity("φ" if name == "<lambda>" else name, function, pseudo_lipschitz=None, bounded=None)
