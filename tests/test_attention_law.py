"""`attention_law` to many digits: theory §2 and §7,
and quadrature of our own for other kernels, masks and scales.
"""

import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import limitlaw as ll
from limitlaw.divergence import kl
from limitlaw.engines.heads import structure
from limitlaw.engines.heads.mixing import mixing_law
from limitlaw.engines.limit import statistics
from limitlaw.engines.limit.conditions import Limit

I4 = np.eye(4)
VARIANCE = 0.391971443576
TABLE = {  # kurtosis, pdf(0), pdf(1), pdf(3), cdf(1)
    1: (0.243318425, 0.653488393, 0.169234420, 6.9941071e-05, 0.945808058),
    2: (0.121659213, 0.646080127, 0.173194601, 2.9134945e-05, 0.945329196),
    256: (0.000950463, 0.637286051, 0.177908127, 6.6854581e-06, 0.944898123),
}
TAILS = {1: -38.33700847, 2: -43.27941601, 8: -56.45608372, 256: -71.67039602, 10**6: -72.450454}


@pytest.mark.parametrize("heads", TABLE)
def test_theory(heads: int) -> None:
    """The table of theory §7, whose digits end at the ninth."""
    law = ll.attention_law(I4, heads).marginal(0)
    got = (law.kurtosis(), law.pdf(0.0), law.pdf(1.0), law.pdf(3.0), law.cdf(1.0))
    np.testing.assert_allclose(got, TABLE[heads], rtol=0, atol=1e-9)
    assert law.variance() == pytest.approx(VARIANCE, abs=1e-12)
    assert (law.kind, law.beyond) == ("quadrature", ())


@pytest.mark.parametrize("heads", TAILS)
def test_tails(heads: int) -> None:
    """The log density at 12 standard deviations, theory §2; finite and falling out to 40."""
    law = ll.attention_law(I4, heads).marginal(0)
    sd = math.sqrt(VARIANCE)
    assert law.logpdf(12 * sd) == pytest.approx(TAILS[heads], abs=2e-6)
    far = np.asarray(law.logpdf(np.linspace(0, 40, 81) * sd))
    assert np.isfinite(far).all()
    assert (np.diff(far) < 0).all()


