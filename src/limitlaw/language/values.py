"""Values and their operators: `Wide` (batches of vectors) and `Scalars` (batches of numbers).

Operators write instructions; shapes and spaces are checked as the instruction is written.
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, TypeVar, cast

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from limitlaw import phi as nonlinearities
from limitlaw.arguments import real_array
from limitlaw.core.space import Dim
from limitlaw.language import ops, shapes
from limitlaw.language.indexable import Indexable
from limitlaw.language.matrices import Matrix, Transposed
from limitlaw.language.tree import Value
from limitlaw.phi import Nonlinearity


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Scalars(Indexable):
    """A batch of numbers of a program: scores, averages, and functions of them."""

    def __add__(self, other: object) -> Any:
        if isinstance(other, Wide):
            return NotImplemented
        return _affine("add", jnp.add, self, other)

    def __sub__(self, other: object) -> Any:
        if isinstance(other, Wide):
            return NotImplemented
        return _affine("subtract", jnp.subtract, self, other)

    def __mul__(self, other: object) -> Any:
        if isinstance(other, Wide):
            return NotImplemented
        return _bilinear(elementwise, "multiply", jnp.multiply, self, other)

    def __truediv__(self, other: object) -> Any:
        if isinstance(other, Wide):
            return NotImplemented
        divisor = scalars(other, "an argument of divide")
        return (_affine if is_constant(divisor) else elementwise)(
            "divide", jnp.divide, self, divisor
        )

    def __pow__(self, other: object) -> "Scalars":
        return elementwise("power", jnp.power, self, other)

    def __rsub__(self, other: object) -> "Scalars":
        return _affine("subtract", jnp.subtract, other, self)

    def __rtruediv__(self, other: object) -> "Scalars":
        return elementwise("divide", jnp.divide, other, self)

    __radd__, __rmul__ = __add__, __mul__

    def __neg__(self) -> "Scalars":
        return _affine("negative", jnp.negative, self)

    def __abs__(self) -> "Scalars":
        return elementwise("abs", jnp.abs, self, pseudo_lipschitz=True)

    def __matmul__(self, other: object) -> Any:
        if isinstance(other, Wide | Matrix):
            return NotImplemented
        return _bilinear(whole, "matmul", jnp.matmul, self, other)

    def __rmatmul__(self, other: object) -> "Scalars":
        if isinstance(other, Matrix):
            raise TypeError("a Matrix multiplies vectors of a program, got Scalars")
        return _bilinear(whole, "matmul", jnp.matmul, other, self)


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Wide(Indexable):
    """A batch of vectors that live in the space `dim`."""

    dim: Dim

    def __repr__(self) -> str:
        return f"Wide(shape={self.shape}, dim={self.dim})"

    def __add__(self, other: object) -> "Wide":
        if isinstance(other, Value):
            return add(self, other if isinstance(other, Wide) else scale(other, ones(self.dim)))
        if isinstance(other, int | float) and other == 0:
            return self  # so that Python's sum() of vectors adds no vector of zeros
        return add(self, scale(scalars(other), ones(self.dim)))

    __radd__ = __add__

    def __sub__(self, other: object) -> "Wide":
        return self + (-cast(Any, other) if isinstance(other, Value) else -scalars(other))

    def __rsub__(self, other: object) -> "Wide":
        return -self + other

    def __neg__(self) -> "Wide":
        return scale(scalars(-1.0), self)

    def __mul__(self, other: object) -> "Wide":
        if isinstance(other, Wide):
            return coordinatewise(nonlinearities.multiply, self, other)
        return scale(scalars(other), self)

    __rmul__ = __mul__

    def __truediv__(self, other: object) -> "Wide":
        if isinstance(other, Wide):
            return coordinatewise(nonlinearities.divide, self, other)
        return scale(1.0 / scalars(other), self)

    def __rtruediv__(self, other: object) -> "Wide":
        return coordinatewise(nonlinearities.divide, scalars(other), self)

    def __pow__(self, k: int) -> "Wide":
        if isinstance(k, bool) or not isinstance(k, int | np.integer) or k < 0:
            raise TypeError(
                f"a vector has integer powers ≥ 0, got {k!r}; write map(lambda w: …, w) for others"
            )
        power = Nonlinearity(f"power({k})", functools.partial(_power, k=int(k)), True, k == 0)
        return coordinatewise(power, self)

    def __abs__(self) -> "Wide":
        return coordinatewise(nonlinearities.abs_, self)

    def __matmul__(self, other: object) -> Any:
        if isinstance(other, Matrix):
            other.__rmatmul__(self)
        raise TypeError(
            f"{self!r} @ {type(other).__name__} is not an instruction: write a @ w to mix vectors "
            "by numbers, dot(q, k) for dot products"
        )

    def __rmatmul__(self, other: object) -> "Wide":
        if isinstance(other, Matrix):
            return matmul(other, self)
        if isinstance(other, Transposed):
            balanced = transposed_matmul(other.T, self)
            if other.T.rows == other.T.cols:
                return balanced
            return scale(dimension_ratio(other.T.rows, other.T.cols), balanced)
        return mix(scalars(other), self)


Kind = TypeVar("Kind", Wide, Scalars)  # vectors, or numbers entry by entry


def _power(x: Array, k: int) -> Array:
    return x**k


# --- Writing instructions ------------------------------------------------------------------------


def wide(name: str, value: object) -> Wide:
    """`value`, refused unless it is a vector that is not rotated."""
    if not isinstance(value, Wide):
        hint = "; wrap given coordinates as data(X)" if hasattr(value, "__array__") else ""
        raise TypeError(
            f"{name} must be a Wide (a vector of a program), got {type(value).__name__}{hint}"
        )
    if isinstance(value.op, ops.Rotated):
        raise TypeError(
            f"{name} is rotary(w), which may only enter a dot: the rotation belongs to the dot "
            "product"
        )
    return value


def scalars(value: object, name: str = "an array in a program") -> Scalars:
    """`value` as Scalars; numbers and arrays become constants."""
    if isinstance(value, Scalars):
        return value
    if isinstance(value, Value):
        raise TypeError(f"{name} must be numbers (Scalars or an array), got {value!r}")
    array = real_array(name, value)
    return Scalars(ops.Constant(array), array.shape)


def ones(dim: Dim) -> Wide:
    """The vector **1** of the space."""
    return Wide(ops.Ones(), (), dim)


def same_dim(name: str, *values: Wide) -> Dim:
    """The common space of the vectors; several spaces are refused."""
    if len({w.dim for w in values}) > 1:
        raise ValueError(
            f"{name}: the vectors live in different spaces, "
            f"{', '.join(repr(w.dim) for w in values)}"
        )
    return values[0].dim


def matmul(matrix: Matrix, x: object) -> Wide:
    """W x, for each matrix of the family and each vector it meets by broadcasting."""
    x = wide("the right-hand side of Matrix @", x)
    if matrix.cols != x.dim:
        raise ValueError(f"{matrix!r} multiplies vectors in the space {matrix.cols}, got {x!r}")
    return Wide(
        ops.MatMul(matrix, x), shapes.broadcast("Matrix @ w", matrix.shape, x.shape), matrix.rows
    )


def transposed_matmul(matrix: Matrix, x: object) -> Wide:
    """√(cols/rows) Wᵀ x, with coordinates on the scale of x's for any two dimensions."""
    x = wide("the right-hand side of Matrix.T @", x)
    if matrix.rows != x.dim:
        raise ValueError(f"{matrix!r}.T multiplies vectors in the space {matrix.rows}, got {x!r}")
    shape = shapes.broadcast("Matrix.T @ w", matrix.shape, x.shape)
    return Wide(ops.MatMul(matrix, x, transposed=True), shape, matrix.cols)


