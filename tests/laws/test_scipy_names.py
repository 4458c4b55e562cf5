"""SciPy's names on laws: tails in log space at any depth,
quantiles from above, and the rest of what everyone types.
"""

import functools
import itertools
import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
import scipy.stats

from limitlaw import phi as nl
from limitlaw.laws import Empirical, Gaussian, GaussianMixture, HeadSum, Law, Pushforward, Tokens
from limitlaw.numerics.special_functions import log_ndtr

DEPTHS = np.array([-1e4, -60.0, -9.0, -1.0, 0.3, 2.0, 8.0, 37.0, 60.0, 1e4])
MEANS, VARIANCES, WEIGHTS = (
    np.array([-1.0, 0.5, 2.0]),
    np.array([0.25, 1.0, 4.0]),
    np.array([0.2, 0.5, 0.3]),
)
mp = mpmath.mp.clone()
mp.dps = 40


def mixture() -> GaussianMixture:
    return GaussianMixture(MEANS, VARIANCES, WEIGHTS)


def reference(x: float, above: bool, parts: list[tuple[float, float, float]]) -> float:
    """log P(Y > x), or log P(Y ≤ x), of Σ w N(m, v) for parts (w, m, v), in forty digits."""
    sign = 1 if above else -1
    terms = [w * mp.erfc(sign * (mp.mpf(x) - m) / mp.sqrt(2 * v)) / 2 for w, m, v in parts]
    if sum(terms) > mp.mpf("0.5"):  # 1 − a tail that is far below the forty digits
        rest = sum(w * mp.erfc(-sign * (mp.mpf(x) - m) / mp.sqrt(2 * v)) / 2 for w, m, v in parts)
        return float(mp.log1p(-rest / sum(w for w, _, _ in parts)))
    return float(mp.log(sum(terms)))


def expanded(v: np.ndarray, w: np.ndarray, heads: int) -> list[tuple[float, float, float]]:
    """A sum over heads as a mixture: one part for each way to choose a node for every head."""
    choices = itertools.product(range(len(v)), repeat=heads)
    return [
        (mp.fprod(mp.mpf(w[i]) for i in c), mp.mpf(0), mp.fsum(mp.mpf(v[i]) for i in c) / heads)
        for c in choices
    ]


def check_tails(law: Law, x: np.ndarray, expected: Callable[[float, bool], float]) -> None:
    """To 3e-14; log(1 − e^t) inherits the rounding of t, which is 1e-15 |t| of its value."""
    for name, above in (("logsf", True), ("logcdf", False)):
        found = np.asarray(getattr(law, name)(x))
        wanted, other = (
            np.array([expected(float(a), side) for a in x]) for side in (above, not above)
        )
        inherited = np.where(wanted > -0.5, 1e-15 * np.minimum(np.abs(other), 1e3), 0)
        assert (np.abs(found - wanted) <= (3e-14 + inherited) * np.abs(wanted)).all(), (
            name,
            found,
            wanted,
        )
        plain = np.asarray(getattr(law, name[3:])(x))
        np.testing.assert_allclose(np.exp(found), plain, rtol=2e-12, atol=1e-320)


def test_log_ndtr() -> None:
    z = np.array([-1e150, -1e4, -38.0, -5.0, -0.1, 0.0, 0.4, 3.0, 37.0])
    expected = [reference(-a, True, [(1.0, 0.0, 1.0)]) for a in z]
    np.testing.assert_allclose(log_ndtr(z), expected, rtol=2e-14)
    slope = [float(mp.npdf(a) / mp.ncdf(a)) for a in z[1:]]
    np.testing.assert_allclose(jax.vmap(jax.grad(log_ndtr))(z[1:]), slope, rtol=1e-13)


def test_tails_of_mixtures() -> None:
    parts = list(zip(WEIGHTS, MEANS, VARIANCES, strict=True))
    check_tails(mixture(), DEPTHS, functools.partial(reference, parts=parts))
    check_tails(Gaussian(0.5, 4.0), DEPTHS, functools.partial(reference, parts=[(1.0, 0.5, 4.0)]))