def softmax(p: np.ndarray) -> np.ndarray:
    e = np.exp(p - p.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def by_our_own_quadrature(
    K: np.ndarray, token: int, seen: np.ndarray, scale: float, x: np.ndarray
) -> np.ndarray:
    """Density for H = 1: v = AᵀKA, p ~ N(0, scale² K_ii K)
    on the visible tokens, by Gauss–Legendre panels.

    Softmax depends on differences of scores: z over an orthonormal basis of the differences,
    panels of width 1 in
    |z| ≤ 9 with 10 points each, one dimension after the other.
    """
    visible = np.flatnonzero(seen)
    L = np.linalg.cholesky(K[np.ix_(visible, visible)])
    differences = L[1:] - L[:1]
    basis = np.linalg.svd(differences)[2][: len(visible) - 1]
    nodes, weights = np.polynomial.legendre.leggauss(8)
    edges = np.linspace(-9, 9, 19)
    z = np.concatenate([(a + b) / 2 + (b - a) / 2 * nodes for a, b in itertools.pairwise(edges)])
    w = np.concatenate(
        [(b - a) / 2 * weights for a, b in itertools.pairwise(edges)]
    ) * stats.norm.pdf(z)
    d = len(visible) - 1
    grid = np.stack(np.meshgrid(*[z] * d, indexing="ij"), axis=-1).reshape(-1, d)
    weight = np.stack(np.meshgrid(*[w] * d, indexing="ij"), axis=-1).reshape(-1, d).prod(axis=-1)
    keep = weight > 1e-14
    p = scale * math.sqrt(K[token, token]) * (grid[keep] @ basis) @ L.T
    A = softmax(p)
    v = np.einsum("nj,jk,nk->n", A, K[np.ix_(visible, visible)], A)
    return np.array([weight[keep] @ stats.norm.pdf(t, scale=np.sqrt(v)) for t in x])


CASES = [
    (np.array([[1.0, 0.5, -0.2], [0.5, 2.0, 0.3], [-0.2, 0.3, 0.7]]), None, 1.0),
    (np.array([[1.0, 0.9, 0.1], [0.9, 1.0, 0.2], [0.1, 0.2, 1.0]]), None, 2.5),
    (np.diag([1.0, 2.0, 0.5]), None, 2.5),  # token 1: scores of standard deviation up to 5
    (np.eye(4) + 0.3, "causal", 2.0),
]


@pytest.mark.parametrize(("K", "mask", "scale"), CASES)
def test_kernels_masks_and_scales(K: np.ndarray, mask: str | None, scale: float) -> None:
    """One head against quadrature of our own, to 1e-7; two heads by their convolution."""
    token = 1 if mask is None else 2
    seen = np.arange(len(K)) <= (token if mask else len(K))
    x = np.array([0.0, 0.5, 2.0])
    expected = by_our_own_quadrature(K, token, seen, scale, x)
    law = ll.attention_law(K, 1, mask=mask, q_std=scale).marginal(token)
    np.testing.assert_allclose(law.pdf(x), expected, rtol=0, atol=1e-7)
    two = ll.attention_law(K, 2, mask=mask, q_std=scale).marginal(token)
    t = np.array([0.5, 2.0])
    np.testing.assert_allclose(two.cf(t), law.cf(t / math.sqrt(2)) ** 2, atol=1e-12)


def test_quantiles_and_tails_are_complementary() -> None:
    """ppf inverts cdf to 1e-9 inside ±6 sd; ppf(0) and ppf(1) are infinite; cdf(−x) = sf(x)."""
    law = ll.attention_law(I4, 2).marginal(0)
    x = np.linspace(-6, 6, 25) * math.sqrt(VARIANCE)
    lower = x[x <= 0]
    np.testing.assert_allclose(law.ppf(law.cdf(lower)), lower, atol=1e-9)
    np.testing.assert_allclose(-law.ppf(law.sf(-lower)), -lower, atol=1e-9)
    assert law.ppf(0.0) == -np.inf
    assert law.ppf(1.0) == np.inf
    np.testing.assert_allclose(law.cdf(lower), law.sf(-lower), rtol=1e-15)


def test_many_tokens() -> None:
    """512 tokens: with few points here, a stated error,
    right against brute force, and a sane tail.
    """
    law = ll.attention_law(np.eye(512), 4, samples=2**14).marginal(0)
    assert law.kind == "sampled"
    assert law.error.variance() < 1e-5
    assert law.error.cdf(0.05) < 2e-4
    A = softmax(np.random.default_rng(0).standard_normal((20_000, 512)))
    v = (A**2).sum(axis=1)
    assert abs(law.variance() - v.mean()) < 5 * (
        v.std() / math.sqrt(len(v)) + law.error.variance()
    )
    far = np.asarray(law.logpdf(np.linspace(0, 40, 41) * math.sqrt(v.mean())))
    assert np.isfinite(far).all()
    assert (np.diff(far) < 0).all()


def test_joint_density() -> None:
    """Four tokens, H = 2: the mixture, within its errors of another draw of it; one head diverges
    on the diagonal.
    """
    x = np.array([[0.1, -0.2, 0.3, 0.0], [0.0, 0.0, 0.0, 0.0]])
    law, other = (ll.attention_law(I4, 2, key=key) for key in (0, 1))
    apart = np.abs(law.logpdf(x) - other.logpdf(x))
    assert (apart <= 5 * np.hypot(law.error.logpdf(x), other.error.logpdf(x))).all()
    assert (law.error.logpdf(x) < 1e-2).all()
    one = ll.attention_law(I4, 1, samples=2**10)
    assert one.logpdf(np.full(4, 0.3)) == np.inf
    causal = ll.attention_law(I4, 1, mask="causal", samples=2**10)
    assert np.isfinite(causal.logpdf(np.full(4, 0.3)))
    with pytest.raises(ValueError, match="no density"):
        ll.attention_law(np.ones((2, 2)), 2, samples=64).logpdf(np.zeros(2))


def test_very_many_heads_jointly() -> None:
    """10⁶ heads: the covariance of infinitely many, and marginals as exact as ever."""
    law = ll.attention_law(I4, 10**6)
    assert np.abs(np.diag(law.covariance()) - VARIANCE).max() < 5e-3
    assert law.marginal(3).variance() == pytest.approx(VARIANCE, abs=1e-12)


def test_distance_from_infinitely_many_heads() -> None:
    """H² KL(H ‖ ∞): 9.72e-4 at H = 1, 1.232e-3 at 256,
    κ₁²/48 = 1.2334e-3 in the limit (theory §2).
    """
    for heads, expected in ((1, 9.72e-4), (256, 1.232e-3)):
        law = ll.attention_law(I4, heads).marginal(0)
        divergence = kl(law, ll.Gaussian(0.0, law.variance()))
        assert heads**2 * float(divergence) == pytest.approx(expected, rel=1e-3)
        assert divergence.error < 1e-6 * float(divergence)


def test_finite_width() -> None:
    """The exact law at width n, sampled, approaches the limit."""
    near = ll.attention_law(I4, 2, width=4096, samples=4096).marginal(0)
    assert near.kind == "sampled"
    assert abs(near.variance() - VARIANCE) < 5 * near.error.variance() + 1e-3


def test_differentiable() -> None:
    """In the kernel and the scales, against finite differences."""

    def density(q: float, c: float) -> jax.Array:
        K = jnp.asarray([[1.0, c], [c, 1.0]])
        return ll.attention_law(K, 3, q_std=q).marginal(0).pdf(0.7)

    q, c, h = 1.2, 0.3, 1e-5
    slopes = jax.grad(density, argnums=(0, 1))(q, c)
    expected = (
        (density(q + h, c) - density(q - h, c)) / (2 * h),
        (density(q, c + h) - density(q, c - h)) / (2 * h),
    )
    np.testing.assert_allclose(slopes, expected, rtol=1e-6)


@pytest.mark.usefixtures("as_user")
def test_errors() -> None:
    """Each names the argument, what was expected and what came."""
    for arguments, message in [
        ((I4, 0), "heads must be a positive integer, got 0"),
        ((np.ones(3), 2), r"kernel must be a square matrix over the tokens, got shape \(3,\)"),
        ((-I4, 2), "kernel must be positive semi-definite, got smallest eigenvalue -1"),
        ((I4 * np.nan, 2), "kernel must be finite"),
    ]:
        with pytest.raises(ValueError, match=message):
            ll.attention_law(*arguments)
    with pytest.raises(ValueError, match="q_std must be ≥ 0, got -1"):
        ll.attention_law(I4, 2, q_std=-1.0)
    with pytest.raises(ValueError, match="width must be a positive integer, got 0"):
        ll.attention_law(I4, 2, width=0)


# --- where heads are found -----------------------------------------------------------------------


def head_axis(y: ll.Wide) -> structure.HeadAxis | None:
    """The axis of heads of the outputs of a program."""
    return structure.head_axis(y.core)


def by_hand(x: ll.Wide, heads: int, **more: object) -> ll.Wide:
    """Attention without `attention()`, heads on the last axis but one."""
    q, k, v = (ll.Matrix(shape=(heads, 1), **more) @ x for _ in "qkv")
    return ll.normalised_sum(ll.Matrix(shape=(heads, 1)) @ (ll.softmax(ll.dot(q, k)) @ v), axis=0)[
        0
    ]


def test_heads_are_found_in_programs_written_by_hand() -> None:
    """By what the program does: also with norms before, and without softmax;
    not where heads depend on each other.
    """
    x = ll.initial((3,))
    assert ll.limit(by_hand(x, 5)).kind == "quadrature"
    reference = ll.attention_law(np.eye(3), 5).marginal(0)
    np.testing.assert_allclose(
        ll.limit(by_hand(x, 5)).pdf([0.0, 1.0]), reference.pdf([0.0, 1.0]), rtol=1e-10
    )
    normed = by_hand(ll.rmsnorm(ll.relu(ll.Matrix() @ x), 0.0), 5)
    assert mixing_law(normed.core, None, None).heads == 5
    scales = ll.normalised_sum(np.array([[1.0], [2.0]]) * (ll.Matrix(shape=(2, 1)) @ x), 0)
    assert head_axis(scales) is None
    assert head_axis(ll.normalised_sum(ll.Matrix(np.array([[1.0], [2.0]]), (2, 1)) @ x, 0)) is None
    p = ll.dot(ll.Matrix(shape=(2, 1)) @ x, ll.Matrix(shape=(2, 1)) @ x)
    mean = p.sum(axis=0) / 2  # a score common to all heads
    tied = ll.normalised_sum(ll.softmax(p + mean) @ (ll.Matrix(shape=(2, 1)) @ x), 0)
    assert head_axis(tied) is None


def test_heads_with_common_vectors_are_not_independent() -> None:
    """A vector, values or a matrix common to all; common keys,
    or anything behind matrices of their own, is fine.
    """
    x, shape = ll.initial((3,)), (4, 1)
    q, k, v = (ll.Matrix(shape=shape) @ x for _ in "qkv")
    A = ll.softmax(ll.dot(q, k))
    common = ll.Matrix() @ x
    assert head_axis(ll.normalised_sum(A @ v + common, 0)) is None
    assert head_axis(ll.normalised_sum(A @ common, 0)) is None
    assert head_axis(ll.normalised_sum(ll.Matrix() @ ll.relu(A @ v), 0)) is None
    assert head_axis(ll.normalised_sum(ll.Matrix(shape=shape) @ (A @ common), 0)).heads == 4
    assert head_axis(ll.normalised_sum(ll.softmax(ll.dot(q, common)) @ v, 0)).heads == 4
    assert (
        head_axis(ll.normalised_sum(ll.Matrix(shape=shape) @ ll.relu(A @ v + common), 0)).heads
        == 4
    )


def test_heads_behind_attention_are_not_independent() -> None:
    """Given a random incoming kernel: a mixture over it, not φ_1^H."""
    y = ll.attention(ll.attention(ll.initial((3,)), 1), 4)[0]
    assert mixing_law(y.core, None, None) is None
    shared = ll.initial((3,))
    q = ll.Matrix(shape=(4, 1), rows=2) @ shared
    k, v = (ll.Matrix(rows=2) @ shared for _ in "kv")
    out = ll.softmax(ll.dot(q, k)) @ (ll.Matrix(shape=(4, 1), cols=2) @ v)
    assert mixing_law(ll.normalised_sum(out, 0)[0].core, None, None) is None


def test_many_heads_given_random_kernels() -> None:
    """E_K[φ_1(t/√H | K)^H]: behind attention, and with narrow keys and values in common;
    against drawing all heads.
    """
    x = ll.initial((2,))
    q = ll.Matrix(shape=(20, 1), rows=3) @ x
    k, v = (ll.Matrix(rows=3) @ x for _ in "kv")
    shared = ll.normalised_sum(
        ll.softmax(ll.dot(q, k)) @ (ll.Matrix(shape=(20, 1), cols=3) @ v), 0
    )[0]
    for y in (ll.attention(ll.attention(x, 1), 20)[0], shared):
        law = ll.limit(y, samples=512)
        assert isinstance(law, ll.HeadSum)
        assert law._mixture.nodes.variances.shape[0] == 512
        C = np.asarray(
            Limit((y.core,), statistics.conditions).conditions(4096, None).arrays[1]
        ).reshape(-1)
        direct = ll.GaussianMixture(np.zeros(4096), C)
        for figure in ("variance", "kurtosis"):
            a, b = (float(getattr(z, figure)()) for z in (law, direct))
            error = math.hypot(*(float(getattr(z.error, figure)()) for z in (law, direct)))
            assert abs(a - b) < 5 * error


def test_check_of_very_many_heads() -> None:
    """10⁶ heads are checked as two."""
    y = ll.attention(ll.initial((3,)), 10**6)
    assert ll.check(y).covered
