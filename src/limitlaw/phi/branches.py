"""Monotone branches of functions, which make the density of φ(Y): (lo, hi) ↦ the branches that
meet (lo, hi), or None if those are too many.
"""

import dataclasses
import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float

from limitlaw.numerics import Reals

INF = math.inf
Inverse = Callable[[Reals], Reals]


@dataclasses.dataclass(frozen=True)
class Branch:
    """φ on (lo, hi): monotone onto (bottom, top), rising or falling, or flat (no inverse, bottom =
    top); by `together` one of many, with arrays for lo, hi and rising.
    """

    lo: Any
    hi: Any
    bottom: float
    top: float
    inverse: Inverse | None = None
    rising: bool | Bool[np.ndarray, " branches"] = True

    def solve(self, y: Reals) -> Reals:
        """The x where the branch crosses y, else an end; on a flat branch, lo if y < value."""
        if self.inverse is None:
            return jnp.where(y < self.bottom, self.lo, self.hi)
        low, high = self._ends()
        inside = (y > self.bottom) & (y < self.top)
        x = jnp.clip(self.inverse(jnp.where(inside, y, self._inner())), self.lo, self.hi)
        x = jnp.where(y <= self.bottom, low, jnp.where(y >= self.top, high, x))
        return x + 0 * jnp.where(jnp.isnan(y), y, 0)  # NaN stays NaN

    def _ends(self) -> tuple[np.ndarray, np.ndarray]:
        """The end at which φ is at the bottom, and the end at which it is at the top."""
        return np.where(self.rising, self.lo, self.hi), np.where(self.rising, self.hi, self.lo)

    def _inner(self) -> float:
        """A value between bottom and top, which stands for y that the branch does not reach."""
        if math.isinf(self.top):
            return 0.0 if math.isinf(self.bottom) else self.bottom + 1
        return self.top - 1 if math.isinf(self.bottom) else (self.bottom + self.top) / 2

    def below(self, y: Reals) -> tuple[Reals, Reals]:
        """The interval (from, to] of the branch on which φ ≤ y."""
        x = self.solve(y)
        return jnp.where(self.rising, self.lo, x), jnp.where(self.rising, x, self.hi)

    def above(self, y: Reals) -> tuple[Reals, Reals]:
        """The interval (from, to] of the branch on which φ > y."""
        x = self.solve(y)
        return jnp.where(self.rising, x, self.lo), jnp.where(self.rising, self.hi, x)


@dataclasses.dataclass(frozen=True)
class Turned:
    """The inverse centre + sign·inverse(y) of a moved and mirrored copy of a branch."""

    inverse: Inverse
    centre: float | Float[np.ndarray, " branches"]
    sign: float | Float[np.ndarray, " branches"]

    def __call__(self, y: Reals) -> Reals:
        return self.inverse(y) * self.sign + self.centre


def together(branches: Sequence[Branch]) -> Branch | None:
    """Copies of one branch as a single one with arrays; None where they are not copies.

    Thousands of branches would otherwise each be a part of the program to compile.
    """
    copies = [branch.inverse for branch in branches if isinstance(branch.inverse, Turned)]
    if len(copies) < len(branches) or len({(b.bottom, b.top) for b in branches}) > 1:
        return None
    if len({copy.inverse for copy in copies}) > 1:
        return None
    lo, hi, rising = map(np.array, zip(*((b.lo, b.hi, b.rising) for b in branches), strict=True))
    centre, sign = map(np.array, zip(*((c.centre, c.sign) for c in copies), strict=True))
    inverse = Turned(copies[0].inverse, centre, sign)
    return Branch(lo, hi, branches[0].bottom, branches[0].top, inverse, rising)


Branches = Callable[[float, float], tuple[Branch, ...] | None]


def listed(*branches: Branch) -> Branches:
    """A function that gives these branches for every interval."""
    return lambda lo, hi: branches


def line(bottom: float, top: float, inverse: Inverse) -> Branches:
    """A single branch, rising from `bottom` to `top`."""
    return listed(Branch(-INF, INF, bottom, top, inverse))


def same(y: Reals) -> Reals:
    """The inverse of the identity."""
    return y


def one_minimum(phi: Callable[[Reals], Reals]) -> Branches:
    """The two branches of GELU and SiLU, down to a minimum left of 0, then up."""

    @functools.cache
    def found() -> tuple[Branch, ...]:
        slope = jax.grad(phi)
        # all of it is computed now: the first use may be inside jit
        with jax.ensure_compile_time_eval():
            ends = jnp.array([-2.0]), jnp.array([-0.5])
            at = float(_bisect(lambda x: jax.vmap(slope)(x), jnp.zeros(1), *ends, True)[0])
            bottom = float(phi(jnp.asarray(at)))

        def left(y: Reals) -> Reals:
            flat = jnp.ravel(y)
            x = _bisect(phi, flat, jnp.full_like(flat, -800.0), jnp.full_like(flat, at), False)
            return x.reshape(jnp.shape(y))

        def right(y: Reals) -> Reals:
            flat = jnp.ravel(y)
            x = _bisect(phi, flat, jnp.full_like(flat, at), jnp.maximum(flat, 0) + 1, True)
            return x.reshape(jnp.shape(y))

        return Branch(-INF, at, bottom, 0.0, left, False), Branch(at, INF, bottom, INF, right)

    return lambda lo, hi: found()


def _bisect(f: Callable[[Reals], Reals], y: Reals, lo: Reals, hi: Reals, rising: bool) -> Reals:
    """The x in [lo, hi] with f(x) = y to the last bits, by bisection, then Newton's method."""
    reach = (hi - lo) * 2.0**-62

    def halve(_: object, ends: tuple[Reals, Reals]) -> tuple[Reals, Reals]:
        lo, hi = ends
        x = (lo + hi) / 2
        left = (f(x) < y) == rising
        return jnp.where(left, x, lo), jnp.where(left, hi, x)

    lo, hi = jax.lax.fori_loop(0, 64, halve, (lo, hi))
    x = jax.lax.stop_gradient((lo + hi) / 2)
    value, slope = jax.jvp(f, (x,), (jnp.ones_like(x),))
    step = jax.lax.stop_gradient((value - y) / slope)
    return jnp.where(jnp.abs(step) <= reach, x - step, x)
