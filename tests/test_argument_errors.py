"""Every message names the argument, what was expected and what came;
and what is meant in good faith is understood.
"""

import math

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest

import limitlaw as ll
from limitlaw import phi

pytestmark = pytest.mark.usefixtures("as_user")

h = ll.initial()
x = ll.matrices(3) @ h
y = ll.attention(x, 2)
W = ll.Matrix() @ h
random = ll.attention(ll.initial((9,)), 2)  # whose law is sampled

LAWS = {
    "gaussian": lambda: ll.Gaussian(0.1, 1.2),
    "joint": lambda: ll.Gaussian(np.zeros(2), np.eye(2)),
    "mixture": lambda: ll.GaussianMixture(np.zeros(3), np.array([0.5, 1.0, 2.0])),
    "empirical": lambda: ll.Empirical(np.arange(5.0)),
    "pushforward": lambda: ll.Pushforward(phi.tanh, ll.GaussianMixture(np.zeros(3), np.ones(3))),
    "heads": lambda: ll.HeadSum(np.array([0.5, 2.0]), 3, np.array([0.5, 0.5])),
    "many_heads": lambda: ll.HeadSum(np.array([0.5, 2.0]), 30, np.array([0.5, 0.5])),
}
law = LAWS["gaussian"]()


def raises(error, message, call):
    """The call fails with this message, word by word."""
    with pytest.raises(error) as caught:
        call()
    assert message in str(caught.value)


# --- points at which figures are asked for -------------------------------------------------------

NOT_REAL = {
    "text": ("a", "got str 'a'"),
    "none": (None, "got None"),
    "complex": (1j, "got complex 1j"),
    "complex_array": (np.array([1j, 2]), "got an array of complex128, shape (2,)"),
    "jax_complex": (jnp.array([1j, 2]), "got complex128"),
    "objects": (np.array([None, 1]), "got an array of object, shape (2,)"),
    "texts": (["1"], "got list ['1']"),
    "dates": (np.array(["2020-01-01"], "M8[D]"), "got an array of datetime64[D]"),
    "ragged": ([[1], [1, 2]], "got list [[1], [1, 2]]"),
    "program": (h, "got Wide(shape=(), dim=n)"),
    "set": ({1.0}, "got set {1.0}"),
}


@pytest.mark.parametrize("bad", NOT_REAL)
@pytest.mark.parametrize("figure", ["pdf", "logpdf", "cdf", "sf", "ppf", "cf"])
def test_points(figure, bad):
    """pdf("a"), and the imaginary part that used to be dropped without a word."""
    value, got = NOT_REAL[bad]
    name = {"ppf": "q", "cf": "t"}.get(figure, "x")
    raises(TypeError, f"{name} must be real numbers, {got}", lambda: getattr(law, figure)(value))
    raises(
        TypeError, f"{name} must be real numbers, {got}", lambda: getattr(law.error, figure)(value)
    )


def test_complex_inside_jit():
    raises(TypeError, "x must be real numbers, got complex128", lambda: jax.jit(law.pdf)(1j))


def test_points_that_pass():
    """NaN is NaN, infinities are points, integers of any size and objects that are
    numbers are numbers.
    """
    assert np.isnan(law.pdf(math.nan))
    assert law.cdf(math.inf) == 1
    assert law.pdf(10**30) == 0
    assert (
        law.pdf(True) == law.pdf(1) == law.pdf(np.float32(1)) == law.pdf(np.array([1], object))[0]
    )
    assert law.pdf([]).shape == (0,)
    raises(
        ValueError,
        "x must lie within float64, below 1.8e308, got an integer of 401 digits",
        lambda: law.pdf(10**400),
    )


# --- moments -------------------------------------------------------------------------------------


