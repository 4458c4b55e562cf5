"""Sums over heads: reference values, brute force over all combinations of nodes,
tails, gradients, errors, messages.
"""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from numpy.testing import assert_allclose

from limitlaw.laws import GaussianMixture, HeadSum, head_mixture, load

# s = 4, K = I, all σ = 1: variance, excess kurtosis, pdf at 0, 1 and 3, cdf(1)
FIGURES = {
    1: (0.391971443576, 0.243318425, 0.653488393, 0.169234420, 6.9941071e-05, 0.945808058),
    2: (0.391971443576, 0.121659213, 0.646080127, 0.173194601, 2.9134945e-05, 0.945329196),
    256: (0.391971443576, 0.000950463, 0.637286051, 0.177908127, 6.6854581e-06, 0.944898123),
}
FAR = {1: -38.33700847, 2: -43.27941601, 8: -56.45608372, 256: -71.67039602, 10**6: -72.450454}
WIDE = {  # nodes and weights that are hard: many scales, atoms almost, rare wide parts
    "scales": (np.geomspace(1e-8, 1, 40), np.full(40, 1 / 40)),
    "near zero": (np.random.default_rng(3).normal(size=40) ** 2, np.full(40, 1 / 40)),
    "rare": (np.array([1.0, 100.0]), np.array([1 - 1e-6, 1e-6])),
    "lognormal": (np.exp(2 * np.random.default_rng(4).normal(size=40)), np.full(40, 1 / 40)),
    "one": (np.ones(1), np.ones(1)),
}


@functools.cache
def attention():
    """v = AᵀA, A = softmax(p), p ~ N(0, I₄): the trapezoidal rule in the three
    directions that softmax sees.
    """
    line = np.arange(-8.4, 8.5, 0.3)
    z = np.stack(np.meshgrid(line, line, line, indexing="ij"), -1).reshape(-1, 3)
    w = np.exp(-(z**2).sum(1) / 2)
    z, w = z[w > 1e-17], w[w > 1e-17]
    shift = np.linalg.qr(np.concatenate([np.ones((4, 1)), np.eye(4)[:, :3]], 1))[0]
    A = np.exp(z @ shift[:, 1:].T)
    return np.sum((A / A.sum(1, keepdims=True)) ** 2, 1), w / w.sum()


@functools.cache
def attention_law(heads):
    v, w = attention()
    return HeadSum(v, heads, w)


