"""Families of random matrices, and their transposes: what a user multiplies vectors by."""

import dataclasses
from typing import Any

import numpy as np

from limitlaw.arguments import is_traced, non_negative, positive_int
from limitlaw.core.space import Dim, as_dim, n
from limitlaw.domain import check_scales
from limitlaw.language import shapes
from limitlaw.language.shapes import Shape
from limitlaw.language.tree import Value


class Matrix:
    """A family of independent random matrices, of batch shape `shape`, with entries i.i.d. N(0,
    std²/cols).

    `M @ w` multiplies, with NumPy broadcasting: a size-1 or missing axis of `shape` means the same
    matrix along that axis. `std` is a number or an array that broadcasts to `shape`. Using the
    same object twice is weight sharing.
    """

    __array_ufunc__ = None  # so that `array @ M` is refused here and not looped over by NumPy

    def __init__(
        self,
        std: object = 1.0,
        shape: int | Shape = (),
        rows: Dim | int = n,
        cols: Dim | int = n,
        name: str = "",
    ):
        sizes = shape if isinstance(shape, tuple | list) else (shape,)
        self.shape: Shape = tuple(
            s if s == float("inf") else positive_int("shape", s) for s in sizes
        )
        self.std = non_negative("std", std)
        if shapes.broadcast("Matrix(std, shape)", self.std.shape, self.shape) != self.shape:
            raise ValueError(
                f"std must broadcast to shape {self.shape}, got shape {self.std.shape}"
            )
        if not is_traced(self.std):
            check_scales("std", np.asarray(self.std, dtype=float))
        self.rows = as_dim("rows", rows)
        self.cols = as_dim("cols", cols)
        self.name = name

    def __matmul__(self, other: object) -> Any:
        if isinstance(other, Value):
            return NotImplemented  # Wide.__rmatmul__ writes the instruction
        if isinstance(other, Matrix):
            raise TypeError("a product of matrices is not an instruction: write A @ (B @ x)")
        raise TypeError(
            f"a Matrix multiplies vectors of a program, got {type(other).__name__}; wrap given "
            "coordinates as data(X)"
        )

    def __rmatmul__(self, other: object) -> Any:
        raise TypeError(f"{type(other).__name__} @ Matrix: write M @ x, or M.T @ x for Mᵀ x")

    @property
    def T(self) -> "Transposed":
        """The same matrices, transposed: `M.T @ w` is Mᵀ w."""
        return Transposed(self)

    def __getitem__(self, index: object) -> Any:
        raise TypeError(
            "a Matrix family cannot be indexed: index the product, (M @ x)[i], or make separate "
            "matrices"
        )

    def __repr__(self) -> str:
        std = (
            f"{self.std:g}" if np.ndim(self.std) == 0 and isinstance(self.std, np.ndarray) else "…"
        )
        return f"Matrix(std={std}, shape={self.shape}, rows={self.rows}, cols={self.cols})"


@dataclasses.dataclass(frozen=True)
class Transposed:
    """The transposes Mᵀ of a family of matrices: `M.T @ w` maps R^rows to R^cols, with the same
    entries as `M @ x`, and broadcasts as that does.
    """

    T: Matrix
    __array_ufunc__ = None

    def __matmul__(self, other: object) -> Any:
        if isinstance(other, Value):
            return NotImplemented  # Wide.__rmatmul__ writes the instruction
        raise TypeError(
            f"M.T multiplies vectors of a program, got {type(other).__name__}; wrap given "
            "coordinates as data(X)"
        )

    def __repr__(self) -> str:
        return f"{self.T!r}.T"