@pytest.mark.parametrize("k", [2, 30, 100, 200, 300])
def test_moments_of_a_normal(k):
    """(k − 1)!! as far as float64 holds it, also through a nonlinearity and a sum of heads."""
    exact = float(mpmath.fac2(k - 1))
    for normal in (ll.Gaussian(0.0, 1.0), ll.HeadSum([1.0], 1), ll.HeadSum([1.0], 10**6)):
        assert normal.moment(k) == pytest.approx(exact, rel=1e-13)
        assert normal.error.moment(k) == 0
    base = ll.Gaussian(0.0, 1.0)
    assert ll.Pushforward(phi.relu, base).moment(k) == pytest.approx(exact / 2, rel=1e-13)
    assert ll.Pushforward(phi.abs_, base).moment(k) == pytest.approx(exact, rel=1e-13)


@pytest.mark.parametrize("k", [12, 100, 101, 200])
def test_moments_of_a_mixture(k):
    """Components of very different size, and means of either sign, against mpmath."""
    means, variances = (1.0, -30.0, 1e-3), (1.0, 4.0, 1e-6)

    def exact(m, v):
        terms = (
            mpmath.binomial(k, 2 * j) * mpmath.fac2(2 * j - 1) * m ** (k - 2 * j) * v**j
            for j in range(k // 2 + 1)
        )
        return mpmath.fsum(terms)

    with mpmath.workdps(50):
        each = [exact(mpmath.mpf(m), mpmath.mpf(v)) for m, v in zip(means, variances, strict=True)]
        expected = float(mpmath.fsum(each) / 3)
    mixture = ll.GaussianMixture(np.array(means), np.array(variances))
    assert mixture.moment(k) == pytest.approx(expected, rel=1e-12)
    error = mixture.error.moment(k)  # one component of three carries it, whose skewness counts
    assert abs(expected) <= error <= 1.5 * abs(expected)


@pytest.mark.parametrize("heads", [1, 2, 7])
@pytest.mark.parametrize("k", [40, 120, 200])
def test_moments_of_heads(heads, k):
    """Against the same power series in mpmath: nothing cancels at high orders."""
    v, w, n = (0.3, 1.0, 4.0), (0.5, 0.25, 0.25), k // 2
    with mpmath.workdps(60):
        series = [
            mpmath.fsum(b * mpmath.mpf(a) ** j for a, b in zip(v, w, strict=True)) / mpmath.fac(j)
            for j in range(n + 1)
        ]
        c = [mpmath.mpf(1)] + [mpmath.mpf(0)] * n
        for _ in range(heads):
            c = [mpmath.fsum(c[i] * series[m - i] for i in range(m + 1)) for m in range(n + 1)]
        exact = float(c[n] * mpmath.fac(k) / (2 * heads) ** n)
    assert ll.HeadSum(v, heads, w).moment(k) == pytest.approx(exact, rel=1e-12)


def test_moments_that_overflow():
    """Infinite where float64 ends, never NaN; zero where the law is symmetric."""
    for big in (
        ll.Gaussian(0.0, 1e12),
        ll.HeadSum([1e12], 3),
        ll.Empirical([-1e10, 1e10]),
        ll.Gaussian(1e200, 1.0),
    ):
        assert big.moment(200) == math.inf
        assert not np.isnan(big.error.moment(200))
    assert ll.Gaussian(-1e200, 1.0).moment(3) == -math.inf
    assert ll.Gaussian(0.0, 1e12).moment(201) == 0
    assert ll.Gaussian(0.0, 1e-12).moment(200) == 0
    assert ll.Gaussian(3.0, 0.0).moment(250) == pytest.approx(3.0**250, rel=1e-13)
    mixture = ll.GaussianMixture(np.zeros(5), np.geomspace(1e-3, 1e3, 5))
    assert mixture.moment(240) == math.inf
    assert mixture.error.moment(240) == math.inf


def test_moments_have_derivatives():
    """d/dm E Y^6 = 6 E Y^5 and d/dv E Y^6 = 15 E Y^4 for Y ~ N(m, v)."""
    normal = ll.Gaussian(0.5, 1.3)
    assert jax.grad(lambda m: ll.Gaussian(m, 1.3).moment(6))(0.5) == pytest.approx(
        6 * float(normal.moment(5)), rel=1e-13
    )
    assert jax.grad(lambda v: ll.Gaussian(0.5, v).moment(6))(1.3) == pytest.approx(
        15 * float(normal.moment(4)), rel=1e-13
    )


@pytest.mark.parametrize(
    ("k", "message"),
    [
        ("a", "k must be an integer ≥ 0, got str 'a'"),
        (2.0, "k must be an integer ≥ 0, got float 2.0"),
        (True, "k must be an integer ≥ 0, got True"),
        (301, "k must be at most 300, beyond which a standard normal's moments overflow, got 301"),
        (10**6, "k must be at most 300"),
    ],
)
def test_order(k, message):
    for make in LAWS.values():
        raises(ValueError, message, lambda make=make: make().moment(k))
        raises(ValueError, message, lambda make=make: make().error.moment(k))


# --- samples -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shape", "error", "message"),
    [
        (1e3, TypeError, "shape must be an integer ≥ 0 or a tuple of such, got float 1000.0"),
        ("a", TypeError, "got str 'a'"),
        (None, TypeError, "got None"),
        (True, TypeError, "got True"),
        ((2, 1.0), TypeError, "got tuple (2, 1.0)"),
        ((2, -1), ValueError, "got tuple (2, -1)"),
        (
            10**12,
            ValueError,
            "shape 1000000000000 would take 7,451 GiB: ask for fewer draws at a time",
        ),
    ],
)
def test_sample_shape(shape, error, message):
    for make in LAWS.values():
        raises(error, message, lambda make=make: make().sample(0, shape))


