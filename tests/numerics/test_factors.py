"""Factors of regular, singular, nearly singular and zero Gram matrices, and their gradients."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from limitlaw.numerics import factors
from limitlaw.numerics.factors import factor, gram, orthonormalise, pivoted_factor

SIZES = [1, 2, 3, 8, 17]
EPS = np.finfo(np.float64).eps


def rows(m, D, seed=0):
    return np.random.default_rng([seed, m, D]).standard_normal((m, D))


def correlation_error(L, K):
    """max |L Lᵀ − K|_ij/√(K_ii K_jj), the error in units of the vectors' lengths."""
    scale = np.sqrt(np.diagonal(K))
    scale = np.where(scale > 0, scale, 1)
    return (np.abs(L @ L.T - K) / np.outer(scale, scale)).max()


def check_factor(K, m):
    L = np.asarray(jax.jit(factor)(jnp.asarray(K)))
    assert (np.triu(L, 1) == 0).all()
    assert (np.diagonal(L) >= 0).all()
    assert correlation_error(L, K) < 64 * m * EPS
    return L


@pytest.mark.parametrize("m", SIZES)
def test_regular(m):
    x = rows(m, m + 10)
    K = x @ x.T
    np.testing.assert_allclose(check_factor(K, m), np.linalg.cholesky(K), atol=1e-11)


@pytest.mark.parametrize("m", SIZES)
@pytest.mark.parametrize("rank", [0, 1, 2, 3])
def test_low_rank(m, rank):
    """A spanned vector has a zero column."""
    x = rows(m, rank)
    L = check_factor(x @ x.T, m)
    assert (L[:, rank:] == 0).all()


@pytest.mark.parametrize("m", [4, 8, 17])
def test_repeated_zero_and_opposite_rows(m):
    x = rows(m, m + 3)
    x[0], x[1] = 0, x[2]
    x[-1] = -x[1]
    L = check_factor(x @ x.T, m)
    assert (L[:, 0] == 0).all()
    assert (L[:, 2] == 0).all()
    assert (L[:, -1] == 0).all()
    np.testing.assert_allclose(L[1], L[2], rtol=1e-13)


DISTANCES = [1e-2, 1e-3, 1e-5, 1e-6, 1e-7, 1e-8, 1e-9, 1e-12]


def nearly_singular(distance):
    """The second vector is the first plus `distance` times the third."""
    x = np.array([[1.0, 0.0, 0.0], [1.0, distance, 0.0], [0.0, 1.0, 0.0], [0.0, 1.0, 1.0]])
    return x @ x.T


@pytest.mark.parametrize("distance", DISTANCES)
def test_nearly_singular(distance):
    """The error is ε over the smallest pivot, and never more than the matrix."""
    K = nearly_singular(distance)
    L = np.asarray(jax.jit(factor)(jnp.asarray(K)))
    assert correlation_error(L, K) < min(64 * 4 * EPS / distance**2, 1)


@pytest.mark.parametrize("distance", DISTANCES)
def test_pivoted_factor_nearly_singular(distance):
    K = nearly_singular(distance)
    assert correlation_error(np.asarray(jax.jit(pivoted_factor)(jnp.asarray(K))), K) < 64 * 4 * EPS


@pytest.mark.parametrize("m", [1, 3, 8, 17])
@pytest.mark.parametrize("rank", [0, 2, 50])
def test_pivoted_factor(m, rank):
    x = rows(m, rank)
    F = np.asarray(jax.jit(pivoted_factor)(jnp.asarray(x @ x.T)))
    assert correlation_error(F, x @ x.T) < 64 * m * EPS
    assert (F[:, rank:] == 0).all()


many = jax.jit(jax.vmap(pivoted_factor))


