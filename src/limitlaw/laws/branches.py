"""Each named nonlinearity cut into monotone branches: what the density of φ(Y) needs."""

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from limitlaw import nonlinearities as nl
from limitlaw.laws.log_slopes import log_slopes
from limitlaw.nonlinearities import Nonlinearity

INF = math.inf
MOST_WAVES = 2000  # monotone branches of sin and cos that are summed


@dataclasses.dataclass(frozen=True)
class Branch:
    """φ on (lo, hi): monotone onto (bottom, top), rising or falling; or flat, with no inverse and bottom = top."""

    lo: float
    hi: float
    bottom: float
    top: float
    inverse: Callable[[Any], Any] | None = None
    rising: bool = True

    def solve(self, y: Float[Array, "..."]) -> Float[Array, "..."]:
        """Where the branch crosses y; an end of (lo, hi) where it does not. For a flat branch, lo if y < value."""
        low, high = (self.lo, self.hi) if self.rising else (self.hi, self.lo)
        if self.inverse is None:
            return jnp.where(y < self.bottom, self.lo, self.hi)
        inside = (y > self.bottom) & (y < self.top)
        middle = 0.0 if math.isinf(self.bottom) and math.isinf(self.top) else None
        safe = self._inner() if middle is None else middle
        x = jnp.clip(self.inverse(jnp.where(inside, y, safe)), self.lo, self.hi)
        return jnp.where(y <= self.bottom, low, jnp.where(y >= self.top, high, x)) + 0 * jnp.where(jnp.isnan(y), y, 0)

    def _inner(self) -> float:
        """Some value strictly between bottom and top, in the place of y where the branch has no inverse."""
        if math.isinf(self.top):
            return self.bottom + 1
        return self.top - 1 if math.isinf(self.bottom) else (self.bottom + self.top) / 2

    def below(self, y: Any) -> tuple[Any, Any]:
        """The interval (from, to] of the branch on which φ ≤ y."""
        x = self.solve(y)
        lo, hi = jnp.full_like(x, self.lo), jnp.full_like(x, self.hi)
        return (lo, x) if self.rising else (x, hi)

    def above(self, y: Any) -> tuple[Any, Any]:
        """The interval (from, to] of the branch on which φ > y."""
        x = self.solve(y)
        lo, hi = jnp.full_like(x, self.lo), jnp.full_like(x, self.hi)
        return (x, hi) if self.rising else (lo, x)


@dataclasses.dataclass(frozen=True)
class Named:
    """A nonlinearity that can be written down: its branches, its kinks, and what rebuilds it."""

    phi: Nonlinearity
    branches: tuple[Branch, ...]
    kinks: tuple[float, ...] = ()

    @property
    def monotone(self) -> bool:
        """Does φ never fall?"""
        return all(branch.rising for branch in self.branches)

    @property
    def injective(self) -> bool:
        """Is φ one to one?"""
        return self.monotone and all(branch.inverse is not None for branch in self.branches)

    @property
    def support(self) -> tuple[float, float]:
        """The smallest and largest value."""
        return min(b.bottom for b in self.branches), max(b.top for b in self.branches)


def _same(y: Any) -> Any:
    return y


def _line(bottom: float, top: float, inverse: Callable[[Any], Any]) -> tuple[Branch, ...]:
    return (Branch(-INF, INF, bottom, top, inverse),)


def _negative(y: Any) -> Any:
    return -y


def _logit(y: Any) -> Any:
    return jnp.log(y) - jnp.log1p(-y)


def _softplus_inverse(y: Any) -> Any:
    return y + jnp.log(-jnp.expm1(-y))


def _one_minimum(phi: Nonlinearity) -> tuple[Branch, ...]:
    """The two branches of GELU and SiLU: from 0 down to a minimum left of 0, then up; inverted numerically."""
    slope = jax.grad(lambda x: phi(x))
    with jax.ensure_compile_time_eval():
        at = float(_bisect(lambda x: jax.vmap(slope)(x), jnp.zeros(1), jnp.array([-2.0]), jnp.array([-0.5]), True)[0])
        bottom = float(phi(jnp.asarray(at)))

    def left(y: Any) -> Any:
        flat = jnp.ravel(y)
        x = _bisect(phi, flat, jnp.full_like(flat, -800.0), jnp.full_like(flat, at), False)
        return x.reshape(jnp.shape(y))

    def right(y: Any) -> Any:
        flat = jnp.ravel(y)
        x = _bisect(phi, flat, jnp.full_like(flat, at), jnp.maximum(flat, 0) + 1, True)
        return x.reshape(jnp.shape(y))

    return Branch(-INF, at, bottom, 0.0, left, False), Branch(at, INF, bottom, INF, right)


