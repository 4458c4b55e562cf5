"""Batch shapes and spaces of every expression of the language, by NumPy's rules."""

import math
import sys
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import limitlaw as ll
from limitlaw.engines.dense.simulate import evaluate
from limitlaw.language.tree import ancestors
from limitlaw.language.values import Scalars, Wide

WIDTH = 6
HALF, FOUR = ll.n / 2, 4 * ll.n
D8 = ll.initial(dim=8).dim  # the fixed space of 8 coordinates

h = ll.initial()
x = ll.initial(4)
z = ll.initial((2, 4))
p = ll.dot(x, x)
s = ll.average(z)
X = np.ones((3, 4, 8))

# expression → batch shape, and the space (None: numbers)
EXPRESSIONS = {
    "initial": (h, (), ll.n),
    "initial int": (x, (4,), ll.n),
    "initial shape": (ll.initial((2, 3), mean=np.zeros(3), cov=np.eye(6), dim=FOUR), (2, 3), FOUR),
    "initial fixed": (ll.initial((2,), cov=0.5, dim=8), (2,), D8),
    "initial fraction": (ll.initial(dim=HALF), (), HALF),
    "data": (ll.data(X), (3, 4), D8),
    "data one vector": (ll.data(X[0, 0]), (), D8),
    "matmul": (ll.Matrix() @ x, (4,), ll.n),
    "matmul family": (ll.matrices(4) @ h, (4,), ll.n),
    "matmul broadcast": (ll.Matrix(shape=(6, 1)) @ x, (6, 4), ll.n),
    "matmul std": (ll.Matrix(std=np.ones((6, 1)), shape=(6, 4)) @ x, (6, 4), ll.n),
    "matmul grouped": (ll.Matrix(shape=(2, 3, 1)) @ x, (2, 3, 4), ll.n),
    "matmul up": (ll.Matrix(rows=FOUR) @ x, (4,), FOUR),
    "matmul down": (ll.Matrix(rows=HALF, cols=FOUR) @ (ll.Matrix(rows=FOUR) @ h), (), HALF),
    "matmul embeds": (ll.Matrix(cols=8) @ ll.data(X), (3, 4), ll.n),
    "matmul narrow": (ll.Matrix(rows=8) @ x, (4,), D8),
    "dot": (p, (4, 4), None),
    "dot linear": (ll.dot(x, ll.initial(3), scaling="linear"), (4, 3), None),
    "dot batch": (ll.dot(z, ll.initial((2, 3))), (2, 4, 3), None),
    "dot broadcast": (ll.dot(z, ll.initial((5, 1, 3))), (5, 2, 4, 3), None),
    "dot 0-d 0-d": (ll.dot(h, h), (), None),
    "dot 0-d 1-d": (ll.dot(h, x), (4,), None),
    "dot 1-d 0-d": (ll.dot(x, h), (4,), None),
    "dot 2-d 0-d": (ll.dot(z, h), (2, 4), None),
    "dot 0-d 2-d": (ll.dot(h, z), (2, 4), None),
    "dot narrow": (ll.dot(ll.data(X), ll.initial(5, dim=8)), (3, 4, 5), None),
    "average": (s, (2, 4), None),
    "average narrow": (ll.average(ll.data(X)), (3, 4), None),
    "mix 2-d": (np.ones((5, 4)) @ x, (5,), ll.n),
    "mix 1-d": (np.ones(4) @ x, (), ll.n),
    "mix 1-d with 2-d": (np.ones(4) @ z, (2,), ll.n),
    "mix batch": (np.ones((3, 1, 5, 4)) @ z, (3, 2, 5), ll.n),
    "mix jax": (jnp.ones((5, 4)) @ x, (5,), ll.n),
    "mix scalars": (ll.softmax(ll.dot(z, z)) @ z, (2, 4), ll.n),
    "mix scalars 1-d": (ll.average(x) @ x, (), ll.n),
    "mix narrow": (np.ones((2, 4)) @ ll.data(X), (3, 2), D8),
    "scale number": (2.0 * x, (4,), ll.n),
    "scale int": (x * 3, (4,), ll.n),
    "scale numpy": (np.ones((3, 1)) * x, (3, 4), ll.n),
    "scale jax": (jnp.ones((3, 1)) * x, (3, 4), ll.n),
    "scale numpy scalar": (np.float64(2) * x, (4,), ll.n),
    "scale right": (x * np.ones((3, 1)), (3, 4), ll.n),
    "scale scalars": (s * x, (2, 4), ll.n),
    "scale scalars right": (x * s, (2, 4), ll.n),
    "divide": (x / s, (2, 4), ll.n),
    "divide array": (x / np.ones((2, 4)), (2, 4), ll.n),
    "divided number": (1.0 / (x * x), (4,), ll.n),
    "negative": (-ll.data(X), (3, 4), D8),
    "add": (z + x, (2, 4), ll.n),
    "add 0-d": (h + z, (2, 4), ll.n),
    "add numpy": (np.ones((3, 1)) + x, (3, 4), ll.n),
    "add jax": (jnp.ones((3, 1)) + x, (3, 4), ll.n),
    "add number": (1.5 + ll.data(X), (3, 4), D8),
    "add scalars": (x + s, (2, 4), ll.n),
    "add scalars left": (s + x, (2, 4), ll.n),
    "subtract scalars": (z - s, (2, 4), ll.n),
    "subtract numpy": (np.ones((2, 4)) - x, (2, 4), ll.n),
    "subtract jax": (jnp.ones((2, 4)) - x, (2, 4), ll.n),
    "python sum": (sum([x, z, x]), (2, 4), ll.n),
    "sum": (z.sum(), (), ll.n),
    "sum axis": (z.sum(0), (4,), ll.n),
    "sum axes": (ll.data(X).sum((0, -1)), (), D8),
    "sum scalars": (s.sum(-1), (2,), None),
    "mean": (z.mean(axis=-1), (2,), ll.n),
    "mean all": (s.mean(), (), None),
    "normalised sum": (ll.normalised_sum(z, axis=-2), (4,), ll.n),
    "stack": (ll.stack([x, x, x]), (3, 4), ll.n),
    "stack last": (ll.stack([x, x, x], axis=-1), (4, 3), ll.n),
    "stack scalars": (ll.stack([p, p], axis=1), (4, 2, 4), None),
    "stack narrow": (ll.stack([ll.initial(dim=8)] * 2), (2,), D8),
    "reshape": (z.reshape(4, 2), (4, 2), ll.n),
    "reshape rest": (z.reshape((-1,)), (8,), ll.n),
    "reshape scalars": (p.reshape(2, -1), (2, 8), None),
    "transpose": (z.transpose(), (4, 2), ll.n),
    "transpose axes": (ll.data(np.ones((2, 3, 4, 8))).transpose(-1, 0, 1), (4, 2, 3), D8),
    "map": (ll.map(lambda a, b: a * b, x, z), (2, 4), ll.n),
    "map scalars": (ll.map(lambda a, b: a * b, x, s), (2, 4), ll.n),
    "map array": (ll.map(lambda a, b: a * b, x, np.ones((3, 1))), (3, 4), ll.n),
    "nonlin": (ll.relu(ll.initial(2, dim=HALF)), (2,), HALF),
    "nonlin scalars": (ll.tanh(p), (4, 4), None),
    "product": (z * x, (2, 4), ll.n),
    "power": (x**2, (4,), ll.n),
    "abs": (abs(x), (4,), ll.n),
    "apply": (ll.apply(jnp.linalg.inv, p), (4, 4), None),
    "apply many": (ll.apply(lambda a, b: jnp.outer(a, b).sum(0), ll.average(x), s[0]), (4,), None),
    "scalar arithmetic": ((1 - 2 * s**2) / (abs(s) + 1), (2, 4), None),
    "scalar matmul": (np.ones((5, 4)) @ p @ np.ones(4), (5,), None),
    "softmax": (ll.softmax(ll.dot(z, z)), (2, 4, 4), None),
    "softmax causal": (ll.softmax(ll.dot(z, z), mask="causal"), (2, 4, 4), None),
    "softmax mask": (ll.softmax(p, mask=[True, True, False, True]), (4, 4), None),
    "rotary in dot": (ll.dot(ll.rotary(z, np.arange(4)), ll.rotary(x, 1.0)), (2, 4, 4), None),
    "attention": (ll.attention(z, heads=3), (2, 4), ll.n),
    "attention narrow": (ll.attention(z, heads=3, head_dim=8), (2, 4), ll.n),
    "attention data": (ll.attention(ll.data(X), heads=2), (3, 4), ll.n),
    "attention 4n": (ll.attention(ll.initial(2, dim=FOUR), heads=2), (2,), FOUR),
}


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_shape_and_space(name):
    """Each expression has the batch shape and the space of design.md's table."""
    value, shape, dim = EXPRESSIONS[name]
    assert (type(value), value.shape, value.ndim) == (
        Scalars if dim is None else Wide,
        shape,
        len(shape),
    )
    assert getattr(value, "dim", None) == dim


