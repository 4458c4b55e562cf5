"""The neural tangent kernel of one attention layer as n → ∞.

With finitely many heads it is random: it depends on the scores p, and on a second random array D =
∂f/∂A.
"""

import dataclasses
import functools
import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Key

from limitlaw.arguments import (
    as_key,
    covariance,
    is_traced,
    non_negative_number,
    positive_int,
    real_array,
)
from limitlaw.engines.bounds import bounded
from limitlaw.engines.dense.weights import root
from limitlaw.engines.estimate import work_of
from limitlaw.engines.run import keys_of_draws
from limitlaw.float64 import in_float64, to_numpy
from limitlaw.language.functions import visible
from limitlaw.laws import Empirical, RandomKernel
from limitlaw.numerics.random import normal

MATRICES = "qkvo"
TOGETHER_AT_MOST = 2**20  # numbers that draws hold which are computed together
BEYOND_THEOREM = ("gradients",)

Factor = Float[Array, "ms ms"]  # a factor of the kernel of all tokens
Readout = Float[Array, "s s"]  # a factor of the Gram matrix of the readouts
Seen = Bool[Array, "s s"]  # which tokens each attends to
StdDev = float | Float[Array, ""]
Sizes = tuple[int, int, int, int | None]  # sequences, tokens, heads, their dimension or None


class Stds(NamedTuple):
    """Standard deviations of the entries of the four matrices, in units of 1/√cols."""

    q: StdDev
    k: StdDev
    v: StdDev
    o: StdDev


class TangentDraw(NamedTuple):
    """One draw: Θ of each matrix, f, and the Gram matrix Γ of the gradients at each sequence's
    tokens.
    """

    q: Float[Array, "m m"]
    k: Float[Array, "m m"]
    v: Float[Array, "m m"]
    o: Float[Array, "m m"]
    output: Float[Array, " m"]
    gradient: Float[Array, "m s s"]


@dataclasses.dataclass(frozen=True)
class TangentKernel:
    """The tangent kernel of m sequences, and what it depends on. `draws` has the arrays, all in
    one order of draws.

    `q, k, v, o`: ⟨∂f/∂w, ∂f'/∂w⟩ for the entries of a matrix W = std·w/√cols. `output`: f itself,
    on which the kernel depends. `gradient`: Γ_jl = ⟨∂f/∂x_j, ∂f/∂x_l⟩.
    """

    draws: TangentDraw = dataclasses.field(repr=False)

    def total(self, parts: str = MATRICES) -> RandomKernel:
        """The kernel of the matrices that are trained, "qkvo" or some of these: a sum in each
        draw.
        """
        if not parts or set(parts) - set(MATRICES) or len(set(parts)) < len(parts):
            raise ValueError(
                f"parts must be letters of {MATRICES!r}, each at most once, got {parts!r}"
            )
        return RandomKernel(
            sum(self.draws._asdict()[part] for part in parts), beyond=BEYOND_THEOREM
        )

    @property
    def q(self) -> RandomKernel:
        """The part of the kernel from the query matrices."""
        return self.total("q")

    @property
    def k(self) -> RandomKernel:
        """The part of the kernel from the key matrices."""
        return self.total("k")

    @property
    def v(self) -> RandomKernel:
        """The part of the kernel from the value matrices."""
        return self.total("v")

    @property
    def o(self) -> RandomKernel:
        """The part of the kernel from the output matrices."""
        return self.total("o")

    @property
    def output(self) -> Empirical:
        """The law of f, (m,)."""
        return Empirical(self.draws.output, beyond=BEYOND_THEOREM)

    @property
    def gradient(self) -> Empirical:
        """The law of Γ, (m, s, s)."""
        return Empirical(self.draws.gradient, beyond=BEYOND_THEOREM)

    def __repr__(self) -> str:
        count, sequences = self.draws.output.shape
        return (
            f"TangentKernel({sequences} sequence(s), {count:,} draws; beyond Theorem 3.1: "
            "gradients)"
        )


