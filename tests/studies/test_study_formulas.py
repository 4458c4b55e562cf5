"""What studies compute with: published formulas against quadrature and brute force,
small chains against them.
"""

import math

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import quad

from limitlaw.apps.studies import (
    cowsik,
    giorlandino,
    nait_saada,
    noci,
    participation,
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