def _bisect(f: Callable[[Any], Any], y: Array, lo: Array, hi: Array, rising: bool) -> Array:
    """The x between lo and hi with f(x) = y, to the last bits."""

    def halve(_: Any, ends: tuple[Array, Array]) -> tuple[Array, Array]:
        lo, hi = ends
        x = (lo + hi) / 2
        left = (f(x) < y) == rising
        return jnp.where(left, x, lo), jnp.where(left, hi, x)

    lo, hi = jax.lax.fori_loop(0, 64, halve, (lo, hi))
    return (lo + hi) / 2


def _waves(phase: float, reach: tuple[float, float]) -> tuple[Branch, ...] | None:
    """sin(x + phase): falls and rises in turn; the branches that meet `reach`, outer ones cut off there."""
    first, last = (math.floor((end + phase) / math.pi + 0.5) for end in reach)
    if last - first >= MOST_WAVES:
        return None
    edges = [math.pi * (k - 0.5) - phase for k in range(first, last + 2)]
    found = []
    for k, lo, hi in zip(range(first, last + 1), edges[:-1], edges[1:], strict=True):
        sign = -1.0 if k % 2 else 1.0
        inverse = functools.partial(_wave_inverse, centre=math.pi * k - phase, sign=sign)
        found.append(Branch(lo, hi, -1.0, 1.0, inverse, sign > 0))
    return tuple(found)


def _wave_inverse(y: Any, centre: float, sign: float) -> Any:
    return centre + sign * jnp.arcsin(y)


def parameter(phi: Nonlinearity) -> tuple[str, float | None] | None:
    """The family and the parameter of a named nonlinearity, read from the function: names are rounded."""
    for constant in (*CONSTANTS, nl.multiply, nl.divide):
        if phi == constant:
            return phi.name, None
    family = phi.name.partition("(")[0]
    if phi.pseudo_lipschitz is None or family not in FAMILIES:
        return None
    with jax.ensure_compile_time_eval():
        return family, float(phi(jnp.asarray(INF)) if family == "clip" else -phi(jnp.asarray(-1.0)))


def rebuild(family: str, value: float | None) -> Nonlinearity:
    """The nonlinearity that `parameter` described."""
    if value is not None:
        return FAMILIES[family](value)
    return next(phi for phi in (*CONSTANTS, nl.multiply, nl.divide) if phi.name == family)


def named(phi: Nonlinearity, reach: tuple[float, float]) -> Named | None:
    """φ with its branches on `reach`, or None for a function of which nothing is known."""
    waves = phi in (nl.sin, nl.cos)
    low, high = (math.floor(reach[0] / math.pi), math.ceil(reach[1] / math.pi)) if waves else (0, 0)
    return _named(phi, (low * math.pi, high * math.pi))


@functools.cache  # so that what is compiled for a nonlinearity serves all its laws
def _named(phi: Nonlinearity, reach: tuple[float, float]) -> Named | None:
    known = parameter(phi)
    if known is None or phi in (nl.multiply, nl.divide):
        return None
    family, value = known
    if value is not None:
        branches, kinks = _clip(value) if family == "clip" else _leaky(value)
        return Named(phi, branches, kinks)
    if family in ("sin", "cos"):
        waves = _waves(0.0 if family == "sin" else math.pi / 2, reach)
        return None if waves is None else Named(phi, waves)
    branches = TABLE.get(family) or _one_minimum(phi)
    return Named(phi, branches, (0.0,) if family in ("relu", "abs", "sign") else ())


def _clip(bound: float) -> tuple[tuple[Branch, ...], tuple[float, ...]]:
    low, high = Branch(-INF, -bound, -bound, -bound), Branch(bound, INF, bound, bound)
    return (low, Branch(-bound, bound, -bound, bound, _same), high), (-bound, bound)


