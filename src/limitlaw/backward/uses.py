"""How matrices enter gradients: for y = W x with backward b of y, W = σ w/√cols,

∂f/∂w = σ Σ (b/√rows) (x/√cols)ᵀ, summed over the vectors that W meets.
"""

import dataclasses
from collections.abc import Iterable, Mapping

import numpy as np

from limitlaw.language import ops
from limitlaw.language.matrices import Matrix
from limitlaw.language.tree import Value
from limitlaw.language.values import Wide, scalars, wide


@dataclasses.dataclass(frozen=True)
class Use:
    """A product with a family of matrices, as the gradients of m numbers see it:
    ∂f/∂w = σ Σ_r l_r k_rᵀ/√(rows cols), with l in R^rows and k in R^cols.

    Both have the shape (*family, m·R), of 1 where all matrices meet the same vectors.
    """

    left: Wide
    right: Wide
    numbers: int

    @classmethod
    def of(cls, op: ops.MatMul, b: Wide, at: int | None) -> "Use":
        """Of a product with backward b, along whose axis `at` the m numbers are."""
        x = wide("x", op.x)[(None,) * (b.ndim - len(op.x.shape))]
        own = own_axes(op.matrix, b.ndim)
        met = [1 if a in own else int(size) for a, size in enumerate(b.shape)]
        order = (*own, *(a for a in (at,) if a is not None))
        vectors = [in_front(w, order, len(own)) for w in (scalars(np.ones(met)) * x, b)]
        left, right = vectors if op.transposed else vectors[::-1]
        return cls(left, right, 1 if at is None else int(b.shape[at]))


Uses = dict[Matrix, list[Use]]


def uses(products: Iterable[tuple[Wide, Wide]], places: Mapping[Value, int | None]) -> Uses:
    """The uses of each family, by products with it and their backward vectors; `places`: the axes
    of products along which the numbers of a batch are, where there is one.
    """
    found: Uses = {}
    for v, b in products:
        op = v.op
        assert isinstance(op, ops.MatMul)
        found.setdefault(op.matrix, []).append(Use.of(op, b, places.get(v)))
    return found


def own_axes(matrix: Matrix, ndim: int) -> tuple[int, ...]:
    """The axes of a product, which has `ndim`, along which there are different matrices."""
    first = ndim - len(matrix.shape)
    return tuple(first + a for a, size in enumerate(matrix.shape) if size != 1)


def in_front(w: Wide, order: tuple[int, ...], kept: int) -> Wide:
    """With some axes in front, of which the first stay and all others are one."""
    rest = tuple(a for a in range(w.ndim) if a not in order)
    w = w.transpose(*order, *rest) if w.ndim else w
    return w.reshape(*w.shape[:kept], -1)
