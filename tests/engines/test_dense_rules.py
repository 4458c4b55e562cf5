"""Each instruction under the dense engine, against NumPy written from its definition,
with the same numbers.
"""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import limitlaw as ll
from engines.given_weights import GivenWeights, assert_close, plain_softmax, random_weights, run
from limitlaw.engines.dense.weights import DrawnWeights
from limitlaw.engines.meeting import Meeting
from limitlaw.language.lower import family as family_of

WIDTH = 6


# --- Leaves --------------------------------------------------------------------------------------


def test_initial_vectors_are_taken_as_given():
    h = ll.initial((2, 3), mean=[1.0, 2.0, 3.0], cov=np.eye(6), dim=2 * ll.n)
    given = np.random.default_rng(0).standard_normal((2, 3, 2 * WIDTH))
    assert_close(run(h, WIDTH, GivenWeights({h: given})), given, 0)


def test_drawn_initial_vectors_are_mean_plus_a_root_of_cov():
    """With zero covariance the mean is exact; the law for other covariances is tested in
    test_dense_draws.py.
    """
    mean = np.array([[1.0], [2.0]])
    h = ll.initial((2, 3), mean=mean, cov=np.zeros((6, 6)))
    weights = DrawnWeights(jax.random.key(0), WIDTH, {h.core.value: 0}, frozenset())
    assert_close(run(h, WIDTH, weights), np.broadcast_to(mean[..., None], (2, 3, WIDTH)), 0)


def test_data_are_constant():
    X = np.arange(24.0).reshape(2, 3, 4)
    assert_close(run(ll.data(X), WIDTH, GivenWeights({})), X, 0)


def test_adding_numbers_shifts_every_coordinate():
    h = ll.initial((3,))
    p = ll.average(h)
    programs = (h + 2.0, 2.0 - h, h + np.array([[1.0], [2.0]]), h - p, h + np.arange(3.0))
    weights = random_weights(programs, WIDTH)
    x = weights[h]
    shift = np.array([[1.0], [2.0]])[..., None]
    means = np.array([sum(row) / WIDTH for row in x])
    expected = (x + 2, 2 - x, x[None] + shift, x - means[:, None], x + np.arange(3.0)[:, None])
    for actual, wanted in zip(run(programs, WIDTH, weights), expected, strict=True):
        assert_close(actual, wanted)


def test_spaces_have_their_dimensions_at_each_width():
    h = ll.initial(dim=3 * ll.n / 2)
    assert run(h, 4, random_weights(h, 4)).shape == (6,)
    assert run(h, 6, random_weights(h, 6)).shape == (9,)


# --- MatMul --------------------------------------------------------------------------------------

PATTERNS = [
    ((), ()),
    ((), (3,)),
    ((), (2, 3)),
    ((4,), ()),
    ((4,), (4,)),
    ((1,), (3,)),
    ((3,), (1,)),
    ((4, 1), (3,)),
    ((4, 1), (2, 4, 3)),
    ((4, 1), (2, 1, 3)),
    ((2, 3, 1), (4,)),
    ((2, 3, 1), (2, 1, 4)),
    ((2, 1, 1), (2, 3, 4)),
    ((2, 1, 3), (1, 4, 1)),
    ((2, 1, 3), (4, 3)),
    ((1, 3), (2, 1)),
    ((2, 3), (5, 1, 3)),
    ((1, 1), (2, 3)),
]


def products(W, x):
    """W x entry by entry of the broadcast batch."""
    full = np.broadcast_shapes(W.shape[:-2], x.shape[:-1])
    W = np.broadcast_to(W, full + W.shape[-2:])
    x = np.broadcast_to(x, full + x.shape[-1:])
    return np.array([W[i] @ x[i] for i in np.ndindex(*full)]).reshape(*full, W.shape[-2])


@pytest.mark.parametrize(("family", "batch"), PATTERNS)
def test_matmul_with_given_matrices(family, batch):
    M = ll.Matrix(2.0, family, rows=2 * ll.n, cols=5)
    x = ll.initial(batch, dim=5)
    weights = random_weights(M @ x, WIDTH)
    assert_close(run(M @ x, WIDTH, weights), products(weights[M], weights[x]))