def _leaky(slope: float) -> tuple[tuple[Branch, ...], tuple[float, ...]]:
    positive = Branch(0.0, INF, 0.0, INF, _same)
    if slope == 0:
        return TABLE["relu"], (0.0,)
    bottom, top = (-INF, 0.0) if slope > 0 else (0.0, INF)
    return (Branch(-INF, 0.0, bottom, top, functools.partial(jnp.multiply, 1 / slope), slope > 0), positive), (0.0,)


CONSTANTS = (
    nl.identity,
    nl.relu,
    nl.abs_,
    nl.sign,
    nl.erf,
    nl.gelu,
    nl.tanh,
    nl.sigmoid,
    nl.silu,
    nl.softplus,
    nl.sin,
    nl.cos,
)
FAMILIES: dict[str, Callable[[float], Nonlinearity]] = {"clip": nl.clip, "leaky_relu": nl.leaky_relu}
TABLE = {
    "identity": _line(-INF, INF, _same),
    "relu": (Branch(-INF, 0.0, 0.0, 0.0), Branch(0.0, INF, 0.0, INF, _same)),
    "abs": (Branch(-INF, 0.0, 0.0, INF, _negative, False), Branch(0.0, INF, 0.0, INF, _same)),
    "sign": (Branch(-INF, 0.0, -1.0, -1.0), Branch(0.0, INF, 1.0, 1.0)),
    "tanh": _line(-1.0, 1.0, jnp.arctanh),
    "sigmoid": _line(0.0, 1.0, _logit),
    "erf": _line(-1.0, 1.0, jax.scipy.special.erfinv),
    "softplus": _line(0.0, INF, _softplus_inverse),
}


@functools.partial(jax.jit, static_argnames="known")
def intervals(y: Float[Array, " p"], known: Named) -> tuple[Any, Any]:
    """Where φ ≤ y and where φ > y: intervals (from, to], one a branch, (p, branches, 2)."""
    parts = [(branch.below(y), branch.above(y)) for branch in known.branches]
    parts += [((y, y), (y, y))] * (padded_branches(len(parts)) - len(parts))  # empty, to compile for few numbers
    below, above = (jnp.stack([jnp.stack(part[side], -1) for part in parts], 1) for side in (0, 1))
    return below, above


def padded_branches(count: int) -> int:
    """The next power of two."""
    return 1 << (count - 1).bit_length()


@functools.partial(jax.jit, static_argnames="known")
def preimages(y: Float[Array, "*p"], known: Named) -> tuple[Float[Array, "*p b"], Float[Array, "*p b"]]:
    """The x with φ(x) = y, one a branch, and 1/|φ'(x)| there, 0 where the branch does not reach y."""
    x, jacobian = [], []
    for branch in known.branches:
        root = branch.solve(y)
        inside = (y >= branch.bottom) & (y < branch.top) & jnp.isfinite(root) & (branch.inverse is not None)
        root = jnp.where(inside, root, 0.5 * (max(branch.lo, -1e3) + min(branch.hi, 1e3)))
        x.append(root)
        jacobian.append(jnp.where(inside, jnp.exp(-log_slopes(known.phi, root)), 0.0))
    empty = padded_branches(len(x)) - len(x)
    return jnp.stack([*x, *[y] * empty], -1), jnp.stack([*jacobian, *[0 * y] * empty], -1)


@functools.partial(jax.jit, static_argnames="phi")
def slopes(phi: Nonlinearity, x: Float[Array, "..."]) -> Float[Array, "..."]:
    """|φ'(x)|."""
    return jnp.abs(jax.vmap(jax.grad(lambda x: phi(x)))(x.reshape(-1)).reshape(x.shape))


def with_phi(phi: Nonlinearity, base: Any) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """What a file holds of φ(Y): the name of φ beside the base."""
    known = parameter(phi)
    if known is None:
        raise ValueError(
            f"{phi.name} is a function of your own and cannot be saved without pickle: save law.base, the law of its "
            "argument, and apply the function after loading"
        )
    header, arrays = base._stored()
    return {"phi": known, "base": header}, arrays
