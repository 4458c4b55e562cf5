"""Quantities of φ(Y) for one component Y = (mean, sd, shift of the quadrature), rules of nodes,
and closed characteristic functions where φ is straight.
"""

import dataclasses
import functools
import math
from typing import TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Complex, Float

from limitlaw.arguments import is_traced
from limitlaw.laws import one_gaussian
from limitlaw.laws.averages import Quantity
from limitlaw.laws.expectation import MANY_COMPONENTS
from limitlaw.laws.one_gaussian import OneGaussian
from limitlaw.laws.tracing import Psi
from limitlaw.numerics.normal_rule import ON_PANEL, PANEL_LENGTH, REACH, NormalRule, smooth_nodes
from limitlaw.numerics.special_functions import half_line
from limitlaw.phi import Nonlinearity
from limitlaw.phi.preimages import Branched

INSIDE = np.array([0.25, 0.5, 0.75, 0.9])  # places within a piece, at which φ is looked at
# of the distance of the kinks, in the pieces beyond them
PLACES_BEYOND = np.array([0.5, 1.0, 2.0, 500.0])
# relative and absolute deviations from a straight line that are rounding
STRAIGHT_TO, STRAIGHT_TO_ABSOLUTE = 1e-14, 1e-20
# standard deviations of Y up to which a trapezoidal rule of a few hundred nodes is the best
NARROW_BASE = 4.0
# cuts of named functions: these are linear beyond the last of them
NAMED_CUTS = tuple(sorted({0.0, *(sign * 2.0**k for k in range(-1, 7) for sign in (-1, 1))}))
MOST_BRANCHES = 3  # most branches of a function that is linear far out
MOST_NODES, TRACED_NODES = 2**18, 2**12  # most nodes for functions that are not
# of all components: some seconds. Where more are needed, shifts of the rule that differ between
# components keep its mean right, and their spread or a rule of fewer nodes shows what is missing.
MOST_AT_ALL = 2**25
CLOSELY = 40.0  # times as many nodes between the cuts of a function that is not known


@dataclasses.dataclass(frozen=True)
class Central:
    """E (φ(Y) − c)^j for j = 1 … 4, for each entry."""

    phi: Nonlinearity
    rule: NormalRule

    def __call__(
        self, component: OneGaussian, centre: Float[Array, "..."]
    ) -> Float[Array, "4 ..."]:
        def entry(mean: Array, sd: Array, shift: Array, c: Array) -> Float[Array, " 4"]:
            x, w = self.rule(mean, sd, shift)
            d = self.phi(x) - c
            return jnp.stack([jnp.sum(w * d**j) for j in (1, 2, 3, 4)])

        mean, sd, shift = component
        if jnp.ndim(centre) == 0:
            return entry(mean, sd, shift, centre)
        moments = jax.vmap(entry, out_axes=1)(mean, sd, shift, centre.reshape(-1))
        return moments.reshape(4, *centre.shape)


@dataclasses.dataclass(frozen=True)
class ImageMoment:
    """E (φ(Y)/s)^k by entries; its rule is a `wider` normal's, as powers need far tails."""

    phi: Nonlinearity
    rule: NormalRule
    k: int
    wider: float

    def __call__(self, component: OneGaussian, s: Float[Array, "..."]) -> Float[Array, "..."]:
        def entry(mean: Array, sd: Array, shift: Array, s: Array) -> Float[Array, ""]:
            x, w = self.rule(mean, self.wider * sd, shift)
            z = (x - mean) / jnp.where(sd > 0, sd, 1)
            w = w * self.wider * jnp.exp(-(1 - self.wider**-2) * z**2 / 2)
            w = jnp.where(sd > 0, w, w / self.wider)
            return jnp.sum(w * (self.phi(x) / s) ** self.k)

        mean, sd, shift = component
        return (
            entry(mean, sd, shift, s)
            if jnp.ndim(mean) == 0
            else jax.vmap(entry)(mean, sd, shift, s)
        )


@dataclasses.dataclass(frozen=True)
class Cf:
    """E exp(i t φ(Y)) for one number, by a rule of nodes."""

    phi: Nonlinearity
    rule: NormalRule

    def __call__(self, component: OneGaussian, t: Float[Array, ""]) -> Complex[Array, ""]:
        x, w = self.rule(*component)
        return jnp.sum(w * jnp.exp(1j * t * self.phi(x)))


@dataclasses.dataclass(frozen=True)
class Composed:
    """ψ(φ(y)), equal for equal ψ and φ, so that it is compiled once."""

    psi: Psi
    phi: Nonlinearity

    def __call__(self, y: Array) -> Array | np.ndarray:
        return self.psi(self.phi(y))


