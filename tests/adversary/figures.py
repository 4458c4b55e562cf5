"""Figures of laws of the reference: what `Law` in limitlaw calls by the same names,
each with an error.
"""

import dataclasses
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from adversary.functions import PSIS, REACH, Function
from adversary.integrals import around, cuts_of
from adversary.laws import Centred, Mixture, drawn_mean, quantile

Array = Any
BATCHES = 64


class Estimate(NamedTuple):
    """A figure of the reference and its error, a standard error where it was drawn."""

    value: float
    error: float


class Figure(NamedTuple):
    """A method of a law and its argument: a level for ppf,
    an order for moment, the name of a ψ for expect.

    Points x of densities and tails are in units of a scale that comes with the case,
    and so are 1/t of cf and z of ψ.
    """

    method: str
    argument: Any = None


@dataclasses.dataclass(frozen=True)
class Ensemble:
    """The law (first) and others that show its error:
    a coarser rule, or independent parts of its draws.
    """

    law: Any
    others: tuple[Any, ...]
    drawn: bool

    def estimate(self, functional: Callable[[Any], float]) -> Estimate:
        """A functional of the law, with the difference of two rules or the scatter
        of batches as its error.
        """
        value = functional(self.law)
        values = np.array([functional(law) for law in self.others])
        if not np.isfinite(value):
            return Estimate(value, 0.0 if math.isinf(value) else math.nan)
        if self.drawn:
            size = float(np.abs(values).max()) or 1.0  # whose square may be below all numbers
            with np.errstate(invalid="ignore"):  # where some are infinite
                scatter = size * float((values / size).std(ddof=1))
            return Estimate(value, scatter / math.sqrt(len(values)))
        return Estimate(value, float(np.abs(values - value).max()))


def batches(*arrays: Array) -> list[tuple[Array, ...]]:
    """The draws in consecutive parts."""
    return list(zip(*(np.array_split(a, BATCHES) for a in arrays), strict=True))


def drawn_mixture(rng: np.random.Generator, v: Array) -> Ensemble:
    """Of draws of the variance."""
    z = rng.normal(size=len(v))
    laws = [
        Mixture(part, np.full(len(part), 1 / len(part)), noise)
        for part, noise in [(v, z), *batches(v, z)]
    ]
    return Ensemble(laws[0], tuple(laws[1:]), drawn=True)


def of_law(
    law: Centred, phi: Function | None, figure: Figure, scale: float, shift: float = 0.0
) -> float:
    """A figure of X, of Y = φ(X), or of X + shift·scale."""
    if shift:
        return _moved(law, figure, scale, shift)
    return (_plain if phi is None else _image)(law, phi, figure, scale)


# --- X itself ------------------------------------------------------------------------------------


