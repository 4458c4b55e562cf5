"""Monotone branches of functions: what the density of φ(Y) needs of φ.

A nonlinearity has a function (lo, hi) ↦ the branches that meet (lo,
hi), which answers None if those are too many.
"""

import dataclasses
import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

INF = math.inf


@dataclasses.dataclass(frozen=True)
class Branch:
    """φ on (lo, hi): monotone onto (bottom, top), rising or falling;
    or flat, with no inverse and bottom = top.

    `together` makes one of many, with arrays for lo, hi and rising.
    """

    lo: Any
    hi: Any
    bottom: float
    top: float
    inverse: Callable[[Any], Any] | None = None
    rising: Any = True

    def solve(self, y: Float[Array, "..."]) -> Float[Array, "..."]:
        """Where the branch crosses y; an end of (lo, hi) where it does not.
        For a flat branch, lo if y < value.
        """
        low, high = (
            np.where(self.rising, self.lo, self.hi),
            np.where(self.rising, self.hi, self.lo),
        )
        if self.inverse is None:
            return jnp.where(y < self.bottom, self.lo, self.hi)
        inside = (y > self.bottom) & (y < self.top)
        middle = 0.0 if math.isinf(self.bottom) and math.isinf(self.top) else None
        safe = self._inner() if middle is None else middle
        x = jnp.clip(self.inverse(jnp.where(inside, y, safe)), self.lo, self.hi)
        return jnp.where(y <= self.bottom, low, jnp.where(y >= self.top, high, x)) + 0 * jnp.where(
            jnp.isnan(y), y, 0
        )

    def _inner(self) -> float:
        """Some value strictly between bottom and top,
        in the place of y where the branch has no inverse.
        """
        if math.isinf(self.top):
            return self.bottom + 1
        return self.top - 1 if math.isinf(self.bottom) else (self.bottom + self.top) / 2

    def below(self, y: Any) -> tuple[Any, Any]:
        """The interval (from, to] of the branch on which φ ≤ y."""
        x = self.solve(y)
        return jnp.where(self.rising, self.lo, x), jnp.where(self.rising, x, self.hi)

    def above(self, y: Any) -> tuple[Any, Any]:
        """The interval (from, to] of the branch on which φ > y."""
        x = self.solve(y)
        return jnp.where(self.rising, x, self.lo), jnp.where(self.rising, self.hi, x)


@dataclasses.dataclass(frozen=True)
class Turned:
    """centre + sign·inverse(y): of branches that are moved and mirrored copies of one."""

    inverse: Callable[[Any], Any]
    centre: Any
    sign: Any

    def __call__(self, y: Any) -> Any:
        return self.centre + self.sign * self.inverse(y)


def together(branches: Sequence[Branch]) -> Branch | None:
    """Copies of one branch as one with arrays; None where they are not copies.

    Of thousands each would be a part of the program to compile.
    """
    copies = [branch.inverse for branch in branches if isinstance(branch.inverse, Turned)]
    if len(copies) < len(branches) or len({(b.bottom, b.top) for b in branches}) > 1:
        return None
    if len({copy.inverse for copy in copies}) > 1:
        return None
    lo, hi, rising = (
        np.array([getattr(b, name) for b in branches]) for name in ("lo", "hi", "rising")
    )
    inverse = Turned(
        copies[0].inverse, np.array([c.centre for c in copies]), np.array([c.sign for c in copies])
    )
    return Branch(lo, hi, branches[0].bottom, branches[0].top, inverse, rising)


Branches = Callable[[float, float], tuple[Branch, ...] | None]


def listed(*branches: Branch) -> Branches:
    """These branches, wherever one looks."""
    return lambda lo, hi: branches


def line(bottom: float, top: float, inverse: Callable[[Any], Any]) -> Branches:
    """One branch, rising from `bottom` to `top`."""
    return listed(Branch(-INF, INF, bottom, top, inverse))


def same(y: object) -> Any:
    """The inverse of the identity."""
    return y


def one_minimum(phi: Callable[[Any], Any]) -> Branches:
    """The two branches of GELU and SiLU: from 0 down to a minimum left of 0, then up;
    inverted numerically.
    """

    @functools.cache
    def found() -> tuple[Branch, ...]:
        slope = jax.grad(phi)
        with jax.ensure_compile_time_eval():  # all of it: the first use may be inside jit
            ends = jnp.array([-2.0]), jnp.array([-0.5])
            at = float(_bisect(lambda x: jax.vmap(slope)(x), jnp.zeros(1), *ends, True)[0])
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

    return lambda lo, hi: found()


def _bisect(f: Callable[[Any], Any], y: Array, lo: Array, hi: Array, rising: bool) -> Array:
    """The x between lo and hi with f(x) = y, to the last bits:
    also of small x, by a last step of Newton's.
    """
    reach = (hi - lo) * 2.0**-62

    def halve(_: object, ends: tuple[Array, Array]) -> tuple[Array, Array]:
        lo, hi = ends
        x = (lo + hi) / 2
        left = (f(x) < y) == rising
        return jnp.where(left, x, lo), jnp.where(left, hi, x)

    lo, hi = jax.lax.fori_loop(0, 64, halve, (lo, hi))
    x = jax.lax.stop_gradient((lo + hi) / 2)
    value, slope = jax.jvp(f, (x,), (jnp.ones_like(x),))
    step = jax.lax.stop_gradient((value - y) / slope)
    return jnp.where(jnp.abs(step) <= reach, x - step, x)
