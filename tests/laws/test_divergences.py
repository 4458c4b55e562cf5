"""Divergences of every law of the harness: from itself, and from a Gaussian of its own variance
that is moved, against plain sums over a fine grid and tanh-sinh rules.
"""

import functools
from collections.abc import Callable

import numpy as np
import pytest
import scipy.stats

from laws.harness import Case, cases, integral
from limitlaw import divergence
from limitlaw.laws import Gaussian, load

POINTS = 2**15  # of a grid
POLES = ("sin", "cos", "gelu", "silu")  # densities 1/√(y − end)
QUICK = ("mixture", "empirical", "relu", "tanh")  # sums over heads are slow; others are long
OF_DENSITIES = ("kl", "jensen_shannon", "hellinger", "total_variation")
OF_TAILS = ("wasserstein1", "wasserstein2", "kolmogorov")


def asked() -> list[pytest.param]:
    """Every law with every divergence that it has."""
    found = []
    for case in cases():
        has_density = case.density and not case.law.atoms().masses.size
        for name in (*(OF_DENSITIES if has_density else ()), *OF_TAILS):
            marks = () if case.name in QUICK else pytest.mark.long
            found.append(pytest.param(case, name, marks=marks, id=f"{case}-{name}"))
    return found


@functools.cache
def moved(case: Case) -> Gaussian:
    """A Gaussian of the law's variance, half a standard deviation away."""
    mean, variance = float(case.law.mean()), float(case.law.variance())
    return Gaussian(mean + 0.5 * variance**0.5, variance)


@pytest.mark.parametrize(("case", "name"), asked())
def test_from_itself(case, name, tmp_path):
    """0 within the error, also where that it is the same law is not known."""
    case.law.save(tmp_path / "law")
    found = getattr(divergence, name)(case.law, load(tmp_path / "law"))
    assert abs(found.value) <= found.error + 1e-12
    assert float(getattr(divergence, name)(case.law, case.law)) == 0


@pytest.mark.parametrize(("case", "name"), asked())
def test_from_another(case, name):
    """As the definition has it."""
    expected, doubt = REFERENCES[name](case, moved(case))
    found = getattr(divergence, name)(case.law, moved(case))
    # the noise of draws, which kl and others subtract, is one of another law than these draws'
    allowed = doubt + (5 if case.law.kind == "sampled" else 1) * found.error
    assert abs(found.value - expected) <= allowed, (found, expected, doubt)
    assert found.value > 0.01
    assert doubt < 0.02 * expected


# --- references ----------------------------------------------------------------------------------


def trapezoid(f: np.ndarray, x: np.ndarray) -> tuple[float, float]:
    """∫ f dx, and a bound of its error: h³|f″|/12 in each cell, h²f″ being a second difference."""
    h = np.maximum(np.diff(x)[1:], np.diff(x)[:-1])
    return float(np.trapezoid(f, x)), float(np.sum(h * np.abs(np.diff(f, 2)))) / 4 + 1e-12


@functools.cache
def grid(case: Case) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """x, F_p − F_q there, and how far from these values it may turn between points of the grid: a
    second difference; not at kinks, poles and both sides of atoms, which are points themselves.
    """
    law, q = case.law, moved(case)
    ends = [float(end) for d in (law, q) for end in (d.ppf(1e-13), d.isf(1e-13))]
    x = np.linspace(min(ends), max(ends), POINTS + 1)
    far = 2e-13 * max(map(abs, ends))
    atoms = np.asarray(law.atoms().points).reshape(-1)
    known = np.concatenate([atoms, atoms - far, np.array(case.kinks)])
    x = np.unique(np.concatenate([x, known]))
    d = np.asarray(law.cdf(x)) - np.asarray(q.cdf(x))
    beyond = np.abs(np.diff(d, 2, prepend=0.0, append=0.0))
    return x, d, np.where(np.isin(x, known), 0.0, beyond)


def wasserstein1(case: Case, q: Gaussian) -> tuple[float, float]:
    """∫ |F_p − F_q|."""
    x, d, _ = grid(case)
    return trapezoid(np.abs(d), x)


def kolmogorov(case: Case, q: Gaussian) -> tuple[float, float]:
    """max |F_p − F_q|, which lies within a second difference of the largest on the grid."""
    _, d, beyond = grid(case)
    at = int(np.abs(d).argmax())
    return float(abs(d[at])), float(beyond[at]) + 1e-12


def total_variation(case: Case, q: Gaussian) -> tuple[float, float]:
    """½∫ |p − q|: half the variation of F_p − F_q, but for second differences where it turns."""
    _, d, beyond = grid(case)
    steps = np.diff(d)
    turns = steps[1:] * steps[:-1] < 0
    return float(np.abs(steps).sum()) / 2, float(beyond[1:-1][turns].sum()) + 1e-12


def wasserstein2(case: Case, q: Gaussian) -> tuple[float, float]:
    """√∫ (F_p⁻¹(Φ(z)) − F_q⁻¹(Φ(z)))² φ(z) dz."""
    z = np.linspace(-7.5, 7.5, 2**9 + 1)
    lower, upper = scipy.stats.norm.cdf(z), scipy.stats.norm.sf(z)
    x = np.where(z < 0, case.law.ppf(np.minimum(lower, 0.5)), case.law.isf(np.minimum(upper, 0.5)))
    f = (x - float(q.mean()) - float(q.std()) * z) ** 2 * scipy.stats.norm.pdf(z)
    square, doubt = trapezoid(f, z)
    return square**0.5, doubt / square**0.5


def _of_logs(case: Case, psi: Callable[[np.ndarray], np.ndarray], q: Gaussian) -> float:
    """∫ p ψ(log q − log p)."""

    def at(x: np.ndarray) -> np.ndarray:
        with np.errstate(all="ignore"):
            ratio = np.asarray(q.logpdf(x)) - np.asarray(case.law.logpdf(x))
            return np.nan_to_num(psi(ratio), nan=0.0, posinf=0.0, neginf=0.0)

    return float(integral(case, at, beyond=1e-30))


def _doubt(case: Case) -> float:
    return 1e-6 if case.name in POLES else 1e-9


def kl(case: Case, q: Gaussian) -> tuple[float, float]:
    """∫ p log(p/q)."""
    return _of_logs(case, np.negative, q), _doubt(case)


def jensen_shannon(case: Case, q: Gaussian) -> tuple[float, float]:
    """½∫ p log(2p/(p + q)) + ½∫ q log(2q/(p + q))."""
    psi = lambda ratio: np.log(2.0) - np.logaddexp(0.0, ratio)
    other = Case("", q, case.kinks)
    return (_of_logs(case, psi, q) + _of_logs(other, psi, case.law)) / 2, _doubt(case)


def hellinger(case: Case, q: Gaussian) -> tuple[float, float]:
    """√(1 − ∫ √(pq))."""
    return (1 - _of_logs(case, lambda ratio: np.exp(ratio / 2), q)) ** 0.5, _doubt(case)


REFERENCES = {
    function.__name__: function
    for function in (
        *(kl, jensen_shannon, hellinger, total_variation),
        *(wasserstein1, wasserstein2, kolmogorov),
    )
}
