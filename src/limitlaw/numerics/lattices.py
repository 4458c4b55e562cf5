"""Laws of sums of i.i.d. numbers v ≥ 0, as weights on lattices whose step halves from octave to
octave towards 0.

A weight at v is shared by the DEGREE lattice points around it, Σ_i ℓ_i(v) f(v_i) = f(v) + O(step^
DEGREE) with Lagrange's polynomials ℓ_i. Points of equal step are closed under addition: weights of
a sum are the convolution of weights, and nothing is lost. Then every second point gives its weight
to its neighbours, in the same way. The transform of these shares, those of Deslauriers and Dubuc
(1989), is nowhere larger than 1, so that convolutions can be repeated without end; and they are
local, so that a far tail keeps its relative accuracy.
"""

import dataclasses
import itertools
import math
import operator
from collections.abc import Callable
from types import ModuleType
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from limitlaw.arguments import frozen, is_traced
from limitlaw.numerics import Floats

DEGREE = 16  # points that share a weight
NEIGHBOURS = np.arange(DEGREE) - DEGREE // 2 + 1  # of these points, from the one below
PAD = 2 * DEGREE  # points beyond both ends of an octave, for shares

OnLattices = tuple[Floats, Floats]  # weights (R, L, points) on L lattices, and masses (R,) at 0
T = TypeVar("T")


def lagrange(r: Any) -> list[Any]:
    """Lagrange's polynomials ℓ_j(r), 0 ≤ r < 1, for points at NEIGHBOURS."""
    factors = [r - b for b in NEIGHBOURS.tolist()]
    before = itertools.accumulate(factors[:-1], operator.mul, initial=1.0)
    after = list(itertools.accumulate(factors[:0:-1], operator.mul, initial=1.0))[::-1]
    scales = [math.prod(a - b for b in NEIGHBOURS.tolist() if b != a) for a in NEIGHBOURS.tolist()]
    return [p * q / scale for p, q, scale in zip(before, after, scales, strict=True)]


HALVES = lagrange(0.5)


@dataclasses.dataclass(frozen=True)
class Lattices:
    """R laws on common lattices. Point i of level k is i · top 2^{−k}/points, for −PAD ≤ i ≤
    points + PAD.

    A number between top 2^{−k−1} and top 2^{−k} belongs to level k, smaller ones to the last
    level. Masses at 0 are kept apart.
    """

    law: OnLattices
    top: Float[Array | np.ndarray, ""] | float

    @classmethod
    def of(cls, v: Floats, w: Floats, top: Any, points: int, levels: int) -> "Lattices":
        """The laws with weights w (R, N) at 0 ≤ v ≤ top (R, N)."""
        xp = _module(v, w)
        present = frozen(v) > 0
        share = xp.where(present, v, top) / top
        level = xp.clip(xp.floor(-xp.log2(frozen(share))), 0, levels - 1).astype(int)
        t = share * 2.0**level * points
        below = xp.clip(xp.floor(frozen(t)).astype(int), 0, points)
        width = points + 1 + 2 * PAD
        place = (np.arange(len(v))[:, None] * levels + level) * width + below + PAD
        carried = xp.where(present, w, 0.0)
        total = xp.zeros(len(v) * levels * width)
        for offset, share in zip(NEIGHBOURS, lagrange(t - below), strict=True):
            index, weight = (place + offset).reshape(-1), (carried * share).reshape(-1)
            total = total + (
                np.bincount(index, weight, total.size)
                if xp is np
                else jax.ops.segment_sum(weight, index, total.size)
            )
        zero = xp.where(present, 0.0, w).sum(1)
        return cls((total.reshape(len(v), levels, width), zero), top)

    @property
    def numbers(self) -> Floats:
        """The numbers that points stand for, (L, points)."""
        levels, width = self.law[0].shape[1:]
        points = np.arange(-PAD, width - PAD) / (width - 1 - 2 * PAD)
        return self.top * (np.exp2(-np.arange(levels))[:, None] * points)

    def mixed(self, shares: Floats) -> "Lattices":
        """The mixture Σ_r shares_r law_r, as a single law."""
        weights, zero = self.law
        mixed = (weights * shares[:, None, None]).sum(0, keepdims=True)
        return Lattices((mixed, (zero * shares).sum(keepdims=True)), self.top)

    def power(self, count: int) -> "Lattices":
        """The laws of sums of `count` numbers, of mass one, by doubling and adding one."""
        digits = np.array([int(digit) for digit in f"{count:b}"[1:]])
        xp = _module(*self.law)

        def step(both: tuple[OnLattices, ...], digit: Any) -> Any:
            total, (weights, zero) = both
            twice, one = _summed(total, total, xp, doubled=True), (_lowered(weights, xp), zero)
            if xp is np:
                total = _summed(twice, one, xp) if digit else twice
            else:
                more = lambda: _summed(twice, one, xp)
                total = jax.lax.cond(digit > 0, more, lambda: twice)
            return (_normalised(total), one), None

        weights, zero = self.law
        one = _normalised((_lowered(weights, xp), zero))  # so that 2^b − 1 are below top
        (total, _), _ = _scan(step, (one, one), digits, xp)
        return Lattices(total, self.top * 2.0 ** (1 + len(digits)))


