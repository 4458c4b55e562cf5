"""The parts of the infinite-width engine: joint placement,
infinitely many heads as nodes, what is drawn.
"""

import math

import jax.numpy as jnp
import numpy as np
import pytest

import limitlaw as ll
from limitlaw.core.labelled import NodeAxis
from limitlaw.core.program import Program, with_nodes
from limitlaw.engines.heads.joint import diverges
from limitlaw.engines.heads.structure import head_axis
from limitlaw.engines.limit import statistics
from limitlaw.engines.limit.conditions import Limit
from limitlaw.engines.limit.nodes import Joint

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("rank", [2, 5])
def test_joint(rank: int) -> None:
    """Rows reproduce the Gram matrix, batch by batch,
    also where later batches lie in the span of earlier ones.
    """
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
    """Every infinite axis of values and matrices, with matrices shared as before;
    other axes stay what they are.
    """
    x = ll.initial((512,))
    (y,), count = with_nodes((ll.attention(x, math.inf).core,), 512)
    assert count == 256
    values = Program((y.value,)).values
    assert all(math.isfinite(axis.size) for v in values for axis in v.axes)
    assert {axis.size for v in values for axis in v.axes if isinstance(axis, NodeAxis)} == {256}
    assert x.core.value in values
    (same,), none = with_nodes((x.core,), 512)
    assert same.value is x.core.value
    assert none == 0


def test_nothing_of_a_wide_vector_is_drawn() -> None:
    """One token of an attention layer, s = 4 and H = 2, takes 2·4 normals;
    narrow heads two χ more each.
    """
    wide = Limit((ll.attention(ll.initial((4,)), 2)[0].core,), statistics.conditions)
    assert wide.recipe == (math.inf,) * 8
    narrow = Limit((ll.attention(ll.initial((4,)), 2, head_dim=8)[0].core,), statistics.conditions)
    assert sorted(narrow.recipe) == [8.0] * 4 + [math.inf] * 8


def test_where_joint_densities_are_infinite() -> None:
    """On the diagonal of all outputs of one head that sees all tokens;
    not of fewer, of two heads, nor under a mask.
    """
    x = ll.matrices(4) @ ll.initial()
    one, two = ll.attention(x, heads=1), ll.attention(x, heads=2)
    masked = ll.attention(x, heads=1, mask="causal")
    for y, infinite in (
        (one, True),
        (one[:3], False),
        (one[:2], False),
        (two, False),
        (masked, False),
    ):
        axis = head_axis(y.core)
        assert axis is not None
        assert diverges(axis, math.prod(y.shape)) is infinite


def test_density_of_two_tokens_on_the_diagonal() -> None:
    """Of two tokens of four, with one head, it is finite there:
    the mean of N(0, A Aᵀ) over softmaxes A of normals.
    """
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
