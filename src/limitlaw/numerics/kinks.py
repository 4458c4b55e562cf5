"""Points where a function of one number, or its derivative, jumps, to the last bits: it is called
eagerly on equally many points, so that nothing is compiled twice.
"""

import dataclasses
import functools
from collections.abc import Callable, Iterable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float

from limitlaw.arguments import is_traced
from limitlaw.numerics import HostReals, Reals

Pointwise = Callable[[Reals], Any]  # a user's function may give booleans, integers, or fail

POINTS_OF_CALL = 4096  # points on which a function is called at a time
SECTIONS = 64  # parts of an interval among which the one with the jump is looked for
SECTIONINGS = 14  # 64^14 = 2^84 parts
# a jump keeps its size as the interval shrinks; what is continuous shrinks by 1/64, a root by 1/8
PERSISTS = 0.2


class CannotLook(Exception):
    """The function cannot be evaluated for this: it closes over traced values, fails, or does not
    act on each number by itself in double precision.
    """


@dataclasses.dataclass(frozen=True)
class Kink:
    """A point where φ is not smooth: φ jumps there by `jump`, φ' by `slope_jump`."""

    at: float
    jump: float = 0.0
    slope_jump: float = 0.0


class Sampled:
    """A function and its derivatives, as functions of NumPy arrays."""

    def __init__(self, f: Pointwise):
        self._derivatives: list[Pointwise] = [functools.partial(_in_double, f)]

    def __call__(self, x: HostReals, order: int = 0) -> HostReals:
        while len(self._derivatives) <= order:
            self._derivatives.append(functools.partial(_derivative, self._derivatives[-1]))
        f = self._derivatives[order]
        flat = np.ravel(x)
        padded = np.zeros(-(-max(flat.size, 1) // POINTS_OF_CALL) * POINTS_OF_CALL)
        padded[: flat.size] = flat
        parts = [_evaluated(f, part) for part in padded.reshape(-1, POINTS_OF_CALL)]
        return np.concatenate(parts)[: flat.size].reshape(np.shape(x))


def _in_double(f: Pointwise, x: Reals) -> Reals:
    """f(x), with booleans and integers as floats; refused if it is in single precision, whose
    rounding looks like stairs.
    """
    y = jnp.asarray(f(x))
    if y.dtype != x.dtype and y.dtype.kind not in "biu":
        raise CannotLook
    return y.astype(x.dtype)


def _derivative(f: Pointwise, x: Reals) -> Reals:
    return jax.jvp(f, (x,), (jnp.ones_like(x),))[1]


def _evaluated(f: Pointwise, x: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    """f of a few points; `CannotLook` whatever the user's function raises."""
    try:
        with jax.ensure_compile_time_eval():
            given = jnp.asarray(x)
            y = f(given)
    except Exception as error:
        raise CannotLook from error
    if is_traced(y) or given.dtype != np.float64 or y.shape != x.shape:
        raise CannotLook
    return np.asarray(y)


def beside(at: HostReals) -> HostReals:
    """A distance that still separates both sides of these points in double precision."""
    return 2.0**-48 * np.maximum(np.abs(at), 2.0**-20)


def located(
    f: Sampled, order: int, lo: Float[np.ndarray, " n"], hi: Float[np.ndarray, " n"]
) -> tuple[Float[np.ndarray, " n"], Bool[np.ndarray, " n"]]:
    """The point in each interval at which the derivative of that order jumps, and whether it does:
    of 64 parts the one with the largest change is kept again and again, which a jump survives.
    """
    l, r = lo.copy(), hi.copy()
    found = np.ones(len(lo), bool)
    before = np.zeros(len(lo))
    steps = np.arange(SECTIONS) / (SECTIONS - 1)
    for level in range(SECTIONINGS):
        rounding = 2 * np.spacing(np.maximum(np.abs(l), np.abs(r)))
        open_ = np.flatnonzero(found & (r - l > rounding) & (r - l > 2.0**-80))
        if not len(open_):
            break
        x = l[open_, None] + (r - l)[open_, None] * steps
        x[:, -1] = r[open_]
        change = np.abs(np.diff(f(x, order), axis=1))
        change = np.where(np.isfinite(change), change, 0.0)
        part = np.argmax(change, axis=1)
        rows = np.arange(len(open_))
        l[open_], r[open_] = x[rows, part], x[rows, part + 1]
        largest = change[rows, part]
        found[open_] = (largest > 0) & ((largest > PERSISTS * before[open_]) | (level == 0))
        before[open_] = largest
    inside = (l > lo) & (r < hi)
    return _roundest(l, r), found & inside


def _roundest(l: HostReals, r: HostReals) -> HostReals:
    """The shortest decimal within rounding in each interval: there a function was cut."""
    ulps = np.arange(-4, 5)
    near = r[:, None] + ulps * np.spacing(r)[:, None]
    near[(l <= 0) & (r >= 0)] = 0.0
    return np.array(
        [min(row, key=lambda x: (len(repr(x)), abs(x - row[4]))) for row in near.tolist()]
    )


def measured(f: Sampled, at: Iterable[float]) -> tuple[Kink, ...]:
    """The kinks at these points: the differences of f and f' across them."""
    c = np.array(sorted(at), float)
    if not len(c):
        return ()
    sides = np.stack([c - beside(c), c + beside(c)])
    values, slopes = f(sides), f(sides, 1)
    jumps = np.diff(values, axis=0)[0] - beside(c) * slopes.sum(0)
    slope_jumps = np.diff(slopes, axis=0)[0]
    size, steepest = np.abs(values).max(0), np.abs(slopes).max(0)
    # rounding, of f and of what f reads
    jumps[np.abs(jumps) <= 8 * beside(c) * steepest + 1e-13 * size] = 0.0
    slope_jumps[np.abs(slope_jumps) <= 1e-10 * steepest] = 0.0
    return tuple(Kink(*map(float, kink)) for kink in zip(c, jumps, slope_jumps, strict=True))