@dataclasses.dataclass(frozen=True)
class OnBranches:
    """P(φ(Y) ≤ y), or P(φ(Y) > y) if `above`, from the intervals of Y on which that holds, one a
    branch; or its logarithm.
    """

    above: bool
    log: bool = False

    def __call__(self, component: OneGaussian, point: tuple[Array, Array]) -> Float[Array, ""]:
        mean, sd, image = component
        y, intervals = point
        ends = (intervals[:, 0], intervals[:, 1])
        if self.log:
            inside = jax.nn.logsumexp(one_gaussian.log_between((mean, sd), ends))
        else:
            inside = jnp.sum(one_gaussian.between((mean, sd), ends))
        certain, impossible = (0.0, -jnp.inf) if self.log else (1.0, 0.0)
        holds = image > y if self.above else image <= y
        found = jnp.where(sd > 0, inside, jnp.where(holds, certain, impossible))
        return found + 0 * jnp.where(jnp.isnan(y), y, 0)


def density(component: OneGaussian, point: tuple[Array, Array]) -> Float[Array, ""]:
    """The density of φ(Y): the sum over branches of the density at the preimage, over |φ'|."""
    x, jacobian = point
    p = one_gaussian.pdf(component, x)
    return jnp.sum(jnp.where(p > 0, p * jacobian, 0))


def log_density(component: OneGaussian, point: tuple[Array, Array]) -> Float[Array, ""]:
    """The logarithm of `density`; −∞ for a point mass."""
    x, log_jacobian = point
    mean, sd, _ = component
    log = one_gaussian.logpdf((mean, jnp.where(sd > 0, sd, 1)), x) + log_jacobian
    return jnp.where(sd > 0, jax.nn.logsumexp(log), -jnp.inf)


X = TypeVar("X", float, np.ndarray, Array)


@dataclasses.dataclass(frozen=True)
class Piece:
    """φ(x) = value + slope (x − at) for lo < x < hi; `at` is an end of the piece."""

    lo: float
    hi: float
    at: float
    value: float
    slope: float

    def __call__(self, x: X) -> X:
        return self.value + self.slope * (x - self.at)