@pytest.mark.parametrize(("family", "batch"), PATTERNS)
def test_a_meeting_brings_broadcasting_to_m_matrices_times_k_vectors(family, batch):
    rng = np.random.default_rng(4)
    W, x = rng.standard_normal((*family, 2, 5)), rng.standard_normal((*batch, 5))
    meeting = Meeting.of(family, batch)
    vectors = np.asarray(meeting.gather(jnp.asarray(x)))
    m = math.prod(family)
    met = np.broadcast_to(vectors, (m, *vectors.shape[1:]))
    y = np.array([[w @ v for v in met[i]] for i, w in enumerate(W.reshape(m, 2, 5))])
    assert_close(meeting.scatter(jnp.asarray(y)), products(W, x))


# 4 × 5 entries a matrix: one block; groups of several matrices, the last one not full; bands of
# some rows, of one row
@pytest.mark.parametrize("block", [2**18, 50, 15, 3])
@pytest.mark.parametrize("pattern", [((5, 1), (2,)), ((3, 1, 2), (3, 4, 1))])
def test_drawn_matrices_meet_vectors_by_broadcasting(monkeypatch, pattern, block):
    """Streamed and stored products, in one block, in groups of matrices and in bands of rows,
    are those of one W.
    """
    monkeypatch.setattr("limitlaw.engines.dense.weights.BLOCK", block)
    family, batch = pattern
    rng = np.random.default_rng(1)
    rows, cols = 4, 5
    M = ll.Matrix(rng.uniform(0.5, 2.0, family), family, rows=rows, cols=cols)
    x = rng.standard_normal((*batch, cols))
    W = family_of(M)
    basis = np.eye(cols).reshape(cols, *(1,) * len(family), cols)

    @jax.jit
    def multiply(key, x):
        stored = DrawnWeights(key, WIDTH, {W: 0}, frozenset({W}))
        streamed = DrawnWeights(key, WIDTH, {W: 0}, frozenset())
        return (
            stored.multiply(W, jnp.asarray(basis)),
            stored.multiply(W, x),
            streamed.multiply(W, x),
        )

    columns, *results = multiply(jax.random.key(3), jnp.asarray(x))
    drawn = np.moveaxis(np.asarray(columns), 0, -1)
    assert drawn.shape == (*family, rows, cols)
    assert len(np.unique(drawn)) == drawn.size  # no number is used twice
    for result in results:
        assert_close(result, products(drawn, x))


# --- Nonlin, averages, dot products --------------------------------------------------------------


def test_map_of_vectors_and_numbers():
    g, h = ll.initial((3, 1)), ll.initial((4,))
    p = ll.dot(ll.initial((3,)), ll.initial((4,)))
    y = ll.map(lambda a, b, c, d: jnp.tanh(a) * b + c * a - d, g, h, p, 0.5)
    weights = random_weights((y, p), WIDTH)
    actual, scores = run((y, p), WIDTH, weights)
    expected = np.empty((3, 4, WIDTH))
    for i, j, a in np.ndindex(3, 4, WIDTH):
        u, v = weights[g][i, 0, a], weights[h][j, a]
        expected[i, j, a] = math.tanh(u) * v + scores[i, j] * u - 0.5
    assert_close(actual, expected)


NAMED = [
    (ll.relu, lambda x: max(x, 0.0)),
    (ll.leaky_relu, lambda x: x if x > 0 else 0.01 * x),
    (ll.abs, abs),
    (ll.sign, lambda x: float(x > 0) - float(x < 0)),
    (ll.erf, math.erf),
    (ll.gelu, lambda x: x * 0.5 * math.erfc(-x / math.sqrt(2))),
    (ll.tanh, math.tanh),
    (ll.sigmoid, lambda x: 1 / (1 + math.exp(-x))),
    (ll.silu, lambda x: x / (1 + math.exp(-x))),
    (ll.softplus, lambda x: math.log1p(math.exp(x))),
    (ll.sin, math.sin),
    (ll.cos, math.cos),
    (lambda w: ll.clip(w, 0.7), lambda x: min(max(x, -0.7), 0.7)),
    (lambda w: w * w, lambda x: x * x),
    (lambda w: w**3, lambda x: x * x * x),
    (lambda w: 1.0 / w, lambda x: 1 / x),
    (lambda w: w / w, lambda x: 1.0),
    (abs, abs),
]


@pytest.mark.parametrize(("program", "formula"), NAMED)
def test_named_nonlinearities(program, formula):
    h = ll.initial((3,))
    weights = random_weights(h, 40)
    assert_close(
        run(program(h), 40, weights), np.vectorize(formula, otypes=[float])(weights[h]), 1e-13
    )


