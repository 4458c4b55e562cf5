"""Tokens as vectors and their positions: rotations, biases of scores, vectors that are added."""

import dataclasses
import math
from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float

from limitlaw.arguments import non_negative_number, positive_int, real_array, real_number, shown
from limitlaw.core.space import Dim, n
from limitlaw.language.functions import initial, rotary
from limitlaw.language.values import Scalars, Wide


def embedding(ids: object, std: float = 1.0, dim: Dim | int = n) -> Wide:
    """A vector N(0, std²) for each id, in the shape of `ids`; equal ids have the same vector."""
    array = np.asarray(ids)
    if array.dtype.kind not in "iu" or array.ndim == 0 or array.size == 0:
        raise TypeError(
            "ids must be an array of integers with at least one axis and one entry, got "
            f"{shown(ids)}"
        )
    found, places = np.unique(array, return_inverse=True)
    table = non_negative_number("std", std) * initial((len(found),), dim=dim)
    return table[places.reshape(array.shape)]


@runtime_checkable
class Positions(Protocol):
    """The use of positions in attention: on queries and keys, and on scores (…, heads, s, t)."""

    def turned(self, w: Wide) -> Wide:
        """Queries or keys (…, tokens), rotated by their positions."""

    def scored(self, p: Scalars, heads: int | float) -> Scalars:
        """Scores (…, heads, s, t), grouped (…, groups, queries, s, t), biased by positions."""


@dataclasses.dataclass(frozen=True)
class Rotary:
    """Rotary embeddings (Su et al. 2021): coordinates (m, m + d/2) are rotated by
    position·base^{−2m/d}, `positions` by default being 0, 1, ….
    """

    base: float = 10_000.0
    positions: Any = None

    def turned(self, w: Wide) -> Wide:
        """The vectors, rotated by the angles of their positions."""
        if self.positions is None:
            return rotary(w, np.arange(float(w.shape[-1])), self.base)
        return rotary(w, real_array("positions", self.positions), self.base)

    def scored(self, p: Scalars, heads: int | float) -> Scalars:
        """The scores, unchanged."""
        return p


@dataclasses.dataclass(frozen=True)
class Alibi:
    """Linear biases (Press, Smith & Lewis 2022): p_ij − m_h |i − j|, with a slope for each head.

    Without `slopes`: m_h = 2^{−8h/H} for a power of two H; else the slopes of the next lower
    power, and every other one of the next higher.
    """

    slopes: Sequence[float] | None = None

    def turned(self, w: Wide) -> Wide:
        """The vectors, unchanged."""
        return w

    def scored(self, p: Scalars, heads: int | float) -> Scalars:
        """The scores with the bias of each head."""
        if heads == math.inf:
            raise ValueError(
                "Alibi has a slope for each head: heads must be finite, got heads=math.inf"
            )
        m = alibi_slopes(int(heads)) if self.slopes is None else real_array("slopes", self.slopes)
        if m.shape != (heads,):
            raise ValueError(
                f"slopes must have one entry for each of the {heads} heads, got shape {m.shape}"
            )
        s, t = (int(size) for size in p.shape[-2:])
        # the last query stands at the last key
        distance = np.abs(np.arange(t - s, t)[:, None] - np.arange(t))
        grouped = p.shape[-3:-2] != (heads,)
        lead = tuple(int(size) for size in (p.shape[-4:-2] if grouped else p.shape[-3:-2]))
        return p - m.reshape(*lead, 1, 1) * distance


def alibi_slopes(heads: int) -> Float[np.ndarray, " heads"]:
    """2^{−8h/H}, h = 1 … H, interpolated as by the authors where H is no power of two."""
    power = 2 ** int(math.log2(heads))
    first = 2.0 ** (-8.0 * np.arange(1, power + 1) / power)
    between = 2.0 ** (-4.0 * np.arange(1, 2 * (heads - power), 2) / power)
    return np.concatenate([first, between])


def learned_positions(tokens: int, std: float = 1.0, dim: Dim | int = n) -> Wide:
    """A vector N(0, std²) of its own for each position: (s,)."""
    return real_number("std", std) * initial((positive_int("tokens", tokens),), dim=dim)


def sinusoidal_positions(tokens: int, base: float = 10_000.0, scale: float = 1.0) -> Wide:
    """Sines and cosines of i·base^{−2m/n} (Vaswani et al. 2017), as n → ∞: (s,).

    Vectors enter what follows by their means and inner products, which are

        m_i = ½ ∫₀¹ (sin θ + cos θ)(i base^{−u}) du,
        n⁻¹⟨e_i, e_j⟩ = ½ ∫₀¹ cos((i − j) base^{−u}) du.

    They are written as Gaussian vectors that have these in the limit. At width n the inner
    products of these fluctuate, as those of random vectors do; those of true sinusoids do not.
    """
    s, base = positive_int("tokens", tokens), real_number("base", base)
    if base <= 1:
        raise ValueError(f"base must be greater than 1, got {base:g}")
    i = np.arange(float(s))
    mean = 0.5 * sum(_mean_wave(i, base))
    gram = 0.5 * _mean_wave(i[:, None] - i, base)[1]
    return real_number("scale", scale) * initial((s,), mean=mean, cov=gram - np.outer(mean, mean))


def _mean_wave(x: Float[np.ndarray, "..."], base: float) -> tuple[Any, Any]:
    """∫₀¹ sin(x base^{−u}) du = (Si x − Si(x/base))/log base, and the same with cosines."""
    from scipy.special import sici

    size = np.where(x == 0, 1.0, np.abs(x))
    (si, ci), (si_end, ci_end) = sici(size), sici(size / base)
    sine, cosine = (si - si_end) / math.log(base), (ci - ci_end) / math.log(base)
    return np.where(x == 0, 0.0, np.sign(x) * sine), np.where(x == 0, 1.0, cosine)