def test_sample_shapes_that_pass():
    for shape in (6, np.int64(6), jnp.asarray(6), (2, 3), [2, 3], np.array([2, 3])):
        assert law.sample(0, shape).size == 6


def test_key():
    raises(
        ValueError,
        "key must be an integer seed of 64 bits at most, got",
        lambda: law.sample(2**70),
    )
    raises(
        TypeError,
        "key must be known, and inside jax.jit",
        lambda: jax.jit(lambda k: ll.limit(y, 4, k).variance())(jax.random.key(0)),
    )


def test_marginal_of_tokens():
    raises(
        IndexError, "i must index a law of shape (3,), got 'a'", lambda: ll.limit(y).marginal("a")
    )
    raises(IndexError, "i must index a law of shape (3,), got 5", lambda: ll.limit(y).marginal(5))


# --- layers --------------------------------------------------------------------------------------


def spaces(w):
    """The spaces of a network's layers, from the last back to the first."""
    found = [w.dim]
    while not isinstance(w.op, ll.language.ops.Initial):
        w = w.op.inputs[0]
        found.append(w.dim)
    return found


def test_hidden_is_one_space_or_several():
    for hidden in (5, np.int64(5), (5,), [5]):
        assert 5 in [d.at(1) for d in spaces(ll.mlp(h, hidden)) if not d.wide]
    assert spaces(ll.mlp(h, 2 * ll.n)) == spaces(ll.mlp(h, (2 * ll.n,)))
    assert len(spaces(ll.mlp(h, (5, 4)))) > len(spaces(ll.mlp(h, 5)))


@pytest.mark.parametrize(
    ("hidden", "error", "message"),
    [
        (0, ValueError, "hidden must be a multiple of limitlaw.n or a positive integer, got 0"),
        (
            2.5,
            TypeError,
            "hidden must be a multiple of limitlaw.n or a positive integer, or a sequence of such",
        ),
        ("a", TypeError, "with one for each hidden layer, got str 'a'"),
        (None, TypeError, "with one for each hidden layer, got None"),
        ({5}, TypeError, "got set {5}"),
        (
            (5, "a"),
            ValueError,
            "hidden[1] must be a multiple of limitlaw.n or a positive integer, got 'a'",
        ),
    ],
)
def test_hidden(hidden, error, message):
    raises(error, message, lambda: ll.mlp(h, hidden))


