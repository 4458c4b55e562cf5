"""The law of what the dense engine draws: matrices,
initial vectors, and their dependence on the key.
"""

import math

import jax
import numpy as np
import pytest

import limitlaw as ll
from engines.given_weights import assert_close
from limitlaw.engines.dense import simulate as dense

KEY = jax.random.key(42)


def drawn_entries(M, samples, key=KEY, stored=False):
    """Draws of the matrices themselves, (samples, *family,
    rows, cols), as products with the basis vectors.
    """
    rows, cols = M.rows.at(1), M.cols.at(1)
    basis = ll.data(np.eye(cols).reshape(cols, *(1,) * len(M.shape), cols))
    # a second use makes the engine keep the matrix
    outputs = [M @ basis] + [M @ ll.data(np.ones(cols))] * stored
    W = ll.simulate(outputs, width=1, samples=samples, key=key, coordinates=rows)[0]
    return np.moveaxis(np.asarray(W), 1, -1)


def assert_standard_normal(z):
    """Columns of z, (samples, count), are N(0, 1),
    uncorrelated, and so are their squares and moduli.

    Bounds are 5 standard errors, 6 for the largest of thousands of correlations; all correlations
    together have mean square 1/samples.
    """
    samples, count = z.shape
    unit = 5 / math.sqrt(samples)
    assert np.abs(z.mean(axis=0)).max() < unit
    assert np.abs((z**2).mean(axis=0) - 1).max() < unit * math.sqrt(2)
    assert abs((z**4).mean() - 3) < unit * math.sqrt(96 / count)
    assert abs((z**2).mean() - 1) < unit * math.sqrt(2 / count)
    pairs = np.triu_indices(count, 1)
    for function in (lambda x: x, np.square, np.abs):
        scores = math.sqrt(samples) * np.corrcoef(function(z), rowvar=False)[pairs]
        assert np.abs(scores).max() < 6
        # 0.02: squares have heavy tails
        assert abs((scores**2).mean() - 1) < 5 * math.sqrt(2 / len(scores)) + 0.02


# --- Matrices ------------------------------------------------------------------------------------


# 5 × 7 entries a matrix: one block; groups of two matrices, the last not full; bands of three
# rows, the last not full
@pytest.mark.parametrize("block", [2**18, 80, 24])
@pytest.mark.parametrize("stored", [False, True])
def test_entries_are_independent_normals_across_blocks(monkeypatch, block, stored):
    monkeypatch.setattr("limitlaw.engines.dense.weights.BLOCK", block)
    M = ll.Matrix(1.0, (3,), rows=5, cols=7)
    W = drawn_entries(M, 20_000, stored=stored)
    assert_standard_normal(math.sqrt(7) * W.reshape(len(W), -1))


def test_each_member_of_a_family_has_its_standard_deviation():
    std = np.array([[0.5], [2.0], [0.0]])
    M = ll.Matrix(std, (3, 2), rows=3, cols=5)
    W = drawn_entries(M, 20_000)
    assert not W[:, 2].any()  # a zero standard deviation is exactly zero
    z = W[:, :2] / std[None, :2, :, None, None] * math.sqrt(5)
    assert_standard_normal(z.reshape(len(z), -1))


def test_distinct_matrices_and_initial_vectors_are_independent():
    """Two matrices, two families and two initial vectors that are alike in
    everything but identity.
    """
    e = ll.data(np.eye(2))
    values = [ll.Matrix(rows=3, cols=2) @ e for _ in range(3)]
    values += [ll.initial((2,), dim=3) for _ in range(2)]
    values += [ll.Matrix(shape=(2,), rows=3, cols=2) @ e[0] for _ in range(2)]
    draws = ll.simulate(values, width=3, samples=20_000, key=KEY, coordinates=3)
    z = np.concatenate([np.asarray(d).reshape(20_000, -1) for d in draws], axis=1)
    z[:, :18] *= math.sqrt(2)
    z[:, 30:] *= math.sqrt(2)
    assert_standard_normal(z)


def test_a_matrix_used_twice_is_the_same_matrix():
    M, x = ll.Matrix(), ll.initial((2,))
    y = {
        "first": M @ x,
        "again": M @ x,
        "double": M @ (2 * x),
        "one": M @ x[1],
        "other": ll.Matrix() @ x,
    }
    draws = {
        k: np.asarray(v)
        for k, v in ll.simulate(y, width=5, samples=10, key=KEY, coordinates=5).items()
    }
    assert_close(draws["again"], draws["first"])
    assert_close(draws["double"], 2 * draws["first"])
    assert_close(draws["one"], draws["first"][:, 1])
    assert np.abs(draws["other"] - draws["first"]).min() > 0


# --- Initial vectors -----------------------------------------------------------------------------

ROOT = np.array([[1.0, 0.0, 0.0], [0.5, 2.0, 0.0], [1.0, -1.0, 0.3]])
COVARIANCES = {
    "full": ROOT @ ROOT.T,
    "rank two": ROOT[:, :2] @ ROOT[:, :2].T,
    "all equal": np.ones((3, 3)),
    "diagonal": np.diag([1.0, 4.0, 0.0]),
    "number": 2.5,
    "zero": 0.0,
}