class ZeroWeights:
    """Weights for the dense engine of which only the shapes matter."""

    def initial(self, leaf):
        """Zeros for an initial vector."""
        value = leaf.source
        return jnp.zeros((*value.shape, value.dim.at(WIDTH)))

    def multiply(self, family, vectors, transposed=False):
        """Zeros for W x."""
        matrix = family.source
        return jnp.zeros(
            (*np.broadcast_shapes(matrix.shape, vectors.shape[:-1]), matrix.rows.at(WIDTH))
        )


def test_arrays_have_the_declared_shapes():
    """The arrays of the dense engine have the shapes that the program declares."""
    values = tuple(value for value, _, _ in EXPRESSIONS.values())
    arrays = jax.eval_shape(lambda: evaluate(values, WIDTH, ZeroWeights()))
    for (name, (_, shape, dim)), array in zip(EXPRESSIONS.items(), arrays, strict=True):
        assert array.shape == (shape if dim is None else (*shape, dim.at(WIDTH))), name


INDICES = [
    0,
    -1,
    np.int64(1),
    slice(1, None),
    slice(None, None, -2),
    None,
    Ellipsis,
    (Ellipsis, 0),
    (Ellipsis, True),
    (0, Ellipsis, None),
    (slice(None), None, 1),
    (1, 2, 3),
    np.array([0, 0, 1]),
    (slice(None), np.array([0, 2])),
    (Ellipsis, np.array([[0, 1], [2, 3]])),
    (np.array([0, 1, 1]), slice(None), np.array([0, 2, 3])),
    (np.array([0, 1]), np.array([[0], [2]])),
    np.array([True, False]),
    (slice(None), np.array([True, False, True])),
    np.arange(24).reshape(2, 3, 4) % 5 == 0,
    (np.ones((2, 3), bool), 0),
]


