"""The independent slow reference: theory §1, §2,
§4 and §5 in plain NumPy, by quadrature or by many draws.

Up to two visible tokens and n × n matrices: the difference δ of the two scores is one Gaussian
number, v is a function of sigmoid(δ), and every figure of one head is a one-dimensional integral;
H heads by φ_H(t) = φ_1(t/√H)^H. Everything else is drawn: the scores only, since given them the
output is Gaussian.
"""

import dataclasses
import math
from typing import Any

import numpy as np
from scipy.special import expit

from adversary.attention_draws import (
    Layer,
    covariances,
    normalised,
    root,
    rotary_correlation,
    row_variances,
)
from adversary.cases import WIDE_ROW, Case, Structure
from adversary.figures import (
    BATCHES,
    Ensemble,
    Estimate,
    Figure,
    batches,
    drawn_mixture,
    of_covariances,
    of_draws,
    of_law,
)
from adversary.functions import FUNCTIONS, PSIS, Function
from adversary.integrals import COARSE, FINE, around, kernel_of, normal_rule, product_of
from adversary.laws import FallsSlowly, HeadSum, Mixture

Array = Any
SIGMOID = Function("sigmoid", "", expit, lambda x: expit(x) * expit(-x))


@dataclasses.dataclass(frozen=True)
class Answer:
    """What the reference says to each figure, and the scale of the law that the
    figures' points are in.
    """

    scale: float
    estimates: tuple[Estimate, ...]
    how: str  # "quadrature" or "drawn"
    unit: float = 1.0  # of the points of laws of averages
    singular: bool = False  # P(X = 0) > 0, or as good as that: no density that float64 could hold
    variance: float = 0.0  # of one output, before a φ behind it; 0 where it was not asked for
    score_scale: float = 0.0  # standard deviation of the largest scores


def answer(case: Case, draws: int, again: int = 0) -> Answer:
    """The reference of a case; another `again` draws anew."""
    K, mean, slack = token_kernel(case)
    stds = case.numbers.stds
    size = float(np.max(stds["q"]) * np.max(stds["k"]) * np.diag(K).max())
    return dataclasses.replace(_answer(case, K, mean, slack, draws, again), score_scale=size)


def _answer(case: Case, K: Array, mean: Array, slack: Array, draws: int, again: int) -> Answer:
    rng = np.random.default_rng([case.seed, 3, again])
    shape = case.structure
    if shape.asked == "kernel" and shape.depth == 0:
        i, j = shape.entry
        scale = math.sqrt(K[i, i] * K[j, j])
        return Answer(scale, (Estimate(float(K[i, j]), float(slack[i, j])),), "quadrature")
    relative = (
        float((slack / np.maximum(np.diag(K)[:, None], 1e-300)).max()) if slack.any() else 0.0
    )
    if shape.asked in ("kernel", "average"):
        return _of_numbers(rng, case, K, draws)
    if shape.asked == "joint":
        layer = layer_of(case)
        C = covariances(rng, _draws_of_all_rows(draws, layer), K, layer)
        scale = math.sqrt(float(np.einsum("nii->n", C).mean()) / shape.tokens) or 1.0
        ensemble = Ensemble(C, tuple(part for (part,) in batches(C)), drawn=True)
        found = tuple(
            ensemble.estimate(lambda c, f=f: of_covariances(c, f, scale)) for f in shape.figures
        )
        return Answer(scale, found, "drawn")
    ensemble = ensemble_of(rng, case, K, mean, draws)
    return _answered(rng, ensemble, shape, relative, draws)


def _answered(
    rng: np.random.Generator, ensemble: Ensemble, shape: Structure, relative: float, draws: int
) -> Answer:
    phi = None if shape.behind is None else FUNCTIONS[shape.behind]
    try:
        second = ensemble.estimate(lambda law: of_law(law, phi, Figure("moment", 2), 1.0)).value
        scale = math.sqrt(second) if second > 0 else 1.0
        found = [
            ensemble.estimate(lambda law, f=f: of_law(law, phi, f, scale, shape.shift))
            for f in shape.figures
        ]
    except FallsSlowly:
        return _answered(rng, _drawn_heads(rng, ensemble, draws), shape, relative, draws)
    more = 10 * relative
    estimates = tuple(
        Estimate(x, e + more * _size(f, x, scale))
        for f, (x, e) in zip(shape.figures, found, strict=True)
    )
    singular = bool((ensemble.law.v <= 1e-280 * scale**2).any())
    how = "drawn" if ensemble.drawn else "quadrature"
    return Answer(scale, estimates, how, singular=singular, variance=ensemble.law.variance())


