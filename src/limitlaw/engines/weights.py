"""Where the dense engine takes its random weights from."""

import math
from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, Int, Key

from limitlaw.arguments import is_traced
from limitlaw.engines.family import Meeting
from limitlaw.numerics.normals import normal, normal_pairs
from limitlaw.language.ops import Initial, Matrix, Value
from limitlaw.language.shapes import finite_shape
from limitlaw.language.values import Wide

BLOCK = 2**18  # matrix entries drawn at a time, 2 MiB: they stay in the cache until they are used

# A matrix of standard normals as its left and right half: Box–Muller makes two arrays, joining them would cost a copy.
Halves = tuple[Float[Array, "m rows left"], Float[Array, "m rows right"]]


@runtime_checkable
class Weights(Protocol):
    """Initial vectors, and products with matrices."""

    def initial(self, value: Wide) -> Float[Array, "*batch dim"]:
        """The coordinates of initial vectors."""

    def multiply(self, matrix: Matrix, x: Float[Array, "*vectors cols"]) -> Float[Array, "*batch rows"]:
        """W x."""


class DrawnWeights:
    """Random weights, a function of the key alone. Matrices used once are drawn block by block and not kept."""

    def __init__(self, key: Key[Array, ""], width: int, number: Mapping[Value | Matrix, int], kept: frozenset[Matrix]):
        self._key, self._width, self._number = key, width, number
        self._kept: dict[Matrix, Halves | None] = dict.fromkeys(kept)

    def initial(self, value: Wide) -> Float[Array, "*batch dim"]:
        """mean + L z with L Lᵀ = cov, for each coordinate."""
        op: Any = value.op
        assert isinstance(op, Initial)
        z = normal(self._key_of(value), (len(op.cov), value.dim.at(self._width)))
        h = (z * op.cov[0, 0] ** 0.5 if len(op.cov) == 1 else _root(op.cov) @ z).reshape(*value.shape, -1)
        return jnp.asarray(op.mean)[..., None] + h

    def multiply(self, matrix: Matrix, x: Float[Array, "*vectors cols"]) -> Float[Array, "*batch rows"]:
        """W x, entries of W i.i.d. N(0, std²/cols)."""
        meeting = Meeting.of(finite_shape(matrix.shape), x.shape[:-1])
        vectors = meeting.gather(x)
        if matrix in self._kept:
            products = _product(self._matrix(matrix), vectors)
        else:
            products = self._blocks(matrix).products(vectors)
        scale = jnp.asarray(matrix.std)[..., None] / math.sqrt(x.shape[-1])
        return scale * meeting.scatter(products)

    def _matrix(self, matrix: Matrix) -> Halves:
        halves = self._kept[matrix]
        if halves is None:
            halves = self._kept[matrix] = self._blocks(matrix).whole()
        return halves

    def _blocks(self, matrix: Matrix) -> "Blocks":
        count = math.prod(finite_shape(matrix.shape))
        return Blocks(self._key_of(matrix), count, matrix.rows.at(self._width), matrix.cols.at(self._width))

    def _key_of(self, leaf: Value | Matrix) -> Key[Array, ""]:
        return jax.random.fold_in(self._key, self._number[leaf])


class Blocks:
    """m matrices of standard normals, rows × cols, drawn in blocks of several whole matrices or of some rows of one."""

    def __init__(self, key: Key[Array, ""], m: int, rows: int, cols: int):
        self.key, self.m, self.rows, self.cols = key, m, rows, cols
        self.group = max(1, min(m, BLOCK // (rows * cols)))
        self.height = rows if rows * cols <= BLOCK else max(1, BLOCK // cols)
        self.groups, self.bands = math.ceil(m / self.group), math.ceil(rows / self.height)

    def block(self, b: Int[Array, ""] | int) -> Halves:
        """Block number b."""
        shape = (self.group, self.height, (self.cols + 1) // 2)
        left, right = normal_pairs(jax.random.fold_in(self.key, b), shape)
        return left, right[..., : self.cols // 2]

    def products(self, x: Float[Array, "m_or_1 k cols"]) -> Float[Array, "m k rows"]:
        """W x for each matrix and its vectors; only one block exists at a time."""
        if self.groups * self.bands == 1:
            return _product(self.block(0), x)
        if len(x) > 1:
            missing = self.groups * self.group - self.m
            x = jnp.concatenate([x, jnp.zeros((missing, *x.shape[1:]))]).reshape(self.groups, self.group, *x.shape[1:])
        else:
            x = x[None]

        def one(b: Int[Array, ""]) -> Float[Array, "group k height"]:
            return _product(self.block(b), x[b // self.bands if len(x) > 1 else 0])

        y = lax.map(one, jnp.arange(self.groups * self.bands))
        y = y.reshape(self.groups, self.bands, self.group, -1, self.height)
        y = y.transpose(0, 2, 3, 1, 4).reshape(self.groups * self.group, -1, self.bands * self.height)
        return y[: self.m, :, : self.rows]

    def whole(self) -> Halves:
        """All matrices, for those that are used again."""
        if self.groups * self.bands == 1:
            return self.block(0)
        halves = lax.map(self.block, jnp.arange(self.groups * self.bands))

        def joined(part: Float[Array, "blocks group height half"]) -> Float[Array, "m rows half"]:
            part = part.reshape(self.groups, self.bands, self.group, self.height, -1).transpose(0, 2, 1, 3, 4)
            part = part.reshape(self.groups * self.group, self.bands * self.height, part.shape[-1])
            return part[: self.m, : self.rows]

        return joined(halves[0]), joined(halves[1])


def _product(W: Halves, x: Float[Array, "m_or_1 k cols"]) -> Float[Array, "m k rows"]:
    left, right = W
    x = jnp.broadcast_to(x, (len(left), *x.shape[1:]))  # XLA is twice as fast with the batch axis in both
    columns = left.shape[-1]
    return jnp.einsum("mrc,mkc->mkr", left, x[..., :columns]) + jnp.einsum("mrc,mkc->mkr", right, x[..., columns:])


def _root(cov: Any) -> Any:
    """L with L Lᵀ = cov, singular ones included."""
    if is_traced(cov):
        raise TypeError("simulate draws numbers: cov must be an array, not a value inside jax.grad or jax.jit")
    eigenvalues, vectors = np.linalg.eigh(cov)
    return vectors * np.sqrt(np.maximum(eigenvalues, 0.0))
