"""Orthonormal bases by a Cholesky factor against Gram–Schmidt row by row."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array

from limitlaw.numerics.bases import extended
from limitlaw.numerics.factors import orthonormalise
from limitlaw.numerics.linear_algebra import inverse_factor


def rows(*shape: int, seed: int = 0) -> Array:
    return jnp.asarray(np.random.default_rng(seed).normal(size=shape))


def basis_of(k: int, r: int) -> Array:
    return jnp.asarray(np.linalg.qr(np.asarray(rows(r, r, seed=1)))[0][:k])


def near(distance: float) -> Array:
    """A zero row, a row that is spanned by others, and one at this distance from another."""
    x = np.array(rows(20, 60))
    x[3], x[7], x[11] = 0, x[1] - 2 * x[2], x[5] + distance * x[11]
    return jnp.asarray(x)


@pytest.mark.parametrize("k1", [0, 5])
@pytest.mark.parametrize(
    ("x", "error"), [(rows(20, 60), 1e-12), (near(1e-3), 1e-11), (near(1e-9), 1e-5)]
)
def test_against_row_by_row(x: Array, error: float, k1: int) -> None:
    """L and Q are unique where L has a positive diagonal, up to ε over distances between rows;
    what is spanned has none.
    """
    basis = basis_of(k1, 60)
    B, L, Q = extended(x, basis)
    np.testing.assert_allclose(B @ basis + L @ Q, x, atol=1e-13)
    for found, expected in zip((B, L), orthonormalise(x, basis)[:2], strict=True):
        np.testing.assert_allclose(found, expected, atol=error)
    there = np.diagonal(L) > 0
    np.testing.assert_allclose(Q @ Q.T, np.diag(there.astype(float)), atol=1e-12)
    np.testing.assert_allclose(Q @ basis.T, 0, atol=1e-12)
    assert np.all(np.asarray(Q)[~there] == 0)


def test_a_batch_is_what_its_parts_are() -> None:
    """Also where one of them needs care."""
    x = jnp.stack([rows(20, 60), near(1e-9), rows(20, 60, seed=2)])
    basis = jnp.zeros((0, 60))
    together = jax.vmap(lambda x: extended(x, basis))(x)
    alone = [extended(one, basis) for one in x]
    for all_of, *each in zip(together, *alone, strict=True):
        np.testing.assert_allclose(all_of, jnp.stack(each), rtol=0, atol=1e-5)


@pytest.mark.parametrize("m", [1, 5, 16, 40])
def test_inverse_factors(m: int) -> None:
    """L⁻¹ of L Lᵀ = C, and NaN where there is no L."""
    C = rows(m, 2 * m) @ rows(m, 2 * m).T + jnp.eye(m)
    np.testing.assert_allclose(inverse_factor(C), np.linalg.inv(np.linalg.cholesky(C)), atol=1e-11)
    assert np.isnan(inverse_factor(C - 1e6 * jnp.eye(m))).any()