def _size(figure: Any, value: float, scale: float) -> float:
    """What an error of the kernel is relative to."""
    floors = {"ppf": scale, "cdf": 1.0, "cf": 1.0, "entropy": 1.0, "kurtosis": 3.0, "logpdf": 10.0}
    return max(abs(value), floors.get(figure.method, 0.0)) if math.isfinite(value) else 0.0


def _drawn_heads(rng: np.random.Generator, ensemble: Ensemble, draws: int) -> Ensemble:
    """The mean of H draws of v, from the nodes of its quadrature."""
    law = ensemble.law
    count = max(draws // max(law.heads // 8, 1), 4096)
    picks = rng.choice(len(law.v), size=(count, min(law.heads, WIDE_ROW)), p=law.w / law.w.sum())
    if law.heads > WIDE_ROW:
        return _many(law.v[picks].reshape(-1), law.heads)
    return drawn_mixture(rng, law.v[picks].mean(axis=1))


# --- tokens --------------------------------------------------------------------------------------


def token_kernel(case: Case) -> tuple[Array, Array, Array]:
    """E x xᵀ, E x and the error of the former: tokens x = φ(h),
    then φ(W x + b) as often as there are dense layers.
    """
    shape, numbers = case.structure, case.numbers
    K, mean, slack = (
        np.asarray(numbers.kernel),
        np.zeros(shape.tokens),
        np.zeros((shape.tokens,) * 2),
    )
    if shape.front is None:
        return K, mean, slack
    for layer in range(shape.dense + 1):
        if layer:
            K, slack = numbers.weight**2 * K + numbers.bias**2, numbers.weight**2 * slack
        K, mean, more = kernel_of(FUNCTIONS[shape.front], K)
        slack = slack + more
    return K, mean, slack


def layer_of(case: Case) -> Layer:
    """The attention layer of a case, with one standard deviation for each head."""
    shape = case.structure
    count = (
        1
        if shape.heads == math.inf
        else int(shape.heads)
        if shape.per_head
        else min(int(shape.heads), WIDE_ROW)
    )
    stds = {
        name: np.broadcast_to(np.ravel(std), (count,)) for name, std in case.numbers.stds.items()
    }
    positions = np.arange(shape.tokens, dtype=float) if shape.rotary else None
    return Layer(count, shape.head_dim, shape.scaling, shape.seen, positions=positions, **stds)


# --- one output ----------------------------------------------------------------------------------


def ensemble_of(
    rng: np.random.Generator, case: Case, K: Array, mean: Array, draws: int
) -> Ensemble:
    """The law of one token of the output, before a φ behind it."""
    shape, i = case.structure, case.structure.token
    if shape.depth == 0:
        v = np.array([K[i, i]])
        return Ensemble(
            Mixture(v, np.ones(1)), (Mixture(v, np.ones(1), order=COARSE),), drawn=False
        )
    layer = layer_of(case)
    if shape.depth == 1 and not shape.residual and shape.norm is None:
        rule = None if shape.per_head else two_token_rule(K, i, layer, FINE)
        if rule is not None:
            return _ruled(rule, two_token_rule(K, i, layer, COARSE), shape.heads)
        if shape.heads > WIDE_ROW:
            return _many(row_variances(rng, draws, K, i, layer, 1), shape.heads)
        return drawn_mixture(rng, _row(rng, draws, K, i, layer))
    return drawn_mixture(rng, _chain(rng, case, K, mean, layer, draws))


def _row(rng: np.random.Generator, draws: int, K: Array, i: int, layer: Layer) -> Array:
    """The variance of output i given the scores of all heads."""
    count = max(draws // max(layer.heads // 8, 1), 4096)
    return row_variances(rng, count, K, i, layer, layer.heads)


def _draws_of_all_rows(draws: int, layer: Layer) -> int:
    """Fewer, where heads are many or wide: their matrices are drawn one by one."""
    return max(draws // max(layer.heads * (layer.head_dim or 1) // 8, 1), 4096)


def _chain(
    rng: np.random.Generator, case: Case, K: Array, mean: Array, layer: Layer, draws: int
) -> Array:
    """The kernel goes from layer to layer (theory §5); of the last layer one row is enough."""
    shape, i = case.structure, case.structure.token
    draws = _draws_of_all_rows(draws, layer) if shape.depth > 1 else draws
    for _ in range(shape.depth - 1):
        K = covariances(rng, draws, K, layer) + (K if shape.residual else 0.0)
        mean = np.broadcast_to(mean, K.shape[:-1]) * float(shape.residual)
        if shape.norm is not None:
            K, mean = normalised(K, mean, shape.norm)
    v = row_variances(rng, draws, K, i, layer, layer.heads)
    if shape.residual and shape.front is None:
        v = v + K[..., i, i]
    return (
        v
        if shape.norm is None
        else normalised(v[:, None, None], np.zeros((len(v), 1)), shape.norm)[0][:, 0, 0]
    )


def two_token_rule(K: Array, i: int, layer: Layer, points: int) -> tuple[Array, Array] | None:
    """Nodes and weights of v where output i sees one or two tokens,
    or where the scores vanish; None elsewhere.

    v = σ² |a L_0 + (1 − a) L_1|², a = sigmoid(δ), δ ~ N(0, τ²). Panels are cut on the scale of δ =
    1, and shrink towards the point where v is smallest, which may be 0.
    """
    seen = np.flatnonzero(layer.seen[i])
    if layer.head_dim is not None:
        return None
    L = root(K[np.ix_(seen, seen)]) * math.sqrt(layer.value_scale(0))
    if layer.score_scale(0) == 0 or len(seen) == 1:
        return np.array([(L.mean(axis=0) ** 2).sum()]), np.ones(1)
    if len(seen) != 2:
        return None
    G = K[np.ix_(seen, seen)]
    if layer.positions is not None:
        G = G * rotary_correlation(layer.positions[seen][:, None] - layer.positions[seen])
    tau = layer.score_scale(0) * math.sqrt(max(K[i, i] * (G[0, 0] + G[1, 1] - 2 * G[0, 1]), 0.0))
    if tau == 0:
        return np.array([(L.mean(axis=0) ** 2).sum()]), np.ones(1)
    lowest = _lowest(L)
    steps = np.concatenate(
        [np.arange(-60, 61), 60 + 20 * np.arange(1, 36), -60 - 20 * np.arange(1, 36)]
    )
    z, w = normal_rule(
        np.concatenate([steps / tau, around([0.0, lowest / tau], 1 / tau, deep=True)]), points
    )
    a, b = expit(tau * z), expit(-tau * z)
    return _merged(((a[:, None] * L[0] + b[:, None] * L[1]) ** 2).sum(axis=1), w / w.sum())


def _merged(v: Array, w: Array) -> tuple[Array, Array]:
    """Nodes that weigh something, equal ones (where softmax saturates) as one."""
    v, place = np.unique(v[w > 1e-24], return_inverse=True)
    return v, np.bincount(place, weights=w[w > 1e-24])


def _lowest(L: Array) -> float:
    """The δ at which v is smallest: a(L_0 − L_1) + L_1 is shortest at a = −L_1·(L_0
    − L_1)/|L_0 − L_1|².
    """
    D = L[0] - L[1]
    a = -float(L[1] @ D) / max(float(D @ D), 1e-300)
    return math.log(a / (1 - a)) if 0 < a < 1 else 0.0


def _ruled(fine: Any, coarse: Any, heads: int | float) -> Ensemble:
    def law(rule: Any, order: int) -> Any:
        v, w = rule
        if heads == math.inf:
            return Mixture(np.array([w @ v]), np.ones(1), order=order)
        return (
            Mixture(v, w, order=order)
            if heads == 1 or len(v) == 1
            else HeadSum(v, w, int(heads), order)
        )

    return Ensemble(law(fine, FINE), (law(coarse, COARSE),), drawn=False)


def _many(v: Array, heads: int | float) -> Ensemble:
    """Very many heads, of which draws of one are known:
    the mean of H copies of v, as three nodes.
    """
    parts = [v, *np.array_split(v, BATCHES)]
    laws = [Mixture(*three_nodes(part, heads)) for part in parts]
    return Ensemble(laws[0], tuple(laws[1:]), drawn=True)


def three_nodes(v: Array, heads: int | float) -> tuple[Array, Array]:
    """A Gauss rule for v̄, the mean of H copies of v: exact mean,
    variance, skewness and kurtosis, so error O(H^{−3}).

    Standardised v̄ has skewness g/√H and kurtosis 3 + k/H; the Jacobi matrix of its orthogonal
    polynomials starts with diagonal 0, g/√H and squares 1, 2 + k/H − g²/H; the next diagonal entry
    is that of a Gamma law, 2g/√H.
    """
    m, sd = v.mean(), v.std()
    if heads == math.inf or sd == 0:
        return np.array([m]), np.ones(1)
    # so rare a v that the mean of H copies is not near its own mean
    if sd > 0.3 * m * math.sqrt(heads):
        return np.array([math.nan]), np.ones(1)
    u = (v - m) / sd
    square = u * u
    g, k = (square @ u) / len(v) / math.sqrt(heads), ((square @ square) / len(v) - 3) / heads
    b = math.sqrt(max(2 + k - g**2, 1e-3))
    x, vectors = np.linalg.eigh(np.array([[0.0, 1.0, 0.0], [1.0, g, b], [0.0, b, 2 * g]]))
    return np.maximum(m + sd / math.sqrt(heads) * x, 0.0), vectors[0] ** 2


# --- kernels and averages ------------------------------------------------------------------------


def _of_numbers(rng: np.random.Generator, case: Case, K: Array, draws: int) -> Answer:
    """The laws of an entry of the random kernel C, and of E[ψ(y_i) | scores] = E ψ(√C_ii z)."""
    shape, layer = case.structure, layer_of(case)
    if shape.heads == math.inf:
        values = [infinite_kernel(K, layer, points)[shape.entry] for points in (FINE, COARSE)]
        return Answer(
            1.0, (Estimate(values[0], abs(values[1] - values[0])),), "quadrature", abs(values[0])
        )
    if shape.asked == "kernel":
        count = _draws_of_all_rows(draws, layer)
        x, scale = covariances(rng, count, K, layer)[:, *shape.entry], 1.0
    else:
        v = _row(rng, draws, K, shape.token, layer)
        scale = math.sqrt(float(v.mean())) or 1.0
        x = PSIS[shape.psi].mean(v / scale**2)
    unit = abs(float(x.mean())) or 1.0
    ensemble = Ensemble(x, tuple(part for (part,) in batches(x)), drawn=True)
    found = tuple(
        ensemble.estimate(lambda part, f=f: of_draws(part, f, unit)) for f in shape.figures
    )
    return Answer(scale, found, "drawn", unit)


def infinite_kernel(K: Array, layer: Layer, points: int) -> Array:
    """E[A K Aᵀ] for two tokens: A_i = (a_i, 1 − a_i),
    a_i = sigmoid(δ_i), E a_i = 1/2, Cov(δ) = σ_Q²σ_K² Δ·K.
    """
    spread = layer.score_scale(0) ** 2 * max(float(K[0, 0] + K[1, 1] - 2 * K[0, 1]), 0.0)
    S = spread * K
    E = np.array(
        [
            [product_of(SIGMOID, S[i, i], S[i, j], S[j, j], points) for j in range(2)]
            for i in range(2)
        ]
    )
    rest = 0.5 - E  # E a_i (1 − a_j)
    return layer.value_scale(0) * (E * K[0, 0] + 2 * rest * K[0, 1] + E * K[1, 1])