@pytest.mark.parametrize("scaling", ["sqrt", "linear"])
@pytest.mark.parametrize(
    ("left", "right"),
    [
        ((), ()),
        ((3,), ()),
        ((), (4,)),
        ((3,), (4,)),
        ((2, 3), (4,)),
        ((5, 1, 3), (2, 4)),
        ((2, 3), ()),
        ((2, 3), (2, 4)),
    ],
)
def test_dot(left, right, scaling):
    q, k = ll.initial(left, dim=2 * ll.n), ll.initial(right, dim=2 * ll.n)
    y = ll.dot(q, k, scaling)
    weights = random_weights(y, WIDTH)
    D = 2 * WIDTH
    Q, K = (weights[v] if v.shape else weights[v][None] for v in (q, k))
    lead = np.broadcast_shapes(Q.shape[:-2], K.shape[:-2])
    Q, K = np.broadcast_to(Q, (*lead, *Q.shape[-2:])), np.broadcast_to(K, (*lead, *K.shape[-2:]))
    expected = np.empty((*lead, Q.shape[-2], K.shape[-2]))
    for index in np.ndindex(*expected.shape):
        *b, i, j = index
        total = sum(Q[(*b, i, a)] * K[(*b, j, a)] for a in range(D))
        expected[index] = total / (D**0.5 if scaling == "sqrt" else D)
    assert_close(run(y, WIDTH, weights), expected.reshape((*lead, *left[-1:], *right[-1:])))


def test_average_and_functions_of_numbers():
    h = ll.initial((2, 3))
    m = ll.average(h * h)
    programs = (
        m,
        ll.apply(jnp.cumsum, m),
        1 / (m + 1) - m**2,
        ll.rsqrt(m),
        m @ np.eye(3)[:, :2],
        -abs(3 - m),
    )
    weights = random_weights(programs, WIDTH)
    M = np.array(
        [[sum(v * v for v in weights[h][i, j]) / WIDTH for j in range(3)] for i in range(2)]
    )
    expected = (M, np.cumsum(M), 1 / (M + 1) - M**2, 1 / np.sqrt(M), M[:, :2], -np.abs(3 - M))
    for actual, wanted in zip(run(programs, WIDTH, weights), expected, strict=True):
        assert_close(actual, wanted)


MASKS = {
    "none": None,
    "causal": "causal",
    "one token seen": np.eye(4, dtype=bool),
    "the same for all rows": np.array([True, False, True, False]),
    "one per head": np.random.default_rng(5).random((2, 4, 4)) < 0.5 + np.eye(4),
}


@pytest.mark.parametrize("size", [1.0, 1e4])
@pytest.mark.parametrize("mask", MASKS)
def test_softmax(mask, size):
    q, k = ll.initial((2, 4)), ll.initial((2, 4))
    p = size * ll.dot(q, k)
    weights = random_weights(p, WIDTH)
    A, scores = run((ll.softmax(p, MASKS[mask]), p), WIDTH, weights)
    visible = np.tri(4, dtype=bool) if mask == "causal" else MASKS[mask]
    assert_close(A, plain_softmax(scores, visible))
    assert_close(A.sum(axis=-1), np.ones((2, 4)), 1e-14)
    if mask == "one token seen":
        assert_close(A, np.broadcast_to(np.eye(4), (2, 4, 4)), 0)


@pytest.mark.parametrize("positions", [np.arange(3.0), np.array([[0.0], [7.5]]), 2.0])
def test_rotary_turns_pairs_of_coordinates(positions):
    """As complex numbers: w_m + i w_{m+D/2} is multiplied by exp(i θ_m t)."""
    q, k = ll.initial((2, 3)), ll.initial((2, 3))
    y = ll.dot(
        ll.rotary(q, positions, base=100.0), ll.rotary(k, 2 * np.asarray(positions), base=100.0)
    )
    weights = random_weights(y, WIDTH)
    half = WIDTH // 2

    def turned(x, t):
        angle = np.broadcast_to(t, (2, 3))[..., None] * 100.0 ** (-np.arange(half) / half)
        return (x[..., :half] + 1j * x[..., half:]) * np.exp(1j * angle)

    Q, K = turned(weights[q], positions), turned(weights[k], 2 * np.asarray(positions))
    expected = np.einsum("bia,bja->bij", Q, K.conj()).real / np.sqrt(WIDTH)
    assert_close(run(y, WIDTH, weights), expected)
