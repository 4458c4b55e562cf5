"""What has no closed form states an error that holds:
kernels, averages, expectations, laws by quasi-Monte Carlo.
"""

import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, special, stats

import limitlaw as ll


def test_kernel_of_infinitely_many_heads() -> None:
    """K_00 = E[σ(ℓ)² + σ(−ℓ)²], ℓ ~ N(0, 2): by quasi-Monte Carlo, with an error."""
    exact = integrate.quad(
        lambda x: (
            (special.expit(x) ** 2 + special.expit(-x) ** 2)
            * stats.norm.pdf(x, scale=math.sqrt(2))
        ),
        -20,
        20,
    )[0]
    K = ll.kernel(ll.attention(ll.initial((2,)), math.inf))
    assert isinstance(K, ll.KernelMatrix)
    assert 0 < K.error[0, 0] < 1e-3
    assert abs(K[0, 0] - exact) < 5 * K.error[0, 0]
    jitted, error = jax.jit(lambda q: (lambda K: (K.value, K.error))(ll.kernel(attention_inf(q))))(
        1.0
    )
    assert abs(jitted[0, 0] - exact) < 5 * error[0, 0]


def attention_inf(q_std):
    return ll.attention(ll.initial((2,)), math.inf, q_std=q_std)


def test_kernel_matrix_is_an_array() -> None:
    """Arithmetic, indexing, NumPy and JAX functions, and trees."""
    K = ll.kernel(ll.map(lambda x: jnp.maximum(x - 0.3, 0), ll.initial((2,))))
    assert isinstance(K, ll.KernelMatrix)
    plain = np.asarray(K)
    for made in (
        K + 0,
        1 * K,
        K @ np.eye(2),
        np.eye(2) @ K,
        jnp.asarray(K),
        K[:],
        jax.tree.map(lambda a: a, K),
    ):
        np.testing.assert_array_equal(np.asarray(made), plain)
    assert K.shape == (2, 2)
    assert "error up to" in repr(K)
    assert float(jnp.trace(jnp.asarray(K))) == pytest.approx(plain.trace())


LAWS = {
    "gaussian": lambda: ll.Gaussian(0.2, 1.5),
    "mixture": lambda: ll.GaussianMixture([0.0, 1.0], [1.0, 1e-6], [0.3, 0.7]),
    "atoms": lambda: ll.GaussianMixture([0.0, 1.0], [1.0, 0.0], [0.3, 0.7]),
    "heads": lambda: ll.attention_law(np.eye(2), heads=2).marginal(0),
    "zero heads": lambda: ll.HeadSum([0.0, 1.0], 2, [0.25, 0.75]),
    "image": lambda: ll.limit(ll.tanh(ll.Matrix() @ ll.initial(()))),
}


@pytest.mark.parametrize("name", LAWS)
@pytest.mark.parametrize("c", [0.3, -0.7, 1.0])
def test_expectation_of_a_step(name: str, c: float) -> None:
    """E 1[Y > c] is the survival function, E max(Y − c, 0)
    its integral, both to the stated error and many digits.
    """
    law = LAWS[name]()
    value, error = (of.expect(lambda y: (y > c) * 1.0) for of in (law, law.error))
    assert abs(value - law.sf(c)) < 5 * error + 1e-13
    assert error < 1e-10
    value, error = (of.expect(lambda y: jnp.maximum(y - c, 0)) for of in (law, law.error))
    edges = sorted(
        {c, *(x for x in (0.0, 0.99, 0.999, 0.9999, 1.0, 1.0001, 1.001, 1.01) if x > c), 15.0}
    )
    parts = [
        integrate.quad(lambda t: float(law.sf(t)), *ends, epsabs=1e-12)
        for ends in itertools.pairwise(edges)
    ]
    assert abs(value - sum(part for part, _ in parts)) < 5 * error + 1e-11
    assert error < 1e-10


def test_expectation_of_several_and_complex() -> None:
    """Each entry as if it were alone; real and imaginary parts."""
    law = LAWS["heads"]()
    several = law.expect(lambda y: jnp.stack([(y > 0.3) * 1.0, 1e6 * y**2], -1))
    assert several[0] == pytest.approx(float(law.sf(0.3)), abs=1e-13)
    assert several[1] == pytest.approx(1e6 * float(law.variance()), rel=1e-12)
    turned = law.expect(lambda y: jnp.exp(1j * y) * (y > 0))
    assert turned.real == pytest.approx(float(law.cf(1.0).real) / 2, abs=1e-13)


def test_what_lies_beyond_the_rule_is_in_the_error() -> None:
    """E exp(0.4 Y²) = 5^{1/2}, of which a part beyond twelve deviations is not seen."""
    law = ll.Gaussian(0.0, 1.0)
    psi = lambda y: jnp.exp(0.4 * y**2)
    assert abs(law.expect(psi) - math.sqrt(5)) < law.error.expect(psi) < 1e-5


