"""What the harness does not see: references, joint laws, atoms, files, prints and messages."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special
import scipy.stats

from laws.harness import mixture
from limitlaw import phi as nl
from limitlaw.laws import (
    Combination,
    Empirical,
    Gaussian,
    GaussianMixture,
    Pushforward,
    ScipyLaw,
    load,
)
from limitlaw.laws.expectation import on_panels
from limitlaw.numerics import special_functions

JOINT = [[2.0, 0.5, 0.1], [0.5, 1.0, 0.0], [0.1, 0.0, 0.3]]


def test_one_component_is_scipys_normal():
    """pdf, logpdf, cdf, sf, ppf, moments and entropy, 30 standard deviations out."""
    law, norm = Gaussian(0.5, 4.0), scipy.stats.norm(0.5, 2)
    x = np.linspace(-60, 60, 9)
    for name in ("pdf", "logpdf", "cdf", "sf"):
        np.testing.assert_allclose(getattr(law, name)(x), getattr(norm, name)(x), rtol=1e-12)
    q = np.array([1e-300, 1e-20, 0.01, 0.5, 0.7, 1 - 1e-10])
    np.testing.assert_allclose(law.ppf(q), norm.ppf(q), rtol=1e-13)
    np.testing.assert_array_equal(law.ppf(np.array([0.0, 1.0])), [-np.inf, np.inf])
    assert law.entropy() == pytest.approx(norm.entropy(), abs=1e-12)
    assert law.moment(6) == pytest.approx(norm.moment(6), rel=1e-12)


def test_normal_distribution_function():
    """Φ against SciPy's, to the far tail; exactly complementary; 0 and 1 at the ends."""
    z = np.linspace(-37, 37, 9973)
    np.testing.assert_allclose(special_functions.ndtr(z), scipy.special.ndtr(z), rtol=3e-13)
    np.testing.assert_allclose(
        special_functions.ndtr(z[np.abs(z) < 6]), scipy.special.ndtr(z[np.abs(z) < 6]), rtol=2e-14
    )
    np.testing.assert_allclose(
        special_functions.ndtr(z) + special_functions.ndtr(-z), 1, rtol=2.3e-16
    )
    np.testing.assert_array_equal(
        special_functions.ndtr(np.array([-np.inf, 0, np.inf])), [0, 0.5, 1]
    )


def test_derivatives_of_the_normal_distribution_function():
    """Φ' = n and Φ'' = −z n, in the tails as well."""
    z = np.linspace(-30, 30, 121)
    once = jax.grad(special_functions.ndtr)
    np.testing.assert_allclose(jax.jit(jax.vmap(once))(z), scipy.stats.norm.pdf(z), rtol=1e-13)
    np.testing.assert_allclose(
        jax.jit(jax.vmap(jax.grad(once)))(z), -z * scipy.stats.norm.pdf(z), rtol=1e-13
    )


def test_far_tails():
    """The tail of a mixture is finite, monotone and that of its widest component."""
    law = mixture(centred=True)
    x = np.linspace(5, 40, 9) * np.sqrt(law.variance())
    log = np.asarray(law.logpdf(x))
    assert np.isfinite(log).all()
    assert (np.diff(log) < 0).all()
    np.testing.assert_allclose(law.sf(x), law.cdf(-x), rtol=1e-15)


