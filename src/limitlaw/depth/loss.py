"""The loss of a language model at initialisation: the law of ln Σ exp of random logits."""

import dataclasses
import math

import numpy as np
from jaxtyping import Float

from limitlaw.arguments import non_negative_number, positive_int, real_array, shown
from limitlaw.digits import plus_minus
from limitlaw.domain import DEVIATIONS
from limitlaw.engines.frames.finite import finite_samples
from limitlaw.engines.infinite_width import kernel
from limitlaw.language.functions import dot, stack
from limitlaw.language.values import Wide
from limitlaw.laws.kernel_matrix import RandomKernel

LN_STEP = 1 / 12  # of trapezoidal rules, in ln t and in logits; errors fall as exp(−c/step)
LEFT, RIGHT = 45.0, 6.0  # where ln X of X = Exp(1)/S ends, below and above −ln S
VALUES_OF_T = 256  # values of t at a time
ALMOST_ONE, LARGEST_POWER = 1 - 1e-15, 700.0  # before logarithms and exponentials overflow

Vector = Float[np.ndarray, " t"]


@dataclasses.dataclass(frozen=True)
class TiedHead:
    """A head that is the embedding: ℓ_v = e_v·z at width n, where z keeps a part of its own row.

    `overlap` κ is the squared coordinate of z/|z| along the embedding of its own token: for a
    pre-norm stack the variance of the embedding over that of the last stream. `spread` is the
    standard deviation of √κ over networks; `normed`: a norm follows the embedding, or each block
    (post-norm), so that its length does not matter.
    """

    width: int
    overlap: float
    spread: float = 0.0
    normed: bool = False

    def __post_init__(self) -> None:
        positive_int("width", self.width)
        if not 0 <= self.overlap <= 1:
            raise ValueError(f"overlap must be between 0 and 1, got {shown(self.overlap)}")
        non_negative_number("spread", self.spread)

    def own(self, c: float) -> tuple[float, float]:
        """The mean m = √n c √κ (1 − 3/4n) of the own token's logit and its variance, c²[2κ(1 −
        κ/2)² + (1 − κ)³ + κ(1 − κ)²/2] (κ/2 in place of the first term if `normed`) and that of m.
        """
        k, n = self.overlap, self.width
        scale = math.sqrt(n) * c * (1 - 0.75 / n)
        length = k / 2 if self.normed else 2 * k * (1 - k / 2) ** 2
        variance = c**2 * (length + (1 - k) ** 3 + k * (1 - k) ** 2 / 2)
        return scale * math.sqrt(k), variance + (scale * self.spread) ** 2


@dataclasses.dataclass(frozen=True)
class InitialLoss:
    """The cross-entropy at initialisation: its mean, its standard deviation for one token (`sd`)
    and for the mean over all tokens of a sequence (`mean_sd`, NaN with a tied head: not known).

    `logit_variance` is that of every logit but the own token's; `own_logit` the mean and the
    standard deviation of that one, with a tied head (None otherwise), and `own_loss` the mean
    loss where the target is the token itself. `error` bounds the quadrature of the mean.
    """

    vocab: int
    value: float
    sd: float
    mean_sd: float
    logit_variance: float
    error: float
    own_logit: tuple[float, float] | None = None
    own_loss: float | None = None

    @property
    def uniform(self) -> float:
        """The loss ln V of equal logits."""
        return math.log(self.vocab)

    @property
    def kind(self) -> str:
        """How it was computed."""
        if self.own_logit is None:
            return "quadrature; the spread of the mean to leading order in 1/V"
        return "quadrature, to leading orders in 1/n"

    def __str__(self) -> str:
        mean = "" if math.isnan(self.mean_sd) else f", of the mean over tokens {self.mean_sd:.3g}"
        text = (
            f"initial loss {self.value:.4f} (ln V = {self.uniform:.4f}); "
            f"standard deviation of a token {self.sd:.3g}{mean}; "
            f"logits of variance {self.logit_variance:.3g}"
        )
        if self.own_logit is None:
            return text
        return (
            f"{text}; the own token's {plus_minus(*self.own_logit)}, and the loss "
            f"{self.own_loss:.4f} where it is the target"
        )