def brute(variances, heads, weights, groups, shared=None):
    """All combinations of nodes: a Gaussian mixture of averages of variances."""
    inner = shared or heads
    rows = []
    for v, w, u in zip(variances, weights, groups, strict=True):
        for index in itertools.product(range(len(v)), repeat=inner):
            rows.append((v[list(index)].sum(), u * w[list(index)].prod()))
    sums, chances = np.array(rows).T
    total, weight = sums, chances
    for _ in range(heads // inner - 1):
        total, weight = (
            (total[:, None] + sums).reshape(-1),
            (weight[:, None] * chances).reshape(-1),
        )
    return GaussianMixture(np.zeros(len(total)), total / heads, weight)


def grouped(seed=0, G=2, N=6):
    random = np.random.default_rng(seed)
    v, w = random.exponential(size=(G, N)) + 0.1, random.uniform(size=(G, N))
    u = random.uniform(size=G)
    return v, w / w.sum(1, keepdims=True), u / u.sum()


def assert_same(law, reference, rtol=1e-11):
    """Density, tails, transform and moments, out to 40 standard deviations."""
    sd = float(np.sqrt(reference.variance()))
    x = sd * np.concatenate([-np.geomspace(1e-6, 40, 20), np.linspace(0, 12, 21)])
    np.testing.assert_allclose(law.logpdf(x), reference.logpdf(x), rtol=rtol, atol=rtol)
    np.testing.assert_allclose(law.sf(x), reference.sf(x), rtol=rtol)
    np.testing.assert_allclose(law.cdf(x), reference.cdf(x), rtol=rtol)
    np.testing.assert_allclose(law.cf(x / sd**2), reference.cf(x / sd**2), atol=1e-14)
    np.testing.assert_allclose(law.variance(), reference.variance(), rtol=1e-13)
    np.testing.assert_allclose(law.kurtosis(), reference.kurtosis(), rtol=1e-9, atol=1e-12)
    for k in (0, 1, 2, 3, 4, 6, 12):
        np.testing.assert_allclose(law.moment(k), reference.moment(k), rtol=1e-11)


@pytest.mark.parametrize("heads", FIGURES)
def test_attention(heads):
    """The figures of theory.md, section 7."""
    law = attention_law(heads)
    values = [law.variance(), law.kurtosis(), *law.pdf(np.array([0.0, 1.0, 3.0])), law.cdf(1.0)]
    np.testing.assert_allclose(values, FIGURES[heads], atol=1e-9, rtol=1e-11)
    assert float(law.pdf(3.0)) == pytest.approx(FIGURES[heads][4], rel=1e-8)


@pytest.mark.parametrize("heads", FAR)
def test_twelve_standard_deviations(heads):
    """logpdf there."""
    law = attention_law(heads)
    assert law.logpdf(12 * jnp.sqrt(law.variance())) == pytest.approx(FAR[heads], abs=1e-6, rel=0)


def test_one_head_is_the_mixture():
    """With 10⁵ nodes, 18,000 of them looked at by the mixture too."""
    v, w = (a[::6] for a in attention())
    assert_same(HeadSum(v, 1, w), GaussianMixture(np.zeros(len(v)), v, w), 1e-12)


@pytest.mark.parametrize("heads", [1, 2, 3])
def test_brute_force(heads):
    """Two groups, against all combinations."""
    assert_same(
        HeadSum(*(grouped()[0], heads, *grouped()[1:])), brute(grouped()[0], heads, *grouped()[1:])
    )


def test_shared():
    """Four heads that share keys and values in pairs; shared by all they are groups."""
    v, w, u = grouped(1, 3, 3)
    assert_same(HeadSum(v, 4, w, u, shared=2), brute(v, 4, w, u, shared=2))
    x = np.linspace(-5, 5, 9)
    np.testing.assert_allclose(
        HeadSum(v, 4, w, u, shared=4).pdf(x), HeadSum(v, 4, w, u).pdf(x), rtol=1e-13
    )


@pytest.mark.parametrize("name", WIDE)
@pytest.mark.parametrize("heads", [1, 2])
def test_hard_mixing_laws(name, heads):
    """Scales from 1e-4 to 1, rare wide parts."""
    v, w = WIDE[name]
    assert_same(HeadSum(v, heads, w), brute(v[None], heads, w[None], np.ones(1)), 2e-10)


@pytest.mark.parametrize("name", WIDE)
@pytest.mark.parametrize("heads", [8, 1000, 10**6, 10**9])
def test_far_tails(name, heads):
    """Finite and monotone out to 40 standard deviations and beyond,
    between the Gaussians of Ev and of max v.
    """
    v, w = WIDE[name]
    law = HeadSum(v, heads, w)
    sd = float(jnp.sqrt(law.variance()))
    x = sd * np.append(np.linspace(0, 40, 81), [60.0, 1e3])
    log, tail = np.asarray(law.logpdf(x)), np.asarray(law.sf(x))
    assert np.isfinite(log).all()
    assert (np.diff(log) < 0).all()
    assert (np.diff(tail) <= 0).all()
    assert (np.diff(tail)[tail[1:] > 1e-300] < 0).all()
    widest = scipy.stats.norm.logpdf(x, scale=np.sqrt(v.max()))
    assert (log[40:81] <= widest[40:81] + 0.5 * np.log(v.max() / sd**2) + 1e-6).all()
    np.testing.assert_array_equal(law.logpdf(np.array([-np.inf, np.inf])), -np.inf)
    np.testing.assert_array_equal(law.cdf(np.array([-np.inf, np.inf])), [0, 1])
    assert np.isnan(law.pdf(np.nan))


@pytest.mark.parametrize("heads", [1, 256, 10**6])
def test_quantiles(heads):
    """ppf inverts cdf, from the side on which cdf keeps its digits;
    cdf and sf are complementary in both tails.
    """
    law = attention_law(heads)
    sd = float(jnp.sqrt(law.variance()))
    x = sd * np.linspace(-6, 3.5, 97)
    np.testing.assert_allclose(law.ppf(law.cdf(x)), x, atol=1e-9)
    np.testing.assert_array_equal(law.ppf(np.array([0.0, 0.5, 1.0])), [-np.inf, 0, np.inf])
    far = sd * np.linspace(-30, 30, 61)
    np.testing.assert_allclose(law.cdf(far), law.sf(-far), rtol=1e-15)
    np.testing.assert_allclose(law.cdf(far) + law.sf(far), 1, rtol=1e-15)
    q = np.array([1e-200, 1e-30])
    np.testing.assert_allclose(law.cdf(law.ppf(q)), q, rtol=1e-10)


def test_limit_of_many_heads():
    """Towards N(0, E v), by the first term of the Edgeworth expansion at H = 10⁶."""
    law = attention_law(10**6)
    sd, kurtosis = float(jnp.sqrt(law.variance())), float(law.kurtosis())
    z = np.linspace(-6, 6, 25)
    expected = (
        scipy.stats.norm.logpdf(z) - np.log(sd) + np.log1p(kurtosis / 24 * (z**4 - 6 * z**2 + 3))
    )
    np.testing.assert_allclose(law.logpdf(sd * z), expected, atol=1e-9)
    assert law.entropy() == pytest.approx(0.5 * np.log(2 * np.pi * np.e * sd**2), abs=1e-12)


@pytest.mark.parametrize("shared", [1, 5])
def test_moments_and_expectations(shared):
    """moment(k) to k = 12 against the density; kurtosis against moments."""
    v, w, u = grouped(2, 3, 20)
    law = HeadSum(v, 40, w, u, shared=shared)
    for k in (2, 4, 8, 12):
        np.testing.assert_allclose(law.expect(lambda y, k=k: y**k), law.moment(k), rtol=1e-11)
    assert law.kurtosis() == pytest.approx(
        float(law.moment(4) / law.variance() ** 2 - 3), rel=1e-9
    )
    assert law.expect(lambda y: jnp.abs(y) > 1) == pytest.approx(float(2 * law.sf(1.0)), abs=3e-4)
    assert law.covariance() == law.variance()
    assert law.mean() == law.moment(5) == 0


@pytest.mark.parametrize("heads", [3, 100])
def test_draws_of_groups(heads):
    """Kolmogorov–Smirnov, head by head and by quantiles; the same law from either."""
    v, w, u = grouped(5, 2, 8)
    law, draws = HeadSum(v, heads, w, u), 5_000
    random = np.random.default_rng(0)
    g = random.choice(2, draws, p=u)
    counts = np.where(
        g[:, None] == 0,
        random.multinomial(heads, w[0], draws),
        random.multinomial(heads, w[1], draws),
    )
    y = np.sqrt((counts * v[g]).sum(1) / heads) * random.normal(size=draws)
    for found in (y, np.asarray(law.sample(0, (draws,)))):
        assert scipy.stats.kstest(found, lambda x: np.asarray(law.cdf(x))).pvalue > 1e-5


def test_gradients():
    """In the variances and in x, against differences; inside jit."""
    v, w, u = grouped(6)
    x = jnp.array([0.0, 0.7, 4.0])
    total = lambda v: HeadSum(v, 5, w, u).logpdf(x).sum()
    gradient = np.asarray(jax.grad(total)(jnp.asarray(v)))
    for i in [(0, 0), (1, 4)]:
        step = np.zeros_like(v)
        step[i] = 1e-5
        assert gradient[i] == pytest.approx(
            float(total(v + step) - total(v - step)) / 2e-5, rel=1e-6
        )
    np.testing.assert_allclose(
        jax.jit(lambda v: HeadSum(v, 5, w, u).sf(x))(v), HeadSum(v, 5, w, u).sf(x), rtol=1e-13
    )
    law = HeadSum(v, 5, w, u)
    for at in (-1.3, 0.0, 0.4, 6.0):
        np.testing.assert_allclose(jax.grad(law.cdf)(at), law.pdf(at), rtol=1e-12)
        slope = (law.pdf(at + 1e-5) - law.pdf(at - 1e-5)) / 2e-5
        np.testing.assert_allclose(jax.grad(law.pdf)(at), slope, rtol=1e-6, atol=1e-11)
    np.testing.assert_allclose(jax.jit(law.cf)(x), law.cf(x), rtol=1e-13)


def test_atom():
    """Zero variances: mass w^H at 0, no density, and a distribution function that jumps."""
    v, w = np.array([0.0, 0.5, 2.0]), np.array([0.6, 0.3, 0.1])
    for heads, mass in ((1, 0.6), (2, 0.36), (20, 0.6**20)):
        law = HeadSum(v, heads, w)
        assert law.atoms().points == 0
        assert law.atoms().masses[0] == pytest.approx(mass, rel=1e-14)
        assert law.cdf(0.0) == pytest.approx((1 + mass) / 2, rel=1e-14)
        assert law.sf(0.0) == pytest.approx((1 - mass) / 2, rel=1e-14)
        q = np.array([1e-6, 0.2, 0.5, 0.99])
        x = np.asarray(law.ppf(q))
        smooth = x != 0
        np.testing.assert_allclose(law.cdf(x)[smooth], q[smooth], rtol=1e-10)
        assert x[2] == 0
        np.testing.assert_allclose(law.expect(lambda y: y**4), law.moment(4), rtol=1e-10)
        assert law.expect(jnp.ones_like) == pytest.approx(1, abs=1e-10)
        with pytest.raises(ValueError, match=r"no density: 1 atom\(s\)"):
            law.pdf(0.3)
        share = np.mean(np.asarray(law.sample(1, (4000,))) == 0)
        assert abs(share - mass) < 5 * np.sqrt(mass / 4000) + 1e-3
    two = HeadSum(v, 2, w)
    x = np.array([-3.0, -0.4, 0.2, 1.0])
    np.testing.assert_allclose(
        two.cdf(x), brute(v[None], 2, w[None], np.ones(1)).cdf(x), rtol=1e-10
    )


def test_nothing_but_an_atom():
    """All variances zero."""
    law = HeadSum(np.zeros(3), 4)
    x = np.array([-np.inf, -1.0, 0.0, 1.0, np.inf, np.nan])
    np.testing.assert_array_equal(law.cdf(x), [0, 0, 1, 1, 1, np.nan])
    np.testing.assert_array_equal(law.ppf(np.array([0.0, 0.3, 1.0])), [-np.inf, 0, np.inf])
    assert law.atoms().masses == 1
    assert law.expect(jnp.cos) == 1
    assert (law.sample(0, (5,)) == 0).all()
    assert law.cf(3.0) == 1


def test_errors():
    """Sampled nodes: figures stray as far as their errors say,
    over 20 repeats for moments; each within 5 errors.
    """
    random = np.random.default_rng(0)
    heads = 5
    truth = HeadSum(
        scipy.stats.expon.ppf((np.arange(20_000) + 0.5) / 20_000) + 0.2, heads, kind="quadrature"
    )
    figures = [
        lambda law: law.variance(),
        lambda law: law.kurtosis(),
        lambda law: law.moment(6),
        lambda law: law.pdf(np.array([0.0, 2.0])),
        lambda law: law.sf(np.array([0.7])),
        lambda law: law.logpdf(1.5),
        lambda law: law.cdf(-1.0),
        lambda law: law.ppf(np.array([0.05, 0.9])),
        lambda law: law.cf(0.8),
        lambda law: law.expect(jnp.cos),
        lambda law: law.entropy(),
    ]
    laws = [HeadSum(random.exponential(size=800) + 0.2, heads) for _ in range(20)]
    assert laws[0].kind == "sampled"
    for figure in figures[:3]:
        z = np.array(
            [
                np.ravel(np.asarray((figure(law) - figure(truth)) / figure(law.error)))
                for law in laws
            ]
        )
        assert (np.abs(z) < 5.5).all()
        assert 0.2 < np.mean(z**2) < 3.5
    for law, figure in itertools.product(laws[:2], figures):
        assert (np.abs(figure(law) - figure(truth)) < 5.5 * figure(law.error)).all()
        # the entropy states that of its rule
        np.testing.assert_allclose(figure(truth.error), 0, atol=1e-14)


def test_errors_of_groups():
    """Many groups: blocks are of groups."""
    random = np.random.default_rng(1)
    scale = random.uniform(0.5, 1.5, size=(400, 1))
    law = HeadSum(scale * (random.exponential(size=(400, 16)) + 0.2), 8)
    assert abs(law.variance() - 1.2) < 5 * law.error.variance()
    spread = np.std(scale[:, 0]) * 1.2 / np.sqrt(400)
    assert spread < law.error.variance() < 3 * spread
    np.testing.assert_array_equal(law.error.ppf(np.array([0.0, 1.0])), 0)
    assert law.error.mean() == 0


def test_print_and_file(tmp_path):
    """What repr, str, save and marginal do."""
    v, w, u = grouped()
    law = HeadSum(v, 6, w, u, beyond=("depth",), shared=3)
    assert (
        repr(law)
        == "HeadSum(6 heads, 2 × 6 nodes, shape=(), quadrature, beyond Theorem 3.1: depth)"
    )
    assert "ppf(0.99)" in str(law)
    assert "±" in str(HeadSum(v[0], 6))
    law.save(tmp_path / "law")
    again = load(tmp_path / "law")
    assert repr(again) == repr(law)
    x = np.linspace(-3, 3, 7)
    np.testing.assert_array_equal(again.pdf(x), law.pdf(x))
    assert law.marginal(()) is law
    assert HeadSum([2.0], 7).kind == "exact"


@pytest.mark.parametrize(
    ("arguments", "options", "match"),
    [
        (([1.0], 0), {}, "heads must be a positive integer, got 0"),
        (([1.0], 2.5), {}, "heads must be a positive integer"),
        (([1.0, -0.5], 2), {}, "variances must be ≥ 0, got -0.5"),
        (([1.0, np.nan], 2), {}, "variances must be finite, got 1 NaN"),
        (([1.0, 1e13], 2), {}, r"variances must be 0 or from 1e-12 to 1e\+12"),
        ((1.0, 2), {}, r"variances must have shape \(nodes,\) or \(groups, nodes\)"),
        (([], 2), {}, "variances must have shape"),
        (
            ([1.0, 2.0], 2, [1.0]),
            {},
            r"weights must have the shape of variances, \(2,\), got shape \(1,\)",
        ),
        (([1.0, 2.0], 2, [0.0, 0.0]), {}, "weights must have a positive sum"),
        (([1.0, 2.0], 2, [1.0, -1.0]), {}, "weights must be ≥ 0"),
        (([[1.0, 2.0]], 2), {"groups": [1.0, 1.0]}, r"groups must have shape \(1,\)"),
        (([1.0], 4), {"shared": 3}, "shared must divide heads"),
        (([1.0], 4), {"kind": "guess"}, "kind must be one of"),
    ],
)
def test_messages(arguments, options, match):
    """Every message names the argument."""
    with pytest.raises((ValueError, TypeError), match=match):
        HeadSum(*arguments, **options)


def test_levels():
    """q outside [0, 1]."""
    with pytest.raises(ValueError, match=r"q must lie in \[0, 1\]"):
        HeadSum([1.0, 2.0], 3).ppf(1.2)
    with pytest.raises(IndexError, match="i must"):
        HeadSum([1.0, 2.0], 3).marginal(0)


@pytest.mark.parametrize("heads", [1, 3, 1024])
def test_with_heads(heads):
    """Another number of the same heads is what a new law of them would be,
    and keeps kind and remarks.
    """
    v, w = (a[::6] for a in attention())
    law = HeadSum(v, 2, w, beyond=("depth",)).with_heads(heads)
    expected = HeadSum(v, heads, w)
    x = np.linspace(-4, 4, 17)
    np.testing.assert_allclose(law.pdf(x), expected.pdf(x), rtol=1e-12)
    assert (law.heads, law.kind, law.beyond) == (heads, "quadrature", ("depth",))
    assert HeadSum(v, 2).with_heads(heads).kind == "sampled"


def test_with_heads_in_groups():
    """Groups stay; heads that share keys and values are refused, as is no head."""
    v, w, u = grouped()
    x = np.linspace(-5, 5, 9)
    expected = HeadSum(v, 4, w, u).pdf(x)
    np.testing.assert_allclose(HeadSum(v, 2, w, u).with_heads(4).pdf(x), expected, rtol=1e-12)
    with pytest.raises(
        ValueError, match="with_heads needs heads that share nothing, got sets of 2"
    ):
        HeadSum(v, 4, w, u, shared=2).with_heads(8)
    with pytest.raises(ValueError, match="heads must be a positive integer, got 0"):
        HeadSum(v, 4, w, u).with_heads(0)


def test_mixing():
    """The mixing law of a head: weights of sum one, whose mean is the variance and
    whose spread is the kurtosis.
    """
    for arguments in (attention(), grouped()):
        law = HeadSum(arguments[0], 1, *arguments[1:])
        v, w = law.mixing
        assert v.shape == w.shape
        assert float(w.sum()) == pytest.approx(1, abs=1e-14)
        assert float((w * v).sum()) == pytest.approx(float(law.variance()), rel=1e-13)
        spread = float((w * v**2).sum() / law.variance() ** 2 - 1)
        assert 3 * spread == pytest.approx(float(law.kurtosis()), rel=1e-10)
    v, w = HeadSum([1.0, 3.0], 5, [2.0, 6.0]).mixing
    np.testing.assert_allclose(w, [[0.25, 0.75]], rtol=1e-15)


@pytest.mark.parametrize("scale", [1e-12, 1e11])
def test_kurtosis_at_every_scale(scale):
    """At both ends of the domain."""
    law = HeadSum(scale * np.array([1.0, 3.0]), 1, [0.5, 0.5])
    assert float(law.kurtosis()) == pytest.approx(0.75, rel=1e-14)


def test_variances_inside_jit_many_decades_apart():
    """Inside jax.jit, down to 1e-16 of the widest; 0 is an atom. Three Gaussians, or two and the
    atom, are the sum of two heads.
    """
    w, x = np.array([0.3, 0.7]), np.array([0.4, 0.9, 2.0])

    def found(v):
        law = HeadSum(v, 2, w)
        return law.cdf(x), law.error.cdf(x), law.pdf(x), law.error.pdf(x)

    compiled = jax.jit(found)
    for narrow in (0.3, 1e-10, 1e-16, 0.0):
        sds = np.sqrt([max(narrow, 1e-90), (1 + narrow) / 2, 1.0])
        mass = np.array([0.09, 0.42, 0.49])
        cdf, cdf_error, pdf, pdf_error = compiled(np.array([narrow, 1.0]))
        exact = scipy.stats.norm.cdf(x[:, None] / sds) @ mass
        assert (np.abs(cdf - exact) <= 5 * cdf_error + 1e-14).all()
        assert (cdf_error < 1e-12).all()
        exact = (scipy.stats.norm.pdf(x[:, None] / sds) / sds) @ mass
        assert (np.abs(pdf - exact) <= 5 * pdf_error + 1e-14).all()
        assert (pdf_error < 1e-12).all()


def test_one_head_is_its_mixture(monkeypatch):
    """The sum over nodes, and the lattices that take over where those are many."""
    v, w = 10.0 ** np.linspace(-6, 3, 40), np.linspace(1, 2, 40)
    x = np.array([0.0, 1e-4, 0.3, -2.0, 70.0, 400.0])
    law = HeadSum(v, 1, w)
    share, sd = w / w.sum(), np.sqrt(v)
    assert_allclose(law.pdf(x), (scipy.stats.norm.pdf(x[:, None] / sd) / sd) @ share, rtol=1e-13)
    assert_allclose(law.sf(x), scipy.stats.norm.sf(x[:, None] / sd) @ share, rtol=1e-12)
    monkeypatch.setattr(head_mixture, "FEW_NODES", 0)
    other = HeadSum(v, 1, w)
    assert_allclose(other.logpdf(x), law.logpdf(x), rtol=1e-11)
    assert_allclose(other.sf(x), law.sf(x), rtol=1e-11)


@pytest.mark.parametrize(
    ("heads", "narrow"), [(2, 1e-12), (7, 1e-16), (1000, 1e-16), (10**6, 0.3)]
)
def test_sums_of_two_values_are_binomial(heads, narrow):
    """Two variances many decades apart: a mixture over binomial numbers of the larger one, from
    the peak of the narrowest to 40 standard deviations.
    """
    v, w = np.array([narrow, 1.0]), np.array([0.7, 0.3])
    law = HeadSum(v, heads, w)
    count = np.arange(heads + 1)
    count = count[np.abs(count - 0.3 * heads) < 40 * np.sqrt(0.21 * heads) + 40]
    S = (v[0] * (heads - count) + v[1] * count) / heads
    z = np.concatenate([[0.0, 1e-8, 1e-3], np.arange(1.0, 13), [20.0, 30.0, 40.0]])
    x = np.asarray(law.std()) * z
    weights = scipy.stats.binom.logpmf(count, heads, 0.3)[:, None]
    weights -= scipy.special.logsumexp(weights)  # 3e-10 off for 10⁶
    exact = scipy.special.logsumexp(
        weights + scipy.stats.norm.logpdf(x, scale=np.sqrt(S)[:, None]), axis=0
    )
    tail = scipy.special.logsumexp(
        weights + scipy.stats.norm.logsf(x, scale=np.sqrt(S)[:, None]), axis=0
    )
    away = np.abs(law.logpdf(x) - exact), np.abs(law.logsf(x) - tail)
    for each in away:
        assert each[z <= 6].max() < 1e-10
        assert each.max() < 1e-8
    assert (away[0] <= 5 * np.asarray(law.error.logpdf(x)) + 1e-10).all()
    assert (law.error.logpdf(x)[z <= 6] < 1e-9).all()


def test_beyond_forty_deviations():
    """The log density goes on like a Gaussian's, and says how far off that may be: not farther
    than the Gaussian of the widest head.
    """
    law = HeadSum([0.5, 2.0], 2, [0.3, 0.7])
    x = float(law.std()) * np.array([40.5, 60.0, 1e3, 1e8])
    parts = np.log([0.09, 0.42, 0.49]) + scipy.stats.norm.logpdf(
        x[:, None], scale=np.sqrt([0.5, 1.25, 2.0])
    )
    exact = scipy.special.logsumexp(parts, axis=1)
    found = np.asarray(law.logpdf(x))
    assert (np.diff(found) < 0).all()
    assert (np.abs(found - exact) <= law.error.logpdf(x) + 1e-9 * np.abs(exact)).all()


def scaled(c, x):
    """log f(x; c), c a common factor of the variances: log f(x/√c; 1) − log √c."""
    v, w, u = grouped(7)
    return HeadSum(c * v, 5, w, u).logpdf(x)


def derivatives(x):
    """Of log f(x; 1) in x, the first and the second."""
    each = jax.vmap(jax.value_and_grad(jax.grad(lambda x: scaled(1.0, x))))
    return map(np.asarray, each(x))


def test_derivatives_inside_jit():
    """The first in c against that in x; and the second in x against its differences."""
    x, h = jnp.array([0.0, 0.7, 3.0, 9.0]), 1e-4
    first = jax.jit(jax.jacfwd(lambda c: scaled(c, x)))(1.0)
    slope, bend = derivatives(x)
    np.testing.assert_allclose(first, -x * slope / 2 - 0.5, rtol=1e-10)
    (after, _), (before, _) = derivatives(x + h), derivatives(x - h)
    np.testing.assert_allclose(bend, (after - before) / (2 * h), rtol=1e-6)


@pytest.mark.long
def test_second_derivatives_inside_jit():
    """The second in c against those in x."""
    x = jnp.array([0.0, 0.7, 3.0, 9.0])
    second = jax.jit(jax.jacfwd(jax.jacrev(lambda c: scaled(c, x))))(1.0)
    slope, bend = derivatives(x)
    np.testing.assert_allclose(second, x**2 * bend / 4 + 0.75 * x * slope + 0.5, rtol=1e-9)