def test_joint_gaussian():
    """Density, cf, covariance and marginals of three numbers."""
    law, reference = (
        Gaussian([1.0, 0.0, -1.0], JOINT),
        scipy.stats.multivariate_normal([1.0, 0.0, -1.0], JOINT),
    )
    x = np.random.default_rng(0).normal(size=(2, 4, 3))
    np.testing.assert_allclose(law.logpdf(x), reference.logpdf(x), rtol=1e-12)
    np.testing.assert_allclose(law.covariance(), JOINT, rtol=1e-14)
    assert law.entropy() == pytest.approx(reference.entropy(), rel=1e-12)
    np.testing.assert_allclose(
        law.cf(x[0, 0]), np.exp(1j * x[0, 0] @ law.mean() - x[0, 0] @ JOINT @ x[0, 0] / 2)
    )
    part = law.marginal([2, 0])
    np.testing.assert_array_equal(part.covariance(), np.array(JOINT)[[2, 0]][:, [2, 0]])
    assert law.marginal(slice(1, None)).shape == (2,)
    assert law.marginal(-1).variance() == pytest.approx(0.3, rel=1e-14)
    y = np.asarray(law.sample(0, (50_000,)))
    error = np.sqrt((np.outer(np.diag(JOINT), np.diag(JOINT)) + np.array(JOINT) ** 2) / 50_000)
    assert (np.abs(np.cov(y.T) - JOINT) < 5 * error).all()


def test_joint_mixture():
    """A mixture over a (2, 2) event agrees with its components, its entropy with sampling."""
    law = mixture(shape=(2, 2), components=16)
    mean, covariance = (np.asarray(a) for a in law._given)
    x = np.random.default_rng(0).normal(size=(3, 2, 2))
    parts = [
        scipy.stats.multivariate_normal(m, C).pdf(x.reshape(3, 4))
        for m, C in zip(mean, covariance, strict=True)
    ]
    np.testing.assert_allclose(law.pdf(x), np.mean(parts, 0), rtol=1e-10)
    deviations = np.array(parts) - np.mean(parts, 0)
    skewness = np.abs(np.sum(deviations**3, 0)) / np.sum(deviations**2, 0) ** 1.5
    sampled = GaussianMixture(mean.reshape(16, 2, 2), covariance)
    np.testing.assert_allclose(
        sampled.error.pdf(x), np.std(parts, 0, ddof=1) / 4 * (1 + 0.75 * skewness), rtol=1e-9
    )
    np.testing.assert_allclose(
        sampled.covariance(), covariance.mean(0) + np.cov(mean.T), rtol=1e-12
    )
    total = covariance.mean(0) + np.cov(mean.T, bias=True)
    np.testing.assert_allclose(law.covariance(), total, rtol=1e-12)
    np.testing.assert_allclose(law.variance(), np.diag(total).reshape(2, 2), rtol=1e-12)
    costs = -np.asarray(law.logpdf(law.sample(9, (20_000,))))
    assert (
        abs(law.entropy() - costs.mean())
        < 5 * costs.std() / np.sqrt(20_000) + 5 * law.error.entropy()
    )
    assert law.marginal((0, 1)).shape == ()


def test_singular_joint_covariance():
    """No density, and the law says so; marginals, cf and samples work."""
    law = Gaussian([0.0, 0.0, 0.0], np.ones((3, 3)))
    with pytest.raises(ValueError, match=r"no density in floating point: 1 of 1 components"):
        law.logpdf(np.zeros(3))
    y = np.asarray(law.sample(0, (100,)))
    np.testing.assert_allclose(y[:, 0], y[:, 2], atol=1e-7)
    assert law.marginal(1).pdf(0.0) == pytest.approx(1 / np.sqrt(2 * np.pi))
    assert law.cf(np.ones(3)) == pytest.approx(np.exp(-4.5))


def test_point_masses():
    """Components of zero variance are atoms, merged."""
    law = GaussianMixture([0.0, 1.0, 1.0, 2.0], [1.0, 0.0, 0.0, 0.0])
    points, masses = law.atoms()
    np.testing.assert_allclose(points, [1, 2])
    np.testing.assert_allclose(masses, [0.5, 0.25])
    np.testing.assert_allclose(
        law.error.atoms(), np.std([[0, 1, 1, 0], [0, 0, 0, 1]], axis=1, ddof=1) / 2
    )
    with pytest.raises(ValueError, match=r"2 atom\(s\) carry 0\.75"):
        law.pdf(0.0)
    assert law.ppf(0.6) == 1.0
    assert law.error.ppf(0.6) == 0.0
    assert law.cdf(1.0) - law.cdf(1.0 - 1e-12) == pytest.approx(0.5)
    pushed = Pushforward(nl.relu, law)
    np.testing.assert_allclose(pushed.atoms().masses, [0.125, 0.5, 0.25])
    assert pushed.mean() == pytest.approx(float(law.expect(lambda y: jnp.maximum(y, 0))), rel=1e-6)


