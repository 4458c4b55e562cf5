"""Tangent kernels as programs: Θ(f, f') = Σ_w ∂f/∂w ∂f'/∂w over the parameters w of matrices
W = σ w/√cols, of biases σ w, and of gains w of norms.

For y = W x with backward b of y, ∂f/∂w = σ (b/√rows)(x/√cols)ᵀ summed over the vectors that W
meets, so that

    Θ^W = σ² Σ_{i,j} (b_i·b'_j/rows) (x_i·x'_j/cols);

for a bias y = x + σ w it is σ² Σ b_i·b'_j/rows, and for a gain y = w ∘ z it is
Σ (b_i∘z_i)·(b'_j∘z'_j)/rows.
"""

import dataclasses
import functools
import operator
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from limitlaw.arguments import is_traced
from limitlaw.backward.entries import entry_axis
from limitlaw.backward.reverse import CameBack, came_back, reverses
from limitlaw.backward.uses import Parameter, Use, own_axes, parameter_of, uses
from limitlaw.core.labelled import Axis
from limitlaw.language import ops
from limitlaw.language.functions import dot, stack
from limitlaw.language.matrices import Matrix
from limitlaw.language.shapes import finite_shape
from limitlaw.language.tree import Value, ancestors
from limitlaw.language.values import Scalars, Wide, scalars
from limitlaw.language.writing_out import Iteration, around_loops, iteration_of, without_loops


