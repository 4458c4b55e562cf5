"""The infinite-width engine against closed forms,
quadrature, the definition, and itself at another effort.
"""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from eager import defined

import limitlaw as ll
from limitlaw.core.analysis import Analysis
from limitlaw.core.demand import demanded
from limitlaw.core.program import Program
from limitlaw.engines.limit.draw import Static
from limitlaw.engines.limit.waves import rotation_factor

X4 = ll.initial((4,))
K3 = np.array([[1.0, 0.5, -0.2], [0.5, 2.0, 0.3], [-0.2, 0.3, 0.7]])


def hermite(s: int, points: int) -> tuple[np.ndarray, np.ndarray]:
    """Tensor Gauss–Hermite nodes and weights for s independent standard normals."""
    x, w = np.polynomial.hermite_e.hermegauss(points)
    nodes = np.stack(np.meshgrid(*[x] * s, indexing="ij"), axis=-1).reshape(-1, s)
    weights = (
        np.stack(np.meshgrid(*[w / w.sum()] * s, indexing="ij"), axis=-1)
        .reshape(-1, s)
        .prod(axis=-1)
    )
    return nodes, weights


def softmax(p: np.ndarray) -> np.ndarray:
    e = np.exp(p - p.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


# --- attention -----------------------------------------------------------------------------------


def test_attention() -> None:
    """The joint mixture: variances and kurtosis of theory §7,
    to the accuracy of 65,536 Sobol points.
    """
    law = ll.limit(ll.attention(X4, 2))
    np.testing.assert_allclose(law.variance(), 0.391971443576, atol=5e-5)
    np.testing.assert_allclose(law.kurtosis(), 0.121659213, atol=1e-3)
    assert law.kind == "sampled"
    assert law.beyond == ()
    assert 1e-6 < law.error.variance().max() < 1e-4


def test_correlated_tokens() -> None:
    """E C(p) for a general kernel: C = (σ_Oσ_V)² A K Aᵀ with rows of p ~ N(0,
    (σ_Qσ_K)² K_ii K), by quadrature.
    """
    y = ll.attention(ll.initial((3,), cov=K3), 3, q_std=0.8, k_std=1.1, v_std=1.3, o_std=0.7)
    z, w = hermite(3, 40)
    for i in range(2):
        p = 0.8 * 1.1 * math.sqrt(K3[i, i]) * z @ np.linalg.cholesky(K3).T
        A = softmax(p)
        expected = (1.3 * 0.7) ** 2 * w @ np.einsum("nj,jk,nk->n", A, K3, A)
        assert ll.limit(y[i]).variance() == pytest.approx(expected, rel=1e-10)


def test_infinitely_many_heads() -> None:
    """Hron et al. (2020): Gaussian with the variance of one head, up to the stated error."""
    law = ll.limit(ll.attention(X4, math.inf)[0])
    assert abs(law.variance() - 0.391971443576) < 5 * law.error.variance() + 1e-7
    assert law.error.variance() < 1e-5
    assert abs(law.kurtosis()) < 1e-6
    assert law.beyond == ("infinitely many heads",)


def test_linear_scaling_of_independent_vectors() -> None:
    """Under 1/n independent vectors are orthogonal: all pairs, of which only those of a vector
    with itself are not 0.
    """
    x, W = ll.initial(3), ll.matrices(3)
    for w in (x, W @ ll.initial(), W @ x):
        np.testing.assert_allclose(ll.limit(ll.dot(w, w, "linear")).mean(), np.eye(3), atol=1e-13)
    heads = ll.Matrix(shape=(2, 1)) @ x
    np.testing.assert_allclose(
        ll.limit(ll.dot(heads, heads, "linear")).mean(), [np.eye(3)] * 2, atol=1e-13
    )


def test_linear_scaling() -> None:
    """1/n: untied scores vanish and weights are uniform over what is seen;
    tied ones are softmax(σ_Qσ_K K).
    """
    x = ll.initial((3,), cov=K3)
    A = np.tri(3) / np.arange(1, 4)[:, None]
    np.testing.assert_allclose(
        ll.kernel(ll.attention(x, 2, scaling="linear", mask="causal")), A @ K3 @ A.T, atol=1e-14
    )
    q = ll.Matrix(1.5) @ x
    A = softmax(1.5**2 * K3)
    y = ll.Matrix() @ (ll.softmax(ll.dot(q, q, scaling="linear")) @ x)
    np.testing.assert_allclose(ll.kernel(y), A @ K3 @ A.T, atol=1e-14)


@pytest.mark.parametrize(
    ("d", "variance", "kurtosis", "within"),
    [(8, 0.385685, 1.1160, 1e-3), (64, 0.391129, 0.35144, 1e-4), (128, 0.391548, 0.29734, 1e-4)],
)
def test_fixed_head_dimension(d: int, variance: float, kurtosis: float, within: float) -> None:
    """theory §4; the benchmarks reach 1e-5 with more points."""
    law = ll.limit(ll.attention(X4, 1, head_dim=d)[0], samples=2**18)
    assert law.variance() == pytest.approx(variance, abs=1e-5)
    assert law.kurtosis() == pytest.approx(kurtosis, abs=within)
    assert law.beyond == (f"narrow heads of dimension {d}",)


def test_grouped_queries() -> None:
    """theory §4, d = 8 and g = 2: φ_H(t) = (E_{k,v} φ_1(t/√H | k,
    v)^g)^{H/g}, by NumPy from the definition.
    """
    d, g, groups, s = 8, 2, 2, 3
    q = ll.Matrix(shape=(groups, g, 1), rows=d) @ ll.initial((s,))
    x = q.op.x
    k, v = (ll.Matrix(shape=(groups, 1, 1), rows=d) @ x for _ in "kv")
    out = ll.softmax(ll.dot(q, k)) @ (ll.Matrix(shape=(groups, g, 1), cols=d) @ v)
    law = ll.limit(ll.normalised_sum(out, axis=(0, 1))[0])
    rng = np.random.default_rng(0)
    N, inner = 20_000, 100
    keys, values = rng.standard_normal((2, N, s, d))
    queries = rng.standard_normal((N, inner, d))
    A = softmax(np.einsum("nid,nsd->nis", queries, keys) / math.sqrt(d))
    C = np.einsum("nis,nsd->nid", A, values)
    t = np.array([1.0, 3.0])
    one = np.exp(-0.5 * t[:, None, None] ** 2 / (groups * g) * (C**2).sum(axis=-1) / d)
    mean, second = one.mean(axis=-1), (one**2).mean(axis=-1)
    # unbiased, from pairs of different queries
    square = (mean**2 - second / inner) / (1 - 1 / inner)
    error = square.std(axis=1) / math.sqrt(N)
    expected = square.mean(axis=1) ** groups
    tolerance = 5 * groups * error * square.mean(axis=1) ** (groups - 1) + 1e-4
    assert (np.abs(np.real(law.cf(t)) - expected) < tolerance).all()


# --- scores --------------------------------------------------------------------------------------


def test_law_of_scores() -> None:
    """p ~ N(0, K_ik K_jl (σ_Qσ_K)²), exactly; under 1/n the matrix E[Z^q Z^k]."""
    x = ll.initial((3,), cov=K3)
    law = ll.limit(ll.dot(ll.Matrix(0.5) @ x, ll.Matrix(3.0) @ x))
    assert law.kind == "exact"
    np.testing.assert_allclose(law.covariance(), 1.5**2 * np.kron(K3, K3), atol=1e-13)
    np.testing.assert_allclose(ll.limit(ll.dot(x, x, scaling="linear")).mean(), K3, atol=1e-13)


def test_scores_that_share_matrices() -> None:
    """Cov(q·k, q'·k') = E[qq'] E[kk'] where both matrices are shared,
    jointly over two dot products.
    """
    a, b = ll.initial((2,)), ll.initial()
    other = 0.6 * a + 0.8 * b
    Q, K = ll.Matrix(), ll.Matrix()
    p = ll.stack([ll.dot(Q @ a, K @ a), ll.dot(Q @ other, K @ other)])
    law = ll.limit(p, samples=2**13)
    C = np.asarray(law.covariance())
    inner = np.eye(2) * 0.6
    expected = np.block(
        [[np.eye(4), np.kron(inner, inner)], [np.kron(inner, inner), np.kron(*[_gram(0.6)] * 2)]]
    )
    assert np.abs(C - expected).max() < 5 * np.sqrt(2 / 2**13)


def _gram(c: float) -> np.ndarray:
    """Of c a_i + √(1 − c²) b."""
    return c**2 * np.eye(2) + (1 - c**2)


def test_tied_layers() -> None:
    """p₂ given p₁ has mean Bᵀ p₁ B and covariance K₂₂⊗K₂₂ − (BᵀK₁₁B)⊗(BᵀK₁₁B): theory §1."""
    x = ll.initial((2,), cov=np.array([[1.0, 0.3], [0.3, 1.5]]))
    Q, K, V = (ll.Matrix() for _ in "qkv")
    p1 = ll.dot(Q @ x, K @ x)
    x2 = x + ll.tanh(p1) @ (V @ x)
    both = ll.limit(ll.stack([p1, ll.dot(Q @ x2, K @ x2)]), samples=2**13)
    p = np.asarray(both._components.parameters)[:, 0]
    K11 = np.array([[1.0, 0.3], [0.3, 1.5]])
    T = np.tanh(p[:, 0])
    K22 = K11 + T @ K11 @ T.swapaxes(1, 2)  # E[x x₂] = K₁₁, so that B = I
    rest = (p[:, 1] - p[:, 0]).reshape(-1, 4)
    expected = np.einsum("nik,njl->nijkl", K22, K22).reshape(-1, 4, 4) - np.kron(K11, K11)
    gap = rest[:, :, None] * rest[:, None, :] - expected
    assert np.abs(gap.mean(axis=0) / gap.std(axis=0) * math.sqrt(len(gap))).max() < 5
    assert np.abs(rest.mean(axis=0) / rest.std(axis=0) * math.sqrt(len(rest))).max() < 5


def test_rotary_scores() -> None:
    """Cov(S_ij, S_kl) = K_ik K_jl c((j−i)−(l−k)): c is the limit of (2/d) Σ_m cos(θ_m Δ)."""
    positions = np.array([0.0, 1.0, 5.0])
    x = ll.initial((3,), cov=K3)
    q, k = (ll.rotary(ll.Matrix() @ x, positions, base=100.0) for _ in "qk")
    law = ll.limit(ll.dot(q, k))
    phase = positions[:, None] - positions
    delta = (phase[:, :, None, None] - phase).reshape(9, 9)
    m = (np.arange(100_000) + 0.5) / 100_000
    c = np.cos(delta[..., None] * 100.0**-m).mean(axis=-1)
    np.testing.assert_allclose(law.covariance(), np.kron(K3, K3) * c, atol=1e-8)
    np.testing.assert_allclose(rotation_factor(delta, 100.0), c, atol=1e-8)


def test_heads_are_drawn_apart() -> None:
    """Rotary heads: scores of different heads are independent,
    and of one head have the covariance above.
    """
    x = ll.initial((2,))
    q, k = (ll.rotary(ll.Matrix(shape=(2, 1)) @ x, [0.0, 2.0], base=10.0) for _ in "qk")
    p = ll.softmax(ll.dot(q, k)) * 1.0
    numbers = ll.limit(p, samples=2**12)
    C = np.asarray(numbers.covariance())
    assert np.abs(C[:4, 4:]).max() < 5 * C.max() / math.sqrt(2**12)
    static = Static.of(Analysis(Program(demanded((p.core.value,)))))
    assert len(static.correlated) == 1


# --- Theorem 3.1 ---------------------------------------------------------------------------------


def test_average_law() -> None:
    """n^{-1} Σ_α ψ(y_α) converges in law to E[ψ(Z) | scores]:
    simulated averages at growing n come closer.
    """

    def psi(z: jax.Array) -> jax.Array:
        return jnp.tanh(z) ** 2

    y = ll.attention(ll.initial((3,)), 1)[0]
    law = ll.average_law(y, psi)
    assert law.variance() > 1e-3  # it stays random
    for engine, width, draws in (
        (ll.simulate, 16, 20_000),
        (ll.simulate, 64, 4_000),
        (ll.finite_samples, 1024, 4_000),
    ):
        coordinates = engine(y, width, draws, jax.random.key(width), coordinates=width)
        averages = np.asarray(psi(coordinates)).mean(axis=-1)
        squares = (averages - averages.mean()) ** 2
        assert (
            abs(averages.mean() - law.mean()) < 5 * averages.std() / math.sqrt(draws) + 0.5 / width
        )
        assert (
            abs(squares.mean() - law.variance())
            < 5 * squares.std() / math.sqrt(draws) + 0.25 / width
        )


def test_average_law_without_scores() -> None:
    """A constant: E relu(Z) and E relu(Z)² of a nonlinearity."""
    x = ll.relu(ll.Matrix() @ ll.initial((2,), cov=[[1.0, 0.5], [0.5, 2.0]]))
    law = ll.average_law(x, lambda z: z[..., 0] * z[..., 1])
    assert law.kind == "quadrature"
    assert law.mean() == pytest.approx(float(ll.kernel(x)[0, 1]), abs=1e-4)
    assert law.variance() == 0


# --- Gaussian-limit architectures ----------------------------------------------------------------


def test_gated_recurrent() -> None:
    """E[h_t h_t'] by quasi-Monte Carlo against brute force at width 32,
    whose own bias is below its error.

    `test_limit_rate` has the GRU, too.
    """
    x = ll.initial((3,), cov=np.eye(3) + 0.5)
    y = ll.lstm(x, std=1.5, input_std=1.2, bias_std=0.2)
    K = np.asarray(ll.kernel(y))
    h = defined(y, 32, 3_000, 0)
    products = h[:, :, None] * h[:, None, :]
    error = products.std(axis=0) / math.sqrt(len(h))
    assert (np.abs(products.mean(axis=0) - K) < 5 * error).all()
    readout = ll.limit(ll.Matrix() @ y)
    np.testing.assert_allclose(readout.covariance(), K, rtol=1e-12)
    assert (readout.error.variance() < 0.1 * np.diag(error)).all()  # as 300,000 networks


def test_swiglu() -> None:
    """silu(g) u with different matrices: K_ij E[silu(g_i)
    silu(g_j)], no node needed (theory §5).
    """
    x = ll.initial((3,), cov=K3)
    gate = ll.Matrix(0.9) @ x
    y = ll.silu(gate) * (ll.Matrix(1.3) @ x)
    np.testing.assert_allclose(
        ll.kernel(y), 1.3**2 * K3 * np.asarray(ll.kernel(ll.silu(gate))), rtol=1e-13
    )
    assert ll.limit(ll.Matrix() @ y).kind == "quadrature"


def test_conv2d() -> None:
    """The kernel of conv, ReLU and both readouts,
    from the recursion over positions written in NumPy.
    """
    X = np.random.default_rng(0).normal(size=(2, 4, 3, 2))
    hidden = ll.relu(ll.conv2d(ll.data(X), 3, std=1.3, bias_std=0.2))
    padded = np.pad(X, ((0, 0), (1, 1), (1, 1), (0, 0)))
    windows = np.stack(
        [padded[:, i : i + 4, j : j + 3] for i in range(3) for j in range(3)], axis=-1
    )
    flat = windows.reshape(2 * 12, -1)
    C = 1.3**2 * flat @ flat.T / flat.shape[1] + 0.04
    length = np.sqrt(np.diag(C))
    c = np.clip(C / np.outer(length, length), -1, 1)
    F = np.outer(length, length) * (np.sqrt(1 - c**2) + (np.pi - np.arccos(c)) * c) / (2 * np.pi)
    F = F.reshape(2, 12, 2, 12)
    flattened = ll.kernel(ll.readout(hidden, 2, "flatten", std=0.7))
    np.testing.assert_allclose(flattened, 0.49 * np.einsum("apbp->ab", F) / 12, atol=1e-13)
    averaged = ll.kernel(ll.readout(hidden, 2, "average", bias_std=0.5))
    np.testing.assert_allclose(averaged, F.mean(axis=(1, 3)) + 0.25, atol=1e-13)


def test_residual_of_nonlinearities() -> None:
    """x + φ(W x) with φ = identity is x + W x; the mixture for φ = relu has the variance 1 + E
    relu² − (E relu)².
    """
    x = ll.initial((2,), cov=[[1.0, 0.5], [0.5, 1.0]])
    np.testing.assert_allclose(
        ll.kernel(x + ll.identity(ll.Matrix(2.0) @ x)),
        5 * np.array([[1, 0.5], [0.5, 1]]),
        atol=1e-13,
    )
    law = ll.limit(x[0] + ll.relu(ll.Matrix() @ x[0]))
    assert law.variance() == pytest.approx(1.5 - 1 / (2 * math.pi), abs=5e-4)
    u = ll.Matrix() @ x[0]
    law = ll.limit(u + ll.relu(u))  # 2u above zero, u below: nothing is left to mix over
    assert law.variance() == pytest.approx(2.5 - 1 / (2 * math.pi), abs=2e-3)
    assert float(ll.kernel(u + ll.relu(u))) == pytest.approx(2.5, abs=1e-13)


def test_stein() -> None:
    """E[φ(u) u'] = E φ'(u) Cov(u, u'), with a mean: dot products under 1/n of u' and tanh(u)."""
    h = ll.initial((2,), mean=[0.3, -0.5], cov=[[1.0, 0.6], [0.6, 2.0]])
    z, w = hermite(2, 60)
    u = np.array([0.3, -0.5]) + z @ np.linalg.cholesky([[1.0, 0.6], [0.6, 2.0]]).T
    expected = np.einsum("n,ni,nj->ij", w, np.tanh(u), u)
    np.testing.assert_allclose(
        ll.limit(ll.dot(ll.tanh(h), h, scaling="linear")).mean(), expected, atol=1e-9
    )


def test_nodes_for_pairs_of_unlike_functions() -> None:
    """Cov(φ(|h + g|), sin h) by nodes, also of vectors that only the second function reads;
    against the definition.
    """
    h = ll.initial((2,), cov=np.eye(2) + 0.5)
    x = ll.clip(ll.abs(h + ll.Matrix() @ h), 0.8) + ll.sin(h)
    K = np.asarray(ll.kernel(x))
    v = defined(x, 64, 20_000, 0)
    products = v[:, :, None] * v[:, None, :]
    assert (
        np.abs((products.mean(axis=0) - K) / (products.std(axis=0) / math.sqrt(len(v)))).max() < 5
    )


def test_families_on_reordered_vectors() -> None:
    """Each matrix meets its own vector, picked by an array of indices."""
    h = ll.initial((2,), cov=[[1.0, 0.5], [0.5, 3.0]])
    np.testing.assert_allclose(
        ll.kernel(ll.matrices(2) @ h[np.array([1, 0])]), np.diag([3.0, 1.0]), atol=1e-14
    )
