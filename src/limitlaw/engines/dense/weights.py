"""Random weights: initial vectors, and products with matrices drawn block by block."""

import math
from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, Int, Key

from limitlaw.arguments import is_traced
from limitlaw.core.instructions import Initial, Scan
from limitlaw.core.iterations import Iterated
from limitlaw.core.kinds import Family, Number, Value
from limitlaw.core.labelled import finite_shape
from limitlaw.core.program import Program
from limitlaw.engines.meeting import Meeting
from limitlaw.numerics.random import normal, normal_pairs

BLOCK = 2**18  # matrix entries drawn at a time, 2 MiB: they stay in the cache until they are used

# A matrix of standard normals as its left and right half: Box–Muller makes two arrays, joining
# them would cost a copy.
Halves = tuple[Float[Array, "m rows left"], Float[Array, "m rows right"]]


Leaf = Value | Family


@runtime_checkable
class Weights(Protocol):
    """A source of initial vectors, and of products with matrices."""

    def initial(self, value: Value) -> Float[Array, "*batch dim"]:
        """The coordinates of initial vectors, laid out by the order of their instruction."""

    def multiply(
        self, family: Family, x: Float[Array, "*vectors cols"], transposed: bool = False
    ) -> Float[Array, "*batch rows"]:
        """W x, for vectors whose last batch axes broadcast to the layout of the family;
        `transposed`: √(cols/rows) Wᵀ x.
        """


def numbered(program: Program) -> dict[Leaf, int]:
    """A number for each leaf that is drawn, with which its key is made.

    Nothing else has a number, so that asking for an intermediate value changes no draw.
    """
    leaves: list[Leaf] = [v for v in program.values if isinstance(v.instruction, Initial)]
    leaves += program.families
    # those that follow others share their weights
    leaves += list(Iterated(program).loops)
    return {leaf: i for i, leaf in enumerate(leaves)}


class DrawnWeights:
    """Random weights, a function of the key alone; matrices used once are drawn in blocks and not
    kept.

    `given`: the program's constants, covariances by their square roots (`roots`).
    """

    def __init__(
        self,
        key: Key[Array, ""],
        width: int,
        number: Mapping[Leaf, int],
        kept: frozenset[Family],
        given: Mapping[Number, Any] | None = None,
    ):
        self._key, self._width, self._number, self._given = key, width, number, given
        self._kept: dict[Family, Halves | None] = dict.fromkeys(kept)

    def initial(self, value: Value) -> Float[Array, "*batch dim"]:
        """mean + L z with L Lᵀ = cov, for each coordinate."""
        op = value.instruction
        assert isinstance(op, Initial)
        assert value.dim is not None
        L = jnp.asarray(root(op.cov.array) if self._given is None else self._given[op.cov])
        z = normal(self._key_of(value), (len(L), value.dim.at(self._width)))
        h = L[:, None] * z if op.diagonal else L @ z
        return self._numbers(op.mean)[..., None] + h.reshape(*finite_shape(op.order), -1)

    def multiply(
        self, family: Family, x: Float[Array, "*vectors cols"], transposed: bool = False
    ) -> Float[Array, "*batch rows"]:
        """W x, entries of W i.i.d. N(0, std²/cols); `transposed`: √(cols/rows) Wᵀ x."""
        meeting = Meeting.of(finite_shape(family.layout), x.shape[:-1])
        vectors = meeting.gather(x)
        if transposed:
            products = _transposed_product(self._matrix(family), vectors)
        elif family in self._kept:
            products = _product(self._matrix(family), vectors)
        else:
            products = self._blocks(family).products(vectors)
        scale = self._numbers(family.std)[..., None] / math.sqrt(x.shape[-1])
        return scale * meeting.scatter(products)

    def of_iteration(
        self, loop: Value, t: Int[Array, ""], kept: frozenset[Family]
    ) -> "DrawnWeights":
        """The weights of iteration t of a loop, and of those that follow it: new in each, or the
        same if the loop is `shared`.
        """
        loop = loop.instruction.first or loop  # type: ignore[attr-defined]
        op = loop.instruction
        assert isinstance(op, Scan)
        body = Program(op.block.results)
        key = jax.random.fold_in(self._key_of(loop), 0 if op.shared else t)
        return DrawnWeights(key, self._width, numbered(body), kept, self._given)

    def _numbers(self, slot: Number) -> Float[Array, "..."]:
        return jnp.asarray(slot.array if self._given is None else self._given[slot])

    def _matrix(self, family: Family) -> Halves:
        halves = self._kept[family]
        if halves is None:
            halves = self._kept[family] = self._blocks(family).whole()
        return halves

    def _blocks(self, family: Family) -> "MatrixBlocks":
        count = math.prod(finite_shape(family.layout))
        return MatrixBlocks(
            self._key_of(family), count, family.rows.at(self._width), family.cols.at(self._width)
        )

    def _key_of(self, leaf: Leaf) -> Key[Array, ""]:
        return jax.random.fold_in(self._key, self._number[leaf])


