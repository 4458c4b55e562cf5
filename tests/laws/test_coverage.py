"""Coverage: over 100 keys, sampled laws of networks and their divergences stray from the truth as
far as they say.
"""

import jax.numpy as jnp
import numpy as np
import pytest

import limitlaw as ll
from limitlaw.divergence import kl, total_variation
from limitlaw.laws import Empirical, Gaussian, GaussianMixture, Law, Pushforward

KEYS, SAMPLES, LONG, WIDTH = 100, 400, 2**16, 8

FIGURES = {
    "mean": lambda law: law.mean(),
    "variance": lambda law: law.variance(),
    "kurtosis": lambda law: law.kurtosis(),
    "moment": lambda law: law.moment(4),
    "pdf": lambda law: law.pdf(0.8),
    "cdf": lambda law: law.cdf(0.7),
    "ppf": lambda law: law.ppf(0.9),
    "entropy": lambda law: law.entropy(),
    "expect": lambda law: law.expect(jnp.cos),
}
DIVERGENCES = {"kl": kl, "total variation": total_variation}
# Width 8, two heads; the token itself is the mean of a component, and its square enters the
# errors.
PROGRAMS = {
    "residual": lambda x: (ll.attention(x, 2) + x)[0],
    "tanh": lambda x: ll.tanh((ll.attention(x, 2) + x)[0]),
}


def figures(law: Law) -> dict[str, tuple[float, float]]:
    """Values and errors."""
    found = {
        name: (float(figure(law)), float(figure(law.error))) for name, figure in FIGURES.items()
    }
    if isinstance(law, Pushforward):  # whose divergences are those of its base
        return found
    divergences = {name: f(law, Gaussian(0.0, 3.0)) for name, f in DIVERGENCES.items()}
    return found | {name: (d.value, d.error) for name, d in divergences.items()}


def runs(program: str) -> tuple[dict[str, tuple[float, float]], dict[str, np.ndarray]]:
    """The figures of one long run, and (keys, 2) of short ones."""
    y = PROGRAMS[program](ll.initial((3,)))
    truth = figures(ll.finite(y, WIDTH, LONG, KEYS))
    short = [figures(ll.finite(y, WIDTH, SAMPLES, key)) for key in range(KEYS)]
    return truth, {name: np.array([found[name] for found in short]) for name in truth}


@pytest.mark.long
@pytest.mark.parametrize("program", PROGRAMS)
def test_errors_hold(program):
    """z-scores have a standard deviation between 0.8 and 1.25, and 99 of 100 are within 5: a
    kurtosis of 400 draws that missed its tail cannot know (−5.9 once). The mean is that of no
    bias.
    """
    truth, found = runs(program)
    for name, (value, error) in truth.items():
        values, errors = found[name].T
        z = (values - value) / np.hypot(errors, error)
        assert 0.8 < np.std(z) < 1.25, (name, np.std(z))
        assert (np.abs(z) < 5).mean() >= 0.99, (name, z)
        assert abs(values.mean() - value) < 4 * np.hypot(values.std() / KEYS**0.5, error), name


def test_bias_of_variance_and_kurtosis():
    """Of 50 normal numbers the plain variance is too small by 1/50,
    the plain kurtosis by 6/51 (Fisher 1930).
    """
    draws = np.random.default_rng(0).normal(size=(50, 20_000))
    sampled, plain = Empirical(draws), Empirical(draws, kind="quadrature")
    for name, exact, missing in (("variance", 1.0, 1 / 50), ("kurtosis", 0.0, 6 / 51)):
        values = np.asarray(getattr(sampled, name)())
        error = values.std() / draws.shape[1] ** 0.5
        assert abs(values.mean() - exact) < 4 * error < missing / 2, name
        assert abs(np.mean(getattr(plain, name)()) - exact + missing) < 4 * error, name


FEW = 20
MEANS = np.random.default_rng(1).normal(size=(100, FEW))


def test_bias_of_covariance():
    """Also of joint laws: (M_ij) normal with covariance 1, plus the components' own."""
    own = np.eye(2) * 0.5
    random = np.random.default_rng(1)
    found = np.mean(
        [
            GaussianMixture(random.normal(size=(10, 2)), np.tile(own, (10, 1, 1))).covariance()
            for _ in range(400)
        ],
        0,
    )
    np.testing.assert_allclose(found, np.eye(2) * 1.5, atol=5 * 2**0.5 / (10 * 400) ** 0.5)
    # 0.2: what the plain covariance lacks
    assert abs(np.trace(found) - 3) < 5 * 2 / (10 * 400) ** 0.5 < 0.2


def test_bias_of_entropy():
    """−∫ p log p is concave in p: too small for the mixture of a sample, by about ½∫ Var(p̂)/p."""
    m, v = MEANS, np.full(MEANS.shape, 0.5)
    exact = float(Gaussian(0.0, 1.5).entropy())
    sampled = np.array([float(GaussianMixture(*law).entropy()) for law in zip(m, v, strict=True)])
    plain = np.array(
        [
            float(GaussianMixture(*law, kind="quadrature").entropy())
            for law in zip(m, v, strict=True)
        ]
    )
    error = sampled.std() / 100**0.5
    assert plain.mean() < exact - 3 * error
    assert abs(sampled.mean() - exact) < 3 * error


def test_entropy_of_components_that_do_not_overlap():
    """Nothing can be known but bounds: h(p̂) ≤ h ≤ ½ log 2πe Var, and the error says so."""
    law = GaussianMixture(MEANS[0], np.full(FEW, 1e-12))
    exact = float(Gaussian(0.0, 1.0).entropy())
    assert abs(float(law.entropy()) - exact) < 2 * float(law.error.entropy())
    assert float(law.error.entropy()) < exact - float(
        GaussianMixture(MEANS[0], np.full(FEW, 1e-12), kind="quadrature").entropy()
    )


def test_errors_of_skewed_averages():
    """E Y⁴ of heavy-tailed components: samples that miss the rare large ones have
    small values and small errors.

    v is log-normal: z-scores with plain standard errors have a standard deviation beyond 1.25,
    and these less.
    """
    random = np.random.default_rng(2)
    v = np.exp(0.8 * random.normal(size=(200, SAMPLES)))
    exact = 3 * np.exp(0.5 * (2 * 0.8) ** 2)
    laws = [GaussianMixture(np.zeros(SAMPLES), row) for row in v]
    values, errors = (
        np.array([float(side.moment(4)) for side in sides])
        for sides in (laws, [law.error for law in laws])
    )
    plain = 3 * (v**2).std(1, ddof=1) / SAMPLES**0.5
    assert np.std((values - exact) / plain) > 1.25
    assert 0.8 < np.std((values - exact) / errors) < 1.25
    assert np.median(errors / plain) < 1.5
