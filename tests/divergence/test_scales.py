"""Laws of very different scales: values and stated errors against closed forms and a
quadrature of its own.
"""

import math

import mpmath
import numpy as np
import pytest
from scipy.special import expit, log_expit
from scipy.stats import cauchy, norm, t

from divergence.references import Mixture, of_gaussians, of_mixtures
from limitlaw import phi as nl
from limitlaw.divergence import (
    Divergence,
    kl,
    kolmogorov,
    total_variation,
    wasserstein1,
    wasserstein2,
)
from limitlaw.laws import Gaussian, GaussianMixture, HeadSum, Law, Pushforward

FIGURES = {"kl": kl, "tv": total_variation, "w1": wasserstein1, "ks": kolmogorov}
ROUNDING = 1e-13


def honest(d: Divergence, exact: float, case: object = None) -> None:
    """Within 5 stated errors, and those not more than 100 times the true one,
    where that is above rounding.
    """
    miss, rounding = abs(d.value - exact), ROUNDING * abs(exact)
    assert miss <= 5 * d.error + rounding, (d.value, exact, d.error, case)
    assert miss <= rounding or d.error <= 100 * miss, (d.value, exact, d.error, case)


def compare(p: Law, q: Law, exact: dict[str, float], case: object = None) -> None:
    for name, value in exact.items():
        honest(FIGURES[name](p, q), value, (name, case))


def test_the_tail_of_the_narrower_law_is_seen():
    """It ends inside the first panel of the wider one, where few nodes would miss it."""
    d = kl(Gaussian(0.0, 1.0), Gaussian(0.0, 1e6))
    assert d.value == pytest.approx(0.5 * (1e-6 - 1 + math.log(1e6)), rel=1e-13)
    assert d.error < 1e-11
    compare(Gaussian(0.0, 1.0), Gaussian(0.0, 1e6), of_gaussians(0.0, 1.0, 0.0, 1e6))


@pytest.mark.parametrize("seed", range(4))
def test_gaussians(seed):
    """Scales from 1e-6 to 1e6, equal means, and means apart by both scales and by
    more than both.
    """
    random = np.random.default_rng(seed)
    for _ in range(15):
        s, S = 10 ** random.uniform(-6, 6, 2)
        S = S if random.random() < 0.7 else s * 10 ** random.uniform(-0.5, 0.5)
        shift = random.choice(
            [
                0.0,
                s * random.normal() * 3,
                S * random.normal() * 3,
                max(s, S) * random.uniform(1, 99),
            ]
        )
        m, M = random.permutation([0.0, shift])
        case = (float(m), s**2, float(M), S**2)
        compare(Gaussian(*case[:2]), Gaussian(*case[2:]), of_gaussians(*case), case)