SAME = {
    "tanh": (jnp.tanh, phi.tanh),
    "np_tanh": (np.tanh, phi.tanh),
    "relu": (jax.nn.relu, phi.relu),
    "silu": (jax.nn.silu, phi.silu),
    "sigmoid": (jax.nn.sigmoid, phi.sigmoid),
    "softplus": (jax.nn.softplus, phi.softplus),
    "sin": (jnp.sin, phi.sin),
    "cos": (jnp.cos, phi.cos),
    "abs": (jnp.abs, phi.abs_),
    "sign": (jnp.sign, phi.sign),
    "erf": (jax.scipy.special.erf, phi.erf),
    "leaky_relu": (jax.nn.leaky_relu, phi.leaky_relu(0.01)),
    "nonlinearity": (phi.gelu, phi.gelu),
    "ours": (ll.gelu, phi.gelu),
}


@pytest.mark.parametrize("name", SAME)
def test_phi_of_arrays(name):
    """A jnp function that is one of ours becomes ours, by identity;
    and it is the same function.
    """
    given, ours = SAME[name]
    assert ll.mlp(h, phi=given).op.x.op.phi is ours
    assert ll.rnn(x, phi=given).op.terms[1].op.phi is ours
    if name not in ("nonlinearity", "ours"):
        points = jnp.linspace(-5, 5, 101)
        np.testing.assert_allclose(ours(points), given(points), rtol=1e-14, atol=1e-15)


def test_phi_of_ones_own():
    """Other functions of arrays are mapped: jax.nn.gelu too,
    which is not x Φ(x) unless told; names decide nothing.
    """

    def tanh(z):
        return jnp.tanh(2 * z)

    for given in (
        jax.nn.gelu,
        lambda z: jnp.tanh(z) * 2,
        jax.jit(lambda z: z + jnp.sin(z)),
        lambda z: z.clip(0),
        tanh,
    ):
        mapped = ll.mlp(h, phi=given).op.x.op.phi
        points = jnp.array([-1.3, 0.4, 2.0])
        np.testing.assert_allclose(mapped(points), given(points), rtol=1e-12)
        assert mapped.pseudo_lipschitz is None
    exact = ll.limit(ll.mlp(h, phi=ll.gelu)).variance()
    assert ll.limit(ll.mlp(h, phi=jax.nn.gelu)).variance() != exact
    assert ll.mlp(h, phi=lambda z: ll.relu(ll.layernorm(z))).op.x.op.phi is phi.relu


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            "tanh",
            (
                "phi must be a function of vectors, as limitlaw.tanh, or of jax.numpy arrays, as "
                "jnp.tanh, got str 'tanh'"
            ),
        ),
        (None, "as jnp.tanh, got None"),
        (math.tanh, "got tanh, which is neither: tanh: the function fails on arrays of shape"),
        (
            jax.nn.softmax,
            "got softmax, which is neither: softmax must act coordinate by coordinate",
        ),
        (lambda z: 1.0, "what phi returns must be a Wide (a vector of a program), got float"),
        (lambda z: None, "what phi returns must be a Wide (a vector of a program), got NoneType"),
    ],
)
def test_phi(given, message):
    raises(TypeError, message, lambda: ll.mlp(h, phi=given))
    raises(TypeError, message, lambda: ll.rnn(x, phi=given))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: ll.dense(h, bias_std=np.ones(2)),
            ValueError,
            "bias_std must be one number, got shape (2,)",
        ),
        (
            lambda: ll.layernorm(h, np.zeros(0)),
            ValueError,
            "eps must be one number, got shape (0,)",
        ),
        (
            lambda: ll.leaky_relu(h, np.ones(2)),
            ValueError,
            "slope must be one number, got shape (2,)",
        ),
        (lambda: ll.clip(h, [1, 2]), ValueError, "bound must be one number, got shape (2,)"),
        (
            lambda: ll.rotary(h, 1.0, np.ones(2)),
            ValueError,
            "base must be one number, got shape (2,)",
        ),
        (
            lambda: ll.dot(ll.rotary(h, 1.0), ll.rotary(h, 1.0, 500.0)),
            ValueError,
            "one base, got 500 and 10000",
        ),
        (
            lambda: ll.map("tanh", h),
            TypeError,
            "phi must be a function of arrays, as jnp.tanh, got str 'tanh'",
        ),
        (
            lambda: ll.map(np.tanh, h),
            ValueError,
            "it must be written with jax.numpy: jnp.tanh for np.tanh",
        ),
        (
            lambda: ll.apply(3, ll.dot(W, W)),
            TypeError,
            "f must be a function of arrays, as jnp.exp, got 3",
        ),
        (lambda: ll.stack([h, h], "a"), TypeError, "stack: axis must be an integer, got str 'a'"),
        (
            lambda: ll.stack(None),
            TypeError,
            "stack needs one or more values, all Wide or all Scalars, got NoneType",
        ),
        (
            lambda: ll.matrices(10**30),
            ValueError,
            "an axis must have fewer than 2^62 entries, got 1" + 30 * "0",
        ),
        (
            lambda: ll.kernel(ll.initial(10**6)),
            ValueError,
            "y has 1000000 entries, whose covariance would take 7,451 GiB",
        ),
        (
            lambda: ll.Matrix(10**400),
            ValueError,
            "std must lie within float64, below 1.8e308, got an integer of 401 digits",
        ),
        (
            lambda: ll.mermaid("a"),
            TypeError,
            "mermaid takes values of a program (Wide or Scalars), got str",
        ),
        (
            lambda: ll.Pushforward(None, law),
            TypeError,
            "phi must be a function of arrays, as jnp.tanh, got None",
        ),
        (
            lambda: ll.Pushforward(jnp.tanh, LAWS["heads"]()),
            TypeError,
            "base must be a Gaussian or a GaussianMixture, got HeadSum",
        ),
        (
            lambda: ll.Combination(jnp.add, None),
            TypeError,
            "base must be a Gaussian or a GaussianMixture, got NoneType",
        ),
    ],
)
def test_other_arguments(call, error, message):
    raises(error, message, call)


