"""Weights handed in as NumPy arrays, so that a program can be compared with plain
NumPy on the same numbers.
"""

import jax.numpy as jnp
import numpy as np

from limitlaw.engines.dense.simulate import evaluate
from limitlaw.language.ops import Initial, matrices_of
from limitlaw.language.tree import ancestors


class GivenWeights:
    """The protocol `engines.dense.weights.Weights` for given arrays:
    (*shape, rows, cols) and (*shape, dim).
    """

    def __init__(self, arrays):
        self.arrays = dict(arrays)

    def __getitem__(self, leaf):
        return self.arrays[leaf]

    def initial(self, value):
        """The given coordinates of initial vectors."""
        return jnp.asarray(self.arrays[value.source])

    def multiply(self, family, x, transposed=False):
        """Σ_c W_rc x_c, with NumPy's own broadcasting of the batch axes; √(cols/rows) Wᵀ x."""
        W, x = np.asarray(self.arrays[family.source]), np.asarray(x)
        if transposed:
            rows, cols = W.shape[-2:]
            return jnp.asarray(np.einsum("...rc,...r->...c", W, x) * np.sqrt(cols / rows))
        return jnp.asarray(np.einsum("...rc,...c->...r", W, x))


def values_of(y):
    """The outputs as a tuple."""
    return tuple(y) if isinstance(y, tuple | list) else (y,)


def matrices(y):
    """The matrices of a program, in order of first use."""
    return matrices_of(ancestors(values_of(y)))


def initials(y):
    """The initial vectors of a program, in order of first use."""
    return [value for value in ancestors(values_of(y)) if isinstance(value.op, Initial)]


def random_weights(y, width, seed=0):
    """Random arrays for every leaf of a program: matrices of the right variance,
    initial vectors N(mean, I).
    """
    rng = np.random.default_rng(seed)
    arrays = {}
    for M in matrices(y):
        rows, cols = M.rows.at(width), M.cols.at(width)
        std = np.broadcast_to(M.std, M.shape)[..., None, None]
        arrays[M] = std * rng.standard_normal((*M.shape, rows, cols)) / np.sqrt(cols)
    for h in initials(y):
        mean = np.broadcast_to(h.op.mean, h.shape)[..., None]
        arrays[h] = mean + rng.standard_normal((*h.shape, h.dim.at(width)))
    return GivenWeights(arrays)


def run(y, width, weights):
    """The arrays of the outputs of a program for these weights; shapes are checked."""
    values = values_of(y)
    results = [np.asarray(array) for array in evaluate(values, width, weights)]
    for value, result in zip(values, results, strict=True):
        trailing = (value.dim.at(width),) if hasattr(value, "dim") else ()
        assert result.shape == (*value.shape, *trailing), (
            f"{value!r} became an array of shape {result.shape}"
        )
    return tuple(results) if isinstance(y, tuple | list) else results[0]


def assert_close(actual, expected, tolerance=1e-12):
    """Equal shapes, and equal entries up to `tolerance` of the largest one."""
    actual, expected = np.asarray(actual), np.asarray(expected)
    assert actual.shape == expected.shape
    assert np.isfinite(actual).all()
    np.testing.assert_allclose(
        actual, expected, rtol=tolerance, atol=tolerance * max(1.0, np.abs(expected).max())
    )


def plain_softmax(scores, visible=None):
    """Row softmax with loops: weights exp(p_j − max) over the visible entries, zero elsewhere."""
    scores = np.asarray(scores, dtype=float)
    visible = np.broadcast_to(True if visible is None else visible, scores.shape)
    result = np.zeros_like(scores)
    for row in np.ndindex(*scores.shape[:-1]):
        seen = [j for j in range(scores.shape[-1]) if visible[row][j]]
        top = max(scores[row][j] for j in seen)
        total = sum(np.exp(scores[row][j] - top) for j in seen)
        for j in seen:
            result[(*row, j)] = np.exp(scores[row][j] - top) / total
    return result
