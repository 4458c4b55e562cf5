"""How parameters enter gradients. For y = W x with backward b of y, W = σ w/√cols,

∂f/∂w = σ Σ (b/√rows) (x/√cols)ᵀ, summed over the vectors that W meets; for a bias, y = x + σ w,

∂f/∂w = σ Σ b/√rows, and for a gain, y = w ∘ z, ∂f/∂w = Σ b ∘ z/√rows.
"""

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from limitlaw.language import ops
from limitlaw.language.matrices import Matrix
from limitlaw.language.tree import Value
from limitlaw.language.values import Wide, scalars, wide

Parameter = Matrix | Wide  # a family of matrices; a vector, a bias or a gain


@dataclasses.dataclass(frozen=True)
class Use:
    """Where parameters enter, as the gradients of m numbers see it: for a family of matrices
    ∂f/∂w = σ Σ_r l_r k_rᵀ/√(rows cols), with l in R^rows and k in R^cols, for vectors
    ∂f/∂w = σ Σ_r l_r/√rows, with nothing on the right.

    Both have the shape (*family, m·R), of 1 where all matrices meet the same vectors.
    """

    left: Wide
    right: Wide | None
    std: Any  # σ, for each of the family
    numbers: int

    @classmethod
    def of(cls, op: ops.MatMul | ops.Trained, b: Wide, at: int | None) -> "Use":
        """Of a value with backward b, along whose axis `at` the m numbers are."""
        own = own_axes(parameter_of(op), b.ndim)
        order = (*own, *(a for a in (at,) if a is not None))
        numbers = 1 if at is None else int(b.shape[at])
        if isinstance(op, ops.Trained):
            left = b * wide("w", op.w) if isinstance(op.vector.op, ops.Gain) else b
            return cls(in_front(left, order, len(own)), None, op.std, numbers)
        x = wide("x", op.x)[(None,) * (b.ndim - len(op.x.shape))]
        met = tuple(1 if a in own else int(size) for a, size in enumerate(b.shape))
        x = x if x.shape == met else scalars(np.ones(met)) * x
        vectors = [in_front(w, order, len(own)) for w in (x, b)]
        left, right = vectors if op.transposed else vectors[::-1]
        return cls(left, right, op.matrix.std, numbers)


Uses = dict[Parameter, list[Use]]


def uses(made: Iterable[tuple[Wide, Wide]], places: Mapping[Value, int | None]) -> Uses:
    """The uses of all parameters, by the values that are made with them and their backward
    vectors; `places`: the axes of these along which the numbers of a batch are, where there is
    one.
    """
    found: Uses = {}
    for v, b in made:
        op = v.op
        assert isinstance(op, ops.MatMul | ops.Trained)
        found.setdefault(parameter_of(op), []).append(Use.of(op, b, places.get(v)))
    return found


def parameter_of(op: ops.MatMul | ops.Trained) -> Parameter:
    """The parameters that a value is made with."""
    return op.matrix if isinstance(op, ops.MatMul) else wide("vector", op.vector)


def own_axes(parameter: Parameter, ndim: int) -> tuple[int, ...]:
    """The axes of a value, which has `ndim`, along which it is made with different parameters."""
    first = ndim - len(parameter.shape)
    return tuple(first + a for a, size in enumerate(parameter.shape) if size != 1)


def in_front(w: Wide, order: tuple[int, ...], kept: int) -> Wide:
    """With some axes in front, of which the first stay and all others are one."""
    rest = tuple(a for a in range(w.ndim) if a not in order)
    w = w.transpose(*order, *rest) if w.ndim else w
    return w.reshape(*w.shape[:kept], -1)