def test_average_of_a_step() -> None:
    """lim n^{-1} Σ 1[y_α > 0.3]: a number to many digits without scores."""
    x = ll.Matrix() @ ll.initial((2,), cov=[[1.0, 0.5], [0.5, 2.0]])
    law = ll.average_law(x[0], lambda z: z > 0.3)
    assert law.kind == "quadrature"
    assert abs(law.mean() - stats.norm.sf(0.3)) < 5 * law.error.mean() + 1e-14
    assert law.error.mean() < 1e-12
    joint = ll.average_law(x, lambda z: z[..., 0] * jnp.abs(z[..., 1]))
    assert 0 < joint.error.mean() < 1e-3
    assert abs(joint.mean()) < 5 * joint.error.mean()
    image = ll.average_law(ll.relu(x[0]), lambda z: z**2)
    assert abs(image.mean() - 0.5) < 5 * image.error.mean() + 1e-14


def test_errors_of_quasi_random_mixtures() -> None:
    """Over 24 scramblings: stated errors hold, and are at most a hundred times too large."""
    y = ll.tanh(ll.attention(ll.initial((5,)), 2)[0])
    figures = {
        "mean": lambda law: law.moment(2),
        "cdf": lambda law: law.cdf(0.3),
        "kurtosis": lambda law: law.kurtosis(),
        "expect": lambda law: law.expect(jnp.cos),
    }
    laws = [ll.limit(y, samples=2**12, key=k) for k in range(24)]
    for name, figure in figures.items():
        values = np.array([figure(law) for law in laws])
        error = np.mean([_stated(law, name) for law in laws[:4]])
        assert values.std(ddof=1) < 2 * error, name
        assert error < 100 * values.std(ddof=1), name


def _stated(law, name: str) -> float:
    calls = {
        "mean": lambda e: e.moment(2),
        "cdf": lambda e: e.cdf(0.3),
        "kurtosis": lambda e: e.kurtosis(),
        "expect": lambda e: e.expect(jnp.cos),
    }
    return float(calls[name](law.error))


def test_saved_laws_keep_their_errors(tmp_path) -> None:
    """A law by quadrature is saved with the law by the second rule."""
    for law in (
        LAWS["heads"](),
        ll.limit(ll.tanh(ll.attention(ll.initial((2,)), 1)[0]), samples=256),
    ):
        law.save(tmp_path / "law.npz")
        again = ll.load(tmp_path / "law.npz")
        for figure in (
            lambda law: law.error.variance(),
            lambda law: law.error.cdf(0.4),
            lambda law: law.variance(),
        ):
            assert figure(again) == figure(law)


# --- heads of dimension one, rotary heads, biases ------------------------------------------------


def test_pole_of_narrow_heads() -> None:
    """y = W u with one number u: the density is infinite at 0, and nowhere else;
    two heads have a finite one.
    """
    x = ll.initial((2,))
    one = ll.limit(ll.attention(x, 1, head_dim=1)[0])
    assert one.pdf(0.0) == math.inf
    assert one.logpdf(0.0) == math.inf
    assert one.error.pdf(0.0) == 0
    assert np.isfinite(one.pdf(np.array([-1e-9, 1e-9]))).all()
    assert np.isfinite(ll.limit(ll.attention(x, 2, head_dim=1)[0]).pdf(0.0))
    assert ll.finite(ll.Matrix() @ (ll.Matrix() @ x[0]), 1, 64, 0).pdf(0.0) == math.inf


def test_scores_of_biased_queries() -> None:
    """q = W x + b, k = V x + c with independent biases:
    the scores' covariance is the product of both kernels.
    """
    x = ll.initial((2,), cov=[[1.0, 0.3], [0.3, 2.0]])
    K = np.array([[1.0, 0.3], [0.3, 2.0]])
    p = ll.dot(ll.dense(x, std=1.3, bias_std=0.7), ll.dense(x, std=0.8, bias_std=0.4))
    Q, R = 1.69 * K + 0.49, 0.64 * K + 0.16
    np.testing.assert_allclose(ll.limit(p).covariance(), np.kron(Q, R), rtol=1e-12)


def test_errors_of_sampled_heads_inside_jit() -> None:
    """Five tokens take quasi-random points: their errors are stated inside jit as well,
    and hold.
    """

    def quantities(q_std):
        law = ll.limit(ll.attention(ll.initial((5,)), 2, q_std=q_std)[0])
        return {
            name: (getattr(law, name)(), getattr(law.error, name)())
            for name in ("variance", "kurtosis")
        }

    eager = quantities(1.0)
    for name, (value, error) in jax.jit(quantities)(1.0).items():
        truth, own = eager[name]
        assert abs(value - truth) < 5 * np.hypot(error, own)
        assert own < error < 1e-3