@pytest.mark.parametrize("index", INDICES, ids=lambda index: repr(index).replace("\n", ""))
def test_indexing(index):
    """w[index] picks the entries that NumPy picks, in the same places, and keeps the space."""
    entries = np.arange(24.0).reshape(2, 3, 4)
    w = ll.data(np.stack([entries, -entries], axis=-1))
    assert (w[index].shape, w[index].dim) == (entries[index].shape, w.dim)
    np.testing.assert_array_equal(
        evaluate((w[index],), 1, ZeroWeights())[0][..., 0], entries[index]
    )
    assert ll.average(w)[index].shape == entries[index].shape


def test_an_empty_ellipsis_between_arrays():
    """NumPy and JAX disagree where the result's axes go; what is declared is what is drawn."""
    w = ll.data(np.ones((2, 3, 4, 1)))[:, np.array([0, 1, 2]), ..., np.array([0, 1, 2])]
    assert evaluate((w,), 1, ZeroWeights())[0].shape == (*w.shape, 1)


def test_index_by_jax_array_and_iteration():
    """JAX arrays index like NumPy's; a value iterates over its first axis,
    and one without axes does not.
    """
    assert x[jnp.array([0, 1, 1])].shape == (3,)
    assert [row.shape for row in z] == [(4,), (4,)]
    assert len(z) == 2
    with pytest.raises(TypeError, match="without batch axes"):
        list(h)