def of_many_rows():
    """20 rows, more than are written out: two regular matrices,
    one of rank 3, one with two equal rows, zero.

    The second of the regular ones has two rows near each other,
    which pivoting would take in another order.
    """
    x = [rows(20, 30), rows(20, 3), rows(20, 30, 1), rows(20, 30, 2), np.zeros((20, 30))]
    x[2][1] = x[2][0] + 0.1 * x[2][1]
    x[3][7] = x[3][2]
    return [each @ each.T for each in x]


def test_regular_and_singular_of_many_rows_together():
    """Each has its factor, whatever else is in the batch: of regular matrices it is Cholesky's."""
    K = of_many_rows()
    mixed = np.asarray(many(jnp.asarray(K)))
    for F, C in zip(mixed, K, strict=True):
        assert correlation_error(F, C) < 64 * 20 * EPS
    regular = np.stack([K[0], K[2], K[0], K[2], K[0]])
    for found in (many(jnp.asarray(regular))[:2], mixed[[0, 2]]):
        np.testing.assert_allclose(found, np.linalg.cholesky(regular[:2]), atol=1e-12)


def test_gradient_of_many_rows():
    """Against differences at regular matrices, beside singular ones, where it is finite."""
    K, weight, move = jnp.asarray(of_many_rows()), rows(20, 20, 3), rows(20, 20, 4)
    slopes = jax.jit(jax.grad(lambda K: jnp.sum(weight * many(K))))(K)
    assert np.isfinite(slopes).all()
    step = np.zeros(K.shape)
    step[[0, 2]] = 1e-5 * (move + move.T)
    above, below = (np.asarray(many(K + sign * step)) for sign in (1, -1))
    for i in (0, 2):
        slope = np.sum(weight * (above[i] - below[i])) / 2e-5
        np.testing.assert_allclose(np.sum(slopes[i] * (move + move.T)), slope, rtol=1e-6)


def test_derivative_by_the_branch_that_is_taken(monkeypatch):
    """Nothing is pivoted where nothing is singular, for derivatives of a batch either."""
    calls, pivoted = [], factors._pivoted

    def counted(K):
        jax.debug.callback(lambda: calls.append(1))
        return pivoted(K)

    monkeypatch.setattr(factors, "_pivoted", counted)
    x = np.random.default_rng(0).standard_normal((2, 20, 30))
    K = jnp.asarray(x @ x.swapaxes(1, 2))
    # a function of its own, which nothing has compiled before
    derivative = jax.jit(lambda K: jax.jvp(jax.vmap(lambda K: pivoted_factor(K)), (K,), (K,)))
    L, dL = derivative(K)
    np.testing.assert_allclose(dL, 0.5 * L, atol=1e-12)
    jax.effects_barrier()
    assert not calls
    jax.block_until_ready(derivative(K.at[1, :, 3].set(K[1, :, 4]).at[1, 3].set(K[1, 4])))
    jax.effects_barrier()
    assert calls


@pytest.mark.parametrize("decades", [1e-150, 1e-8, 1e8, 1e150])
def test_scales(decades):
    """Long and short vectors together: precision is relative to each one's length."""
    x = rows(4, 4) * np.array([1.0, decades, 1.0, decades])[:, None]
    x[2] = x[0]
    L = check_factor(x @ x.T, 4)
    assert (L[:, 2] == 0).all()


def test_batches_and_float32():
    x = np.stack([rows(4, 2, seed) for seed in range(6)]).reshape(2, 3, 4, 2)
    K = x @ x.swapaxes(-1, -2)
    L = jax.jit(factor)(jnp.asarray(K))
    nested = jax.jit(jax.vmap(jax.vmap(factor)))(jnp.asarray(K))
    np.testing.assert_allclose(L, nested, atol=1e-14)
    narrow = np.asarray(jax.jit(factor)(jnp.asarray(K, jnp.float32)))
    assert narrow.dtype == np.float32
    np.testing.assert_allclose(narrow @ narrow.swapaxes(-1, -2), K, atol=1e-5)
    assert (narrow[..., 2:] == 0).all()