@pytest.mark.parametrize("heads", [1, 5])
def test_tails_of_sums_over_heads(heads: int) -> None:
    """Out to where only the widest node counts, within 40 standard deviations for several heads;
    densities as well.
    """
    v, w = np.array([0.3, 1.0, 4.0]), np.array([0.45, 0.5, 0.05])
    parts = expanded(v, w, heads)
    x = np.append(DEPTHS, [90.0, 1e7, 1e9, 1e60])
    x = x if heads == 1 else x[np.abs(x) < 40 * math.sqrt(w @ v)]
    law = HeadSum(v, heads, w)
    check_tails(law, x, functools.partial(reference, parts=parts))
    density = [
        float(mp.log(sum(a * mp.npdf(mp.mpf(y), 0, mp.sqrt(s)) for a, _, s in parts))) for y in x
    ]
    np.testing.assert_allclose(law.logpdf(x), density, rtol=3e-14)
    if heads > 1:
        np.testing.assert_allclose(jax.jit(law.logsf)(x[:12]), law.logsf(x[:12]), rtol=1e-12)


def test_tails_of_images() -> None:
    """φ(Y) ≤ y where Y is in an interval, for functions with one branch,
    with two, and with a flat part.
    """
    Y, parts = mixture(), list(zip(WEIGHTS, MEANS, VARIANCES, strict=True))
    log = functools.partial(reference, parts=parts)
    relu, softplus, absolute = (Pushforward(phi, Y) for phi in (nl.relu, nl.softplus, nl.abs_))
    for y in (1e-3, 60.0, 1e4):
        assert relu.logsf(y) == pytest.approx(log(y, True), rel=1e-13)
        both = np.logaddexp(log(y, True), log(-y, False))
        assert absolute.logsf(y) == pytest.approx(both, rel=1e-13)
    assert relu.logcdf(-1.0) == -np.inf
    assert relu.logsf(-1.0) == 0
    assert softplus.logcdf(1e-300) == pytest.approx(log(math.log(1e-300), False), rel=1e-13)
    np.testing.assert_allclose(
        jax.jit(absolute.logsf)(np.array([2.0, 60.0])), absolute.logsf(np.array([2.0, 60.0]))
    )


@pytest.mark.parametrize(
    "law",
    [
        Gaussian(0.5, 4.0),
        mixture(),
        HeadSum(np.array([0.3, 1.0, 4.0]), 3, np.array([0.45, 0.5, 0.05])),
        Pushforward(nl.abs_, mixture()),
    ],
    ids=lambda law: type(law).__name__,
)
def test_quantiles_from_above(law: Law) -> None:
    """isf is the inverse of sf, also where 1 − q is 1, and ppf(1 − q) elsewhere."""
    q = np.array([1e-300, 1e-30, 1e-3, 0.3, 0.5, 0.9])
    np.testing.assert_allclose(law.logsf(law.isf(q)), np.log(q), rtol=1e-12)
    np.testing.assert_allclose(law.isf(q[2:]), law.ppf(1 - q[2:]), rtol=1e-9)
    np.testing.assert_allclose(law.interval(0.9), (law.ppf(0.05), law.isf(0.05)), rtol=1e-12)
    assert law.median() == law.ppf(0.5)
    assert law.isf(0.0) == law.ppf(1.0)
    assert law.isf(1.0) == law.ppf(0.0)
    assert (
        law.error.interval(0.9)[1].shape
        == law.error.isf(0.1).shape
        == law.error.median().shape
        == ()
    )


def test_moments() -> None:
    """Standard deviation and skewness, with errors, against the moments of the components."""
    law = mixture()
    mean = WEIGHTS @ MEANS
    d = MEANS - mean
    variance, third = WEIGHTS @ (VARIANCES + d**2), WEIGHTS @ (d**3 + 3 * d * VARIANCES)
    assert law.std() == pytest.approx(math.sqrt(variance), rel=1e-14)
    assert law.skewness() == pytest.approx(third / variance**1.5, rel=1e-13)
    joint = GaussianMixture(
        np.stack([MEANS, -MEANS], 1), np.eye(2) * VARIANCES[:, None, None], WEIGHTS
    )
    np.testing.assert_allclose(joint.skewness(), [law.skewness(), -law.skewness()], rtol=1e-13)
    assert HeadSum(VARIANCES, 3).skewness() == 0
    samples = np.random.default_rng(0).gamma(4.0, size=4000)
    found = Empirical(samples)
    assert found.skewness() == pytest.approx(scipy.stats.skew(samples), abs=0.02)
    assert abs(float(found.skewness()) - 1) < 5 * float(found.error.skewness()) < 0.5
    assert abs(float(found.std()) - 2) < 5 * float(found.error.std()) < 0.3


