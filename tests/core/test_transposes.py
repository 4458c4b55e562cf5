"""A matrix from both sides: `W.T @ w`."""

import jax.numpy as jnp
import numpy as np
import pytest
from given_weights import GivenWeights

import limitlaw as ll
from limitlaw.engines.dense.simulate import evaluate

ROWS, COLS = 3 * ll.n, 2 * ll.n
WIDTH = 4


def test_the_definition():
    """W.T @ w is Wᵀ w with the entries of W, family by family."""
    rng = np.random.default_rng(0)
    W = ll.Matrix(shape=(2, 1), rows=ROWS, cols=COLS)
    w = ll.initial((5,), dim=ROWS)
    A, x = rng.normal(size=(2, 1, 12, 8)), rng.normal(size=(5, 12))
    (found,) = evaluate([W.T @ w], WIDTH, GivenWeights({W: A, w: x}))
    np.testing.assert_allclose(found, np.einsum("hsrc,sr->hsc", A, x), rtol=1e-12)


def test_drawn_matrices_are_the_same_from_both_sides():
    """u·(W x) = (Wᵀ u)·x in every draw, whether W is square or not."""
    W = ll.Matrix(2.0, rows=ROWS, cols=COLS)
    x, u = ll.initial((2,), dim=COLS), ll.initial((3,), dim=ROWS)
    left, right = ll.dot(u, W @ x), ll.dot(W.T @ u, x)
    p, q = ll.simulate((left, right), WIDTH, 50, 0)
    np.testing.assert_allclose(p * 12**0.5, q * 8**0.5, rtol=1e-10)


def test_printing():
    """Transposes print as such; a rectangular one with the ratio that it is balanced by."""
    W, V = ll.Matrix(), ll.Matrix(rows=4 * ll.n)
    x = ll.initial()
    assert "W₁ᵀ g₂" in str(W.T @ (W @ x))
    assert "√(4n/n)" in str(V.T @ (V @ x))
    assert W.T.T is W


def test_spaces():
    """Wᵀ maps from the rows to the columns."""
    V = ll.Matrix(rows=4 * ll.n)
    assert (V.T @ ll.initial(dim=4 * ll.n)).dim == ll.n
    with pytest.raises(ValueError, match=r"multiplies vectors in the space 4n"):
        V.T @ ll.initial()
    with pytest.raises(TypeError, match=r"M.T multiplies vectors of a program, got list"):
        V.T @ [jnp.ones(3)]