def test_unrolled_and_looped_agree(monkeypatch):
    K = jnp.asarray(rows(6, 4) @ rows(6, 4).T)
    x, basis = jnp.asarray(rows(6, 9)), jnp.eye(3, 9)

    def everything():
        return jax.jit(lambda: (factor(K), pivoted_factor(K), *orthonormalise(x, basis)))()

    written_out = everything()
    monkeypatch.setattr(factors, "UNROLLED", 0)
    for first, second in zip(written_out, everything(), strict=True):
        np.testing.assert_allclose(first, second, atol=1e-14)


SINGULAR = {
    "zero": np.zeros((3, 3)),
    "ones": np.ones((3, 3)),
    "identity": np.eye(3),
    "repeated": np.array([[1.0, 0.5, 1.0], [0.5, 2.0, 0.5], [1.0, 0.5, 1.0]]),
    "zero row": np.diag([1.0, 0.0, 2.0]),
}


@pytest.mark.parametrize("unrolled", [0, 16])
@pytest.mark.parametrize("method", [factor, pivoted_factor])
def test_gradient_is_finite_at_singular_matrices(method, unrolled, monkeypatch):
    monkeypatch.setattr(factors, "UNROLLED", unrolled)
    weight = rows(3, 3)
    gradient = jax.jit(jax.grad(lambda K: jnp.sum(weight * method(K))))
    for name, K in SINGULAR.items():
        assert np.isfinite(gradient(jnp.asarray(K))).all(), name


@pytest.mark.parametrize("method", [factor, pivoted_factor])
def test_gradient(method):
    """Against differences, at a regular matrix."""
    x, weight, move = rows(4, 6), rows(4, 4, 1), rows(4, 4, 2)
    K, move = x @ x.T, move + move.T
    value = jax.jit(lambda t: jnp.sum(weight * method(jnp.asarray(K + t * move))))
    slope = (value(1e-5) - value(-1e-5)) / 2e-5
    np.testing.assert_allclose(jax.grad(value)(0.0), slope, rtol=1e-7)


# --- Gram–Schmidt --------------------------------------------------------------------------------


def frame(k1, r, seed=0):
    """k1 orthonormal rows of R^r."""
    return np.linalg.qr(rows(r, r, seed))[0][:k1]


def check_frame(x, basis):
    B, L, Q = map(np.asarray, jax.jit(orthonormalise)(jnp.asarray(x), jnp.asarray(basis)))
    length = np.linalg.norm(x, axis=1)
    assert (np.abs(B @ basis + L @ Q - x).max(axis=1, initial=0) <= 2000 * EPS * length).all()
    assert (np.triu(L, 1) == 0).all()
    present = np.diagonal(L) > 0
    assert (Q[~present] == 0).all()
    assert (L[:, ~present] == 0).all()
    np.testing.assert_allclose(Q @ Q.T, np.diag(present.astype(float)), atol=50 * EPS)
    np.testing.assert_allclose(Q @ basis.T, 0, atol=50 * EPS)
    return B, L, Q, present


@pytest.mark.parametrize(
    ("k", "k1", "r"),
    [(1, 0, 3), (1, 3, 4), (4, 4, 8), (3, 0, 3), (4, 2, 4), (20, 5, 40), (5, 5, 5), (40, 3, 30)],
)
def test_frames(k, k1, r):
    """As many rows are new as there is room for: min(k, r − k1)."""
    *_, present = check_frame(rows(k, r), frame(k1, r))
    assert present.sum() == min(k, r - k1)


@pytest.mark.parametrize("scale", [1e-100, 1.0, 1e100])
def test_spanned_rows(scale):
    basis = frame(3, 9)
    x = rows(6, 9)
    x[1] = 2 * x[0] - basis[1]
    x[2] = basis[0] / 3 + basis[2]
    x[3] = 0
    x[5] = x[4] + 0.1 * x[0]
    *_, present = check_frame(scale * x, basis)
    assert present.tolist() == [True, False, False, False, True, False]


