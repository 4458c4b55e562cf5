"""Tangent kernels as programs: Θ(f, f') = Σ_w ∂f/∂w ∂f'/∂w over the parameters w of matrices
W = σ w/√cols.

For y = W x with backward b of y, ∂f/∂w = σ (b/√rows)(x/√cols)ᵀ summed over the vectors that W
meets, so that

    Θ^W = σ² Σ_{i,j} (b_i·b'_j/rows) (x_i·x'_j/cols).
"""

import dataclasses
import functools
import operator
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from limitlaw.backward.entries import entry_axis
from limitlaw.backward.reverse import products
from limitlaw.backward.uses import Use, Uses, own_axes, uses
from limitlaw.core.labelled import Axis
from limitlaw.language import ops
from limitlaw.language.functions import dot, stack
from limitlaw.language.matrices import Matrix
from limitlaw.language.ops import matrices_of
from limitlaw.language.shapes import finite_shape
from limitlaw.language.tree import Value, ancestors
from limitlaw.language.values import Scalars, Wide, scalars
from limitlaw.language.writing_out import without_loops


def ntk(
    f: Scalars, f2: Scalars | None = None, wrt: Matrix | Iterable[Matrix] | None = None
) -> Any:
    """The tangent kernel of f, or between f and f2: a number of the program, of which `limit` is
    the law as n → ∞, and `finite_samples` draws at width n without drawing a matrix.

    f is a number of a program or a batch (m,) of them, as of m inputs: the kernel then is (m, m'),
    of all pairs. The parameters are the standard normal w of every matrix W = σ w/√cols, of those
    in `wrt` where that is given: a matrix, or several, for each of which there is a kernel.
    `parameters(f)` finds the matrices that layers make.

    Examples:
        >>> import limitlaw as ll
        >>> y = ll.mlp(ll.data([[1.0, 0.0], [0.6, 0.8]]), phi=ll.relu)
        >>> f = ll.dot(ll.initial(), y)
        >>> ll.finite_samples(ll.ntk(f), width=32, samples=5, key=0).shape
        (5, 2, 2)
    """
    for name, value in (("f", f), ("f2", f if f2 is None else f2)):
        if not isinstance(value, Scalars) or value.ndim > 1:
            raise TypeError(
                f"{name} must be numbers of a program, of shape () or (m,), got {value!r}"
            )
    f, second = without_loops([f, f if f2 is None else f2])
    known = list(parameters(f, second).values())
    chosen = known if wrt is None else [wrt] if isinstance(wrt, Matrix) else wrt
    if not isinstance(chosen, Iterable) or isinstance(chosen, str | Mapping):
        raise TypeError(f"wrt must be a matrix, or a sequence of matrices, got {wrt!r}")
    chosen = list(chosen)
    for matrix in chosen:
        if matrix not in known:
            raise ValueError(f"wrt must be matrices that f multiplies by, got {matrix!r}")
    if not chosen:
        raise ValueError("f must multiply by a matrix, of which there is a kernel: it has none")
    first = Parts.of(f)
    others = first if f2 is None else Parts.of(second)
    shape = (*f.shape, *second.shape)
    kernels = [_kernel(matrix, first, others).reshape(shape) for matrix in chosen]
    single = wrt is None or isinstance(wrt, Matrix)
    return functools.reduce(operator.add, kernels) if single else tuple(kernels)


def parameters(*values: Scalars | Wide) -> dict[str, Matrix]:
    """The matrices that a program multiplies by, under the names by which it is printed, loops
    being written out.
    """
    if not values or not all(isinstance(v, Scalars | Wide) for v in values):
        raise TypeError(f"parameters needs values of a program, got {values!r}")
    values = without_loops(values)
    name = values[0].names(*values[1:])
    return {name(matrix): matrix for matrix in matrices_of(ancestors(values))}


# --- batches of numbers --------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Parts:
    """The uses of all matrices: for all m numbers of a batch at once, or for each of them."""

    uses: list[Uses]
    numbers: int  # of each part

    @classmethod
    def of(cls, f: Scalars) -> "Parts":
        """Of f, one number or a batch."""
        if not f.ndim:
            return cls([uses(products(f), {})], 1)
        (axis,) = f.core.layout
        names = None if axis is None else entry_axis(f.core.value, axis)
        if names is not None:
            made = [v for v in ancestors([f]) if isinstance(v.op, ops.MatMul)]
            places = {v: _place(v, names) for v in made}
            if all(at is not None for at in places.values()):
                return cls([uses(products(f.sum()), places)], int(f.shape[0]))
        return cls([uses(products(number), {}) for number in f], 1)


def _place(v: Value, names: Mapping[Any, Axis | None]) -> int | None:
    """The place of the axis of numbers in the shape of a product, unless each has its matrices."""
    output = v.lowered
    axis = names.get(output.value)
    if axis is None or axis in output.value.instruction.family.axes:  # type: ignore[attr-defined]
        return None
    return output.layout.index(axis)


def squared_norms(products: Iterable[tuple[Wide, Wide]]) -> dict[Matrix, Scalars]:
    """Σ_w (∂f/∂w)² over the parameters of each matrix, by some products with it and their backward
    vectors.
    """
    found = uses(products, {}).items()
    return {matrix: _block(matrix, met, met, (1, 1)).reshape(()) for matrix, met in found}


# --- kernels -------------------------------------------------------------------------------------


def _kernel(matrix: Matrix, f: Parts, f2: Parts) -> Scalars:
    """Θ of a family of matrices: parts of f by parts of f'."""
    shape = f.numbers, f2.numbers
    rows = [
        stack([_block(matrix, a.get(matrix, []), b.get(matrix, []), shape) for b in f2.uses])
        for a in f.uses
    ]
    return stack(rows)


def _block(matrix: Matrix, first: list[Use], second: list[Use], shape: tuple[int, int]) -> Scalars:
    """σ² Σ (l_i·l'_j/rows) (k_i·k'_j/cols), (m, m')."""
    terms = [_term(matrix, a, b) for a in first for b in second]
    return functools.reduce(operator.add, terms) if terms else scalars(np.zeros(shape))


def _term(matrix: Matrix, a: Use, b: Use) -> Scalars:
    different = own_axes(matrix, len(matrix.shape))
    square = np.broadcast_to(np.asarray(matrix.std) ** 2, finite_shape(matrix.shape))
    square = square.reshape([int(matrix.shape[axis]) for axis in different])[..., None, None]
    pairs = dot(a.left, b.left, "linear") * dot(a.right, b.right, "linear") * square
    pairs = pairs.sum(axis=tuple(range(len(different)))) if different else pairs
    return pairs.reshape(a.numbers, -1, b.numbers, pairs.shape[-1] // b.numbers).sum(axis=(1, 3))
