"""The parts of the infinite-width engine: blocks of covariances, joint placement, infinitely many heads as nodes."""

import math

import jax.numpy as jnp
import numpy as np
import pytest

import limitlaw as ll
from limitlaw.engines.blocks import Block, outer, total
from limitlaw.engines.head_laws import axis_of_heads, diverges
from limitlaw.engines.heads import with_nodes
from limitlaw.engines.limit.joint import Joint
from limitlaw.language import ops

RNG = np.random.default_rng(0)


def paired() -> tuple[Block, np.ndarray]:
    """Covariances of (3, 4) with (4, 3), zero unless the axis of size 3 agrees; and the same written out."""
    array = RNG.normal(size=(3, 4, 4, 1))
    block = Block(jnp.asarray(array), (3, 4), (4, 3), ((0, 1),))
    return block, np.einsum("hijx,hk->hijk", array, np.eye(3))


def test_pairs_written_out() -> None:
    """Flat, swapped, restricted, and sums over paired and plain axes, against the dense array."""
    block, dense = paired()
    np.testing.assert_allclose(block.flat(), dense.reshape(12, 12))
    np.testing.assert_allclose(block.swapped.flat(), dense.reshape(12, 12).T)
    x = ll.initial((3, 4))
    for axes in ((0,), (1,), (0, 1)):
        summed = block.summed(ops.Sum(x, axes, normalised=True))
        expected = dense.sum(axis=axes) / math.sqrt(np.prod([dense.shape[a] for a in axes]))
        np.testing.assert_allclose(summed.flat(), expected.reshape(-1, 12))
    full = Block(jnp.asarray(RNG.normal(size=(3, 4, 4, 3))), (3, 4), (4, 3))
    once = full.restricted(0, 1)
    np.testing.assert_allclose(once.flat(), (full.array * np.eye(3)[:, None, None, :]).reshape(12, 12))
    np.testing.assert_allclose(once.times(block).flat(), (np.asarray(full.array) * dense).reshape(12, 12))
    np.testing.assert_allclose(total([block, full], (3, 4)).flat(), block.flat() + full.flat())


def test_linear_instructions() -> None:
    """Mixing, scaling, indexing, reshaping and transposing v, against the same on the dense array."""
    block, dense = paired()
    x = ll.initial((3, 4))
    a = RNG.normal(size=(3, 2, 4))
    mix = (ll.apply(lambda p: p, a) @ x).op
    mixed = block.mixed(mix, jnp.asarray(a), (3, 2))
    np.testing.assert_allclose(mixed.flat(), np.einsum("hij,hjkl->hikl", a, dense).reshape(6, 12))
    scaled = block.scaled(jnp.asarray(a[:, 0]), (3, 4))
    np.testing.assert_allclose(scaled.flat(), (a[:, 0, :, None, None] * dense).reshape(12, 12))
    right_first = dense.reshape(3, 4, 12).transpose(2, 0, 1)
    rows = np.array([2, 0])
    for index in ((slice(None), 1), (0,), (None, Ellipsis, slice(1, 3)), (rows,), (slice(None), slice(None, None, -1))):
        y = x[index]
        got = block.indexed(y.op, tuple(map(int, y.shape)))
        np.testing.assert_allclose(got.flat(), right_first[:, *index].reshape(12, -1).T)
    np.testing.assert_allclose(block.reshaped((2, 6)).flat(), dense.reshape(12, 12))
    y = x.transpose(1, 0)
    np.testing.assert_allclose(block.transposed(y.op, (4, 3)).flat(), dense.transpose(1, 0, 2, 3).reshape(12, 12))


def test_diagonal() -> None:
    """Cov(v_i, w_i) of broadcast and of paired blocks."""
    m = jnp.asarray(RNG.normal(size=(2, 3)))
    np.testing.assert_allclose(outer(m, m).diagonal(), m**2)
    narrow = Block(jnp.asarray(RNG.normal(size=(1, 3, 2, 1))), (2, 3), (2, 3))
    dense = np.broadcast_to(narrow.array, (2, 3, 2, 3))
    np.testing.assert_allclose(narrow.diagonal(), np.einsum("ijij->ij", dense))


@pytest.mark.parametrize("rank", [2, 5])
def test_joint(rank: int) -> None:
    """Rows reproduce the Gram matrix, batch by batch, also where later batches lie in the span of earlier ones."""
    vectors = RNG.normal(size=(6, rank))
    items = {0: vectors[:2], 1: vectors[2:5], 2: vectors[5:]}
    joint = Joint(lambda i, j: jnp.asarray(items[i] @ items[j].T))
    for i in items:
        joint.rows(i)
    L = np.asarray(joint.L)
    np.testing.assert_allclose(L @ L.T, vectors @ vectors.T, atol=1e-12)
    assert joint.rows(0).shape == (2, 2)
    new = RNG.normal(size=(1, rank))
    B = np.asarray(joint.regression("new", lambda _, j: jnp.asarray(new @ items[j].T)))
    np.testing.assert_allclose(B @ L.T, new @ vectors.T, atol=1e-11)


def test_infinite_axes_become_nodes() -> None:
    """Every infinite axis of values and matrices, with matrices shared as before, and no other axis of that size."""
    x = ll.initial((512,))
    (y,), count = with_nodes((ll.attention(x, math.inf),), 512)
    assert count == 256
    (same,), none = with_nodes((x,), 512)
    assert same is x
    assert none == 0
    assert "∞" not in str(y)


def test_nothing_of_a_wide_vector_is_drawn() -> None:
    """One token of an attention layer, s = 4 and H = 2, takes 2·4 normals; narrow heads two χ more each."""
    from limitlaw.engines.evaluate import Limit
    from limitlaw.engines.limit import _law_figure

    wide = Limit((ll.attention(ll.initial((4,)), 2)[0],), _law_figure)
    assert wide.recipe == [math.inf] * 8
    narrow = Limit((ll.attention(ll.initial((4,)), 2, head_dim=8)[0],), _law_figure)
    assert sorted(narrow.recipe) == [8.0] * 4 + [math.inf] * 8


def test_where_joint_densities_are_infinite() -> None:
    """On the diagonal of all outputs of one head that sees all tokens; not of fewer, of two heads, nor under a mask."""
    x = ll.matrices(4) @ ll.initial()
    one, two = ll.attention(x, heads=1), ll.attention(x, heads=2)
    masked = ll.attention(x, heads=1, mask="causal")
    for y, infinite in ((one, True), (one[:3], False), (one[:2], False), (two, False), (masked, False)):
        axis = axis_of_heads(y)
        assert axis is not None
        assert diverges(axis, math.prod(y.shape)) is infinite


def test_density_of_two_tokens_on_the_diagonal() -> None:
    """Of two tokens of four, with one head, it is finite there: the mean of N(0, A Aᵀ) over softmaxes A of normals."""
    law = ll.limit((ll.attention(ll.matrices(4) @ ll.initial(), heads=1))[:2], samples=2**12)
    y = np.full(2, 0.3)
    A = np.exp(np.random.default_rng(1).standard_normal((40_000, 2, 4)))
    A /= A.sum(axis=-1, keepdims=True)
    C = A @ A.swapaxes(1, 2)
    square = np.einsum("i,nij,j->n", y, np.linalg.inv(C), y)
    density = np.exp(-square / 2) / (2 * math.pi * np.sqrt(np.linalg.det(C)))
    error = math.hypot(density.std() / math.sqrt(len(density)), float(law.error.pdf(y)))
    assert abs(float(law.pdf(y)) - density.mean()) < 5 * error
    assert error < 0.02