def _plain(law: Centred, _: None, figure: Figure, scale: float) -> float:
    method, c = figure
    if method == "mean":
        return 0.0
    if method == "variance":
        return law.variance()
    if method == "kurtosis":
        square = law.variance() ** 2  # which may be below all numbers
        return law.even_moment(2) / square - 3 if square else math.nan
    if method == "moment":
        return 0.0 if c % 2 else law.even_moment(c // 2)
    if method in ("pdf", "logpdf"):
        return _log_if(method, law.pdf(c * scale))
    if method == "cdf":
        if c == 0 and 0 < law.zero() < 1:
            return math.nan  # v = 0 here is a v that underflows: no atom, but float64 cannot tell
        return law.sf(-c * scale) + (law.zero() if c == 0 else 0.0)  # P(X ≤ x) = P(X ≥ −x)
    if method == "sf":
        return law.sf(c * scale)
    if method == "ppf":
        sd = math.sqrt(law.variance())
        return quantile(lambda x: law.sf(-x) if x != 0 else law.sf(0.0) + law.zero(), c, sd or 1.0)
    if method == "cf":
        return law.cf(c / scale)
    if method == "expect":
        return _expected(law, c, scale)
    if method == "entropy":
        return law.entropy()
    if method == "atom":  # the mass at c
        return law.zero() if c == 0 else 0.0
    raise ValueError(method)


def _moved(law: Centred, figure: Figure, scale: float, shift: float) -> float:
    """A figure of X + m, m = shift·scale."""
    method, c = figure
    m = shift * scale
    if method == "mean":
        return m
    if method == "moment":
        even = [law.even_moment(j // 2) if j else 1.0 for j in range(0, c + 1, 2)]
        return sum(math.comb(c, 2 * j) * even[j] * m ** (c - 2 * j) for j in range(len(even)))
    if method == "cf":  # its real part
        return math.cos(m * c / scale) * law.cf(c / scale)
    if method in ("pdf", "logpdf", "cdf", "sf"):
        return _plain(law, None, Figure(method, c - shift), scale)
    return _plain(law, None, figure, scale) + (m if method == "ppf" else 0.0)


def _expected(law: Centred, name: str, scale: float) -> float:
    psi = PSIS[name]
    if isinstance(law, Mixture):
        return law.mean(psi.mean(law.v / scale**2))
    if name == "step":
        return law.sf(0.5 * scale)
    return law.integral(
        lambda x: psi.formula(x / scale), lambda sd: around([0.0, 0.5 * scale / sd], scale / sd)
    )


def _log_if(method: str, p: float) -> float:
    return p if method == "pdf" else math.log(p) if p > 0 else -math.inf


# --- Y = φ(X) ------------------------------------------------------------------------------------


def _image(law: Centred, phi: Function, figure: Figure, scale: float) -> float:
    method, c = figure
    if phi.jumps_at_zero and 0 < law.zero() < 1:
        return math.nan  # v = 0 here is a v that underflows: X has a sign all the same
    if method in ("mean", "variance", "kurtosis", "moment"):
        return _moments(law, phi, method, c)
    if method in ("pdf", "logpdf"):
        crossings = phi.crossings(c * scale)
        return _log_if(
            method, sum(law.pdf(x) / abs(float(phi.slope(np.float64(x)))) for x in crossings)
        )
    if method == "cdf":
        return _below(law, phi, c * scale)
    if method == "sf":
        return _above(law, phi, c * scale)
    if method == "ppf":
        return quantile(lambda y: _below(law, phi, y), c, scale)
    if method == "cf":
        return _integral(law, phi, lambda y: np.cos(y * c / scale), _near(phi, scale))
    if method == "expect":
        return _expected_image(law, phi, c, scale)
    if method == "atom":
        return _mass(law, phi, c)
    raise ValueError(method)


def _integral(
    law: Centred, phi: Function, f: Callable[[Array], Array], more: tuple[float, ...] = ()
) -> float:
    """E f(φ(X)); `more`: points x where f∘φ bends besides the breaks of φ, or varies fast."""
    return law.integral(
        lambda x: f(phi(x)),
        lambda sd: np.concatenate([cuts_of(phi, sd), np.array(more) / (sd or 1.0)]),
    )


def _near(phi: Function, scale: float) -> tuple[float, ...]:
    """Around the breaks of φ on the scale of φ(X), where functions of φ(X)/scale vary."""
    return tuple(around(phi.breaks, scale)) if phi.breaks else ()


def _moments(law: Centred, phi: Function, method: str, k: int) -> float:
    if method == "moment":
        return _integral(law, phi, lambda y: y**k)
    centre = _integral(law, phi, lambda y: y)
    if method == "mean":
        return centre
    variance = _integral(law, phi, lambda y: (y - centre) ** 2)
    if method == "variance":
        return variance
    if variance <= 1e-10 * (variance + centre**2):
        return math.nan  # as good as constant
    return _integral(law, phi, lambda y: (y - centre) ** 4) / variance**2 - 3


def _below(law: Centred, phi: Function, y: float) -> float:
    """P(φ(X) ≤ y)."""
    return sum(_between(law, a, b) for a, b in phi.below(y))


def _above(law: Centred, phi: Function, y: float) -> float:
    """P(φ(X) > y), of the gaps between the intervals where φ ≤ y:
    a small tail is no difference of large numbers.
    """
    ends = [-REACH, *(x for interval in phi.below(y) for x in interval), REACH]
    return sum(_between(law, a, b) for a, b in zip(ends[::2], ends[1::2], strict=True) if b > a)


def _between(law: Centred, a: float, b: float) -> float:
    """P(a < X < b), from the tail on its side."""
    return law.sf(-b) - law.sf(-a) if b <= 0 else law.sf(a) - law.sf(b)


def _expected_image(law: Centred, phi: Function, name: str, scale: float) -> float:
    """E ψ(φ(X)/scale), cut where ψ bends, too."""
    if name == "step":
        return _above(law, phi, 0.5 * scale)
    more = (*phi.crossings(0.5 * scale), *phi.crossings(0.0), *_near(phi, scale))
    return _integral(law, phi, lambda y: PSIS[name].formula(y / scale), more)


def _mass(law: Centred, phi: Function, y: float) -> float:
    """P(φ(X) = y), of the pieces where φ is constant."""
    inside = [
        (a, b)
        for a, b in phi.pieces
        if float(phi(_inner(a, b))) == y == float(phi(_inner(a, b, 0.7)))
    ]
    return sum(_between(law, a, b) for a, b in inside)


def _inner(a: float, b: float, share: float = 0.3) -> Any:
    return np.float64(a + share * (b - a))


# --- numbers that were drawn themselves, and several at a time -----------------------------------


def of_draws(x: Array, figure: Figure, scale: float) -> float:
    """A figure of the law of numbers x themselves:
    entries of random kernels, averages over coordinates.
    """
    method, c = figure
    if method == "mean":
        return float(x.mean())
    if method == "variance":
        return float(x.var())
    if method == "moment":
        return float((x**c).mean())
    if method == "cdf":
        return float((x <= c * scale).mean())
    if method == "sf":
        return float((x > c * scale).mean())
    if method == "ppf":
        return _sample_quantile(x, c)
    if method == "cf":
        return float(np.cos(x * c / scale).mean())  # its real part
    if method == "expect":
        return float(PSIS[c].formula(x / scale).mean())
    raise ValueError(method)


def _sample_quantile(x: Array, q: float) -> float:
    """The quantile of draws; NaN where it lies in a gap of the law,
    so that noise of q moves it far.
    """
    noise = 3 * math.sqrt(q * (1 - q) / len(x))
    low, value, high = np.quantile(
        x, [max(q - noise, 0), q, min(q + noise, 1)], method="inverted_cdf"
    )
    return float(value) if high - low <= 50 * noise * x.std() else math.nan


def of_covariances(C: Array, figure: Figure, scale: float) -> float:
    """A figure of several numbers Y | C ~ N(0, C) jointly.
    Arguments: entries (i, j), or a vector of factors.
    """
    method, c = figure
    if method == "covariance":
        return float(C[:, c[0], c[1]].mean())
    if method == "kurtosis":
        v = C[:, c, c]
        return float(3 * (v**2).mean() / v.mean() ** 2 - 3) if v.any() else math.nan
    if method == "cf":
        t = np.asarray(c) / scale
        return float(np.exp(-np.einsum("i,nij,j->n", t, C, t) / 2).mean())
    if method == "products":  # E (Y_i Y_j)², Isserlis
        i, j = c
        return float((C[:, i, i] * C[:, j, j] + 2 * C[:, i, j] ** 2).mean())
    if method == "logpdf":
        return _log_density(C, np.asarray(c) * scale)
    raise ValueError(method)


def _log_density(C: Array, x: Array) -> float:
    sign, log_det = np.linalg.slogdet(2 * math.pi * C)
    # no density, or none that rounding leaves
    if (sign <= 0).any() or (np.linalg.cond(C) > 1e12).any():
        return math.nan
    quadratic = np.einsum(
        "i,ni->n", x, np.linalg.solve(C, np.broadcast_to(x[:, None], (len(C), len(x), 1)))[..., 0]
    )
    f = np.exp(-quadratic / 2 - log_det / 2)
    p = drawn_mean(f)
    return math.log(p) if p > 0 else math.nan
