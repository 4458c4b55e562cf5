"""The class of nonlinearities: functions of numbers with a name, and all that is known of them."""

import dataclasses
import functools
import math
from collections.abc import Callable, Iterable
from typing import Any

from limitlaw.arguments import shown
from limitlaw.float64 import in_float64
from limitlaw.functions import by_value
from limitlaw.numerics import Reals
from limitlaw.numerics.kinks import CannotLook, Kink
from limitlaw.numerics.pieces import Pieces, pieces
from limitlaw.phi.branches import Branches

__all__ = ["Kink", "Nonlinearity", "looked_at", "user_function"]

Centre = Reals | None  # a mean; None where it is known to be zero
PairMoment = Callable[[Centre, Centre, Reals, Reals, Reals], Reals | None]

CUTS_OF_UNKNOWN = (0.0, *(sign * 2.0**j for j in range(13) for sign in (-1, 1)))


@dataclasses.dataclass(frozen=True)
class Nonlinearity:
    """A nonlinearity φ, applied coordinate by coordinate, to one argument or several.

    All that is known of φ is in its fields, and what is unknown is None; the name decides nothing.
    `pseudo_lipschitz`: is |φ(x) − φ(y)| ≤ C (1 + |x|^k + |y|^k) |x − y| for some C and k?
    `bounded`: is |φ| ≤ C?

    For Gaussian moments: `kinks`, where φ or a derivative of it jumps, () for nowhere. `cuts`:
    points between which φ is a polynomial to rounding; without them φ is smooth on a length scale
    of order 1 away from its kinks. `mean(m, k)`: a closed form of E φ(u), u ~ N(m, k), elementwise
    and differentiable, also at k = 0. `product(m_u, m_v, K_uu, K_uv, K_vv)`: a closed form of E
    φ(u)φ(v); its means are None where they are zero, and it may return None where it has no closed
    form. `accuracy`: the error of these two relative to their values, 0 for exact closed forms;
    None where it is not known, and what `mean` and its derivative lose by cancelling is measured.
    `products`: pairs of another ψ and a closed form of E φ(u)ψ(v). `linear`: is φ(x) = x?
    `oscillates`: does φ oscillate on a scale of order 1 however far out?

    For the density of φ(Y): `branches(lo, hi)`, the monotone branches that meet (lo, hi), and
    `log_slope(x)`, log |φ'| where differentiating φ would lose it. `saved`: the family and the
    parameter by which the catalogue finds φ again.
    """

    name: str = dataclasses.field(compare=False)
    function: Callable[..., Any]
    pseudo_lipschitz: bool | None
    bounded: bool | None
    kinks: tuple[Kink, ...] | None = None
    mean: Callable[[Reals, Reals], Reals] | None = None
    product: PairMoment | None = None
    cuts: tuple[float, ...] | None = None
    accuracy: float | None = None
    branches: Branches | None = None
    log_slope: Callable[[Reals], Reals] | None = None
    saved: tuple[str, float | None] | None = None
    products: tuple[tuple["Nonlinearity", PairMoment], ...] = ()
    linear: bool = False
    oscillates: bool = False

    @in_float64
    def __call__(self, *arguments: Any) -> Any:
        return self.function(*arguments)


def user_function(function: Callable[..., Any]) -> Nonlinearity:
    """A user's function as a nonlinearity of which nothing is known; named ones pass through."""
    if isinstance(function, Nonlinearity):
        return function
    if not callable(function):
        raise TypeError(f"phi must be a function of arrays, as jnp.tanh, got {shown(function)}")
    name = getattr(function, "__name__", type(function).__name__)
    return Nonlinearity("φ" if name == "<lambda>" else name, by_value(function), None, None)


@in_float64
def looked_at(
    function: Callable[[Any], Any], kinks: Iterable[float] | None = None
) -> Nonlinearity:
    """A user's function of one number as a nonlinearity, with its kinks and cuts, found or
    declared; one that jumps is not pseudo-Lipschitz, others are not known to be.
    """
    phi = user_function(function)
    if phi is function:
        return phi
    declared = None if kinks is None else tuple(map(float, kinks))
    found = _pieces(phi.function) if declared is None else pieces(phi.function, declared)
    if found is None:
        cuts = None if declared is None else tuple(sorted({*CUTS_OF_UNKNOWN, *declared}))
        return dataclasses.replace(phi, kinks=() if declared == () else None, cuts=cuts)
    finite = all(math.isfinite(k.jump) and math.isfinite(k.slope_jump) for k in found.kinks)
    complete = finite and (declared is not None or found.confident)
    jumps = finite and any(kink.jump for kink in found.kinks)
    lipschitz = False if jumps else None
    return dataclasses.replace(
        phi, kinks=found.kinks if complete else None, cuts=found.cuts, pseudo_lipschitz=lipschitz
    )


def _pieces(function: Callable[[Any], Any]) -> Pieces | None:
    """The pieces of a function, which is looked at once."""
    try:
        return _known_pieces(function)
    except CannotLook:
        return None
    except TypeError:  # an object that cannot be hashed
        return pieces(function)


@functools.lru_cache(maxsize=256)
def _known_pieces(function: Callable[[Any], Any]) -> Pieces:
    found = pieces(function)
    if found is None:
        raise CannotLook  # not cached: what is traced now may be known another time
    return found
