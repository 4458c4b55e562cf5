"""Preimages under φ and intervals on which φ ≤ y, by its monotone branches."""

import dataclasses
import functools
import itertools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from limitlaw.numerics import Reals
from limitlaw.phi.branches import Branch, together
from limitlaw.phi.nonlinearity import Nonlinearity


@dataclasses.dataclass(frozen=True)
class Branched:
    """A nonlinearity whose monotone branches are known."""

    phi: Nonlinearity
    branches: tuple[Branch, ...]

    @property
    def kinks(self) -> tuple[float, ...]:
        """The points at which φ is not smooth."""
        return tuple(kink.at for kink in self.phi.kinks or ())

    @property
    def monotone(self) -> bool:
        """Does φ never fall, neither on a branch nor by a jump from one to the next?"""
        if not all(branch.rising for branch in self.branches):
            return False
        in_order = sorted(self.branches, key=lambda branch: branch.lo)
        return all(a.top <= b.bottom for a, b in itertools.pairwise(in_order))

    @property
    def injective(self) -> bool:
        """Is φ one to one?"""
        return self.monotone and all(branch.inverse is not None for branch in self.branches)

    @property
    def support(self) -> tuple[float, float]:
        """The smallest and the largest value of φ."""
        return min(b.bottom for b in self.branches), max(b.top for b in self.branches)


def branched(phi: Nonlinearity, reach: tuple[float, float]) -> Branched | None:
    """φ with its branches on `reach`; None if these are unknown, or too many."""
    if phi.branches is None:
        return None
    # so that few different reaches are asked for
    low, high = np.floor(reach[0] / np.pi), np.ceil(reach[1] / np.pi)
    return _branched(phi, float(low * np.pi), float(high * np.pi))


# so that what is compiled for a nonlinearity serves all its laws
@functools.lru_cache(maxsize=256)
def _branched(phi: Nonlinearity, lo: float, hi: float) -> Branched | None:
    found = phi.branches(lo, hi) if phi.branches else None
    return None if found is None else Branched(phi, found)


@functools.partial(jax.jit, static_argnames="known")
def intervals(
    y: Float[Array, " p"], known: Branched
) -> tuple[Float[Array, "p b 2"], Float[Array, "p b 2"]]:
    """Intervals (from, to] on which φ ≤ y, and those of φ > y: (p, branches, 2) each."""

    def parts(branch: Branch, y: Reals) -> tuple[Reals, Reals]:
        return jnp.stack(branch.below(y), -1), jnp.stack(branch.above(y), -1)

    below, above = _of_each(known, parts, y)
    rest = padded_branches(len(known.branches)) - below.shape[1]
    empty = jnp.broadcast_to(y[:, None, None], (len(y), rest, 2))
    return jnp.concatenate([below, empty], 1), jnp.concatenate([above, empty], 1)


def _of_each(
    known: Branched, parts: Callable[[Branch, Reals], tuple[Reals, Reals]], y: Reals
) -> tuple[Reals, Reals]:
    """Two arrays for every branch, with an axis of branches behind those of y."""
    many = together(known.branches)
    if many is not None:
        return parts(many, y[..., None])
    first, second = zip(*(parts(branch, y) for branch in known.branches), strict=True)
    return jnp.stack(first, y.ndim), jnp.stack(second, y.ndim)


def padded_branches(count: int) -> int:
    """The next power of two, to which the number of branches is padded."""
    return 1 << (count - 1).bit_length()


@functools.partial(jax.jit, static_argnames="known")
def preimages(
    y: Float[Array, "*p"], known: Branched
) -> tuple[Float[Array, "*p b"], Float[Array, "*p b"]]:
    """The x with φ(x) = y by branches, and 1/|φ'(x)|, 0 if the branch does not reach y."""

    def parts(branch: Branch, y: Reals) -> tuple[Reals, Reals]:
        root = branch.solve(y)
        reached = (y >= branch.bottom) & (y < branch.top) & (branch.inverse is not None)
        inside = reached & jnp.isfinite(root)
        middle = 0.5 * (np.maximum(branch.lo, -1e3) + np.minimum(branch.hi, 1e3))
        root = jnp.where(inside, root, middle)
        return root, jnp.where(inside, jnp.exp(-log_slopes(known.phi, root)), 0.0)

    x, jacobian = _of_each(known, parts, y)
    rest = padded_branches(len(known.branches)) - x.shape[-1]
    empty = jnp.broadcast_to(y[..., None], (*y.shape, rest))
    return jnp.concatenate([x, empty], -1), jnp.concatenate([jacobian, 0 * empty], -1)


@functools.partial(jax.jit, static_argnames="phi")
def slopes(phi: Nonlinearity, x: Float[Array, "..."]) -> Float[Array, "..."]:
    """|φ'(x)|, elementwise."""
    return jnp.abs(jax.vmap(jax.grad(lambda x: phi(x)))(x.reshape(-1)).reshape(x.shape))


@functools.partial(jax.jit, static_argnames="phi")
def log_slopes(phi: Nonlinearity, x: Float[Array, "..."]) -> Float[Array, "..."]:
    """log |φ'(x)|, elementwise; −∞ where φ is flat."""
    return jnp.log(slopes(phi, x)) if phi.log_slope is None else phi.log_slope(x)