def initial_loss(
    kernel: object, std: float, vocab: int, targets: object = None, tied: TiedHead | None = None
) -> InitialLoss:
    """The law of the cross-entropy ln Σ_v exp(ℓ_v) − ℓ_y of logits ℓ^i ~ N(0, σ² K), independent
    over v, and of its mean over tokens.

    `kernel` is K_ij = n⁻¹⟨z_i, z_j⟩ of the vectors that the head reads (behind a norm K_ii = 1;
    a number for one token), `std` is σ for a head W = σ w/√n, so σ = √n times the standard
    deviation of its entries, and `vocab` is V. `targets` are the classes y_i, by default all
    different. With S = Σ_v exp(ℓ_v), X = Exp(1)/S has P(X > t) = E[exp(−t e^ℓ)]^V, so

        E ln S = −γ − E ln X,    Var ln S = Var ln X − π²/6,

    by one-dimensional quadrature: E loss = ln V + σ²/2 − (e^{σ²} − 1)/2V + …, its variance Var ln
    S + σ²(1 − 2/V), and that of the mean over s tokens s⁻² Σ_ij [(e^{σ²K_ij} − 1)/V + 1[y_i = y_j]
    σ²K_ij − 2σ²K_ij/V]. With `tied`, the own token's logit has another law (`TiedHead.own`), and
    the target is another token.

        >>> print(initial_loss(1.0, 1.0, 50))
        initial loss 4.3956 (ln V = 3.9120); standard deviation of a token 0.996, of the mean ...
    """
    K = np.atleast_2d(real_array("kernel", kernel))
    if K.ndim != 2 or K.shape[0] != K.shape[1]:
        raise ValueError(f"kernel must be a number or a square matrix, got shape {K.shape}")
    sigma, V = float(non_negative_number("std", std)), positive_int("vocab", vocab)
    if V < 2:
        raise ValueError("vocab must be at least 2, got 1")
    if tied is not None:
        return _tied(float(np.mean(np.diag(K))), sigma, V, tied)
    variances = sigma**2 * np.diag(K)
    sizes, place = np.unique(variances.round(12), return_inverse=True)
    found = [_log_sum(_Logits(0.0, v, V)) for v in sizes.tolist()]
    means = np.array([mean for mean, _, _ in found])[place]
    own = np.array([variance for _, variance, _ in found])[place] + variances * (1 - 2 / V)
    return InitialLoss(
        V,
        float(means.mean()),
        float(np.sqrt(own.mean())),
        float(np.sqrt(_of_mean(sigma**2 * K, V, _equal(targets, len(K)), own))),
        float(variances.mean()),
        max(error for _, _, error in found),
    )


def _equal(targets: object, count: int) -> Float[np.ndarray, "s s"]:
    """1 where two tokens have one target."""
    if targets is None:
        return np.eye(count)
    y = np.asarray(targets).reshape(-1)
    if len(y) != count:
        raise ValueError(f"targets must be {count} classes, one for each token, got {len(y)}")
    return (y[:, None] == y).astype(float)


def _of_mean(
    C: Float[np.ndarray, "s s"],
    V: int,
    equal: Float[np.ndarray, "s s"],
    own: Float[np.ndarray, " s"],
) -> float:
    """The variance of the mean over tokens; C = σ²K."""
    pairs = np.expm1(C) / V + equal * C - 2 * C / V
    np.fill_diagonal(pairs, own)
    return max(0.0, float(pairs.mean()))


def _tied(k: float, sigma: float, V: int, tied: TiedHead) -> InitialLoss:
    """A tied head and a target that is not the token itself."""
    c = sigma * math.sqrt(k)
    m, v = tied.own(c)
    mean, variance, error = _log_sum(_Logits(0.0, c**2, V - 1), _Logits(m, v, 1))
    others = c**2 - 2 * c**2 * (1 - _own_weight(c, m, v, V)) / (V - 1)
    return InitialLoss(
        V,
        mean,
        math.sqrt(variance + others),
        math.nan,
        c**2,
        error,
        (m, math.sqrt(v)),
        max(0.0, mean - m),
    )


def network_loss(
    embedding: Wide,
    read: Wide,
    vocab: int,
    std: float = 1.0,
    width: int | None = None,
    tied: bool = False,
    samples: int = 256,
    key: object = None,
) -> InitialLoss:
    """`initial_loss` of a network whose head reads the vectors `read`, from its mean kernel.

    With `tied` the head is the embedding, which gave the vectors `embedding` of the same batch
    shape; the overlap is then the squared correlation of both, token by token. `width=None` is
    the limit n → ∞, where a tied head has none: its own logits grow as √n.

        >>> x = ll.initial((4,))
        >>> loss = ll.depth.network_loss(x, ll.nn.layernorm(x), 50)
    """
    if embedding.shape != read.shape:
        raise ValueError(
            f"embedding and read must have one batch shape, got {embedding.shape} and {read.shape}"
        )
    if tied and width is None:
        raise ValueError("tied: the own token's logit grows as √n, so it needs a width")
    z, key = read.reshape(-1), 0 if key is None else key
    if width is None:
        found = kernel(z, samples=samples, key=key)
        mean = found.mean() if isinstance(found, RandomKernel) else found
        return initial_loss(np.asarray(mean), std, vocab)
    n, s = positive_int("width", width), int(z.shape[0])
    if not tied:
        draws = np.asarray(finite_samples(dot(z, z, "linear"), n, samples, key))
        return initial_loss(draws.mean(axis=0), std, vocab)
    both = stack([embedding.reshape(-1), z]).reshape(-1)
    draws = np.asarray(finite_samples(dot(both, both, "linear"), n, samples, key))
    size = np.sqrt(np.einsum("...ii->...i", draws))
    root = np.einsum("...ii->...i", draws[:, :s, s:]) / (size[:, :s] * size[:, s:])
    overlap = TiedHead(n, min(1.0, float(root.mean()) ** 2), float(root.std()))
    return initial_loss(draws.mean(axis=0)[s:, s:], std, vocab, tied=overlap)


