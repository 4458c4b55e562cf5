"""Standard Gaussian vectors without their coordinates: their lengths, which have a χ distribution,
and their Gram–Schmidt frame, the Bartlett factor of a Wishart matrix. Exact in law.
"""

import math

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key, UInt64

from limitlaw.arguments import positive_int
from limitlaw.numerics.random import (
    ANGLE_BITS,
    LARGEST_NORMAL,
    RADIUS_BITS,
    Quasi,
    Source,
    log_uniform,
    normal,
    pairs_from_bits,
    split,
)
from limitlaw.numerics.special_functions import series

DIRECT = 12  # up to so many degrees of freedom the definition is faster than rejection
GRAIN = 2.0**-32  # resolution of the uniform variable that accepts or rejects
# most terms in the series of the acceptance probability: a logarithm is faster than more
MOST_TERMS = 24

Degrees = int | Int[np.ndarray, "..."] | Float[Array, "..."]
KnownOrTraced = int | Float[Array, ""]  # known, or an argument of a compiled function
Candidate = tuple[Float[Array, "..."], Bool[Array, "..."]]  # w, and whether it is accepted
Attempt = tuple[Int[Array, ""], Float[Array, "..."], Bool[Array, "..."]]


def chi(key: Source, df: Degrees, shape: tuple[int, ...] = ()) -> Float[Array, "..."]:
    """Independent χ_df variables, one for each entry of `shape`: lengths of standard Gaussian
    vectors in R^df.

    `df` broadcasts to `shape`. It is ≥ 1 if it is known, ≥ 2 if it is an argument of a compiled
    function. An entry depends on `key` and on its place in `shape` alone, so that a draw is the
    same whatever other draws are vmapped beside it.
    """
    if math.prod(shape) == 0:
        return jnp.zeros(shape)
    degrees = df if isinstance(df, jax.Array) else _degrees(df, shape)
    if isinstance(key, Quasi):
        taken = key.take(shape, degrees)
        if taken is not None:
            return taken
        key = key.fresh_key()
    if isinstance(degrees, jax.Array):
        return _accepted(key, jnp.asarray(degrees / 2 - 1 / 3), None, shape)
    draw = _direct if degrees.max() <= DIRECT else _rejection
    return draw(key, degrees, shape)


def _degrees(df: Degrees, shape: tuple[int, ...]) -> Int[np.ndarray, "..."]:
    """`df` as an array that broadcasts to `shape`, of shape () when all its entries are equal."""
    degrees = np.asarray(df)
    np.broadcast_to(degrees, shape)
    positive_int("df", degrees.min())
    return degrees.flat[:1].reshape(()) if (degrees == degrees.flat[0]).all() else degrees


def _words(
    key: Key[Array, ""], i: Int[Array, ""] | int, shape: tuple[int, ...]
) -> UInt64[Array, "..."]:
    """The i-th array of random words; slices of one larger array do not vectorise."""
    return jax.random.bits(jax.random.fold_in(key, i), shape, jnp.uint64)


