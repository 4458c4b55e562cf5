"""What studies compute with: published formulas against quadrature and brute force,
small chains against them.
"""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import quad

import limitlaw as ll
from limitlaw.apps.studies import (
    alekseev,
    cowsik,
    giorlandino,
    kedia,
    nait_saada,
    noci,
    participation,
    query_gradients,
    tails,
    unit_scaling,
)
from limitlaw.apps.studies.tracing import near, parts, pooled, traced
from limitlaw.numerics.replicates import INDEPENDENT

KURTOSIS = 0.243318425  # of one head, s = 4, K = I (theory §7)


def gaussian_mean(f):
    """E f(z), z ~ N(0, 1)."""
    return quad(
        lambda z: f(z) * math.exp(-z * z / 2) / math.sqrt(2 * math.pi),
        -12,
        12,
        epsabs=1e-13,
        limit=400,
    )[0]


@pytest.mark.parametrize("sigma", [0.5, 2.0, 3.3])
def test_slopes_of_tanh(sigma):
    """v and χ against adaptive quadrature."""
    v = sigma**2 * gaussian_mean(lambda z: math.tanh(sigma * z) ** 2)
    chi = sigma**4 * gaussian_mean(lambda z: math.cosh(sigma * z) ** -4)
    assert cowsik.slopes(sigma) == pytest.approx((v, chi), rel=1e-10)


@pytest.mark.parametrize("alpha", [0.25, 0.5, 1.0])
def test_the_edge_of_chaos(alpha):
    """λ vanishes there, and is negative below and positive above."""
    edge = cowsik.edge(alpha)
    assert cowsik.exponent(alpha, edge) == pytest.approx(0.0, abs=1e-12)
    assert cowsik.exponent(alpha, 0.9 * edge) < 0 < cowsik.exponent(alpha, 1.1 * edge)
    assert cowsik.edge(1e-4) == pytest.approx(cowsik.edge(0.0), rel=1e-6)


def test_nearly_parallel_tokens_meet_with_the_exponent():
    """The chain of kernels against the formula."""
    found = cowsik.angles(alpha=1.0, sigma=2.0, count=4, start=1e-5, depth=2, draws=4, seed=1)
    assert found["growth"] == pytest.approx([cowsik.exponent(1.0, 2.0)] * 2, abs=1e-3)


def test_branches_scaled_by_depth():
    """The printed number, and where the formula starts;
    the chain of uniform attention is in the claims.
    """
    assert noci.correlation(np.array([1.0, math.e])) == pytest.approx(
        [noci.NOCI_START, 0.42306], abs=1e-5
    )


def test_spectrum():
    """Stable rank and second singular value against NumPy's singular values."""
    p = np.random.default_rng(3).normal(size=(1, 24, 24))
    A = np.exp(p[0]) / np.exp(p[0]).sum(-1, keepdims=True)
    s = np.linalg.svd(A, compute_uv=False)
    kernel = jnp.eye(24)
    assert float(nait_saada.excess(kernel, jnp.asarray(p))) == pytest.approx(
        np.sum(s**4) / s[0] ** 4 - 1, rel=1e-9
    )
    assert float(nait_saada.second(kernel, jnp.asarray(p))) == pytest.approx(
        s[1] * math.sqrt(24), rel=1e-3
    )
    assert nait_saada.SV_EDGE == pytest.approx(2.62, abs=0.002)


def test_participation():
    """Uniform without scores; the model is 0 up to β = √2."""
    found = participation.row_of(count=8, beta=0.0, draws=2, seed=0)
    assert found["participation"][-1] == pytest.approx(1 / 8, rel=1e-12)
    assert participation.energy_model(np.array([1.0, math.sqrt(2), 3.0])) == pytest.approx(
        [0, 0, 1 - math.sqrt(2) / 3]
    )


def test_the_rule_of_branches_is_a_plain_sum():
    """x ← (x + τ_i f)/√(1 + τ_i²) with τ_i² = 1/(12 + i)
    is u ← u + f from √12 x, but for its length.
    """
    generator = np.random.default_rng(0)
    x = generator.normal(size=5)
    u = math.sqrt(unit_scaling.UNIT_DEPTH) * x
    for i in range(2 * unit_scaling.UNIT_DEPTH):
        f, tau = generator.normal(size=5), 1 / math.sqrt(unit_scaling.UNIT_DEPTH + i)
        x, u = (x + tau * f) / math.sqrt(1 + tau**2), u + f
    assert u / np.linalg.norm(u) == pytest.approx(x / np.linalg.norm(x), rel=1e-12)


def test_unit_scales():
    """The gated MLP has variance 1; what attention adds to the stream is read off
    the variances behind blocks.
    """
    assert unit_scaling.gate_factor() ** -2 == pytest.approx(
        gaussian_mean(lambda z: (z / (1 + math.exp(-z))) ** 2)
    )
    assert unit_scaling.attention_factor(256) == pytest.approx(
        math.sqrt(256 / math.log(256)), rel=0.02
    )
    read = np.array([[12.0, 17.0, 27.0]] * 3)  # 5 = 1 + 2², 10 = 1 + 3²
    found = unit_scaling.output_std(read, INDEPENDENT, math.inf)
    assert found.value == pytest.approx([2.0, 3.0])
    assert found.error == pytest.approx([0.0, 0.0])