@functools.lru_cache(maxsize=256)
def straight_pieces(phi: Nonlinearity) -> tuple[Piece, ...] | None:
    """The pieces of φ between its kinks if it is a straight line on each, else None: known from
    branches, or of a user's function whose kinks, all known, are all its cuts.
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
            else at + math.copysign(unit, lo + hi) * PLACES_BEYOND
        )
        with jax.ensure_compile_time_eval():
            y = np.asarray(phi(jnp.asarray(x)), float)
        slope = (y[-1] - y[0]) / (x[-1] - x[0])
        piece = Piece(lo, hi, at, float(y[0] - slope * (x[0] - at)), float(slope))
        if not np.abs(y - piece(x)).max() <= STRAIGHT_TO_ABSOLUTE + STRAIGHT_TO * (
            np.abs(y).max() + abs(slope) * np.abs(x).max()
        ):
            return None
        pieces.append(piece)
    return tuple(pieces)


@dataclasses.dataclass(frozen=True)
class StraightCf:
    """E exp(i t φ(Y)) for one number, Y ~ N(mean, sd²): over each piece a difference of two half
    lines.

    ∫_a^∞ e^{itφ} dP = e^{itφ(a)} h(u, τ) for straight φ, where u = (a − mean)/sd ≥ 0, τ = t slope
    sd and h is `half_line`; a piece around the mean is the whole line, e^{itφ(mean) − τ²/2}, less
    what lies right and left of it. `rule`: for what lies between the first and the last of its
    breaks, if φ is not straight there.
    """

    phi: Nonlinearity
    pieces: tuple[Piece, ...]
    rule: NormalRule | None = None

    def __call__(self, component: OneGaussian, t: Float[Array, ""]) -> Complex[Array, ""]:
        mean, sd, _ = component
        safe = jnp.where(sd > 0, sd, 1.0)
        parts = [self._over(piece, mean, safe, t) for piece in self.pieces]
        if self.rule is not None:
            x, w = self.rule(mean, safe)
            between = (x > self.rule.breaks[0]) & (x < self.rule.breaks[-1])
            parts.append(jnp.sum(jnp.where(between, w, 0.0) * jnp.exp(1j * t * self.phi(x))))
        return jnp.where(sd > 0, sum(parts), jnp.exp(1j * t * self.phi(mean)))

    def _over(self, piece: Piece, mean: Array, sd: Array, t: Array) -> Complex[Array, ""]:
        left, right = (piece.lo - mean) / sd, (piece.hi - mean) / sd
        tau = t * piece.slope * sd
        around = (left < 0) & (right > 0)
        whole = jnp.exp(1j * t * piece(mean) - tau**2 / 2)
        ends: list[Array | float] = []
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


@dataclasses.dataclass(frozen=True)
class ImageRules:
    """The nodes to average φ(Y) over components of Y. `known`: its branches there; `sd`: the
    largest, unknown if `traced`; `plain`: nodes for an unknown φ; `share`: that of the nodes, less
    than 1 for another rule.
    """

    phi: Nonlinearity
    known: Branched | None
    sd: float
    plain: int
    components: int
    sampled: bool
    traced: bool
    share: float

    @property
    def kinks(self) -> tuple[float, ...]:
        """The points at which φ is known not to be smooth, also if its branches are unknown."""
        return tuple(sorted(kink.at for kink in self.phi.kinks or ()))

    @property
    def many(self) -> bool:
        """Are there so many sampled components that their spread shows the error?"""
        return self.sampled and self.components > MANY_COMPONENTS

    @functools.cached_property
    def moments(self) -> NormalRule:
        """The rule for averages of powers of φ(Y)."""
        rule = self._of_all_nodes()
        return dataclasses.replace(rule, nodes=math.ceil(self.share * rule.nodes))

    def _of_all_nodes(self) -> NormalRule:
        if self.known is not None and self.known.kinks:
            return NormalRule(ON_PANEL, self.known.kinks)  # between kinks φ is linear
        narrow = not self.traced and self.sd <= NARROW_BASE
        named = self.phi.branches is not None
        waves = named and (self.known is None or len(self.known.branches) > MOST_BRANCHES)
        if waves and self.traced:
            return NormalRule(TRACED_NODES)
        if (named and narrow) or waves:
            return NormalRule(min(smooth_nodes(self.sd), MOST_NODES))
        cuts = NAMED_CUTS if named else tuple(sorted({*(self.phi.cuts or ()), *self.kinks}))
        between = NormalRule(ON_PANEL, cuts)
        if cuts and not named and self.phi.kinks is None:
            return self._of_unknown(between)
        if cuts and not (narrow and self.many):
            return between
        plain = NormalRule(ON_PANEL, self.kinks) if self.kinks else NormalRule(self.plain)
        return plain.finer(self.plain / plain.count)

    def _of_unknown(self, between: NormalRule) -> NormalRule:
        """The rule where φ may have more structure than its cuts tell: one between the cuts, which
        may look converged by accident, is compared with one of far more nodes; draws have those
        everywhere.
        """
        closely = between.finer(CLOSELY)
        few = self.components * closely.count <= MOST_NODES
        if self.sampled or (self.share < 1 and not few):
            return NormalRule(self.plain)
        return closely if self.share < 1 else between

    def wave(self, t: Array) -> tuple[Quantity, int]:
        """E e^{itφ(Y)}, closed if φ is straight, else by nodes; and the numbers that it holds."""
        pieces = straight_pieces(self.phi)
        if pieces:
            return StraightCf(self.phi, pieces), 32
        breaks = self.moments.breaks
        far = (
            straight_beyond(self.phi, NAMED_CUTS[0], NAMED_CUTS[-1])
            if breaks == NAMED_CUTS
            else None
        )
        turns = self.share * self._nodes_of_waves(t, far is not None)
        # a panel has twice as many nodes as the trapezoidal rule has there: φ may be steep
        share = PANEL_LENGTH / REACH if breaks else 1.0
        rule = self.moments.finer(share * turns / self.moments.nodes)
        return StraightCf(self.phi, far, rule) if far else Cf(self.phi, rule), rule.count

    def _nodes_of_waves(self, t: Array, straight_far_out: bool) -> int:
        """The nodes for the fastest waves of e^{itφ}, as far as these are not closed forms."""
        if self.traced or is_traced(t):
            return TRACED_NODES // (8 if self.moments.breaks else 1)
        turns = min(self.sd, NAMED_CUTS[-1] / REACH) if straight_far_out else self.sd
        fastest = float(jnp.max(jnp.abs(t), initial=1.0, where=jnp.isfinite(t)))
        most = max(self.plain, MOST_AT_ALL // self.components)
        return min(smooth_nodes(turns * fastest), MOST_NODES, most)
