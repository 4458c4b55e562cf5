"""The reference against mathematics that it does not use:
mpmath, closed forms, theory §4 and §7, and itself.
"""

import math

import mpmath
import numpy as np
import pytest

from adversary.attention_draws import Layer, covariances, row_variances, softmax
from adversary.cases import Case, Numbers, Structure
from adversary.figures import Figure, drawn_mixture, of_law
from adversary.functions import FUNCTIONS, PSIS
from adversary.integrals import COARSE, FINE, kernel_of, mean_of, product_of
from adversary.laws import HeadSum, Mixture, moments_of_mean
from adversary.reference import answer, infinite_kernel, three_nodes, two_token_rule

DRAWS = 200_000
KERNELS = (
    [[1.0, 0.0], [0.0, 1.0]],
    [[2.0, -0.9], [-0.9, 0.7]],
    [[1.0, -1.0], [-1.0, 1.0]],
    [[1.0, 0.0], [0.0, 0.0]],
    [[3.0, 1e-4], [1e-4, 1e-6]],
)


def layer(
    tokens: int = 2,
    heads: int = 1,
    head_dim: int | None = None,
    q: float = 1.0,
    mask: str | None = None,
) -> Layer:
    """A plain layer."""
    one = np.ones(heads)
    seen = np.tri(tokens, dtype=bool) if mask else np.ones((tokens, tokens), bool)
    return Layer(heads, head_dim, "sqrt", seen, q * one, one, one, one)


def by_mpmath(K: np.ndarray, q: float, figure: str, x: float) -> float:
    """E f(v(δ)), δ ~ N(0, q² K_00 (K_00 + K_11 − 2 K_01)), by mpmath's own adaptive rule."""
    a, b, c = (mpmath.mpf(float(K[i, j])) for i, j in ((0, 0), (0, 1), (1, 1)))
    tau = mpmath.mpf(q) * mpmath.sqrt(a * (a + c - 2 * b))

    def integrand(delta: mpmath.mpf) -> mpmath.mpf:
        s = 1 / (1 + mpmath.exp(-delta)) if abs(delta) < 1e4 else mpmath.mpf(int(delta > 0))
        v = s**2 * a + 2 * s * (1 - s) * b + (1 - s) ** 2 * c
        if figure == "variance":
            f = v
        elif figure == "square":
            f = v**2
        elif v < 1e-300:
            f = mpmath.mpf(0)
        elif figure == "pdf":
            f = mpmath.exp(-(x**2) / (2 * v)) / mpmath.sqrt(2 * mpmath.pi * v)
        else:
            f = mpmath.erfc(x / mpmath.sqrt(2 * v)) / 2
        return f * mpmath.npdf(delta / tau) / tau

    near = [0, 2, 6, 15, 35, 80, 200]
    far = [tau * k for k in (0.5, 1, 2, 3, 4, 6, 8, 10)]
    cuts = sorted({float(c) for c in [*near, *far] if c <= 10 * tau} | {float(10 * tau)})
    with mpmath.workdps(20):
        return float(
            mpmath.quad(integrand, cuts) + mpmath.quad(integrand, [-c for c in cuts[::-1]])
        )


@pytest.mark.parametrize("K", KERNELS)
@pytest.mark.parametrize("q", [1.0, 30.0, 1e10])
def test_two_tokens(K: list[list[float]], q: float) -> None:
    """One-dimensional integrals for score scales up to 1e10."""
    kernel = np.array(K)
    v, w = two_token_rule(kernel, 0, layer(q=q), FINE)
    law = Mixture(v, w)
    assert law.variance() == pytest.approx(by_mpmath(kernel, q, "variance", 0), rel=1e-12)
    assert law.even_moment(2) / 3 == pytest.approx(by_mpmath(kernel, q, "square", 0), rel=1e-12)
    x = 0.7 * math.sqrt(law.variance())
    assert law.pdf(x) == pytest.approx(by_mpmath(kernel, q, "pdf", x), rel=1e-12)
    assert law.sf(3 * x) == pytest.approx(by_mpmath(kernel, q, "sf", 3 * x), rel=1e-12)


