"""The characteristic function of φ(Y) in closed form where φ is straight: relu, leaky_relu, abs,
clip and sign between their kinks, gelu, tanh and their kin far out."""

import dataclasses
import functools
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from limitlaw.numerics.normal_rule import Rule
from limitlaw.numerics.special_functions import half_line
from limitlaw.phi import Nonlinearity

INSIDE = np.array([0.25, 0.5, 0.75, 0.9])  # of a piece, where φ is looked at
# of the distance of the kinks, in the pieces beyond them
BEYOND = np.array([0.5, 1.0, 2.0, 500.0])
# relative and absolute deviations from a straight line that are none
ROUNDING, SMALL = 1e-14, 1e-20


@dataclasses.dataclass(frozen=True)
class Piece:
    """φ(x) = value + slope (x − at) for lo < x < hi; `at` is an end of the piece."""

    lo: float
    hi: float
    at: float
    value: float
    slope: float

    def __call__(self, x: Any) -> Any:
        return self.value + self.slope * (x - self.at)


@functools.lru_cache(maxsize=256)
def straight_pieces(phi: Nonlinearity) -> tuple[Piece, ...] | None:
    """The pieces of φ between its kinks if it is a straight line on each of them, else None.

    Known of named functions from their branches, of users' functions if all their kinks are known,
    between which they are polynomials.
    """
    kinks = sorted(kink.at for kink in phi.kinks or ())
    known = phi.branches is not None or (phi.cuts is not None and set(phi.cuts) <= set(kinks))
    return _lines(phi, [-math.inf, *kinks], [*kinks, math.inf]) if kinks and known else None


@functools.lru_cache(maxsize=256)
def straight_beyond(phi: Nonlinearity, low: float, high: float) -> tuple[Piece, ...] | None:
    """The pieces of φ below `low` and above `high` if it is a straight line there, else None."""
    return _lines(phi, [-math.inf, high], [low, math.inf])


def _lines(phi: Nonlinearity, los: list[float], his: list[float]) -> tuple[Piece, ...] | None:
    unit = max(1.0, his[0] - los[-1])
    pieces = []
    for lo, hi in zip(los, his, strict=True):
        at = hi if math.isinf(lo) else lo
        x = (
            lo + INSIDE * (hi - lo)
            if math.isfinite(hi - lo)
            else at + math.copysign(unit, lo + hi) * BEYOND
        )
        with jax.ensure_compile_time_eval():
            y = np.asarray(phi(jnp.asarray(x)), float)
        slope = (y[-1] - y[0]) / (x[-1] - x[0])
        piece = Piece(lo, hi, at, float(y[0] - slope * (x[0] - at)), float(slope))
        if not np.abs(y - piece(x)).max() <= SMALL + ROUNDING * (
            np.abs(y).max() + abs(slope) * np.abs(x).max()
        ):
            return None
        pieces.append(piece)
    return tuple(pieces)


@dataclasses.dataclass(frozen=True)
class StraightCf:
    """E exp(i t φ(Y)) for one number, Y ~ N(mean, sd²):
    over each piece a difference of two half lines.

    ∫_a^∞ e^{itφ} dP = e^{itφ(a)} h(u, τ) for straight φ, where u = (a − mean)/sd ≥ 0, τ = t slope
    sd and h is `half_line`; a piece around the mean is the whole line, e^{itφ(mean) − τ²/2}, less
    what lies right and left of it. `rule`: what lies between the first and the last of its breaks,
    if φ is not straight there.
    """

    phi: Nonlinearity
    pieces: tuple[Piece, ...]
    rule: Rule | None = None

    def __call__(self, component: Any, t: Any) -> Any:
        mean, sd, _ = component
        safe = jnp.where(sd > 0, sd, 1.0)
        parts = [self._over(piece, mean, safe, t) for piece in self.pieces]
        if self.rule is not None:
            x, w = (a[self.rule.nodes : -self.rule.nodes] for a in self.rule(mean, safe))
            parts.append(jnp.sum(w * jnp.exp(1j * t * self.phi(x))))
        return jnp.where(sd > 0, sum(parts), jnp.exp(1j * t * self.phi(mean)))

    def _over(self, piece: Piece, mean: Any, sd: Any, t: Any) -> Any:
        left, right = (piece.lo - mean) / sd, (piece.hi - mean) / sd
        tau = t * piece.slope * sd
        around = (left < 0) & (right > 0)
        whole = jnp.exp(1j * t * piece(mean) - tau**2 / 2)
        ends: list[Any] = []
        for end, u, side in ((piece.lo, left, -1), (piece.hi, right, 1)):
            if math.isinf(end):  # no tail beyond it
                ends.append(0.0)
                continue
            outward = jnp.where(around, side, jnp.sign(left + right))  # away from the mean
            ends.append(jnp.exp(1j * t * piece(end)) * half_line(jnp.abs(u), outward * tau))
        return jnp.where(
            around,
            whole - ends[0] - ends[1],
            jnp.where(left >= 0, ends[0] - ends[1], ends[1] - ends[0]),
        )
