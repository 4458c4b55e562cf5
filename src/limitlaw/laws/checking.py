"""Checks of the arguments of laws and of their methods."""

import math
from typing import Any, TypeVar

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from limitlaw.arguments import check_psd, integer, is_traced, non_negative, real_array, shown
from limitlaw.domain import check_variances

T = TypeVar("T")

# covariances whose eigenvalues are checked: rounding errors in an engine would show in any of them
LOOKED_AT = 4096
MOST_GIB = 16.0  # most memory of draws made at a time
MOST_ORDER = 300  # largest order of a moment: E Z^k of a standard normal Z overflows from 302 on


def mixture_arrays(mean: Float[Array, "N ..."], covariance: object) -> tuple[Array, Array]:
    """Means (N,) or (N, m), and variances (N,) or covariances (N, m, m) to match."""
    N, shape = mean.shape[0], mean.shape[1:]
    mean = mean.reshape(N, -1) if shape else mean
    m = mean.shape[1] if shape else 1
    given = real_array("covariance", covariance)
    expected = (N, m, m) if shape else (N,)
    if given.shape != expected:
        what = (
            "one matrix per component over the flattened entries"
            if shape
            else "one variance per component"
        )
        raise ValueError(f"covariance must have shape {expected}, {what}, got shape {given.shape}")
    if not is_traced(given):
        if not shape:
            check_variances("covariance", non_negative("covariance", given), small=False)
        else:
            diagonal = np.diagonal(given, axis1=1, axis2=2)
            non_negative("covariance's diagonal", diagonal)
            check_variances("covariance's diagonal", diagonal, small=False)
            for k in np.unique(np.linspace(0, N - 1, min(N, LOOKED_AT)).astype(int)) if m else ():
                check_psd(f"covariance of component {k}", given[k])
    return mean, jnp.asarray(given)


def check_base(base: object, kind: type) -> None:
    """Raise unless `base`, whose image is asked for, is a Gaussian mixture (of this `kind`)."""
    if not isinstance(base, kind):
        raise TypeError(f"base must be a Gaussian or a GaussianMixture, got {type(base).__name__}")


def mixture_weights(weights: object, N: int) -> Float[Array, " N"]:
    """Weights of sum one; equal weights where None is given."""
    if weights is None:
        return jnp.full(N, 1 / N)
    array = non_negative("weights", weights)
    if array.shape != (N,):
        raise ValueError(
            f"weights must have shape {(N,)}, one per component, got shape {array.shape}"
        )
    if is_traced(array):
        return array / jnp.sum(array)
    total = array.sum()
    if total <= 0:
        raise ValueError("weights must have a positive sum, got all zeros")
    # Weights that already sum to one stay as they are, bit for bit.
    return jnp.asarray(array if abs(total - 1) < 1e-9 else array / total)


def entries(shape: tuple[int, ...], i: Any) -> tuple[np.ndarray, tuple[int, ...]]:
    """Positions in the flattened array of entries picked by index `i`, and their shape."""
    try:
        picked = np.arange(math.prod(shape)).reshape(shape)[i]
    except (IndexError, TypeError) as error:
        raise IndexError(f"i must index a law of shape {shape}, got {i!r} ({error})") from None
    return picked.reshape(-1), picked.shape


def sample_shape(shape: object) -> tuple[int, ...]:
    """The shape of an array of draws: an integer or a tuple of integers."""
    expected = "shape must be an integer ≥ 0 or a tuple of such"
    several = isinstance(shape, tuple | list) or getattr(shape, "ndim", 0) == 1
    sizes = [integer(size) for size in (shape if several else [shape])]  # type: ignore[attr-defined]
    if None in sizes:
        raise TypeError(f"{expected}, got {shown(shape)}")
    counts = tuple(size for size in sizes if size is not None)
    if any(size < 0 for size in counts):
        raise ValueError(f"{expected}, got {shown(shape)}")
    gib = 8 * math.prod(counts) / 2**30
    if gib > MOST_GIB:
        raise ValueError(f"shape {shape} would take {gib:,.0f} GiB: ask for fewer draws at a time")
    return counts


class _Unsaid(tuple[int, ...]):
    """The shape (), in place of one that was not given."""


UNSAID = _Unsaid()


def one_meaning(key: object, shape: T) -> T:
    """The `shape` of draws; sample(10), which could mean the seed 10 or ten draws, is refused."""
    if shape is UNSAID and integer(key) is not None:
        raise TypeError(
            f"sample({key}) may mean the seed {key} or {key} draws: write sample({key}, ()) for "
            f"one draw with this seed, sample(key, {key}) for {key} draws with a key or seed of "
            f"your choice, or rvs({key}) as in SciPy"
        )
    return shape


def order(k: object) -> int:
    """`k` as the order of a moment."""
    number = integer(k)
    if number is None or number < 0:
        raise ValueError(f"k must be an integer ≥ 0, got {shown(k)}")
    if number > MOST_ORDER:
        raise ValueError(
            f"k must be at most {MOST_ORDER}, beyond which a standard normal's moments overflow, "
            f"got {number}"
        )
    return number
