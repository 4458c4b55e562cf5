"""The operations that only move or add up batch entries,
under the dense engine, against NumPy on each coordinate.
"""

import math

import numpy as np
import pytest

import limitlaw as ll
from engines.given_weights import assert_close, random_weights, run

WIDTH = 6


def by_coordinate(function, *arrays):
    """`function` of the batch entries of each coordinate by itself:
    what "batch axes only" means.
    """
    sizes = {array.shape[-1] for array in arrays}
    (D,) = sizes
    return np.stack([function(*(array[..., a] for array in arrays)) for a in range(D)], axis=-1)


@pytest.mark.parametrize(
    ("numbers", "vectors"),
    [((3,), (3,)), ((3,), (2, 3)), ((4, 3), (3,)), ((2, 4, 3), (2, 3)), ((2, 4, 3), (5, 1, 3))],
)
def test_mix(numbers, vectors):
    rng = np.random.default_rng(2)
    a, w = rng.standard_normal(numbers), ll.initial(vectors)
    given, drawn = a @ w, ll.apply(lambda p, c: p * 0 + c, ll.average(ll.initial()), a) @ w
    weights = random_weights((given, drawn), WIDTH)
    expected = by_coordinate(
        lambda u: np.einsum("...ij,...j->...i" if a.ndim > 1 else "j,...j->...", a, u), weights[w]
    )
    for actual in run((given, drawn), WIDTH, weights):
        assert_close(actual, expected)


BATCH_OPERATIONS = {
    "scale by a number": (lambda x: 2.5 * x, lambda x: 2.5 * x),
    "scale by an array": (lambda x: np.arange(4.0) * x, lambda x: np.arange(4.0) * x),
    "scale to more axes": (
        lambda x: x * np.ones((5, 1, 1, 1)),
        lambda x: np.broadcast_to(x, (5, 2, 3, 4)),
    ),
    "divide": (
        lambda x: x / np.array([[1.0], [2.0], [4.0]]),
        lambda x: x * np.array([[1.0], [0.5], [0.25]]),
    ),
    "add": (lambda x: x + x[0] - x[:, :1], lambda x: x + x[0] - x[:, :1]),
    "negative": (lambda x: -x, lambda x: 0 - x),
    "sum": (lambda x: x.sum(), np.sum),
    "sum over one axis": (lambda x: x.sum(axis=1), lambda x: x[:, 0] + x[:, 1] + x[:, 2]),
    "sum over two axes": (lambda x: x.sum(axis=(0, -1)), lambda x: np.einsum("ijk->j", x)),
    "mean": (lambda x: x.mean(axis=-1), lambda x: np.einsum("ijk->ij", x) / 4),
    "stack": (lambda x: ll.stack([x[0], x[1], x[0]]), lambda x: x[[0, 1, 0]]),
    "stack last": (lambda x: ll.stack([x[0], x[1]], axis=-1), lambda x: np.moveaxis(x, 0, -1)),
    "reshape": (lambda x: x.reshape(6, -1), lambda x: np.reshape(x, (6, 4))),
    "reshape to none": (lambda x: x[0, 0, :1].reshape(()), lambda x: x[0, 0, 0]),
    "transpose": (lambda x: x.transpose(), lambda x: np.einsum("ijk->kji", x)),
    "transpose by axes": (lambda x: x.transpose(1, -1, 0), lambda x: np.einsum("ijk->jki", x)),
}


@pytest.mark.parametrize("kind", ["vectors", "numbers"])
@pytest.mark.parametrize("operation", BATCH_OPERATIONS)
def test_batch_operations(operation, kind):
    program, formula = BATCH_OPERATIONS[operation]
    check_batch_operation(program, formula, kind)


INDICES = [
    0,
    -1,
    np.int64(1),
    slice(None, None, -1),
    (slice(None), 1),
    (1, slice(1, None), -1),
    ...,
    (..., 0),
    (..., None, slice(None)),
    (None, ..., 0),
    (0, ..., slice(0, 2)),
    (slice(None), ..., None),
    None,
    (0, 1, 2),
    [1, 0, 0],
    (slice(None), [2, 0]),
    ([[0, 1], [1, 1]], [0, 2]),
    (..., [3, 3, 0]),
    (0, ..., [1, 2]),
    ([0, 1], ..., [1, 2]),
    (np.array([[1], [0]]), slice(None), np.array([0, 3])),
    np.array([True, False]),
    np.array([[True, False, True], [False, True, True]]),
    (..., np.array([True, False, False, True])),
    (..., np.array([[True, False, False, True], [False] * 4, [True] * 4])),
    (0, np.array([True, False, True]), ..., 1),
]


@pytest.mark.parametrize("kind", ["vectors", "numbers"])
@pytest.mark.parametrize("index", INDICES, ids=lambda index: str(index).replace("\n", ""))
def test_index(index, kind):
    check_batch_operation(lambda x: x[index], lambda x: x[index], kind)


def check_batch_operation(program, formula, kind):
    """`program` of a batch (2, 3, 4) of vectors or numbers against `formula` of each
    coordinate's array.
    """
    h = ll.initial((2, 3, 4))
    x = h if kind == "vectors" else ll.average(h)
    y = program(x)
    weights = random_weights((y, h), WIDTH)
    numbers = weights[h].sum(axis=-1) / WIDTH
    expected = by_coordinate(formula, weights[h]) if kind == "vectors" else formula(numbers)
    assert_close(run(y, WIDTH, weights), expected)


@pytest.mark.parametrize("axis", [0, -1, (0, 2)])
def test_normalised_sum_divides_by_the_root_of_the_size(axis):
    h = ll.initial((2, 3, 4))
    size = math.prod((2, 3, 4)[a] for a in (axis if isinstance(axis, tuple) else (axis,)))
    weights = random_weights(h, WIDTH)
    expected = by_coordinate(lambda x: np.sum(x, axis=axis) / size**0.5, weights[h])
    assert_close(run(ll.normalised_sum(h, axis), WIDTH, weights), expected)