def dimension_ratio(over: Dim | None, under: Dim | None) -> Scalars:
    """The number √(over/under) of two dimensions, None standing for 1."""
    return Scalars(ops.DimensionRatio(over, under), ())


def mix(a: Scalars, w: object) -> Wide:
    """a @ w: (…,i,j), (…,j) → (…,i)."""
    w = wide("the right-hand side of @", w)
    if not a.ndim or not w.ndim or a.shape[-1] != w.shape[-1]:
        raise ValueError(
            f"a @ w needs shapes (…, i, j) and (…, j) with the same j, got {a.shape} and {w.shape}"
        )
    shape = shapes.broadcast("a @ w", a.shape[:-2], w.shape[:-1]) + a.shape[-2:-1]
    return Wide(ops.Mix(a, w), shape, w.dim)


def scale(a: Value, w: object) -> Wide:
    """a * w, numbers times vectors."""
    w = wide("a factor of *", w)
    return Wide(ops.Scale(a, w), shapes.broadcast("a * w", a.shape, w.shape), w.dim)


def add(*terms: object) -> Wide:
    """The sum of vectors; sums of sums are flattened."""
    checked = [wide("a term of +", term) for term in terms]
    dim = same_dim("+", *checked)
    shape = shapes.broadcast("+", *(term.shape for term in checked))
    return Wide(ops.Add(tuple(checked)), shape, dim)