def test_errors_of_logarithms() -> None:
    """Relative errors of the tail; ∞ where a single draw makes up the tail, or none does."""
    draws = 0.5 + np.random.default_rng(1).exponential(size=512)
    sampled = GaussianMixture(np.zeros(512), draws)
    assert float(sampled.error.logsf(1.0)) == pytest.approx(
        float(sampled.error.sf(1.0) / sampled.sf(1.0)), rel=0.02
    )
    assert sampled.error.logsf(100.0) == np.inf
    truth = HeadSum(0.5 + np.random.default_rng(2).exponential(size=2**16), 1)
    for x in (3.0, 6.0):
        assert abs(float(sampled.logsf(x) - truth.logsf(x))) < 4 * float(sampled.error.logsf(x))
    assert (
        0
        < float(sampled.error.isf(1e-3))
        == pytest.approx(
            float(sampled.error.sf(sampled.isf(1e-3)) / sampled.pdf(sampled.isf(1e-3))), rel=1e-9
        )
    )
    assert sampled.error.isf(1e-300) == sampled.error.ppf(1e-300) == np.inf
    plain = Empirical(np.random.default_rng(3).normal(size=100))
    assert plain.logsf(9.0) == -np.inf
    assert plain.error.logsf(9.0) == np.inf
    assert mixture().error.logcdf(-60.0) == 0


def test_kolmogorov_smirnov() -> None:
    """`scipy.stats.kstest(sample, law.cdf)`, for a sample of the law,
    and for one that is shifted.
    """
    law = mixture()
    sample = law.rvs(2000, random_state=1)
    assert scipy.stats.kstest(sample, law.cdf).pvalue > 1e-6
    assert scipy.stats.kstest(np.asarray(sample) + 0.3, law.cdf).pvalue < 1e-6


def test_random_states() -> None:
    """As in SciPy: a seed gives the same draws, a generator moves on,
    and so does NumPy's global state.
    """
    law = Empirical(np.random.default_rng(0).normal(size=1000))  # nothing is compiled for it
    assert law.rvs().shape == ()
    assert law.rvs((2, 2), 5).shape == (2, 2)
    np.testing.assert_array_equal(law.rvs(4, 5), law.sample(5, 4))
    np.testing.assert_array_equal(law.rvs(4, jax.random.key(5)), law.sample(5, 4))
    generator = np.random.default_rng(0)
    assert (law.rvs(4, generator) != law.rvs(4, generator)).all()
    np.testing.assert_array_equal(
        law.rvs(4, np.random.RandomState(3)), law.rvs(4, np.random.RandomState(3))
    )
    np.random.seed(0)  # noqa: NPY002
    first, second = law.rvs(4), law.rvs(4)
    assert (first != second).any()
    np.random.seed(0)  # noqa: NPY002
    np.testing.assert_array_equal(law.rvs(4), first)


def test_messages(as_user: None) -> None:
    law = mixture()
    with pytest.raises(TypeError, match=r"sample\(10\) may mean the seed 10 or 10 draws"):
        law.sample(10)
    assert law.sample(10, ()).shape == law.sample(jax.random.key(0)).shape == ()
    with pytest.raises(TypeError, match="random_state must be an integer seed"):
        law.rvs(3, random_state="a")
    with pytest.raises(ValueError, match=r"confidence must lie in \[0, 1\], got 95"):
        law.interval(95)
    joint = Tokens((2,), lambda: law, lambda i: law)
    with pytest.raises(
        ValueError, match=r"logsf needs the law of one number.*marginal\(0\)\.logsf"
    ):
        joint.logsf(1.0)


def test_derivatives() -> None:
    """d logsf/dx = −pdf/sf, at depth too."""
    law = mixture()
    for x in (0.3, 60.0):
        slope = -math.exp(float(law.logpdf(x)) - float(law.logsf(x)))
        assert jax.grad(law.logsf)(x) == pytest.approx(slope, rel=1e-9)
    assert jnp.isnan(law.logsf(jnp.nan))
