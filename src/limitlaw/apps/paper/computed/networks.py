"""The networks of the paper (Example 3.1): s tokens x^i = φ(W^i h), and one attention layer."""

import functools
import threading
import zlib
from collections.abc import Callable
from typing import TypeVar

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

import limitlaw as ll
from limitlaw.engines.coupled import Coupled
from limitlaw.language.values import Wide
from limitlaw.laws import HeadSum

T = TypeVar("T")

# A coordinate of W^i h is N(0, |h|²/n) given h, and |h|² ~ χ²_n: E exp(−5000 n/|h|²) is about
# 1e-161 at n = 16.
ELIDED = (
    "Clipping at ±100 is not computed: the probability that any of the s·n coordinates of a draw "
    "is clipped is at most 2·s·n·E exp(−5000 n/|h|²), which is below 1e-150 for all widths n ≥ 16 "
    "used here."
)


def once(function: Callable[..., T]) -> Callable[..., T]:
    """Keep what the function returns for each choice of arguments; other threads wait for it."""
    locks: dict[tuple[object, ...], threading.Lock] = {}
    found: dict[tuple[object, ...], T] = {}

    @functools.wraps(function)
    def kept(*arguments: object) -> T:
        with locks.setdefault(arguments, threading.Lock()):
            if arguments not in found:
                found[arguments] = function(*arguments)
            return found[arguments]

    return kept


@once
def tokens_of(tokens: int, phi: str) -> Wide:
    """x^i = φ(W^i h), i = 1, …, s, with h ~ N(0, I_n)."""
    x = ll.matrices(tokens) @ ll.initial()
    return x if phi == "clip" else ll.relu(x)


@once
def outputs(tokens: int, heads: int, head_dim: int | None = None, phi: str = "clip") -> Wide:
    """y^1, …, y^s of one attention layer, all σ = 1."""
    return ll.attention(tokens_of(tokens, phi), heads, head_dim)


@once
def output(tokens: int, heads: int, head_dim: int | None = None, phi: str = "clip") -> Wide:
    """y^1, the output of the first token."""
    return outputs(tokens, heads, head_dim, phi)[0]


@once
def limit_law(tokens: int, heads: int, head_dim: int | None = None, phi: str = "clip") -> HeadSum:
    """The law of y^1 as n → ∞: the mixing law of a head is the same for any number of them."""
    if heads > 1:
        return limit_law(tokens, 1, head_dim, phi).with_heads(heads)
    law = ll.limit(output(tokens, 1, head_dim, phi))
    assert isinstance(law, HeadSum)
    return law


def limit_samples(
    seed: int,
    samples: int,
    tokens: int,
    heads: int,
    head_dim: int | None = None,
    phi: str = "clip",
) -> Float[np.ndarray, " samples"]:
    """Independent draws from the law of y^1 as n → ∞, head by head."""
    v, ends = _mixing(tokens, head_dim, phi)
    rng = np.random.default_rng(seed)
    total = np.zeros(samples)
    for _ in range(heads):
        total += v[np.searchsorted(ends, rng.random(samples), side="right")]
    return np.sqrt(total / heads) * rng.standard_normal(samples)


@once
def _mixing(tokens: int, head_dim: int | None, phi: str) -> tuple[np.ndarray, np.ndarray]:
    """Variances of one head, and where the share of each ends in [0, 1]."""
    v, w = (np.asarray(a).reshape(-1) for a in limit_law(tokens, 1, head_dim, phi).mixing)
    return v, np.cumsum(w)[:-1] / w.sum()


@once
def coupled(tokens: int, heads: int, head_dim: int | None = None, phi: str = "clip") -> Coupled:
    """y^1 at any width and in the limit from the same normals."""
    return Coupled(output(tokens, heads, head_dim, phi))


@once
def score(tokens: int) -> Coupled:
    """The score p_11 = n^{-1/2} qᵀ W^K x as a coordinate of (|q|/√n) W^K x: given q and x both are
    N(0, |q|² |x|²/n²), and that is a program with one output vector.
    """
    x = tokens_of(tokens, "clip")[0]
    q = ll.Matrix() @ x
    length = ll.apply(jnp.sqrt, ll.dot(q, q, "linear"))
    return Coupled(length * (ll.Matrix() @ x))


def stream(seed: int, *labels: object) -> int:
    """A seed that depends on the user's seed and on the purpose."""
    digest = zlib.crc32(repr(labels).encode())
    return int(np.random.SeedSequence([seed, digest]).generate_state(1, np.uint64)[0] >> 1)
