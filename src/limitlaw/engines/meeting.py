"""How a family of matrices meets a batch of vectors: m matrices times k vectors each."""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float


class Meeting(NamedTuple):
    """The axes of the batch shape `full`: matrices differ along `own`, not along `shared`."""

    full: tuple[int, ...]
    own: tuple[int, ...]
    shared: tuple[int, ...]

    @classmethod
    def of(cls, matrices: tuple[int, ...], vectors: tuple[int, ...]) -> "Meeting":
        """The meeting of matrices and vectors of these batch shapes."""
        full = np.broadcast_shapes(matrices, vectors)
        aligned = (1,) * (len(full) - len(matrices)) + matrices
        own = tuple(a for a, size in enumerate(aligned) if size > 1)
        return cls(full, own, tuple(a for a in range(len(full)) if a not in own))

    def gather(self, x: Float[Array, "*vectors cols"]) -> Float[Array, "m_or_1 k cols"]:
        """The vectors that each matrix meets; the first axis has size 1 if they are the same."""
        x = x.reshape((1,) * (len(self.full) + 1 - x.ndim) + x.shape)
        differ = any(x.shape[a] > 1 for a in self.own)
        sizes = [self.full[a] if differ or a in self.shared else 1 for a in range(len(self.full))]
        x = jnp.broadcast_to(x, (*sizes, x.shape[-1]))
        x = x.transpose(*self.own, *self.shared, len(self.full))
        return x.reshape(self.size(self.own) if differ else 1, self.size(self.shared), x.shape[-1])

    def scatter(self, y: Float[Array, "m k rows"]) -> Float[Array, "*full rows"]:
        """The products back in the broadcast batch shape."""
        order = (*self.own, *self.shared)
        y = y.reshape(*(self.full[a] for a in order), y.shape[-1])
        return y.transpose(*np.argsort(order).tolist(), len(order))

    def size(self, axes: tuple[int, ...]) -> int:
        """The number of batch entries along `axes`."""
        return int(np.prod([self.full[a] for a in axes], dtype=int))
