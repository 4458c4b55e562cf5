"""Gaussian vectors that are not drawn yet: coefficients on roots.

Given what has been drawn so far, outputs of a fresh matrix are linear combinations c Ξ of *roots*: independent
standard Gaussian vectors Ξ of R^D. Linear operations change the coefficients only. The roots are drawn when something
asks for more than that: an inner product, a nonlinearity, the Gram of the next MatMul.

Along some batch axes (heads, say) every entry has roots of its own, so that nothing is stored or drawn for pairs of
heads that never meet.
"""

import dataclasses
import math

import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float

from limitlaw.engines import linear
from limitlaw.language import ops
from limitlaw.language.shapes import Shape, batch_index, finite_shape
from limitlaw.numerics.factors import gram, pivoted_factor


@dataclasses.dataclass(frozen=True)
class Fresh:
    """Vectors Σ_r c[…, r] Ξ_r of batch shape `shape`, where axis a has its own roots if `own[a]`.

    c has an axis for each batch axis, of its size or of size 1 (the same coefficients), and a last one for the roots.
    """

    c: Float[Array, "*batch roots"]
    shape: tuple[int, ...]
    own: tuple[bool, ...]

    def __post_init__(self) -> None:
        """An axis of size 1 shares its roots with whatever it is broadcast to."""
        object.__setattr__(self, "own", tuple(own and size > 1 for own, size in zip(self.own, self.shape, strict=True)))

    @property
    def roots(self) -> int:
        """The number of roots of each entry."""
        return self.c.shape[-1]

    @property
    def own_sizes(self) -> tuple[int, ...]:
        """The batch shape with 1 on the axes that share their roots."""
        return tuple(size if own else 1 for size, own in zip(self.shape, self.own, strict=True))

    # --- changing the coefficients ----------------------------------------------------------------------------------

    def whole(self, axes: tuple[int, ...]) -> Float[Array, "*batch roots"]:
        """The coefficients with these axes at their full size."""
        sizes = [self.shape[a] if a in axes else size for a, size in enumerate(self.c.shape[:-1])]
        return jnp.broadcast_to(self.c, (*sizes, self.roots))

    def shared(self, axes: tuple[int, ...]) -> "Fresh":
        """The same vectors with the roots of the own axes among `axes` thrown together."""
        fresh = self
        for a in axes:
            if fresh.own[a]:
                size = fresh.shape[a]
                eye = jnp.eye(size, dtype=fresh.c.dtype).reshape(
                    *(size if b == a else 1 for b in range(len(fresh.shape))), size, 1
                )
                c = fresh.whole((a,))[..., None, :] * eye
                own = tuple(o and b != a for b, o in enumerate(fresh.own))
                fresh = Fresh(c.reshape(*c.shape[:-2], size * fresh.roots), fresh.shape, own)
        return fresh

    def compressed(self) -> "Fresh":
        """The same law with no more roots than vectors: c → L with L Lᵀ = c cᵀ."""
        others = tuple(a for a, own in enumerate(self.own) if not own)
        sizes = [self.c.shape[a] for a in others]
        count = math.prod(sizes)
        if self.roots <= count:
            return self
        owns = tuple(a for a, own in enumerate(self.own) if own)
        order = (*owns, *others)
        c = self.c.transpose(*order, len(order))
        L = pivoted_factor(gram(c.reshape(*(self.c.shape[a] for a in owns), count, self.roots)))
        L = lax.optimization_barrier(L)  # small, and read by every head: computed once, not inside their loops
        L = L.reshape(*(self.c.shape[a] for a in order), count).transpose(*np.argsort(order).tolist(), len(order))
        return Fresh(L, self.shape, self.own)

    def scaled(self, a: Float[Array, "..."], shape: Shape) -> "Fresh":
        """a * w."""
        new = finite_shape(shape)
        fresh = self.padded(len(new))
        return Fresh(a.reshape(*(1,) * (len(new) - a.ndim), *a.shape, 1) * fresh.c, new, fresh.own)

    def padded(self, ndim: int) -> "Fresh":
        """With axes of size 1 in front, up to `ndim` batch axes."""
        missing = ndim - len(self.shape)
        ones = (1,) * missing
        return Fresh(self.c.reshape(*ones, *self.c.shape), ones + self.shape, (False,) * missing + self.own)

    # --- one rule per linear instruction ----------------------------------------------------------------------------

    def mixed(self, op: ops.Mix, a: Float[Array, "..."], shape: Shape) -> "Fresh":
        """a @ w: (…,i,j), (…,j) → (…,i)."""
        last = len(self.shape) - 1
        fresh = self.shared((last,))
        matrix = a if op.a.ndim > 1 else a[None]
        c = matrix @ fresh.whole((last,))
        lead = fresh.padded(c.ndim - 1)
        result = Fresh(c, (*_broadcast(lead.shape[:-1], matrix.shape[:-2]), c.shape[-2]), lead.own)
        return result if op.a.ndim > 1 else result.dropped(c.ndim - 2)

    def dropped(self, axis: int) -> "Fresh":
        """Without an axis of size 1."""
        keep = [a for a in range(len(self.shape)) if a != axis]
        return Fresh(
            self.c.reshape(*(self.c.shape[a] for a in keep), self.roots),
            tuple(self.shape[a] for a in keep),
            tuple(self.own[a] for a in keep),
        )

    def summed(self, op: ops.Sum) -> "Fresh":
        """Σ over axes: own roots stay apart as so many roots more, shared ones add up."""
        owns = tuple(a for a in op.axes if self.own[a])
        keep = [a for a in range(len(self.shape)) if a not in op.axes]
        c = self.whole(op.axes)
        plain = tuple(a for a in op.axes if a not in owns)
        c = c.sum(axis=plain, keepdims=True).transpose(*keep, *plain, *owns, len(self.shape))
        c = c.reshape(*(c.shape[i] for i in range(len(keep))), -1)
        if op.normalised:
            c = c / math.sqrt(math.prod(self.shape[a] for a in op.axes))
        return Fresh(c, tuple(self.shape[a] for a in keep), tuple(self.own[a] for a in keep))

    def indexed(self, op: ops.Index, shape: Shape) -> "Fresh":
        """x[index]. Slices keep own roots; anything else throws the roots of that axis together first."""
        everything = tuple(range(len(self.shape)))
        parts = [p for p in op.index if p is not Ellipsis]
        if Ellipsis in [p for p in op.index if not isinstance(p, np.ndarray)]:
            parts = list(batch_index(op.index, len(self.shape)))
        if any(isinstance(p, np.ndarray) for p in parts):
            fresh = self.shared(everything)
            return Fresh(linear.index(op, fresh.whole(everything)), finite_shape(shape), (False,) * len(shape))
        own: list[bool] = []
        axis = 0
        for part in parts:
            if part is None:
                own.append(False)
                continue
            if isinstance(part, slice):
                own.append(self.own[axis])
            axis += 1
        own += self.own[axis:]
        return Fresh(linear.index(op, self.whole(everything)), finite_shape(shape), tuple(own))

    def reshaped(self, op: ops.Reshape, shape: Shape) -> "Fresh":
        """Another batch shape."""
        everything = tuple(range(len(self.shape)))
        c = linear.reshape(op, shape, self.shared(everything).whole(everything))
        return Fresh(c, finite_shape(shape), (False,) * len(shape))

    def transposed(self, op: ops.Transpose) -> "Fresh":
        """Another order of the batch axes."""
        pick = [(self.shape[a], self.own[a]) for a in op.axes]
        return Fresh(linear.transpose(op, self.c), tuple(p[0] for p in pick), tuple(p[1] for p in pick))

    # --- what is needed in the end ----------------------------------------------------------------------------------

    def covariance(self) -> Float[Array, "m m"]:
        """The covariance of one coordinate of all vectors of the batch, flattened."""
        everything = tuple(range(len(self.shape)))
        fresh = self.shared(everything)
        return gram(fresh.whole(everything).reshape(-1, fresh.roots))