class MatrixBlocks:
    """m matrices rows × cols of standard normals, in blocks of whole ones or of rows of one."""

    def __init__(self, key: Key[Array, ""], m: int, rows: int, cols: int):
        self.key, self.m, self.rows, self.cols = key, m, rows, cols
        self.group = max(1, min(m, BLOCK // (rows * cols)))
        self.height = rows if rows * cols <= BLOCK else max(1, BLOCK // cols)
        self.groups, self.bands = math.ceil(m / self.group), math.ceil(rows / self.height)

    def block(self, b: Int[Array, ""] | int) -> Halves:
        """Block number b, in two halves."""
        shape = (self.group, self.height, (self.cols + 1) // 2)
        left, right = normal_pairs(jax.random.fold_in(self.key, b), shape)
        return left, right[..., : self.cols // 2]

    def products(self, x: Float[Array, "m_or_1 k cols"]) -> Float[Array, "m k rows"]:
        """W x for each matrix and its vectors, with one block in memory at a time."""
        if self.groups * self.bands == 1:
            return _product(self.block(0), x)
        if len(x) > 1:
            missing = self.groups * self.group - self.m
            x = jnp.concatenate([x, jnp.zeros((missing, *x.shape[1:]))]).reshape(
                self.groups, self.group, *x.shape[1:]
            )
        else:
            x = x[None]

        def one(b: Int[Array, ""]) -> Float[Array, "group k height"]:
            return _product(self.block(b), x[b // self.bands if len(x) > 1 else 0])

        y = lax.map(one, jnp.arange(self.groups * self.bands))
        y = y.reshape(self.groups, self.bands, self.group, -1, self.height)
        y = y.transpose(0, 2, 3, 1, 4).reshape(
            self.groups * self.group, -1, self.bands * self.height
        )
        return y[: self.m, :, : self.rows]

    def whole(self) -> Halves:
        """All matrices, for families that are used again."""
        if self.groups * self.bands == 1:
            return self.block(0)
        halves = lax.map(self.block, jnp.arange(self.groups * self.bands))

        def joined(part: Float[Array, "blocks group height half"]) -> Float[Array, "m rows half"]:
            part = part.reshape(self.groups, self.bands, self.group, self.height, -1).transpose(
                0, 2, 1, 3, 4
            )
            part = part.reshape(self.groups * self.group, self.bands * self.height, part.shape[-1])
            return part[: self.m, : self.rows]

        return joined(halves[0]), joined(halves[1])


def _product(W: Halves, x: Float[Array, "m_or_1 k cols"]) -> Float[Array, "m k rows"]:
    left, right = W
    # XLA is twice as fast with the batch axis in both
    x = jnp.broadcast_to(x, (len(left), *x.shape[1:]))
    columns = left.shape[-1]
    return jnp.einsum("mrc,mkc->mkr", left, x[..., :columns]) + jnp.einsum(
        "mrc,mkc->mkr", right, x[..., columns:]
    )


def _transposed_product(W: Halves, x: Float[Array, "m_or_1 k rows"]) -> Float[Array, "m k cols"]:
    x = jnp.broadcast_to(x, (len(W[0]), *x.shape[1:]))
    return jnp.concatenate([jnp.einsum("mrc,mkr->mkc", half, x) for half in W], axis=-1)


def roots(program: Program) -> dict[Number, Any]:
    """The constants of a program as draws need them: a square root in place of each covariance."""
    found = dict(zip(program.numbers, program.arrays, strict=True))
    for part in (program, *program.every_block):
        for value in part.values:
            if isinstance(value.instruction, Initial):
                found[value.instruction.cov] = root(value.instruction.cov.array)
    return found


def root(cov: Any) -> Any:
    """L with L Lᵀ = cov, also a singular one; of a diagonal, the square roots."""
    if is_traced(cov):
        raise TypeError(
            "simulate draws numbers: cov must be an array, not a value inside jax.grad or jax.jit"
        )
    if np.ndim(cov) == 1:
        return np.sqrt(cov)
    eigenvalues, vectors = np.linalg.eigh(cov)
    return vectors * np.sqrt(np.maximum(eigenvalues, 0.0))