def test_large_integers_are_numbers():
    assert ll.Matrix(10**30).std == 1e30
    assert ll.initial(mean=2**70).op.mean == 2.0**70


def test_slope_inside_grad():
    def variance(slope):
        return ll.limit(ll.Matrix() @ ll.leaky_relu(h, slope)).variance()

    raises(
        TypeError,
        "slope must be a number known in advance, got one inside jax.jit or jax.grad",
        lambda: jax.grad(variance)(0.1),
    )


# --- numbers of samples and widths that no machine has -------------------------------------------

HUGE = {
    "limit": lambda c: ll.limit(y, samples=c).variance(),
    "limit_one": lambda c: ll.limit(random[0], samples=c),
    "limit_behind": lambda c: ll.limit(ll.Matrix() @ ll.relu(y), samples=c),
    "limit_scores": lambda c: ll.limit(ll.dot(W, ll.Matrix() @ y[0]), samples=c),
    "limit_numbers": lambda c: ll.limit(ll.softmax(ll.dot(x, ll.Matrix() @ x)), samples=c),
    "limit_many_heads": lambda c: ll.limit(ll.attention(x, 100), samples=c).variance(),
    "kernel": lambda c: ll.kernel(y, samples=c),
    "average_law": lambda c: ll.average_law(y, jnp.square, samples=c),
    "finite": lambda c: ll.finite(y, 64, c, 0),
    "finite_numbers": lambda c: ll.finite(ll.dot(W, W), 64, c, 0),
    "finite_samples": lambda c: ll.finite_samples(y, 64, c, 0),
    "simulate": lambda c: ll.simulate(y, 64, c, 0),
    "attention_law": lambda c: ll.attention_law(np.eye(2), 2, samples=c).variance(),
    "attention_law_width": lambda c: ll.attention_law(
        np.eye(2), 2, width=64, samples=c
    ).variance(),
}