@pytest.mark.parametrize("distance", [1e-4, 1e-8, 1e-11, 1e-12])
def test_nearly_spanned_rows_are_still_orthogonal(distance):
    """Once would leave Q·basis of order ε/distance."""
    basis = frame(3, 9)
    x = rows(4, 9)
    x[1] = x[0] + distance * x[1]
    x[2] = basis.sum(axis=0) + distance * x[2]
    *_, present = check_frame(x, basis)
    assert present.all()


@pytest.mark.parametrize("distance", [1e-4, 1e-8, 1e-12])
def test_blocks_of_rows_nearly_spanned_by_others(distance):
    """What is spanned by rows of earlier blocks, or nearly so."""
    x = rows(40, 90)
    x[20:] = x[:20] + distance * x[20:]
    x[33] = x[1] - x[2] / 3
    *_, present = check_frame(x, frame(3, 90))
    assert np.flatnonzero(~present).tolist() == [33]


@pytest.mark.parametrize("left", [1e-10, 3e-12, 1e-12])
def test_a_last_direction_of_which_little_is_left(left):
    """Later rows of its block that have more of it are spanned: no direction comes twice."""
    generator, r = np.random.default_rng(0), 20
    axes = np.linalg.qr(generator.standard_normal((r, r)))[0]
    coefficients = generator.standard_normal((2 * r, r))
    coefficients[: r - 1, -1], coefficients[r - 1, -1] = 0.0, left
    x = coefficients @ axes
    _, L, Q = (np.asarray(a) for a in orthonormalise(jnp.asarray(x), jnp.zeros((0, r))))
    assert np.count_nonzero(np.any(Q != 0, axis=1)) == r
    assert np.linalg.norm(Q, 2) < 1 + 1e-12
    np.testing.assert_allclose(L @ Q, x, atol=1e-13)


def test_zero_rows_of_the_basis():
    basis = frame(3, 6)
    basis[1] = 0
    B, *_, present = check_frame(rows(5, 6), basis)
    assert (B[:, 1] == 0).all()
    assert present.sum() == 4


def test_gradient_of_orthonormalise_is_finite():
    basis = frame(2, 5)
    regular = rows(3, 5)
    weights = rows(3, 2, 1), rows(3, 3, 1), rows(3, 5, 1)

    @jax.jit
    def value(x, basis):
        return sum(
            jnp.sum(w * part) for w, part in zip(weights, orthonormalise(x, basis), strict=True)
        )

    gradients = jax.jit(jax.grad(value, (0, 1)))
    repeated, spanned = regular.copy(), regular.copy()
    repeated[1] = repeated[0]
    spanned[0] = basis[0]
    for x in (np.zeros((3, 5)), repeated, spanned, np.ones((3, 5))):
        for gradient in gradients(jnp.asarray(x), jnp.asarray(basis)):
            assert np.isfinite(gradient).all()
    move = rows(3, 5, 2)
    slope = (
        value(jnp.asarray(regular + 1e-5 * move), basis)
        - value(jnp.asarray(regular - 1e-5 * move), basis)
    ) / 2e-5
    np.testing.assert_allclose(
        jnp.sum(gradients(jnp.asarray(regular), jnp.asarray(basis))[0] * move), slope, rtol=1e-6
    )


@pytest.mark.parametrize("m", [0, 1, 2, 3, 7])
def test_gram(m):
    x = np.stack([rows(m, 9, seed) for seed in range(4)]).reshape(2, 2, m, 9)
    np.testing.assert_allclose(
        gram(jnp.asarray(x)), np.einsum("...id,...jd->...ij", x, x), atol=1e-14
    )
    K = np.asarray(gram(jnp.asarray(x)))
    np.testing.assert_array_equal(K, K.swapaxes(-1, -2))
