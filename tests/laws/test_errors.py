"""Standard errors: laws built many times over from independent components stray as
far as they say.
"""

import jax.numpy as jnp
import numpy as np
import pytest

import limitlaw as ll
from limitlaw import phi as nl
from limitlaw.laws import Combination, Empirical, Gaussian, GaussianMixture, Pushforward
from limitlaw.laws.estimates import Estimate

REPEATS = 50
COMPONENTS = 400


def component_sets(seed):
    """Independent sets of components of one law."""
    random = np.random.default_rng(seed)
    for _ in range(REPEATS):
        yield random.normal(size=COMPONENTS) * 0.5, 0.2 + random.exponential(size=COMPONENTS)


def assert_calibrated(values, errors):
    """z-scores around the mean of the repeats have unit variance within 5 σ,
    σ from their fourth moment.
    """
    z = (values - np.mean(values, 0)) / np.asarray(errors)
    unit = np.sum(z**2, 0) / (len(z) - 1)
    spread = np.std(z**2, axis=0) / np.sqrt(len(z))
    assert (np.abs(unit - 1) < 5 * spread + 0.03).all(), (unit, spread)


FIGURES = {
    "mean": lambda law: law.mean(),
    "variance": lambda law: law.variance(),
    "kurtosis": lambda law: law.kurtosis(),
    "moment": lambda law: law.moment(3),
    "cdf": lambda law: law.cdf(np.array([-1.0, 0.4])),
    "sf": lambda law: law.sf(np.array([-1.0, 0.4])),
    "ppf": lambda law: law.ppf(np.array([0.1, 0.6, 0.95])),
    "expect": lambda law: law.expect(jnp.cos),
}
DENSITY = {
    "pdf": lambda law: law.pdf(np.array([0.1, 0.4])),
    "logpdf": lambda law: law.logpdf(np.array([0.1, 0.4])),
}


def calibrate(make, figures):
    laws = [make(*components) for components in component_sets(0)]
    for figure in figures.values():
        values, errors = (
            [np.asarray(figure(side)) for side in sides]
            for sides in (laws, [x.error for x in laws])
        )
        assert_calibrated(np.array(values), np.array(errors))


def test_mixture():
    """A mixture's errors."""
    calibrate(GaussianMixture, FIGURES | DENSITY)


def test_mixture_entropy():
    """The entropy's error."""
    laws = [
        GaussianMixture(*components)
        for _, components in zip(range(30), component_sets(5), strict=False)
    ]
    assert_calibrated(
        np.array([x.entropy() for x in laws]), np.array([x.error.entropy() for x in laws])
    )


@pytest.mark.long
def test_pushforward():
    """ReLU: atoms too."""
    figures = FIGURES | DENSITY | {"ppf": lambda law: law.ppf(np.array([0.7, 0.95]))}
    figures |= {
        "cdf": lambda law: law.cdf(np.array([0.0, 0.4])),
        "sf": lambda law: law.sf(np.array([0.0, 0.4])),
    }
    calibrate(
        lambda mean, variance: Pushforward(nl.relu, GaussianMixture(mean, variance)), figures
    )
    laws = [Pushforward(nl.relu, GaussianMixture(*components)) for components in component_sets(1)]
    assert_calibrated(
        np.array([x.atoms().masses for x in laws]), np.array([x.error.atoms() for x in laws])
    )


def test_empirical():
    """Samples: the quantile's error is from order statistics, to a tenth or so."""
    random = np.random.default_rng(3)
    figures = {name: figure for name, figure in FIGURES.items() if name != "ppf"}
    laws = [Empirical(random.normal(size=COMPONENTS)) for _ in range(REPEATS)]
    for figure in figures.values():
        assert_calibrated(
            np.array([figure(x) for x in laws]), np.array([figure(x.error) for x in laws])
        )
    errors = np.array([x.error.ppf(0.6) for x in laws])
    assert np.std([x.ppf(0.6) for x in laws]) == pytest.approx(errors.mean(), rel=0.3)


def test_exact_laws_have_no_error():
    """Zeros, of the figure's shape, or what the figure is rounded by."""
    law = Gaussian(0.0, 1.0)
    for figure in (FIGURES | DENSITY).values():
        rounding = 2.0**-50 * np.abs(figure(law))
        assert np.shape(figure(law.error)) == np.shape(rounding)
        assert np.all(figure(law.error) <= rounding)
    assert (law.kind, law.error.entropy(), law.error.cf(1.0)) == ("exact", 0, 0)


def test_joint_expect_within_its_error():
    """What couples entries is sampled: within 5 errors of the truth, for an exact base too."""
    law = Gaussian([0.0, 0.0], [[1.0, 0.5], [0.5, 1.0]])
    psi = lambda y: y[..., 0] * y[..., 1]
    assert abs(law.expect(psi) - 0.5) < 5 * law.error.expect(psi)
    assert 0 < law.error.expect(psi) < 0.01
    product = Combination(nl.multiply, law)
    assert abs(product.mean() - 0.5) < 5 * product.error.mean()
    assert abs(product.variance() - 1.25) < 5 * product.error.variance()
    images = Pushforward(nl.relu, law)
    # Cho and Saul
    arc = np.sqrt(0.75) / (2 * np.pi) + 0.5 * (0.5 + np.arcsin(0.5) / np.pi) / 2 - 1 / (2 * np.pi)
    assert abs(images.covariance()[0, 1] - arc) < 5 * images.error.covariance()[0, 1]


def test_kurtosis_of_rules_that_err_alike() -> None:
    """Two rules whose variances differ by a thousandth may have the same kurtosis by accident;
    a Gaussian has to.
    """
    zeros = jnp.zeros(2)
    law = GaussianMixture(zeros, jnp.array([1.0, 3.0]), kind="quadrature")
    other = GaussianMixture(zeros, jnp.array([1.001, 3.00300001]), kind="quadrature")
    assert abs(law.kurtosis() - other.kurtosis()) < 1e-8
    assert law.compared_with(lambda: other).error.kurtosis() > 1e-3
    gaussian = Gaussian(0.0, 1.0, "quadrature").compared_with(
        lambda: Gaussian(0.0, 1.001, "quadrature")
    )
    assert gaussian.error.kurtosis() == 0


def test_errors_are_no_smaller_than_rounding() -> None:
    """A number beside an error of 1e-48 is rounded; closed forms have no error."""
    law = Gaussian(0.0, 1.0).compared_with(lambda: Gaussian(1e-48, 1.0))
    assert law.error.mean() == 1e-48  # beside 0
    law = Gaussian(0.0, 1.0)
    law._cdf = lambda x: Estimate(jnp.asarray(0.68), lambda: jnp.asarray(1e-48))
    assert 1e-16 < law.error.cdf(0.5) < 1e-14
    assert Gaussian(0.0, 1.0).error.cdf(0.5) == 0


def test_what_is_certain() -> None:
    """Its table has no kurtosis, which is not defined, and its quantiles are no −0."""
    y = ll.attention(ll.initial((2,)), 2, o_std=0)
    for law in (ll.limit(y[0]), Gaussian(0.0, 0.0), Empirical([1.0, 1.0])):
        assert "kurtosis" not in str(law)
        assert "nan" not in str(law)
        assert "-0" not in str(law)
        assert not np.signbit(law.ppf(np.array([0.1, 0.5, 0.9]))).any()
        assert np.isnan(law.kurtosis())
    assert "undefined" in str(Gaussian([0.0, 0.0], [[0.0, 0.0], [0.0, 1.0]]))