def test_spaces():
    """Multiples of n compare by value, and have a dimension where it is an integer."""
    assert 4 * ll.n == ll.n * 4 == ll.n * Fraction(8, 2) != ll.n
    assert ll.n / 2 == ll.n // 2 == ll.n * Fraction(1, 2)
    assert [dim.at(6) for dim in (ll.n, FOUR, HALF, D8)] == [6, 24, 3, 8]
    assert [repr(dim) for dim in (ll.n, FOUR, HALF, 3 * ll.n / 2, D8)] == [
        "n",
        "4n",
        "n/2",
        "3n/2",
        "8",
    ]


def test_python_sum_adds_no_zero_vector():
    """Python's sum() starts with 0, which must not become an instruction."""
    assert sum([x]) is x


def test_lists_are_arrays():
    """A list of numbers is an array to every operator."""
    four = [1.0, 2.0, 3.0, 4.0]
    assert {
        (x + four).shape,
        (x - four).shape,
        (four - x).shape,
        (four * x).shape,
        (x / four).shape,
    } == {(4,)}


def test_identity_is_the_object():
    """Values hash and compare by identity: two equal instructions are two random variables."""
    assert len({ll.initial(), ll.initial(), h, h}) == 3


@pytest.mark.parametrize("head_dim", [None, 8])
def test_infinite_heads(head_dim):
    """heads=math.inf is an axis that broadcasts like any other,
    until the normalised sum takes it away.
    """
    y = ll.attention(z, heads=math.inf, head_dim=head_dim, mask="causal")
    assert (y.shape, y.dim) == ((2, 4), ll.n)
    inner = {v.shape for v in ancestors([y])}
    assert {(2, math.inf, 4), (2, math.inf, 4, 4)} <= inner
    assert all(size == math.inf or size < 10 for shape in inner for size in shape)


def test_operations_on_an_infinite_axis():
    """Operations that leave the infinite axis whole know its size; those that cannot say so."""
    w = ll.Matrix(shape=(math.inf, 1)) @ x
    assert w.shape == (math.inf, 4)
    assert (ll.relu(w) + x).transpose().shape == (4, math.inf)
    assert (w[..., :2].shape, w[0].shape, w[None].shape) == ((math.inf, 2), (4,), (1, math.inf, 4))
    assert (w.sum(-1).shape, w.mean(-1).shape) == ((math.inf,), (math.inf,))
    assert ll.normalised_sum(w, axis=0).shape == (4,)
    for bad in (
        lambda: w.sum(0),
        lambda: w.reshape(-1),
        lambda: w[1:],
        lambda: ll.apply(jnp.sum, ll.dot(w, w)),
    ):
        with pytest.raises(ValueError, match="infinite axis"):
            bad()
    with pytest.raises(TypeError, match="infinite axis"):
        len(w)


def test_deep_programs():
    """5,000 chained instructions: walking and printing are not recursive."""
    depth = 5_000
    assert depth > sys.getrecursionlimit()
    w = h
    for _ in range(depth):
        w = w + h
    assert len(ancestors([w])) == depth + 1
    assert str(w).count("\n") == depth + 1
    assert ll.mermaid(w).count("-->") == 2 * depth - 1
    assert len(repr(w)) < 80


def test_shapes_under_jit():
    """Stds and kernels may be traced: shapes come out the same."""

    def traced(std):
        value = ll.Matrix(std=std, shape=(3, 1)) @ ll.initial(4, cov=std * jnp.eye(4))
        assert value.shape == (3, 4)
        return std

    jax.jit(traced)(2.0)