@pytest.mark.parametrize("name", COVARIANCES)
def test_initial_vectors_have_their_mean_and_covariance(name):
    """Var of an estimated covariance entry is (C_ii C_jj + C_ij²)/samples."""
    cov, mean, samples = COVARIANCES[name], np.array([1.0, -2.0, 0.5]), 40_000
    h = ll.initial((3,), mean=mean, cov=cov, dim=2)
    z = (
        np.asarray(ll.simulate(h, width=1, samples=samples, key=KEY, coordinates=2))
        - mean[:, None]
    )
    C = np.eye(3) * cov if np.ndim(cov) == 0 else cov
    diagonal = np.diag(C)
    for a in range(2):
        assert (np.abs(z[..., a].mean(axis=0)) <= 5 * np.sqrt(diagonal / samples)).all()
        error = np.abs(z[..., a].T @ z[..., a] / samples - C)
        assert (
            error <= 5 * np.sqrt((np.outer(diagonal, diagonal) + C**2) / samples) + 1e-12
        ).all()
        kurtosis = (z[..., a] ** 4).mean(axis=0) - 3 * diagonal**2
        assert (np.abs(kurtosis) <= 5 * math.sqrt(96 / samples) * diagonal**2 + 1e-12).all()
    across = np.abs(z[..., 0].T @ z[..., 1] / samples)
    assert (across <= 5 * np.sqrt(np.outer(diagonal, diagonal) / samples)).all()
    if name == "all equal":
        # rounding of the smallest eigenvalues, under the root
        assert np.abs(z - z[:, :1]).max() < 1e-7


def test_an_initial_covariance_is_over_the_flattened_shape():
    cov = np.diag([0.0, 1.0, 4.0, 9.0])
    h = ll.initial((2, 2), mean=[[1.0], [2.0]], cov=cov)
    z = np.asarray(ll.simulate(h, width=1, samples=20_000, key=KEY)) - np.array([[1.0], [2.0]])
    assert not z[:, 0, 0].any()
    assert np.abs(z.std(axis=0).ravel() - [0, 1, 2, 3]).max() < 5 * 3 / math.sqrt(2 * 20_000)


# --- Draws and keys ------------------------------------------------------------------------------


# A small attention network of which several batches make a thousand draws
NETWORK = ll.attention(ll.relu(ll.matrices(4) @ ll.initial()), heads=2)


def test_draw_i_depends_only_on_the_key_and_i():
    y = NETWORK
    draws = {m: np.asarray(ll.simulate(y, width=32, samples=m, key=KEY)) for m in (1, 7, 1000)}
    batch, _ = dense.compiled((y.core,), 32, None)
    assert 7 < batch < 500  # so that the thousand take several batches, the last one not full
    assert 1000 % batch
    for m, result in draws.items():
        assert result.shape == (m, 4)
        assert (result == draws[1000][:m]).all()
    assert len(np.unique(draws[1000])) == 4000
    other = np.asarray(ll.simulate(y, width=32, samples=1000, key=jax.random.key(43)))
    assert not (other == draws[1000]).any()
    assert (np.asarray(ll.simulate(y, width=32, samples=7, key=42)) == draws[7]).all()
    correlation = np.corrcoef(np.tanh(np.concatenate([draws[1000], other], axis=1)), rowvar=False)[
        :4, 4:
    ]
    assert np.abs(correlation).max() < 5 / math.sqrt(1000)


def test_draws_are_independent_of_each_other():
    """Successive draws, and those of two batches, are uncorrelated."""
    y = np.tanh(np.asarray(ll.simulate(NETWORK, width=32, samples=3000, key=KEY)))
    for lag in (1, 2, 29, 500):
        correlation = np.corrcoef(y[lag:], y[:-lag], rowvar=False)[:4, 4:]
        assert np.abs(correlation).max() < 5 / math.sqrt(3000 - lag)


def test_coordinates_are_the_first_ones():
    y = ll.Matrix() @ ll.initial((4,))
    whole = np.asarray(ll.simulate(y, width=6, samples=5, key=KEY, coordinates=6))
    assert whole.shape == (5, 4, 6)
    assert_close(ll.simulate(y, width=6, samples=5, key=KEY, coordinates=3), whole[..., :3])
    assert_close(ll.simulate(y, width=6, samples=5, key=KEY), whole[..., 0])
    with pytest.raises(ValueError, match="at most the 6"):
        ll.simulate(y, width=6, samples=5, key=KEY, coordinates=7)


def test_outputs_of_one_call_share_their_draws():
    x = ll.initial((3,))
    q, k = ll.Matrix() @ x, ll.Matrix() @ x
    p = ll.dot(q, k)
    draws = ll.simulate({"p": p, "vectors": (q, [k])}, width=5, samples=4, key=KEY, coordinates=5)
    Q, (K,) = draws["vectors"]
    assert draws["p"].shape == (4, 3, 3)
    assert_close(draws["p"], np.einsum("nia,nja->nij", Q, K) / math.sqrt(5))