def test_rectified_moments_in_closed_form():
    """ReLU of a standard normal, to 1e-13; clip at 100 is the identity."""
    law = Pushforward(nl.relu, Gaussian(0.0, 1.0))
    for k, expected in ((1, 1 / np.sqrt(2 * np.pi)), (2, 0.5), (4, 1.5), (8, 52.5)):
        assert law.moment(k) == pytest.approx(expected, rel=1e-13)
    assert law.atoms().masses[0] == 0.5
    assert Pushforward(nl.clip(100.0), Gaussian(0.0, 1.0)).variance() == pytest.approx(
        1, rel=1e-13
    )


def test_joint_pushforward():
    """Entry by entry; a joint density where φ is one to one."""
    base = mixture(shape=(3,))
    law = Pushforward(nl.tanh, base)
    x = np.array([0.2, -0.3, 0.5])
    np.testing.assert_allclose(
        law.pdf(np.tanh(x)), base.pdf(x) * np.prod(np.cosh(x) ** 2), rtol=1e-11
    )
    one = law.marginal(1)
    assert law.variance()[1] == pytest.approx(float(one.variance()), rel=1e-12)
    assert law.kurtosis()[1] == pytest.approx(float(one.kurtosis()), rel=1e-10)
    with pytest.raises(ValueError, match="one to one"):
        Pushforward(nl.relu, base).pdf(x)


def test_users_own_function():
    """Moments and samples, no density, no file."""
    law = Pushforward(lambda y: y**2, mixture())
    assert law.mean() == pytest.approx(float(mixture().moment(2)), rel=1e-10)
    assert law.expect(lambda y: y) == pytest.approx(float(mixture().moment(2)), rel=1e-10)
    with pytest.raises(ValueError, match="moments, expect, cf and sample work"):
        law.pdf(1.0)
    with pytest.raises(ValueError, match="cannot be saved without pickle"):
        law.save("unused")


def test_several_arguments(tmp_path):
    """φ(Y₀, Y₁) is sampled; marginals and files work."""
    law = Combination(nl.multiply, mixture(shape=(2, 3)))
    assert law.shape == (3,)
    entry = law.marginal(1)
    assert (
        abs(entry.mean() - law.base.expect(lambda y: y[..., 0, 1] * y[..., 1, 1]))
        < 8 * entry.error.mean()
    )
    with pytest.raises(ValueError, match="multiply of 2 arguments"):
        entry.pdf(0.0)
    law.save(tmp_path / "law.npz")
    np.testing.assert_array_equal(load(tmp_path / "law.npz").mean(), law.mean())


def test_print():
    """A table with errors; the label of what lies beyond the theorem."""
    law = GaussianMixture(np.zeros(50), np.linspace(0.5, 1.5, 50), beyond=("depth 3",))
    assert (
        repr(law)
        == "GaussianMixture(50 components, shape=(), sampled, beyond Theorem 3.1: depth 3)"
    )
    assert "variance     1.000 ± 0.042" in str(law)
    assert "ppf(0.99)" in str(law)
    assert "P(Y = 0)" in str(Pushforward(nl.relu, law))
    assert "kurtosis" in str(Gaussian([0.0, 1.0], np.eye(2)))
    assert law.marginal(()).beyond == ("depth 3",)


def test_differentiable():
    """The density differentiates in the components."""
    grad = jax.grad(lambda v: GaussianMixture(jnp.zeros(2), v * jnp.ones(2)).pdf(0.0))(2.0)
    assert grad == pytest.approx(-0.5 * 2.0**-1.5 / np.sqrt(2 * np.pi))


