"""Covariances with paired axes, against the same written out."""

import jax.numpy as jnp
import numpy as np
import pytest

from limitlaw.core.covariance import Covariance, outer, pair, stacked, total
from limitlaw.core.labelled import Axis, Labelled

RNG = np.random.default_rng(0)
HEADS, TOKENS, OTHER_TOKENS, OTHER_HEADS, ROWS = Axis(3), Axis(4), Axis(4), Axis(3), Axis(2)
LEFT, RIGHT = (HEADS, TOKENS), (OTHER_TOKENS, OTHER_HEADS)


def paired() -> tuple[Covariance, np.ndarray]:
    """Covariances of (heads, tokens) with (tokens, heads),
    zero unless the heads agree; and the same written out.
    """
    array = RNG.normal(size=(3, 4, 4))
    labels = (pair(HEADS, OTHER_HEADS), pair(TOKENS, None), pair(None, OTHER_TOKENS))
    return Covariance(Labelled(jnp.asarray(array), labels)), np.einsum(
        "hij,hk->hijk", array, np.eye(3)
    )


def full() -> tuple[Covariance, np.ndarray]:
    """Without pairs."""
    array = RNG.normal(size=(3, 4, 4, 3))
    labels = (*(pair(a, None) for a in LEFT), *(pair(None, b) for b in RIGHT))
    return Covariance(Labelled(jnp.asarray(array), labels)), array


def test_pairs_written_out() -> None:
    """Flat, swapped, restricted, products and sums."""
    (c, dense), (d, array) = paired(), full()
    np.testing.assert_allclose(c.flat(LEFT, RIGHT), dense.reshape(12, 12))
    np.testing.assert_allclose(c.swapped.flat(RIGHT, LEFT), dense.reshape(12, 12).T)
    equal = array * np.eye(3)[:, None, None, :]
    np.testing.assert_allclose(d.restricted(HEADS, OTHER_HEADS).whole(LEFT, RIGHT), equal)
    np.testing.assert_allclose(d.times(c).whole(LEFT, RIGHT), array * dense)
    np.testing.assert_allclose(total([c, d]).whole(LEFT, RIGHT), array + dense)


@pytest.mark.parametrize("over", [(HEADS,), (TOKENS,), (HEADS, TOKENS)])
def test_sums(over: tuple[Axis, ...]) -> None:
    """Plain and weighted, over paired and plain axes."""
    c, dense = paired()
    left = tuple(a for a in LEFT if a not in over)
    axes = tuple(LEFT.index(a) for a in over)
    np.testing.assert_allclose(c.contract(None, over).whole(left, RIGHT), dense.sum(axis=axes))
    a = RNG.normal(size=(3, 2, 4))
    letters = "".join(letter for letter, axis in zip("hi", LEFT, strict=True) if axis not in over)
    expected = np.einsum(f"hoi,hijk->{letters}ojk", a, dense)
    weighted = c.contract(Labelled(jnp.asarray(a), (HEADS, ROWS, TOKENS)), over)
    np.testing.assert_allclose(weighted.whole((*left, ROWS), RIGHT), expected)


def test_places_and_stacks() -> None:
    """Entries of a paired axis, and a covariance of zero in a stack."""
    c, dense = paired()
    new = Axis(2)
    np.testing.assert_allclose(
        c.take((HEADS,), [np.array([2, 0])], (new,)).whole((new, TOKENS), RIGHT), dense[[2, 0]]
    )
    both = stacked([c, None], ROWS)
    np.testing.assert_allclose(both.whole((ROWS, *LEFT), RIGHT), np.stack([dense, 0 * dense]))


def test_diagonals_and_outer_products() -> None:
    """Var v_i, with and without a pair, and m_i k_j."""
    m = Labelled(jnp.asarray(RNG.normal(size=4)), (TOKENS,))
    K = outer(m, m)
    np.testing.assert_allclose(
        K.diagonal((HEADS, TOKENS)).whole(LEFT), np.tile(np.square(m.array), (3, 1))
    )
    np.testing.assert_allclose(
        K.restricted(TOKENS, TOKENS).diagonal((TOKENS,)).array, np.square(m.array)
    )