# --- ln Σ exp ------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class _Logits:
    """`count` independent logits N(mean, variance)."""

    mean: float
    variance: float
    count: int

    @property
    def log_size(self) -> float:
        """About ln of the sum of their exponentials."""
        return math.log(self.count) + self.mean + min(self.variance / 2, self._largest)

    @property
    def _largest(self) -> float:
        return math.sqrt(2 * self.variance * math.log(max(2, self.count)))

    def tail(self, y: Vector) -> tuple[Vector, Vector]:
        """1 − E[exp(−t e^ℓ)] at t = e^y, and its derivative in y, by the trapezoidal rule."""
        sd = math.sqrt(self.variance)
        step = LN_STEP * min(1.0, 6 * sd)
        count = math.ceil(DEVIATIONS * sd / step) if sd else 0
        x = np.arange(-count, count + 1) * (step / sd if sd else 0.0)
        weights = np.exp(-(x**2) / 2)
        weights /= weights.sum()
        rows = (
            y[i : i + VALUES_OF_T, None] + self.mean + sd * x
            for i in range(0, len(y), VALUES_OF_T)
        )
        powers = (np.exp(np.minimum(u, LARGEST_POWER)) for u in rows)  # t e^ℓ
        found = [(-np.expm1(-p) @ weights, (p * np.exp(-p)) @ weights) for p in powers]
        return np.concatenate([f for f, _ in found]), np.concatenate([f for _, f in found])


def _log_sum(*groups: _Logits) -> tuple[float, float, float]:
    """The mean and the variance of ln S, and an error of the mean: ln X with P(X > t) = Π of the
    groups' E[exp(−t e^ℓ)]^count has a smooth density, which the trapezoidal rule sums.
    """
    y = _nodes(groups)
    log_tail, hazard = np.zeros_like(y), np.zeros_like(y)
    for group in groups:
        gone, slope = group.tail(y)
        log_tail += group.count * np.log1p(-np.minimum(gone, ALMOST_ONE))
        hazard += group.count * slope / (1 - np.minimum(gone, ALMOST_ONE))
    density = np.exp(log_tail) * hazard
    step = y[1] - y[0]
    mass = float(density.sum() * step)
    mean = float((density * y).sum() * step) / mass
    variance = float((density * (y - mean) ** 2).sum() * step) / mass
    coarse = float((density * y)[::2].sum() / density[::2].sum())
    error = abs(coarse - mean) + abs(mass - 1) * (1 + abs(mean)) + 1e-12
    return -np.euler_gamma - mean, max(0.0, variance - math.pi**2 / 6), error


def _nodes(groups: tuple[_Logits, ...]) -> Vector:
    """Values of ln t where X has mass."""
    sizes = [g.log_size for g in groups]
    wide = max(DEVIATIONS * math.sqrt(g.variance) for g in groups)
    low = -max(sizes) - LEFT - wide
    high = -min(0.0, *(g.mean for g in groups)) + RIGHT
    high = max(high, -max(sizes) + RIGHT + wide)
    return np.arange(math.floor(low / LN_STEP), math.ceil(high / LN_STEP) + 1) * LN_STEP


def _own_weight(c: float, m: float, v: float, V: int) -> float:
    """E π_own = ∂E ln S/∂m = ∫ φ(t)^{V−1} E[t e^ℓ exp(−t e^ℓ)] d ln t over the own logit ℓ."""
    others, own = _Logits(0.0, c**2, V - 1), _Logits(m, v, 1)
    y = _nodes((others, own))
    left = (V - 1) * np.log1p(-np.minimum(others.tail(y)[0], ALMOST_ONE))
    return float((np.exp(left) * own.tail(y)[1]).sum() * (y[1] - y[0]))