def components(random: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Up to three, of scales 1e-6 … 1e6 and ratios up to 1e8, or near each other; floats near
    the means resolve each.
    """
    k = random.integers(1, 4)
    s = (
        10 ** (random.uniform(-4, 4, k) + random.uniform(-2, 2))
        if random.random() < 0.5
        else 10 ** (random.uniform(-1, 1, k) + random.uniform(-5, 5))
    )
    m = s.max() * random.normal(size=k) * random.choice([0, 1, 10])
    m = np.clip(m, -1e9 * s.min(), 1e9 * s.min())
    w = 10 ** random.uniform(-4, 0, k)
    return m, s, w / w.sum()


@pytest.mark.parametrize("seed", range(4))
def test_mixtures(seed):
    """Components of very different scale and weight."""
    random = np.random.default_rng(seed)
    for _ in range(6):
        p, q = components(random), components(random)
        laws = (GaussianMixture(m, s**2, w) for m, s, w in (p, q))
        compare(*laws, of_mixtures(Mixture(*p), Mixture(*q)), (p, q))


def many(N: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    random = np.random.default_rng(N)
    w = random.exponential(size=N)
    return random.normal(size=N), 10 ** random.uniform(-6, 0, N), w / w.sum()


def test_many_components():
    """Narrow ones among many."""
    m, s, w = many(40)
    exact = of_mixtures(Mixture(m, s, w), Mixture(np.array([0.5]), np.array([2.0]), np.ones(1)))
    compare(GaussianMixture(m, s**2, w), Gaussian(0.5, 4.0), exact)


def test_more_components_than_are_looked_at(monkeypatch):
    """Of hundreds not all narrow ones are seen: the error says so, for KL and TV.
    W₁ and Kolmogorov see them all.
    """
    m, s, w = many(300)
    p, q = GaussianMixture(m, s**2, w), Gaussian(0.5, 4.0)
    found = {name: f(p, q) for name, f in FIGURES.items()}
    monkeypatch.setattr("limitlaw.numerics.meshes.FEW_COMPONENTS", 300)
    for name, f in FIGURES.items():
        whole = f(p, q)
        assert whole.error < 1e-8
        assert abs(found[name].value - whole.value) <= 5 * found[name].error
    assert 1e-3 < found["tv"].error < 0.1
    assert max(found["w1"].error, found["ks"].error) < 1e-8


def test_atoms():
    """½ δ(0) + ½ N(0, S²) against N(0, s²), s ≪ S: W₁ by mpmath between decades,
    the jump at 0 from the left.
    """
    for s, S in ((1e-6, 1e6), (1.0, 1e4)):
        p, q = GaussianMixture([0.0, 0.0], [0.0, S**2], [0.5, 0.5]), Gaussian(0.0, s**2)
        with mpmath.workdps(30):
            F = lambda x, s=s, S=S: (
                mpmath.ncdf(x / mpmath.mpf(S)) / 2 - mpmath.ncdf(x / mpmath.mpf(s))
            )
            root = mpmath.findroot(F, (-s, -0.5 * s), solver="anderson")
            decades = [-S / 10**k for k in range(1, 12) if S / 10**k > 40 * s]
            exact = 2 * mpmath.quad(
                lambda x, F=F: abs(F(x)), [-40 * S, -12 * S, -6 * S, -3 * S, -S, *decades, -40 * s]
            )
            exact += 2 * mpmath.quad(
                lambda x, F=F: abs(F(x)), [-40 * s, -12 * s, -6 * s, -3 * s, -2 * s, root, 0]
            )
        compare(p, q, {"w1": float(exact), "ks": 0.25}, (s, S))


@pytest.mark.parametrize("s", [1e-4, 0.3, 2.0])
@pytest.mark.parametrize("ratio", [1e-3, 1.0, 1e4])
def test_images(s, ratio):
    """σ(Y) against a Gaussian: KL by Gauss–Legendre over y, where nothing saturates."""
    m = 0.5
    sd = s * math.exp(log_expit(m) + log_expit(-m))
    M, S = float(expit(m)) + 0.3 * sd, sd * ratio
    z = M + S * np.arange(-13, 13.1, 0.125)
    z = z[(z > 0) & (z < 1)]
    edges = [m + s * np.arange(-13, 13.1, 0.125), np.log(z / (1 - z)), np.arange(-40, 40.1, 0.125)]
    edges = np.unique(np.concatenate(edges))
    u, w = np.polynomial.legendre.leggauss(20)
    y = (edges[:-1, None] + edges[1:, None]) / 2 + np.diff(edges)[:, None] / 2 * u
    lp, lq = norm.logpdf(y, m, s), norm.logpdf(expit(y), M, S) + log_expit(y) + log_expit(-y)
    r = lq - lp
    with np.errstate(over="ignore", invalid="ignore"):
        f = np.where(
            r < 1, np.exp(lp) * (np.expm1(np.minimum(r, 1)) - r), np.exp(lq) - np.exp(lp) * (1 + r)
        )
    exact = (
        np.diff(edges) / 2 @ (np.where(np.isfinite(f), f, 0) @ w)
        + norm.cdf(0, M, S)
        + norm.sf(1, M, S)
    )
    d = kl(Pushforward(nl.sigmoid, Gaussian(m, s**2)), Gaussian(M, S**2))
    assert abs(d.value - exact) <= 5 * d.error + 1e-12 * exact
    assert d.error < 1e-9 * exact


@pytest.mark.parametrize("phi", [nl.tanh, nl.erf], ids=["tanh", "erf"])
def test_saturated_images(phi):
    """Both laws lie within rounding of ±1; a change of variable changes none of the three."""
    P, Q = Gaussian(0.0, 1e4), Gaussian(0.0, 100.0)
    p, q = Pushforward(phi, P), Pushforward(phi, Q)
    exact = of_gaussians(0.0, 1e4, 0.0, 100.0)
    compare(p, q, {name: exact[name] for name in ("kl", "tv", "ks")})


def test_mass_that_no_float_sees():
    """A saturated image against a law with a density everywhere:
    the error owns up to the mass at the bounds.
    """
    d = total_variation(Pushforward(nl.tanh, Gaussian(0.0, 1e4)), Gaussian(0.0, 1.0))
    assert d.error > 0.1
    assert d.value + 2 * d.error > 0.95


def test_heads():
    """Two heads with variances a or b are a mixture of a, (a + b)/2 and b."""
    a, b = 1e-4, 1e4
    p = HeadSum([a, b], 2, [0.5, 0.5])
    same = GaussianMixture(np.zeros(3), [a, (a + b) / 2, b], [0.25, 0.5, 0.25])
    exact = of_mixtures(
        Mixture(np.zeros(3), np.sqrt([a, (a + b) / 2, b]), np.array([0.25, 0.5, 0.25])),
        Mixture(np.zeros(1), np.ones(1), np.ones(1)),
    )
    for law in (p, same):
        for name, f in FIGURES.items():
            d = f(law, Gaussian(0.0, 1.0))
            assert abs(d.value - exact[name]) <= 5 * d.error + 1e-11 * exact[name], (name, law)


def test_quantiles_in_an_atom():
    """W₂ from a point mass is the root of the second moment;
    of relu, whose atom is the end of its support, E Z² over Z < 0 is ½.
    """
    point, normal = Gaussian(0.0, 0.0), Gaussian(0.0, 1.0)
    half = GaussianMixture(np.zeros(2), np.array([0.0, 1.0]), weights=[0.25, 0.75])
    relu = Pushforward(nl.relu, normal)
    cases = (point, normal, 1.0), (point, half, 0.75**0.5), (relu, normal, 0.5**0.5)
    for p, q, exact in cases:
        d = wasserstein2(p, q)
        assert abs(d.value - exact) <= 5 * d.error + ROUNDING
        assert d.error < 1e-9


@pytest.mark.parametrize("nu", [1.1, 1.5, 2.5])
def test_heavy_tails(nu):
    """E |t_ν|, of which much lies beyond a level of 1e-16."""
    gamma = math.gamma((nu + 1) / 2) / math.gamma(nu / 2)
    exact = 2 * math.sqrt(nu / math.pi) * gamma / (nu - 1)
    d = wasserstein1(Gaussian(0.0, 0.0), t(nu))
    assert abs(d.value - exact) <= 5 * d.error + ROUNDING
    if nu > 2:
        d = wasserstein2(Gaussian(0.0, 0.0), t(nu))
        assert abs(d.value - math.sqrt(nu / (nu - 2))) <= 5 * d.error


def test_no_mean():
    """A distance that is infinite, and one of which nothing is known."""
    assert wasserstein1(Gaussian(0.0, 1.0), cauchy()).value == math.inf
    with pytest.raises(ValueError, match="wasserstein1 needs a finite mean of p or of q"):
        wasserstein1(cauchy(), cauchy(1.0))
    with pytest.raises(ValueError, match="wasserstein2 needs a finite variance of p or of q"):
        wasserstein2(t(2), t(2, 1.0))


@pytest.mark.parametrize("nu", [1.5, 2.1, 3.0])
def test_divergence_of_tails_that_hardly_fade(nu: float) -> None:
    """D(t_ν‖N) = −h(t_ν) + ½ log 2π + ½ Var t_ν: far out f falls like x^{1−ν}, and for ν ≤ 2 not
    fast enough.
    """
    found = kl(t(nu), Gaussian(0.0, 1.0))
    if nu <= 2:
        assert found.error == math.inf
        return
    exact = -t(nu).entropy() + (math.log(2 * math.pi) + nu / (nu - 2)) / 2
    assert abs(found.value - exact) <= 5 * found.error
    assert found.error < 1e-2