def coordinatewise(phi: Nonlinearity, *args: Value) -> Wide:
    """φ of vectors and numbers, coordinate by coordinate."""
    wides = [wide(f"an argument of {phi.name}", a) for a in args if not isinstance(a, Scalars)]
    if not wides:
        raise TypeError(
            f"{phi.name}: map needs at least one vector among its arguments; for numbers write "
            "apply"
        )
    dim = same_dim(phi.name, *wides)
    shape = shapes.broadcast(phi.name, *(a.shape for a in args))
    # as engines call it, 3 coordinates
    probe = [(*a.shape, 1 if isinstance(a, Scalars) else 3) for a in args]
    result = shapes.of_function(phi.name, phi, *probe)
    if result != (*shape, 3):
        raise ValueError(
            f"{phi.name} must act coordinate by coordinate: shape {(*shape, 3)} became {result}"
        )
    return Wide(ops.Map(phi, args), shape, dim)


def elementwise(name: str, f: Callable[..., Any], *args: object, **known: Any) -> Scalars:
    """f of numbers, entry by entry; `known`: fields of `ops.Apply` that say what f is."""
    values = tuple(scalars(a, f"an argument of {name}") for a in args)
    shape = shapes.broadcast(name, *(v.shape for v in values))
    if shapes.of_function(name, f, *(v.shape for v in values)) != shape:
        raise ValueError(f"{name} must act entry by entry on shape {shape}")
    return Scalars(ops.Apply(f, values, 0, name, **known), shape)


def whole(name: str, f: Callable[..., Any], *args: object, **known: Any) -> Scalars:
    """f of whole arrays of numbers; `known` as for `elementwise`."""
    values = tuple(scalars(a, f"an argument of {name}") for a in args)
    if any(shapes.is_infinite(v.shape) for v in values):
        raise ValueError(
            f"{name} cannot mix an infinite axis; softmax and elementwise functions can have one"
        )
    shape = shapes.of_function(name, f, *(v.shape for v in values))
    return Scalars(ops.Apply(f, values, None, name, **known), shape)


def is_constant(value: Scalars) -> bool:
    """Are these numbers constants of the program?"""
    return isinstance(value.op, ops.Constant)


def _affine(name: str, f: Callable[..., Any], *args: object) -> Scalars:
    return elementwise(name, f, *args, structure="affine", pseudo_lipschitz=True)


def _bilinear(
    write: Callable[..., Scalars], name: str, f: Callable[..., Any], *args: object
) -> Scalars:
    """A product of numbers, which is affine where one factor is constant."""
    factors = [scalars(a, f"an argument of {name}") for a in args]
    return write(
        name,
        f,
        *factors,
        structure="affine" if any(map(is_constant, factors)) else None,
        pseudo_lipschitz=True,
    )
