"""Tangent kernels as programs: Θ(f, f') = Σ_w ∂f/∂w ∂f'/∂w over the parameters w of matrices
W = σ w/√cols.

For y = W x with backward b of y, ∂f/∂w = σ (b/√rows)(x/√cols)ᵀ summed over the vectors that W
meets, so that

    Θ^W = σ² Σ_{i,j} (b_i·b'_j/rows) (x_i·x'_j/cols).
"""

import dataclasses
import functools
import operator
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from limitlaw.backward.entries import entry_axis
from limitlaw.backward.reverse import CameBack, came_back, is_product, reverses
from limitlaw.backward.uses import Use, own_axes, uses
from limitlaw.core.labelled import Axis
from limitlaw.language.functions import dot, stack
from limitlaw.language.matrices import Matrix
from limitlaw.language.ops import matrices_of
from limitlaw.language.shapes import finite_shape
from limitlaw.language.tree import Value, ancestors
from limitlaw.language.values import Scalars, Wide, scalars
from limitlaw.language.writing_out import Iteration, around_loops, iteration_of, without_loops


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
    second = f if f2 is None else f2
    if wrt is None:
        matrices = matrices_of(ancestors([f, second]))
    else:
        matrices = _chosen(wrt, list(parameters(f, second).values()))
    if not matrices:
        raise ValueError("f must multiply by a matrix, of which there is a kernel: it has none")
    places = {m: iteration_of(m) for m in matrices if wrt is not None}
    loops = set(around_loops([f, second]))
    if reverses([f, second]) or any(at and at.loop not in loops for at in places.values()):
        f, second = without_loops([f, second])
        places = {}
    kernels = Kernels(f, None if f2 is None else second, each=wrt is not None)
    asked = [None] if wrt is None else [places.get(m) or m for m in matrices]
    found = tuple(kernels.of(at).reshape(*f.shape, *second.shape) for at in asked)
    return found[0] if wrt is None or isinstance(wrt, Matrix) else found


def _chosen(wrt: object, known: list[Matrix]) -> list[Matrix]:
    """The matrices that are asked for."""
    chosen = [wrt] if isinstance(wrt, Matrix) else wrt
    if not isinstance(chosen, Iterable) or isinstance(chosen, str | Mapping):
        raise TypeError(f"wrt must be a matrix, or a sequence of matrices, got {wrt!r}")
    chosen = list(chosen)
    for matrix in chosen:
        if matrix not in known:
            raise ValueError(f"wrt must be matrices that f multiplies by, got {matrix!r}")
    return chosen


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
class Part:
    """One or several of the numbers of a batch, whose backward vectors are found by one reverse
    pass from their sum; `places`: the axes of products along which those of several are.
    """

    number: Scalars
    count: int
    places: Mapping[Value, int | None]


def parts(f: Scalars) -> list[Part]:
    """The numbers of f together, where entries do not meet, or each by itself."""
    if not f.ndim:
        return [Part(f, 1, {})]
    (axis,) = f.core.layout
    names = None if axis is None else entry_axis(f.core.value, axis)
    if names is not None:
        places = {v: _place(v, names) for v in ancestors([f]) if is_product(v)}
        if all(at is not None for at in places.values()):
            return [Part(f.sum(), int(f.shape[0]), places)]
    return [Part(number, 1, {}) for number in f]


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

# kernels between an earlier pass and one, by the number of the former and the matrix, or of all
Blocks = dict[tuple[int, Matrix | None], Scalars]


class Kernels:
    """Θ of numbers f, or between f and f': one reverse pass for each part of them, in which its
    kernels with earlier passes are found, those of loops in their iterations. `each`: of each
    matrix.
    """

    def __init__(self, f: Scalars, f2: Scalars | None, each: bool):
        self.rows, self.each = parts(f), each
        self.columns = self.rows if f2 is None else parts(f2)
        self.first = 0 if f2 is None else len(self.rows)  # pass of the first column
        self.passes = self.rows if f2 is None else [*self.rows, *self.columns]
        self.came: list[CameBack] = []
        self.found: list[Blocks] = []  # of each pass, outside of loops
        self.inside: list[dict[Value, Blocks]] = []  # in loops, with an axis of iterations
        before: dict[Value, Value] = {}
        for part in self.passes:
            asked: dict[Value, list[tuple[int, Matrix | None]]] = {}

            def read(loop: Value, came: CameBack, asked: Any = asked) -> Sequence[Scalars]:
                earlier = [p.iterations.get(loop) for p in self.came]
                blocks = self._met(earlier, came, asked)
                asked[loop] = list(blocks)
                return list(blocks.values())

            came = came_back(part.number, is_product, read, before)
            before |= came.loops
            self.found.append(self._met(self.came, came, asked))
            loops = came.read.items()
            self.inside.append({v: dict(zip(asked[v], k, strict=True)) for v, k in loops})
            self.came.append(came)

    def of(self, at: "Matrix | Iteration | None") -> Scalars:
        """Θ of a matrix, of one of an iteration of a loop, or of all."""
        across = range(self.first, len(self.passes))
        rows = [stack([self._entry(i, j, at) for j in across]) for i in range(len(self.rows))]
        return stack(rows).transpose(0, 2, 1, 3)

    def _entry(self, i: int, j: int, at: "Matrix | Iteration | None") -> Scalars:
        """Between the numbers of two passes."""
        if i > j:
            return self._entry(j, i, at).transpose(1, 0)
        if isinstance(at, Iteration):
            known = self.inside[j].get(at.loop, {}).get((i, at.matrix))
            known = None if known is None else known[at.t]
        else:
            known = self.found[j].get((i, at))
        shape = self.passes[i].count, self.passes[j].count
        return scalars(np.zeros(shape)) if known is None else known

    def _met(
        self,
        earlier: Sequence[CameBack | None],
        came: CameBack,
        inside: Mapping[Value, list[tuple[int, Matrix | None]]],
    ) -> Blocks:
        """Kernels with earlier passes, and of a pass with itself, without those of loops, or in
        total.
        """
        own = uses(came.products, self.passes[len(self.came)].places)
        found: Blocks = {}
        for i, other in enumerate((*earlier, came)):
            if other is None or not self._is_entry(i, len(self.came)):
                continue
            theirs = uses(other.products, self.passes[i].places)
            shape = self.passes[i].count, self.passes[len(self.came)].count
            each = {m: _block(m, theirs[m], own[m], shape) for m in own if m in theirs}
            if self.each:
                found |= {(i, m): block for m, block in each.items()}
                continue
            loops = [
                k.sum(axis=0)
                for v, kernels in came.read.items()
                for (which, _), k in zip(inside[v], kernels, strict=True)
                if which == i
            ]
            if terms := [*each.values(), *loops]:
                found[i, None] = functools.reduce(operator.add, terms)
        return found

    def _is_entry(self, i: int, j: int) -> bool:
        return self.first <= j and i < len(self.rows)


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
