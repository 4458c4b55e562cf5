"""The neural tangent kernel of one attention layer as n → ∞, by `ntk`.

With finitely many heads it is random: it depends on the scores p, and on a second random array D =
∂f/∂A.
"""

import dataclasses
import functools
import operator
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Array, Float

from limitlaw.arguments import covariance, is_traced, positive_int, real_array
from limitlaw.backward.reverse import gradient
from limitlaw.backward.tangent import ntk, parameters
from limitlaw.engines.bounds import bounded
from limitlaw.engines.effort import Pace
from limitlaw.engines.limit.in_frames import InFrames
from limitlaw.engines.reading import numbers
from limitlaw.float64 import in_float64, to_numpy
from limitlaw.language.functions import dot, initial
from limitlaw.language.matrices import Matrix
from limitlaw.language.values import Scalars
from limitlaw.laws import Empirical, RandomKernel
from limitlaw.nn.attention import attention

MATRICES = "qkvo"
BEYOND_THEOREM = ("gradients",)


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

    and their like with `head_dim`. Draw i depends only on (key, i). It is `ntk` of the program
    that this is, matrix by matrix, by the draws that `limit` makes of it. A call that would take
    more memory than there is, or more than ten minutes, is refused without `force`.

    Examples:
        >>> import numpy as np
        >>> theta = ll.attention_ntk(np.eye(2), heads=2, samples=100)
        >>> theta.q.mean().shape
        (1, 1)
    """
    K, m, s = _tokens(kernel)
    G = np.eye(s)
    if readout is not None:
        G = np.asarray(covariance("readout", real_array("readout", readout), s))
    samples = positive_int("samples", samples)
    x = initial((m, s), cov=K)
    stds: Any = {"q_std": q_std, "k_std": k_std, "v_std": v_std, "o_std": o_std}
    y = attention(x, positive_int("heads", heads), head_dim, mask=mask, **stds)
    u = initial((s,), cov=G)
    f = functools.reduce(operator.add, (dot(u[i], y[:, i]) for i in range(s)))
    asked = _asked_for(f, gradient(f.sum(), x))
    outputs = tuple(value.core for value in asked)
    frames = InFrames(outputs, square=False, key=key, beyond=BEYOND_THEOREM)
    found = frames.drawn(numbers, Pace(samples, at_most=False), frames.sizes)
    return TangentKernel(TangentDraw(*to_numpy(found)))


def _asked_for(f: Scalars, b: Any) -> tuple[Scalars, ...]:
    """The fields of a `TangentDraw` as numbers of the program; b is the backward vector of the
    tokens.
    """
    found = {each.name: each for each in parameters(f).values() if isinstance(each, Matrix)}
    kernels = ntk(f, wrt=[found[name.upper()] for name in MATRICES])
    return (*kernels, f, dot(b, b, "linear"))


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