@pytest.mark.parametrize("name", HUGE)
def test_samples(name):
    """10¹² draws: how much memory they take and what to do, before anything is drawn."""
    size = (
        r"samples=1000000000000 would take [\d,]+ GiB, with \d+ numbers? a draw, and a result may "
        r"take [\d.]+ GiB"
    )
    with pytest.raises(ValueError, match=f"^{size} on this machine: ask for fewer"):
        HUGE[name](10**12)


def test_samples_of_what_is_not_drawn():
    """Where nothing is sampled the number does not matter."""
    assert ll.limit(W, samples=10**12).kind == "exact"


@pytest.mark.parametrize("engine", [ll.finite, ll.simulate])
def test_width(engine):
    raises(
        ValueError,
        "width=10000000000 would take",
        lambda: engine(ll.Matrix() @ ll.relu(ll.relu(W) * W), 10**10, 4, 0),
    )


# --- inside jax.jit, jax.grad and jax.vmap -------------------------------------------------------

ENGINES = {"finite": ll.finite, "finite_samples": ll.finite_samples, "simulate": ll.simulate}
TRACED = {
    "jit": lambda f: jax.jit(lambda s: f(ll.Matrix(s) @ h))(1.0),
    "grad": lambda f: jax.grad(lambda s: f(ll.Matrix(s) @ h))(1.0),
    "vmap": lambda f: jax.vmap(lambda s: f(ll.Matrix(s) @ h))(jnp.ones(2)),
    "cov": lambda f: jax.grad(lambda s: f(ll.initial(cov=s)))(1.0),
    "data": lambda f: jax.grad(lambda s: f(ll.Matrix(cols=1) @ ll.data(s[None])))(1.0),
    "factor": lambda f: jax.grad(lambda s: f(s * h))(1.0),
    "closure": lambda f: jax.grad(lambda s: f(ll.Matrix() @ ll.map(lambda z: jnp.tanh(s * z), h)))(
        1.0
    ),
    "nothing_traced": lambda f: jax.jit(lambda s: f(W))(1.0),
}


@pytest.mark.parametrize("transformation", TRACED)
@pytest.mark.parametrize("engine", ENGINES)
def test_drawing_engines(engine, transformation):
    message = (
        f"{engine} draws numbers and cannot run inside jax.jit, jax.grad or jax.vmap: call it "
        "outside"
    )
    raises(
        TypeError, message, lambda: TRACED[transformation](lambda w: ENGINES[engine](w, 8, 4, 0))
    )


@pytest.mark.parametrize("engine", ENGINES)
def test_traced_key(engine):
    call = jax.jit(lambda key: ENGINES[engine](W, 8, 4, key))
    raises(
        TypeError,
        f"{engine} draws numbers and cannot run inside jax.jit",
        lambda: call(jax.random.key(0)),
    )


def test_known_key_inside_jit():
    """A key that is known serves inside jax.jit as outside."""

    def spread(q_std):
        K = ll.kernel(ll.attention(ll.initial((2,)), 2, q_std=q_std), samples=8, key=3)
        return K.variance()

    np.testing.assert_allclose(jax.jit(spread)(1.5), spread(1.5), rtol=1e-12)


@pytest.mark.parametrize("name", LAWS)
@pytest.mark.parametrize(
    "figure", ["pdf", "logpdf", "cdf", "sf", "ppf", "cf", "expect", "entropy", "sample"]
)
def test_laws_inside_jit(name, figure):
    """A figure inside jax.jit is that outside, or one clear line;
    and the law is as good as new afterwards.
    """
    one = LAWS[name]()
    point = jnp.full(one.shape, 0.3)
    calls = {
        "expect": lambda u: one.expect(jnp.square) + 0 * u,
        "entropy": lambda u: one.entropy() + 0 * jnp.sum(u),
        "sample": lambda u: one.sample(0, (2,)) + 0 * u,
    }
    call = calls.get(figure, lambda u: getattr(one, figure)(u))
    try:
        inside = jax.jit(call)(point)
    except (TypeError, ValueError) as error:
        said = str(error)
        known = (
            "looks at numbers that are not known inside",
            "needs the law of one number",
            "samples have no",
        )
        assert any(words in said for words in known)
        inside = None
    try:
        outside = call(point)
    except ValueError:
        return
    if inside is not None:
        np.testing.assert_allclose(inside, outside, rtol=1e-9, atol=1e-12)