def added(terms: list[Fresh], shape: Shape) -> Fresh:
    """The sum of vectors with different roots."""
    new = finite_shape(shape)
    padded = [t.padded(len(new)) for t in terms]
    common = tuple(all(t.own[a] for t in padded) for a in range(len(new)))
    differing = tuple(a for a, own in enumerate(common) if not own)
    parts = [t.shared(differing) for t in padded]
    sizes = _broadcast(*(p.c.shape[:-1] for p in parts))
    c = jnp.concatenate([jnp.broadcast_to(p.c, (*sizes, p.roots)) for p in parts], axis=-1)
    return Fresh(c, new, common)


def stacked(op: ops.Stack, terms: list[Fresh], shape: Shape) -> Fresh:
    """Vectors with different roots along a new axis, which has its own roots."""
    everything = tuple(range(len(terms[0].shape)))
    common = tuple(all(t.own[a] for t in terms) for a in everything)
    parts = [t.shared(tuple(a for a in everything if not common[a])) for t in terms]
    roots = max(p.roots for p in parts)
    arrays = [jnp.pad(p.whole(everything), [(0, 0)] * len(everything) + [(0, roots - p.roots)]) for p in parts]
    own = (*common[: op.axis], True, *common[op.axis :])
    return Fresh(linear.stack(op, arrays), finite_shape(shape), own)


def _broadcast(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(int(size) for size in np.broadcast_shapes(*shapes))