MESSAGES = [
    (
        lambda: Gaussian(0.0, 1.0).ppf([0.5, 1.5]),
        r"q must lie in \[0, 1\], got 1.5 \(1 of 2 outside\)",
    ),
    (lambda: mixture(shape=(3,)).cdf(0.0), r"law.marginal\(0\).cdf\(x\)"),
    (lambda: mixture(shape=(3,)).pdf(np.zeros(2)), r"x must have shape .*got shape \(2,\)"),
    (lambda: mixture(shape=(3,)).marginal(5), r"i must index a law of shape \(3,\), got 5"),
    (lambda: GaussianMixture(np.zeros(2), [-1.0, 1.0]), "covariance must be ≥ 0, got -1"),
    (
        lambda: GaussianMixture(np.zeros(2), np.ones(3)),
        r"one variance per component, got shape \(3,\)",
    ),
    (
        lambda: GaussianMixture(np.zeros((1, 2)), [[[1.0, 2.0], [2.0, 1.0]]]),
        "component 0 must be positive semi",
    ),
    (lambda: GaussianMixture(np.zeros(2), np.ones(2), [1.0]), "weights must have shape"),
    (lambda: GaussianMixture(np.zeros(2), np.ones(2), kind="guess"), "kind must be one of"),
    (lambda: GaussianMixture([], []), "components ≥ 1"),
    (lambda: Gaussian(0.0, 1.0).moment(-1), "k must be an integer ≥ 0"),
    (lambda: Empirical(np.zeros(3)).pdf(0.0), "never a smoothed histogram"),
    (lambda: Gaussian(0.0, 1.0).expect(lambda y: jnp.sum(y)), r"psi must map arrays"),
    (lambda: Gaussian(0.0, 1.0).sample("key"), "key must be one JAX key"),
    (lambda: Pushforward(nl.relu, Gaussian(0.0, 1.0)).entropy(), "no entropy: 1 atom"),
]


@pytest.mark.usefixtures("as_user")
@pytest.mark.parametrize(("act", "message"), MESSAGES)
def test_messages(act, message):
    """Every refusal says what was expected and what came."""
    with pytest.raises((ValueError, TypeError, IndexError), match=message):
        act()


def test_wrong_files(tmp_path):
    """Text, other archives and pickles are refused in one line."""
    (tmp_path / "text").write_text("hello")
    np.savez(tmp_path / "other.npz", a=np.zeros(3))
    np.save(tmp_path / "array.npy", np.zeros(3))
    np.save(tmp_path / "pickle.npy", np.array([{}]), allow_pickle=True)
    for name in ("text", "other.npz", "array.npy", "pickle.npy"):
        with pytest.raises(ValueError, match="is not a law that limitlaw saved"):
            load(tmp_path / name)
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "absent")


def test_expectation_of_a_distribution_of_scipy():
    """SciPy's rule misses where ψ jumps, by 5e-10, and a narrow box far out altogether."""
    law = ScipyLaw(scipy.stats.norm())
    boxes = {0.3: np.inf, 4.99: 5.01}
    for low, high in boxes.items():
        box = lambda y, low=low, high=high: jnp.where((y > low) & (y < high), 1.0, 0.0)
        exact = scipy.stats.norm.sf(low) - scipy.stats.norm.sf(high)
        value, error = float(law.expect(box)), float(law.error.expect(box))
        assert abs(value - exact) <= 5 * error


@pytest.mark.parametrize(
    ("law", "most"),
    [
        (scipy.stats.uniform(), 1e-14),
        (scipy.stats.truncnorm(-1, 1), 1e-14),
        (scipy.stats.expon(), 1e-12),
        (scipy.stats.beta(0.5, 0.5), 1e-7),
    ],
    ids=["uniform", "truncnorm", "expon", "arcsine"],
)
def test_averages_over_a_bounded_support(law, most):
    """E Y²: nothing is cut off where the support ends, be there a jump or a pole."""
    low, high = map(float, law.support())
    found = on_panels(jnp.square, law.pdf, ScipyLaw(law).places(), support=(low, high))
    assert abs(float(found.value) - law.moment(2)) <= float(found.error) + 1e-15
    assert float(found.error) < most