@pytest.mark.parametrize("K", KERNELS)
def test_quadrature_and_draws(K: list[list[float]]) -> None:
    """Two ways to the same law: the rule in δ, and softmax of drawn scores."""
    kernel = np.array(K)
    rule = Mixture(*two_token_rule(kernel, 0, layer(q=3.0), FINE))
    scale = math.sqrt(rule.variance())
    drawn = drawn_mixture(
        np.random.default_rng(0),
        row_variances(np.random.default_rng(1), DRAWS, kernel, 0, layer(q=3.0), 1),
    )
    for figure in every_figure():
        value, error = drawn.estimate(lambda law, f=figure: of_law(law, None, f, scale))
        assert abs(value - of_law(rule, None, figure, scale)) <= 5 * error + 1e-12, figure


def every_figure() -> list[Figure]:
    """All methods of a law of one number."""
    plain = [Figure(name) for name in ("variance", "kurtosis")]
    points = [Figure(name, c) for name in ("pdf", "logpdf", "cdf", "sf", "cf") for c in (0.4, 2.0)]
    rest = [
        Figure("moment", 4),
        Figure("moment", 3),
        Figure("ppf", 0.9),
        *(Figure("expect", name) for name in PSIS),
    ]
    return plain + points + rest


@pytest.mark.parametrize("heads", [2, 5, 40, 1000])
def test_sums_of_heads(heads: int) -> None:
    """φ_1(t/√H)^H inverted, against the mean of drawn variances;
    many heads against the rule of three nodes.
    """
    kernel = np.array(KERNELS[1])
    v, w = two_token_rule(kernel, 0, layer(q=4.0), FINE)
    law, rng = HeadSum(v, w, heads), np.random.default_rng(heads)
    scale = math.sqrt(law.variance())
    picks = rng.choice(len(v), size=(1_000_000 // heads, heads), p=w / w.sum())
    drawn = drawn_mixture(rng, v[picks].mean(axis=1))
    three = Mixture(*three_nodes(v[picks].ravel(), heads))
    for figure in [*every_figure(), Figure("entropy")]:
        value, error = drawn.estimate(lambda law, f=figure: of_law(law, None, f, scale))
        truth = of_law(law, None, figure, scale)
        assert abs(value - truth) <= 5 * error + 1e-9, figure
        if heads == 1000:
            assert of_law(three, None, figure, scale) == pytest.approx(
                truth, rel=5e-3, abs=5e-3
            ), figure


def test_one_head_is_a_sum_of_one() -> None:
    """The inversion formula and the mixture itself, to rounding."""
    v, w = two_token_rule(np.array(KERNELS[1]), 0, layer(), FINE)
    for figure in [*every_figure(), Figure("entropy")]:
        one, other = (of_law(law, None, figure, 0.8) for law in (Mixture(v, w), HeadSum(v, w, 1)))
        assert one == pytest.approx(other, rel=1e-9, abs=1e-12), figure


def test_moments_of_means() -> None:
    """Of three coins: 0, 1/3, 2/3, 1 with weights 1, 3, 3, 1."""
    values, weights = np.array([0, 1, 2, 3]) / 3, np.array([1, 3, 3, 1]) / 8
    expected = [float(weights @ values**j) for j in range(4)]
    assert moments_of_mean([1.0, 0.5, 0.5, 0.5], 3) == pytest.approx(expected)


def test_theory_7() -> None:
    """s = 4, K = I: variance, excess kurtosis, pdf(0),
    pdf(1), pdf(3), cdf(1) for one and two heads.
    """
    table = {
        1: (0.391971443576, 0.243318425, 0.653488393, 0.169234420, 6.9941071e-05, 0.945808058),
        2: (0.391971443576, 0.121659213, 0.646080127, 0.173194601, 2.9134945e-05, 0.945329196),
    }
    figures = [
        Figure("variance"),
        Figure("kurtosis"),
        *(Figure("pdf", x) for x in (0.0, 1.0, 3.0)),
        Figure("cdf", 1.0),
    ]
    for heads, numbers in table.items():
        rng = np.random.default_rng(heads)
        v = np.mean(
            [row_variances(rng, 4 * DRAWS, np.eye(4), 0, layer(4), 1) for _ in range(heads)],
            axis=0,
        )
        drawn = drawn_mixture(rng, v)
        for figure, expected in zip(figures, numbers, strict=True):
            value, error = drawn.estimate(lambda law, f=figure: of_law(law, None, f, 1.0))
            assert abs(value - expected) <= 5 * error, (heads, figure)


@pytest.mark.parametrize(
    ("d", "variance", "kurtosis"),
    [(8, 0.385685, 1.1160), (64, 0.391129, 0.35144), (128, 0.391548, 0.29734)],
)
def test_theory_4(d: int, variance: float, kurtosis: float) -> None:
    """Heads of fixed dimension, by one row and by whole matrices."""
    rng = np.random.default_rng(d)
    row = drawn_mixture(rng, row_variances(rng, DRAWS, np.eye(4), 0, layer(4, head_dim=d), 1))
    C = covariances(rng, 4000 if d > 8 else 50_000, np.eye(4), layer(4, head_dim=d))
    for drawn in (row, drawn_mixture(rng, C[:, 0, 0]), drawn_mixture(rng, C[:, 3, 3])):
        for figure, expected in ((Figure("variance"), variance), (Figure("kurtosis"), kurtosis)):
            value, error = drawn.estimate(lambda law, f=figure: of_law(law, None, f, 1.0))
            assert abs(value - expected) <= 5 * error


def test_all_rows_and_one_row() -> None:
    """The diagonal of C has the law of single rows,
    also with masks, per-head weights and rotary embeddings.
    """
    K = np.array([[1.0, 0.3, -0.2], [0.3, 2.0, 0.4], [-0.2, 0.4, 0.7]])
    for turned in (None, np.arange(3.0)):
        one = Layer(
            2,
            None,
            "sqrt",
            np.tri(3, dtype=bool),
            np.array([1.0, 3.0]),
            *[np.array([1.0, 0.5])] * 3,
            positions=turned,
        )
        rng = np.random.default_rng(5)
        C = covariances(rng, DRAWS, K, one)[:, 2, 2]
        v = row_variances(rng, DRAWS, K, 2, one, 2)
        for k in (1, 2):
            difference = (C**k).mean() - (v**k).mean()
            assert abs(difference) <= 5 * math.hypot((C**k).std(), (v**k).std()) / math.sqrt(DRAWS)


def test_infinitely_many_heads() -> None:
    """E[A K Aᵀ] of two tokens by quadrature and by draws."""
    K = np.array([[2.0, -0.5], [-0.5, 1.0]])
    exact = infinite_kernel(K, layer(q=2.0), FINE)
    np.testing.assert_allclose(exact, infinite_kernel(K, layer(q=2.0), COARSE), rtol=1e-12)
    C = covariances(np.random.default_rng(0), DRAWS, K, layer(q=2.0))
    assert (np.abs(C.mean(axis=0) - exact) <= 5 * C.std(axis=0) / math.sqrt(DRAWS)).all()


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_functions(name: str) -> None:
    """Slopes by differences, monotone pieces, and figures of φ(X) against draws of it."""
    phi = FUNCTIONS[name]
    x = np.linspace(-3.013, 3.017, 241)
    np.testing.assert_allclose(phi.slope(x), (phi(x + 1e-6) - phi(x - 1e-6)) / 2e-6, atol=1e-5)
    for a, b in ((a, b) for a, b in phi.pieces if a < 6 and b > -6):
        inside = phi(np.linspace(max(a, -6.0) + 1e-9, min(b, 6.0) - 1e-9, 200))
        assert (np.diff(inside) >= -1e-15).all() or (np.diff(inside) <= 1e-15).all()
    rng = np.random.default_rng(0)
    law, y = Mixture(np.array([1.7]), np.ones(1)), phi(math.sqrt(1.7) * rng.normal(size=DRAWS))
    for figure, f in (
        (Figure("mean"), y),
        (Figure("moment", 4), y**4),
        (Figure("cdf", 0.37), y <= 0.37),
        (Figure("sf", 0.37), y > 0.37),
    ):
        assert (
            abs(of_law(law, phi, figure, 1.0) - f.mean()) <= 5 * f.std() / math.sqrt(DRAWS) + 1e-12
        ), figure
    inner = (np.abs(y - 0.37) < 0.02) / 0.04
    assert (
        abs(of_law(law, phi, Figure("pdf", 0.37), 1.0) - inner.mean())
        <= 5 * inner.std() / math.sqrt(DRAWS) + 2e-2
    )


def test_kernels_of_functions() -> None:
    """Closed forms of E φ(u)φ(v): ReLU and sign (Cho and Saul 2009),
    erf (Williams 1997); scales and correlations.
    """
    for a, b, r in (
        (1.0, 2.0, 0.2),
        (1e8, 1e-6, -0.9),
        (3.0, 3.0, 1 - 1e-10),
        (1e10, 1e10, -1.0),
        (1e-8, 1e3, 0.0),
    ):
        c = r * math.sqrt(a * b)
        cosine = min(max(c / math.sqrt(a * b), -1.0), 1.0)
        angle = math.acos(cosine)
        relu = math.sqrt(a * b) / (2 * math.pi) * (math.sin(angle) + cosine * (math.pi - angle))
        assert product_of(FUNCTIONS["relu"], a, c, b) == pytest.approx(
            relu, rel=1e-9, abs=1e-12 * math.sqrt(a * b)
        )
        assert product_of(FUNCTIONS["sign"], a, c, b) == pytest.approx(
            2 / math.pi * math.asin(cosine), abs=1e-7
        )
        erf = 2 / math.pi * math.asin(2 * c / math.sqrt((1 + 2 * a) * (1 + 2 * b)))
        assert product_of(FUNCTIONS["erf"], a, c, b) == pytest.approx(erf, abs=1e-10)
    assert mean_of(FUNCTIONS["abs"], 1e10) == pytest.approx(math.sqrt(2e10 / math.pi))


def test_kernels_by_other_rules() -> None:
    """E tanh(u)tanh(v) by a tensor Gauss–Hermite rule,
    and E of jumps by one integral of mpmath.
    """
    a, c, b = 0.9, 0.5, 0.8
    z, w = np.polynomial.hermite_e.hermegauss(180)
    u, v = math.sqrt(a) * z[:, None], c / math.sqrt(a) * z[:, None] + math.sqrt(b - c**2 / a) * z
    expected = float(w @ (np.tanh(u) * np.tanh(v)) @ w) / (2 * math.pi)
    assert product_of(FUNCTIONS["tanh"], a, c, b) == pytest.approx(expected, abs=1e-10)

    def step(z: mpmath.mpf) -> mpmath.mpf:
        return mpmath.npdf(z) * mpmath.ncdf(
            (c / mpmath.sqrt(a) * z - 0.5) / mpmath.sqrt(b - c**2 / a)
        )

    expected = float(mpmath.quad(step, [0.5 / mpmath.sqrt(a), 2, 5, 9]))
    assert product_of(FUNCTIONS["step"], a, c, b) == pytest.approx(expected, abs=1e-12)


def test_a_constant_added() -> None:
    """Figures of X + m against draws of it."""
    v, w, shift, scale = np.array([0.5, 4.0]), np.array([0.3, 0.7]), -0.8, 1.7
    rng = np.random.default_rng(2)
    x = np.sqrt(rng.choice(v, p=w, size=DRAWS)) * rng.normal(size=DRAWS) + shift * scale
    draws = {
        Figure("mean"): x,
        Figure("variance"): (x - shift * scale) ** 2,
        Figure("moment", 3): x**3,
        Figure("moment", 6): x**6,
        Figure("cdf", 0.4): x <= 0.4 * scale,
        Figure("sf", -1.0): x > -1.0 * scale,
        Figure("cf", 0.7): np.cos(0.7 * x / scale),
    }
    law = Mixture(v, w)
    for figure, sample in draws.items():
        value = of_law(law, None, figure, scale, shift)
        assert abs(sample.mean() - value) <= 5 * sample.std() / math.sqrt(DRAWS), figure
    median = of_law(law, None, Figure("ppf", 0.5), scale, shift)
    assert median == pytest.approx(shift * scale, abs=1e-12)
    density = of_law(law, None, Figure("pdf", 0.3), scale, shift)
    step = 1e-4
    tails = [of_law(law, None, Figure("cdf", 0.3 + side * step), scale, shift) for side in (1, -1)]
    assert density == pytest.approx((tails[0] - tails[1]) / (2 * step * scale), rel=1e-6)


@pytest.mark.parametrize("k", [1e-19, 1e-8, 0.3, 50.0])
def test_sine(k: float) -> None:
    """E sin(u)² = (1 − e^{−2k})/2."""
    assert product_of(FUNCTIONS["sin"], k, k, k) == pytest.approx(
        -math.expm1(-2 * k) / 2, rel=1e-14
    )


@pytest.mark.parametrize("name", ["relu", "tanh", "stairs", "leap", "gelu"])
def test_kernel_of_many_scales(name: str) -> None:
    """Against draws, where scales differ by ten decades."""
    K = np.array([[1e8, 3e3, 0.0], [3e3, 1.0, 1e-5], [0.0, 1e-5, 1e-8]])
    values, means, errors = kernel_of(FUNCTIONS[name], K)
    h = np.random.default_rng(0).multivariate_normal(np.zeros(3), K, size=DRAWS, method="cholesky")
    x = FUNCTIONS[name](h)
    products = x[:, :, None] * x[:, None]
    assert (
        np.abs(products.mean(axis=0) - values)
        <= 5 * products.std(axis=0) / math.sqrt(DRAWS) + errors + 1e-15
    ).all()
    assert (np.abs(x.mean(axis=0) - means) <= 5 * x.std(axis=0) / math.sqrt(DRAWS) + 1e-15).all()


def test_two_layers_by_brute_force() -> None:
    """Two layers with residuals and RMSNorm: the chain of kernels against networks of width 200,
    scores and all.
    """
    K, n, count = np.array([[1.0, 0.4], [0.4, 2.0]]), 200, 1500
    shape = Structure(
        "limit",
        2,
        (Figure("variance"), Figure("expect", "bell")),
        depth=2,
        residual=True,
        norm="rmsnorm",
        front="abs",
    )
    found = answer(Case(shape, Numbers(K, dict.fromkeys("qkvo", 2.0)), 0), DRAWS)
    rng = np.random.default_rng(1)
    draws = np.array([brute_force(rng, K, n) for _ in range(count)])
    values = (draws**2, np.exp(-((draws / found.scale) ** 2) / 2))
    for sample, (value, error) in zip(values, found.estimates, strict=True):
        mean = sample.mean(axis=1)  # over coordinates, which are dependent
        assert abs(mean.mean() - value) <= 5 * math.hypot(
            mean.std() / math.sqrt(count), error
        ) + 3 / n * abs(value)


def brute_force(rng: np.random.Generator, K: np.ndarray, n: int) -> np.ndarray:
    """Coordinates of token 0 behind two layers, all weights drawn;
    the values W^O W^V x as one matrix product each.
    """
    x = np.abs(np.linalg.cholesky(K) @ rng.normal(size=(2, n)))
    for layer_index in range(2):
        q, k, v = (2.0 * x @ rng.normal(size=(n, n)) / math.sqrt(n) for _ in range(3))
        v = 2.0 * v @ rng.normal(size=(n, n)) / math.sqrt(n)
        y = softmax(q @ k.T / math.sqrt(n), np.ones((2, 2), bool)) @ v
        x = y + x if layer_index == 0 else y
        x = x / np.sqrt((x**2).mean(axis=1, keepdims=True) + 1e-5)
    return x[0]