def _direct(
    key: Key[Array, ""], df: Int[np.ndarray, "..."], shape: tuple[int, ...]
) -> Float[Array, "..."]:
    """χ²_df = −2 log(U_1 ⋯ U_k) + Z² [df odd], k = ⌊df/2⌋."""
    k, odd = np.asarray(df // 2), df % 2 == 1
    square = jnp.zeros(shape)
    if k.max():
        words = [_words(key, i, shape) for i in range(1, k.max() + 1)]
        square -= 2.0 * _log_product(words, k)
    if odd.any():
        square += pairs_from_bits(_words(key, 0, shape))[0] ** 2 * odd
    return jnp.sqrt(square)


def _log_product(
    words: list[UInt64[Array, "..."]], k: Int[np.ndarray, "..."]
) -> Float[Array, "..."]:
    """log(U_1 ⋯ U_k), by a single logarithm."""
    product = jnp.ones(())
    for i, word in enumerate(words):
        U = ((word >> ANGLE_BITS).astype(jnp.float64) + 0.5) * 2.0**-RADIUS_BITS
        product *= jnp.where(i < k, U, 1.0)
    return jnp.log(product)


def _rejection(
    key: Key[Array, ""], df: Int[np.ndarray, "..."], shape: tuple[int, ...]
) -> Float[Array, "..."]:
    """χ_df by rejection; one degree of freedom is a coordinate of a vector in R³, a uniform part
    of its length: χ_1 = U χ_3.
    """
    one = df == 1
    d = np.where(one, 3, df) / 2 - 1 / 3
    length = _accepted(key, jnp.asarray(d), _terms(d.min()), shape)
    if one.any():
        U = jnp.exp(log_uniform(_words(key, 0, shape) >> ANGLE_BITS))
        length *= jnp.where(one, U, 1.0)
    return length


def _accepted(
    key: Key[Array, ""], d: Float[Array, "..."], terms: int | None, shape: tuple[int, ...]
) -> Float[Array, "..."]:
    """χ_df = √(2d w³), where w = 1 + x/√(9d), d = df/2 − ⅓ and x is normal, accepted with the
    probability of `_acceptance`.

    Marsaglia and Tsang, "A simple method for generating gamma variables", ACM TOMS 26 (2000). Each
    round makes two candidates from two words; the rounds go on, under `vmap` for the whole batch,
    while an entry has accepted none.
    """

    def candidate(i: Int[Array, ""] | int) -> Candidate:
        return _candidate(_words(key, i, shape), _words(key, i + 1, shape), d, terms)

    def again(state: Attempt) -> Attempt:
        i, w, accepted = state
        new, now = candidate(i)
        return i + 2, jnp.where(accepted, w, new), accepted | now

    _, w, _ = jax.lax.while_loop(
        lambda state: ~state[2].all(), again, (jnp.asarray(3), *candidate(1))
    )
    return jnp.sqrt(2 * d) * w * jnp.sqrt(w)


def _terms(d: float) -> int | None:
    """The order of the series of log(1 + t), |t| ≤ LARGEST_NORMAL/√(9d), that leaves less than
    GRAIN of log p, p = `_acceptance` from this d on; None if too high.
    """
    t = LARGEST_NORMAL / math.sqrt(9 * d)
    orders = range(5, 5 + MOST_TERMS)
    return next((k for k in orders if t < 1 and 3 * d * t**k / (k * (1 - t)) < GRAIN), None)


def _candidate(
    normals: UInt64[Array, "..."],
    uniforms: UInt64[Array, "..."],
    d: Float[Array, "..."],
    terms: int | None,
) -> Candidate:
    """w from the first of two candidates that is accepted, and whether one is."""
    scale = 1 / jnp.sqrt(9 * d)
    first, second = (x * scale for x in pairs_from_bits(normals))
    accept, retry = (
        _uniform(uniforms >> shift) < _acceptance(t, d, terms)
        for t, shift in ((first, 0), (second, 32))
    )
    return 1 + jnp.where(accept, first, second), accept | retry


def _acceptance(
    t: Float[Array, "..."], d: Float[Array, "..."], terms: int | None
) -> Float[Array, "..."]:
    """p = exp(x²/2 + d − dw³ + d log w³), w = 1 + t, t = x/√(9d); 0 if w ≤ 0.

    With 9dt² = x² the exponent is 3d (log(1 + t) − t + t²/2 − t³/3) = −3d (t⁴/4 − t⁵/5 + …), which
    is used when d is large: it needs no logarithm, and does not cancel.
    """
    if terms is None:
        w = jnp.maximum(1 + t, np.finfo(float).tiny)
        return jnp.exp(3 * d * (jnp.log(w) - t + t**2 / 2 - t**3 / 3))
    return jnp.exp(-3 * d * (t**2) ** 2 * series(t, [(-1) ** k / k for k in range(4, terms)]))


def _uniform(bits: UInt64[Array, "..."]) -> Float[Array, "..."]:
    """The midpoints (j + ½) 2⁻³², with j the low 32 bits."""
    return (bits.astype(jnp.uint32).astype(jnp.float64) + 0.5) * GRAIN


def bartlett(
    key: Source, m: int, D: KnownOrTraced, shape: tuple[int, ...] = ()
) -> Float[Array, "*shape m r"]:
    """T, whose rows are m standard Gaussian vectors of R^D in the frame that they span one after
    the other.

    T is lower trapezoidal with r = min(m, D) columns: T_ii ~ χ_{D−i} (i = 0, 1, …) on the diagonal
    and standard normals below it, all independent, so that T Tᵀ ~ Wishart_m(D, I) (Bartlett 1933).
    `shape` is for independent copies, in front. A D that is an argument of a compiled function
    must be larger than m.
    """
    m = positive_int("m", m)
    r = m if isinstance(D, jax.Array) else min(m, positive_int("D", D))
    row, column = np.indices((m, r))
    below = row > column
    count = int(below.sum())
    place = np.full((m, r), count + r)  # of each entry in [normals, diagonal, 0]
    place[below] = np.arange(count)
    place[row == column] = count + np.arange(r)
    of_normals, of_lengths = split(key)
    normals = normal(of_normals, (*shape, count))
    lengths = chi(of_lengths, D - np.arange(r), (*shape, r))
    zero = jnp.zeros((*shape, 1))
    return jnp.concatenate([normals, lengths, zero], axis=-1)[..., place]