def ntk(
    f: Scalars, f2: Scalars | None = None, wrt: Parameter | Iterable[Parameter] | None = None
) -> Any:
    """The tangent kernel of f, or between f and f2: a number of the program, of which `limit` is
    the law as n → ∞, and `finite_samples` draws at width n without drawing a matrix.

    f is a number of a program or a batch (m,) of them, as of m inputs: the kernel then is (m, m'),
    of all pairs. `kernel(ntk(f))` is an array where it is deterministic. The parameters are the
    standard normal w of every matrix W = σ w/√cols and of every bias σ w of a layer
    (`nn.with_bias`), and the gains of norms that have one (`layernorm(x, gain=True)`); or those in
    `wrt`: a matrix, a vector, or several, for each of which there is a kernel. `parameters(f)`
    finds all of them. Vectors that are initial or given otherwise are not trained.

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
        matrices = _parameters([f, second])
    else:
        matrices = _chosen(wrt, list(parameters(f, second).values()))
    if not matrices:
        raise ValueError("f must multiply by a matrix, of which there is a kernel: it has none")
    chosen = [] if wrt is None else matrices
    places = {m: iteration_of(m) for m in chosen if isinstance(m, Matrix)}
    vectors = any(not isinstance(m, Matrix) for m in chosen)
    loops = set(around_loops([f, second]))
    if (
        vectors
        or reverses([f, second])
        or any(at and at.loop not in loops for at in places.values())
    ):
        f, second = without_loops([f, second])
        places = {}
    kernels = Kernels(f, None if f2 is None else second, each=wrt is not None)
    asked: list[Any] = [None]
    if wrt is not None:
        asked = [(isinstance(m, Matrix) and places.get(m)) or m for m in matrices]
    found = tuple(kernels.of(at).reshape(*f.shape, *second.shape) for at in asked)
    return found[0] if wrt is None or isinstance(wrt, Parameter) else found


def _chosen(wrt: object, known: list[Parameter]) -> list[Parameter]:
    """The parameters that are asked for."""
    chosen = [wrt] if isinstance(wrt, Parameter) else wrt
    if not isinstance(chosen, Iterable) or isinstance(chosen, str | Mapping):
        raise TypeError(
            f"wrt must be a matrix, a bias or a gain, or a sequence of such, got {wrt!r}"
        )
    chosen = list(chosen)
    for matrix in chosen:
        if matrix not in known:
            raise ValueError(
                "wrt must be matrices that f multiplies by, or biases and gains of its layers, as "
                f"parameters(f) finds them, got {matrix!r}"
            )
    return chosen


def parameters(*values: Scalars | Wide) -> dict[str, Parameter]:
    """The matrices that a program multiplies by, then the biases of its layers and the gains of
    its norms, under the names by which it is printed, loops being written out.
    """
    if not values or not all(isinstance(v, Scalars | Wide) for v in values):
        raise TypeError(f"parameters needs values of a program, got {values!r}")
    values = without_loops(values)
    name = values[0].names(*values[1:])
    found = _parameters(values)
    return {name(parameter): parameter for parameter in found}


def is_trained(v: Value) -> bool:
    """Is it made with parameters?"""
    return isinstance(v.op, ops.MatMul | ops.Trained)


def _parameters(values: Sequence[Value]) -> list[Parameter]:
    """All matrices, then all vectors, in order of first use."""
    made = [v.op for v in ancestors(values) if isinstance(v.op, ops.MatMul | ops.Trained)]
    found = dict.fromkeys(map(parameter_of, made))
    return sorted(found, key=lambda parameter: not isinstance(parameter, Matrix))


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
        places = {v: _place(v, names) for v in ancestors([f]) if is_trained(v)}
        if all(at is not None for at in places.values()):
            return [Part(f.sum(), int(f.shape[0]), places)]
    return [Part(number, 1, {}) for number in f]


def _place(v: Value, names: Mapping[Any, Axis | None]) -> int | None:
    """The place of the axis of numbers in the shape of a value, unless each has its own
    parameters.
    """
    assert isinstance(v.op, ops.MatMul | ops.Trained)
    value, layout = v.lowered
    axis = names.get(value)
    at = None if axis is None else layout.index(axis)
    return None if at in own_axes(parameter_of(v.op), v.ndim) else at


def squared_norms(made: Iterable[tuple[Wide, Wide]]) -> dict[Parameter, Scalars]:
    """Σ_w (∂f/∂w)² of each of the parameters, by some values that are made with them and their
    backward vectors.
    """
    found = uses(made, {}).items()
    return {each: _block(each, met, met, (1, 1)).reshape(()) for each, met in found}


# --- kernels -------------------------------------------------------------------------------------

# kernels between an earlier pass and one, by the number of the former and the matrix, or of all
Blocks = dict[tuple[int, Parameter | None], Scalars]


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
            asked: dict[Value, list[tuple[int, Parameter | None]]] = {}

            def read(loop: Value, came: CameBack, asked: Any = asked) -> Sequence[Scalars]:
                earlier = [p.iterations.get(loop) for p in self.came]
                blocks = self._met(earlier, came, asked)
                asked[loop] = list(blocks)
                return list(blocks.values())

            came = came_back(part.number, is_trained, read, before)
            before |= came.loops
            self.found.append(self._met(self.came, came, asked))
            loops = came.read.items()
            self.inside.append({v: dict(zip(asked[v], k, strict=True)) for v, k in loops})
            self.came.append(came)

    def of(self, at: "Parameter | Iteration | None") -> Scalars:
        """Θ of a matrix, of one of an iteration of a loop, or of all."""
        across = range(self.first, len(self.passes))
        rows = [stack([self._entry(i, j, at) for j in across]) for i in range(len(self.rows))]
        return stack(rows).transpose(0, 2, 1, 3)

    def _entry(self, i: int, j: int, at: "Parameter | Iteration | None") -> Scalars:
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
        inside: Mapping[Value, list[tuple[int, Parameter | None]]],
    ) -> Blocks:
        """Kernels with earlier passes, and of a pass with itself, without those of loops, or in
        total.
        """
        own = uses(came.made_with(is_trained), self.passes[len(self.came)].places)
        found: Blocks = {}
        for i, other in enumerate((*earlier, came)):
            if other is None or not self._is_entry(i, len(self.came)):
                continue
            theirs = uses(other.made_with(is_trained), self.passes[i].places)
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


def _block(
    parameter: Parameter, first: list[Use], second: list[Use], shape: tuple[int, int]
) -> Scalars:
    """σ² Σ (l_i·l'_j/rows) (k_i·k'_j/cols), (m, m')."""
    terms = [_term(parameter, a, b) for a in first for b in second]
    return functools.reduce(operator.add, terms) if terms else scalars(np.zeros(shape))


def _term(parameter: Parameter, a: Use, b: Use) -> Scalars:
    different = own_axes(parameter, len(parameter.shape))
    pairs = dot(a.left, b.left, "linear")
    if a.right is not None and b.right is not None:
        pairs = pairs * dot(a.right, b.right, "linear")
    square: Any = a.std * b.std
    if is_traced(square) or np.any(np.asarray(square) != 1.0):
        xp = jnp if is_traced(square) else np
        square = xp.broadcast_to(square, finite_shape(parameter.shape))
        pairs = pairs * square.reshape([int(parameter.shape[axis]) for axis in different] + [1, 1])
    pairs = pairs.sum(axis=tuple(range(len(different)))) if different else pairs
    return pairs.reshape(a.numbers, -1, b.numbers, pairs.shape[-1] // b.numbers).sum(axis=(1, 3))