def test_image_inside_grad():
    """The law of an image can be differentiated, too."""

    def variance(q_std):
        return ll.limit(
            ll.tanh(ll.attention(ll.initial((2,)), 2, q_std=q_std))[0], samples=8
        ).variance()

    h = 1e-4
    difference = (variance(1.0 + h) - variance(1.0 - h)) / (2 * h)
    assert jax.grad(variance)(1.0) == pytest.approx(float(difference), rel=1e-6)


# --- functions whose averages are asked for ------------------------------------------------------

MAP = "psi must map arrays (…, *shape) to arrays (…) by functions of jax.numpy"
BAD_PSI = {
    "math": (
        math.tanh,
        TypeError,
        "write jnp.tanh for np.tanh or math.tanh, and jnp.where for `if`",
    ),
    "condition": (
        lambda z: 1.0 if z > 0 else 0.0,
        TypeError,
        "write jnp.tanh for np.tanh or math.tanh",
    ),
    "float": (lambda z: 1.0, ValueError, "it returns one of shape ()"),
    "sum": (lambda z: z.sum(), ValueError, "it returns one of shape ()"),
    "tuple": (lambda z: (z, z), TypeError, "it returns tuple"),
    "nothing": (lambda z: None, TypeError, "it returns None"),
    "none": (None, TypeError, "by functions of jax.numpy, got None"),
    "text": ("tanh", TypeError, "by functions of jax.numpy, got str 'tanh'"),
    "two_arguments": (lambda a, b: a, TypeError, "missing 1 required positional argument"),
    "vectors": (ll.tanh, TypeError, "tanh acts on a Wide or on Scalars of a program"),
}


@pytest.mark.parametrize("bad", BAD_PSI)
def test_psi(bad):
    psi, error, message = BAD_PSI[bad]
    calls = [lambda: ll.average_law(W, psi), lambda: ll.average_law(y, psi, samples=8)]
    calls += [lambda make=make: make().expect(psi) for make in LAWS.values()]
    calls += [lambda make=make: make().error.expect(psi) for make in LAWS.values()]
    for call in calls:
        raises(error, MAP, call)
        raises(error, message, call)


def test_psi_of_numpy():
    """Compiled averages need jax.numpy, and say so; those that are not compiled do not mind."""
    for psi in (np.tanh, lambda z: np.where(z > 0, 1.0, 0.0)):
        averages = (
            lambda psi=psi: ll.average_law(W, psi),
            lambda psi=psi: ll.average_law(y, psi, samples=8),
        )
        for call in (lambda psi=psi: law.expect(psi), *averages):
            raises(
                TypeError,
                f"{MAP}, got one that needs the numbers themselves: write jnp.tanh for np.tanh",
                call,
            )
        assert LAWS["heads"]().expect(psi) == pytest.approx(
            0.5 if psi is not np.tanh else 0.0, abs=1e-3
        )


def test_psi_of_average_law():
    """Averages are real and finite numbers."""
    message = (
        "psi must return real numbers, got complex ones: take jnp.real and jnp.imag one by one"
    )
    raises(TypeError, message, lambda: ll.average_law(y, lambda z: jnp.exp(1j * z), samples=8))
    raises(
        ValueError,
        "psi must have finite averages, got 24 NaN or infinite of 24",
        lambda: ll.average_law(y, jnp.log, samples=8),
    )
    assert law.expect(lambda z: jnp.exp(1j * z)) == pytest.approx(complex(law.cf(1.0)), rel=1e-12)