def _module(*arrays: Any) -> Any:
    return jnp if is_traced(*arrays) else np


def _scan(step: Callable[[T, Any], tuple[T, Any]], first: T, rows: Any, xp: ModuleType) -> Any:
    """jax.lax.scan, or the same loop over NumPy arrays."""
    if xp is jnp:
        return jax.lax.scan(step, first, rows)
    found = []
    for row in rows:
        first, output = step(first, row)
        found.append(output)
    return first, np.array(found)


def _normalised(law: OnLattices) -> OnLattices:
    weights, zero = law
    mass = weights.sum((1, 2)) + zero
    return weights / mass[:, None, None], zero / mass


def _summed(first: OnLattices, second: OnLattices, xp: Any, doubled: bool = False) -> OnLattices:
    """The law of a sum of two independent numbers with the laws A and B.

    Level k of a law has the weights A_k above half of its end, and F_k, on the same points, those
    below it: the sum has A_k * (B_k + F^B_k) + F^A_k * B_k. `doubled`: for a `top` twice as large.
    """
    (a, p), (b, q) = first, second
    below = _below(a, p, xp)
    if first is second:
        found = _convolved(a, a + 2 * below, xp)
    else:
        found = _convolved(a, b + _below(b, q, xp), xp) + _convolved(b, below, xp)
    width = a.shape[-1]
    # up to the end of level k, the rest is above it; above the first there are shares alone
    end = width + np.where((np.arange(a.shape[1]) == 0) & (not doubled), PAD, 0)
    within = np.arange(2 * width - 1) < end[:, None]
    low, high = (found * within)[..., PAD : PAD + width], _coarser(found * ~within, 2 * PAD, xp)
    if doubled:
        return high + _lowered(low, xp), p * q
    return low + xp.concatenate([high[:, 1:], 0 * high[:, :1]], 1), p * q


def _below(weights: Floats, zero: Floats, xp: Any) -> Floats:
    """For each level, the weights of all lower levels on its points, and the mass at 0."""

    def up(lower: Floats, level: Floats) -> tuple[Floats, Floats]:
        total = _coarser(lower + level, PAD, xp)
        return total, total

    last = 0 * weights[:, 0]
    _, found = _scan(up, last, xp.moveaxis(weights, 1, 0)[:0:-1], xp)
    below = xp.moveaxis(xp.concatenate([found[::-1], last[None]]), 0, 1)
    return below + zero[:, None, None] * (np.arange(weights.shape[-1]) == PAD)


def _lowered(weights: Floats, xp: Any) -> Floats:
    """The same law for a `top` twice as large, in which level k is level k + 1."""
    last = _coarser(weights[:, -1:], PAD, xp)
    return xp.concatenate([0 * last, weights[:, :-2], weights[:, -2:-1] + last], 1)


def _coarser(weights: Floats, lead: int, xp: Any) -> Floats:
    """The weights on points −lead, −lead + 1, … shared by every second point, from −PAD on."""
    size = weights.shape[-1]
    width = size if lead == PAD else (size + 1) // 2
    half, start = DEGREE // 2, PAD - lead // 2

    def padded(a: Floats, left: int) -> Floats:
        right = max(width + DEGREE - left - a.shape[-1], 0)
        zeros = [xp.zeros((*a.shape[:-1], n)) for n in (left, right)]
        return xp.concatenate([zeros[0], a, zeros[1]], -1)

    total = padded(weights[..., ::2], start)[..., :width]
    odd = padded(weights[..., 1::2], start + half)
    for j, share in enumerate(HALVES[:half]):  # the other half is its mirror image
        left, right = DEGREE - 1 - j, j
        total = total + share * (odd[..., left : left + width] + odd[..., right : right + width])
    return total


def _convolved(a: Floats, b: Floats, xp: Any) -> Floats:
    """Σ_j a_j b_{i−j} along the last axis, term by term: small sums keep their digits."""
    width, shape = a.shape[-1], (*a.shape[:-1], 2 * a.shape[-1] - 1)
    if xp is np:
        out = np.zeros(shape)
        for row in zip(*np.nonzero(a.any(-1) & b.any(-1)), strict=True):
            out[row] = np.convolve(a[row], b[row])
        return out

    def one(rows: tuple[Array, Array]) -> Array:
        a, b = rows

        def add(total: Array, at: tuple[Array, Array]) -> tuple[Array, None]:
            j, a_j = at
            there = jax.lax.dynamic_slice_in_dim(total, j, width)
            return jax.lax.dynamic_update_slice_in_dim(total, there + a_j * b, j, 0), None

        zeros = jnp.zeros(shape[-1])
        some = (frozen(a) != 0).any() & (frozen(b) != 0).any()
        full = lambda: jax.lax.scan(add, zeros, (jnp.arange(width), a))[0]
        return jax.lax.cond(some, full, lambda: zeros)

    found = jax.lax.map(one, (a.reshape(-1, width), b.reshape(-1, width)))
    return found.reshape(shape)