@in_float64
@bounded("ask for fewer samples, tokens or heads")
def attention_ntk(
    kernel: object,
    heads: int,
    head_dim: int | None = None,
    mask: object = None,
    q_std: float = 1.0,
    k_std: float = 1.0,
    v_std: float = 1.0,
    o_std: float = 1.0,
    readout: object = None,
    samples: int = 4096,
    key: object = 0,
    force: bool = False,
) -> TangentKernel:
    """The tangent kernel of f = n^{−1/2} Σ_i u_i·y_i, y the outputs of one attention layer (see
    `attention_law`).

    `kernel`: K_jk of s tokens, (s, s), or that of the tokens of m sequences, (m, s, m, s).
    `readout`: G_ik, the Gram matrix of the fixed u; by default the identity, one vector for each
    position. As n → ∞, for each head with scores p, A = softmax(p),

        Cov(D_ij, D'_kl) = σ_O²σ_V²/H G_ik K_jl      f = Σ_a ⟨A, D⟩
        P = ∂f/∂p = A ∘ (D − rowsum(A ∘ D))
        Θ^V = Θ^O = σ_O²σ_V²/H Σ_a tr(Gᵀ A K A'ᵀ)    Θ^Q = Θ^K = σ_Q²σ_K² Σ_a ⟨P, K P' Kᵀ⟩

    and their like with `head_dim`. TangentDraw i depends only on (key, i). A call that would take
    more memory than there is, or more than ten minutes, is refused without `force`.
    """
    K, m, s = _tokens(kernel)
    G = np.eye(s)
    if readout is not None:
        G = np.asarray(covariance("readout", real_array("readout", readout), s))
    heads, samples = positive_int("heads", heads), positive_int("samples", samples)
    d = None if head_dim is None else positive_int("head_dim", head_dim)
    given = zip(MATRICES, (q_std, k_std, v_std, o_std), strict=True)
    stds = Stds(*(float(non_negative_number(f"{name}_std", std)) for name, std in given))
    seen = np.ones((s, s), bool)
    if mask is not None:
        seen = np.broadcast_to(np.asarray(visible(mask, (s, s))), (s, s))
    batch = max(1, TOGETHER_AT_MOST // (heads * (m * s) ** 2))
    keys = keys_of_draws(as_key(key), 0, samples)
    arguments = keys, root(K), root(G), stds, seen, (m, s, heads, d), batch
    work_of(_draws.trace(*arguments)).check(1)
    return TangentKernel(to_numpy(_draws(*arguments)))


def _tokens(kernel: object) -> tuple[Float[np.ndarray, "ms ms"], int, int]:
    """The kernel of all tokens, the number of sequences and of tokens in each."""
    K = real_array("kernel", kernel)
    if is_traced(K):
        raise TypeError(
            "attention_ntk draws numbers: kernel must be an array, not a value inside jax.grad or "
            "jax.jit"
        )
    if K.ndim not in (2, 4) or K.shape[: K.ndim // 2] != K.shape[K.ndim // 2 :] or 0 in K.shape:
        raise ValueError(
            "kernel must be a square matrix over the tokens, or have shape (m, s, m, s), got "
            f"shape {K.shape}"
        )
    m, s = (1, *K.shape[:1]) if K.ndim == 2 else K.shape[:2]
    return np.asarray(covariance("kernel", K.reshape(m * s, m * s), m * s)), m, s


@functools.partial(jax.jit, static_argnames=("sizes", "batch"))
def _draws(
    keys: Key[Array, " N"],
    L: Factor,
    L_G: Readout,
    stds: Stds,
    seen: Seen,
    sizes: Sizes,
    batch: int,
) -> TangentDraw:
    _, _, heads, d = sizes
    head = _wide_head if d is None else _narrow_head

    def one(key: Key[Array, ""]) -> TangentDraw:
        """The sum over heads, which are independent."""
        keys = jax.vmap(functools.partial(jax.random.fold_in, key))(jnp.arange(heads))
        per_head = jax.vmap(functools.partial(head, L, L_G, stds, seen, sizes))(keys)
        return jax.tree.map(lambda x: x.sum(axis=0), per_head)

    return jax.lax.map(one, keys, batch_size=min(batch, len(keys)))


def _slopes(
    p: Float[Array, "m s s"], D: Float[Array, "m s s"], seen: Seen
) -> tuple[Float[Array, "m s s"], Float[Array, "m s s"], Float[Array, " m"]]:
    """A = softmax(p), P = A ∘ (D − rowsum(A ∘ D)), and the contribution of the head to f."""
    A = jax.nn.softmax(jnp.where(seen, p, -jnp.inf), axis=-1)
    row = jnp.sum(A * D, axis=-1, keepdims=True)
    return A, A * (D - row), row.sum(axis=(1, 2))


def _of_sequences(x: Float[Array, "ms ms"], m: int, s: int) -> Float[Array, "m s s"]:
    """The blocks within each sequence, of a matrix over all tokens."""
    return jnp.einsum("misj,ms->mij", x.reshape(m, s, m, s), jnp.eye(m))


def _wide_head(
    L: Factor, L_G: Readout, std: Stds, seen: Seen, sizes: Sizes, key: Key[Array, ""]
) -> TangentDraw:
    """One draw of a head with n × n matrices."""
    m, s, heads, _ = sizes
    K, G = (L @ L.T).reshape(m, s, m, s), L_G @ L_G.T
    first, second = jax.random.split(key)
    score, value = (std.q * std.k) ** 2, (std.v * std.o) ** 2 / heads
    p = jnp.sqrt(score) * _of_sequences(L @ normal(first, L.shape) @ L.T, m, s)
    D = (L_G @ normal(second, (s, m * s)) @ L.T).reshape(s, m, s)
    D = jnp.sqrt(value) * D.transpose(1, 0, 2)
    A, P, f = _slopes(p, D, seen)
    weights = score * jnp.einsum("mij,mink,mjnl,nkl->mn", P, K, K, P)
    values = value * jnp.einsum("ik,mij,mjnl,nkl->mn", G, A, K, A)
    own = jnp.einsum("minj,mn->mij", K, jnp.eye(m))
    gradient = value * A.mT @ G @ A + score * (P @ own @ P.mT + P.mT @ own @ P)
    return TangentDraw(weights, weights, values, values, f, gradient)


def _narrow_head(
    L: Factor, L_G: Readout, std: Stds, seen: Seen, sizes: Sizes, key: Key[Array, ""]
) -> TangentDraw:
    """One draw of a head with matrices into d dimensions and back; q, k, v and β = (dH)^{−1/2}
    W^Oᵀu are drawn.
    """
    m, s, heads, d = sizes
    assert d is not None
    K, G = (L @ L.T).reshape(m, s, m, s), L_G @ L_G.T
    keys = jax.random.split(key, 4)
    drawn = (L @ normal(each, (m * s, d)) for each in keys[:3])
    q, k, v = (each * x.reshape(m, s, d) for each, x in zip(std[:3], drawn, strict=True))
    β = std.o / math.sqrt(d * heads) * L_G @ normal(keys[3], (s, d))
    A, P, f = _slopes(q @ k.mT / math.sqrt(d), jnp.einsum("ic,mjc->mij", β, v), seen)
    back = P @ k / math.sqrt(d), P.mT @ q / math.sqrt(d), A.mT @ β  # ∂f/∂q, ∂f/∂k and ∂f/∂v
    scaled = [each * x for each, x in zip(std[:3], back, strict=True)]
    Θ_q, Θ_k, Θ_v = (jnp.einsum("mic,njc,minj->mn", x, x, K) for x in scaled)
    mixed = A @ v
    Θ_o = std.o**2 / (d * heads) * jnp.einsum("ik,mic,nkc->mn", G, mixed, mixed)
    return TangentDraw(Θ_q, Θ_k, Θ_v, Θ_o, f, jnp.stack([x @ x.mT for x in scaled]).sum(axis=0))
