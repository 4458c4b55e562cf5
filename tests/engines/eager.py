"""Draws of a program by the two engines, evaluated by NumPy,
so that hundreds of programs take no compilation.

What runs are the rules of the engines themselves, traced; only XLA is left out.
"""

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from numpy_jax import by_numpy, keys

import limitlaw as ll
from limitlaw.engines import engine
from limitlaw.engines.dense.simulate import evaluate
from limitlaw.engines.frames.finite import demanded_outputs, one_draw
from limitlaw.engines.frames.statistics import Conditions, Samples
from limitlaw.engines.limit import statistics
from limitlaw.engines.limit.conditions import Limit
from limitlaw.language import ops
from limitlaw.language.ops import matrices_of
from limitlaw.language.tree import ancestors
from limitlaw.numerics.random import Sobol
from statistics_of_samples import root

HELD = 2**20  # weights drawn at a time: the arrays of a chunk stay in the cache
DIGITS = 10  # kept, so that two engines agree on what is zero up to rounding


class DrawnBefore:
    """The protocol `Weights` for arrays: standard normals for each matrix and each
    initial vector.
    """

    def __init__(self, arrays: dict[Any, Any]):
        self.arrays = arrays

    def initial(self, value: Any) -> Any:
        """mean + L z with L Lᵀ = cov."""
        h = value.source
        cov = np.diag(h.op.cov) if h.op.cov.ndim == 1 else h.op.cov
        eigenvalues, vectors = np.linalg.eigh(cov)
        z = (vectors * np.sqrt(np.maximum(eigenvalues, 0.0))) @ self.arrays[h]
        return jnp.asarray(h.op.mean)[..., None] + z.reshape(*h.shape, -1)

    def multiply(self, family: Any, x: Any, transposed: bool = False) -> Any:
        """W x by NumPy's own broadcasting; √(cols/rows) Wᵀ x."""
        matrix = family.source
        scale = jnp.asarray(matrix.std)[..., None] / np.sqrt(x.shape[-1])
        W = self.arrays[matrix]
        return scale * jnp.matmul(W.mT if transposed else W, x[..., None])[..., 0]


def weights_of(outputs: Sequence[Any], width: int) -> dict[Any, tuple[int, ...]]:
    """The shapes of the standard normals behind each matrix and each initial vector
    of a program.
    """
    values = ancestors(outputs)
    shapes = {
        M: (*map(int, M.shape), M.rows.at(width), M.cols.at(width)) for M in matrices_of(values)
    }
    return shapes | {
        v: (len(v.op.cov), v.dim.at(width)) for v in values if isinstance(v.op, ops.Initial)
    }


def defined(y: ll.Wide | ll.Scalars, width: int, draws: int, seed: int) -> np.ndarray:
    """Coordinate 0 of y by the definition, (draws, *batch): every matrix is drawn, by NumPy."""
    rng = np.random.default_rng(seed)
    shapes = weights_of([y], width)

    def one(*arrays: Any) -> Any:
        return evaluate((y,), width, DrawnBefore(dict(zip(shapes, arrays, strict=True))))[0][
            _first(y)
        ]

    batched = by_numpy(one)
    results = []
    for size in _chunks(draws, sum(int(np.prod(shape)) for shape in shapes.values())):
        results += batched(*(rng.standard_normal((size, *shape)) for shape in shapes.values()))
    return np.round(np.concatenate(results)[:draws], DIGITS)


def exact(y: ll.Wide | ll.Scalars, width: int, draws: int, seed: int) -> np.ndarray:
    """Coordinate 0 of y by the exact engine, (draws, *batch)."""
    outputs = demanded_outputs((y.core,))
    arguments = engine.program_of(outputs).arrays

    def one(key: Any) -> Any:
        return one_draw(outputs, arguments, width, Samples(1), key)[0][_first(y)]

    batched = by_numpy(one)
    results = []
    for i, size in enumerate(_chunks(draws, 200 + 20 * width)):
        results += batched(keys(seed + 1_000_003 * i, size))
    return np.round(np.concatenate(results)[:draws], DIGITS)


def _first(y: Any) -> tuple[Any, ...]:
    """Coordinate 0 of vectors; numbers come whole."""
    return (..., 0) if isinstance(y, ll.Wide) else (...,)


def _chunks(draws: int, cost: int) -> Iterator[int]:
    """Sizes of the chunks that are evaluated together:
    equal ones, which are traced once, and at least `draws`.
    """
    count = -(-draws * cost // HELD)
    return itertools.repeat(-(-draws // count), count)


def exact_conditions(
    y: ll.Wide, width: int, draws: int, seed: int, coordinates: int = 1
) -> tuple[np.ndarray, np.ndarray]:
    """Means (draws, coordinates, m) and the covariance (draws,
    m, m) of each coordinate of y by the exact engine.
    """
    outputs = demanded_outputs((y.core,))
    arguments = engine.program_of(outputs).arrays
    batched = by_numpy(
        lambda key: one_draw(outputs, arguments, width, Conditions(coordinates), key)
    )
    parts = []
    for i, size in enumerate(_chunks(draws, 200 + 20 * width)):
        mean, covariance = batched(keys(seed + 1_000_003 * i, size))
        each = covariance[:, ::coordinates, ::coordinates]  # of all: each ⊗ I
        parts.append((mean.reshape(size, -1, coordinates).swapaxes(1, 2), each))
    mean, covariance = (np.concatenate(a)[:draws] for a in zip(*parts, strict=True))
    return mean, covariance


def limit_conditions(y: ll.Wide, draws: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Means (draws, 1, m) and covariances at infinite width;
    one, or a few of different nodes, if nothing is random.
    """
    program = Limit((y.core,), statistics.conditions)
    if not program.random:
        mean, covariance = program.conditions(1, seed).arrays
        return np.asarray(mean)[:, None], np.asarray(covariance)
    extra = program.table(2**9, seed), program.heads(seed)
    batched = by_numpy(lambda row, key: program.plan.draw(program.given, row, key, *extra))
    points = Sobol(program.recipe, seed)
    chunks = enumerate(_chunks(draws, 2000))
    parts = [batched(points.take(size), keys(seed + 1_000_003 * i, size)) for i, size in chunks]
    mean, covariance = (np.concatenate(a)[:draws] for a in zip(*parts, strict=True))
    return mean[:, None], covariance


def in_the_limit(y: ll.Wide, draws: int, seed: int) -> np.ndarray:
    """Coordinate 0 of y at infinite width, (draws, *batch):
    conditions by the engine, normals by NumPy.
    """
    mean, covariance = limit_conditions(y, draws, seed)
    if len(mean) < draws:
        mean, covariance = mean[:1], covariance[:1]
    normals = np.random.default_rng(seed).standard_normal((draws, mean.shape[-1], 1))
    sample = mean[:, 0] + (root(covariance) @ normals)[..., 0]
    return np.round(sample.reshape(draws, *y.shape), DIGITS)