def test_small_chains():
    """Two blocks of figure 1 start where they should and collapse;
    the kurtosis behind one layer is the known one.
    """
    trace = traced(giorlandino.network(6, True, 2), ["correlation"], 64, 0)
    assert trace["correlation"][0] == pytest.approx(giorlandino.GIVEN_CORRELATION)
    assert (np.diff(trace["correlation"]) > 0).all()
    found = tails.kurtosis(kind="bare", width=0, draws=2048, seed=0)
    assert abs(found["kurtosis"][1] - KURTOSIS) < 5 * found["kurtosis_error"][1]


def test_parts_are_pooled():
    """Equal parts draw different numbers; the error of their mean falls with their number."""
    chunks = parts(4, 0, noci.chain, scale=1.0, draws=2)
    assert len(set(chunks)) == 4
    assert parts(4, 0, noci.chain, scale=1.0, draws=2) == chunks
    assert not set(parts(4, 1, noci.chain, scale=1.0, draws=2)) & set(chunks)
    results = {
        chunk: {"x": np.array([float(i)]), "x_error": np.array([2.0])}
        for i, chunk in enumerate(chunks)
    }
    found = pooled(chunks, results)
    assert (found["x"][0], found["x_error"][0]) == (1.5, 1.0)


def test_near():
    """Up to a share; not a number is never near."""
    assert near(1.04, 1.0, 0.05)
    assert not near(1.06, 1.0, 0.05)
    assert not near(math.nan, 1.0, 0.05)


def test_gradients_behind_attention():
    """The whole Jacobian of many small networks in NumPy's place: values alone give the closed
    form where there are no scores; here σ_Q = σ_K = 1 and few tokens.
    """
    value = kedia.gradient_variance(1.0, 0.3, 0.0, 6, 3)
    found, n = np.asarray(ll.simulate(value, 12, 4000, 1)), 12

    def one(key):
        keys = jax.random.split(key, 5)
        x, u = (
            jax.random.normal(k, shape) for k, shape in zip(keys, ((6, n), (6, 3)), strict=False)
        )
        x = jnp.sqrt(0.7) * x + jnp.sqrt(0.3) * jax.random.normal(keys[2], (1, n))
        Q, K, V = jax.random.normal(keys[3], (3, 3, n)) / math.sqrt(n)

        def f(x):
            A = jax.nn.softmax(x @ Q.T @ (x @ K.T).T / math.sqrt(3))
            return jnp.sum(u * (A @ (x @ V.T))) / math.sqrt(3)

        return jnp.sum(jax.grad(f)(x) ** 2)

    expected = np.asarray(jax.vmap(one)(jax.random.split(jax.random.key(2), 4000)))
    error = math.hypot(found.std(), expected.std()) / math.sqrt(4000)
    assert abs(found.mean() - expected.mean()) < 5 * error


def test_recursion_of_uniform_attention():
    """The published recursion with a finite number of tokens is that of two blocks, by hand."""
    published = alekseev.recursion(alekseev.VIT_DEPTH, alekseev.VIT_TOKENS, alekseev.VIT_START)
    for name, value in alekseev.VIT_PUBLISHED.items():
        assert published[name][-1] == pytest.approx(value, rel=5e-5)


def test_two_copies_have_the_partial_jacobian():
    """Their distance is that of `gradients`, which goes back through the same blocks."""
    network = alekseev.network(0.0, 3, 1)
    statistics = [ll.depth.Statistic(name, read) for name, read in alekseev.OF_COPIES.items()]
    found = ll.trace(network, statistics)
    x = ll.initial((3,), cov=0.2 + 0.8 * np.eye(3))
    std = alekseev.VIT_STD
    h = x + np.full((3, 3), std**2 / 3) @ (ll.Matrix() @ ll.layernorm(x))
    hidden = ll.relu(ll.dense(ll.layernorm(h), std, dim=4 * ll.n))
    back = ll.gradients([x, h + ll.dense(hidden, 2 * std)])["gradient"]
    assert found["jacobian"].value[-1] == pytest.approx(
        back.value[0], abs=1e-3 + 5 * back.error[0]
    )
    assert found["jacobian"].value[-1] > 1.1


def test_participation_of_powers():
    """The gradient of W_Q is E [Y₂ − 2 Y₃ + Y₂²] for any number of tokens."""
    count, beta = 8, 1.5
    found = query_gradients.query_gradient(count=count, beta=beta, block=False, draws=2048, seed=1)
    p = np.random.default_rng(0).normal(size=(10**5, count)) * beta * math.sqrt(math.log(count))
    A = np.exp(p)
    A /= A.sum(axis=1, keepdims=True)
    Y2, Y3 = (np.sum(A**k, axis=1) for k in (2, 3))
    assert abs(found["gradient"] - np.mean(Y2 - 2 * Y3 + Y2**2)) < 5 * found["error"] + 1e-3
    assert query_gradients.frozen(np.array([1.0, 2 * math.sqrt(2)])) == pytest.approx([0, 1 / 12])
