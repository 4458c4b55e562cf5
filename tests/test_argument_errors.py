"""An error of an argument has the right type, names the argument and shows what came; and what is
meant in good faith is understood.
"""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import limitlaw as ll
from limitlaw import phi

pytestmark = pytest.mark.usefixtures("as_user")

h = ll.initial()
x = ll.matrices(3) @ h
y = ll.attention(x, 2)
W = ll.Matrix() @ h
deep = ll.Matrix() @ ll.relu(ll.relu(W) * W)

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


def refused(error, call, *words):
    """The call fails with this error, whose text has all these words."""
    with pytest.raises(error) as caught:
        call()
    assert all(word in str(caught.value) for word in words), caught.value


# --- one table: the call, the error, the argument, and what came ---------------------------------

BAD = [
    (lambda: law.moment("a"), ValueError, "k", "'a'"),
    (lambda: law.moment(2.0), ValueError, "k", "2.0"),
    (lambda: law.error.moment(301), ValueError, "k", "301"),
    (lambda: law.sample(0, 1e3), TypeError, "shape", "1000.0"),
    (lambda: law.sample(0, True), TypeError, "shape", "True"),
    (lambda: law.sample(0, (2, -1)), ValueError, "shape", "(2, -1)"),
    (lambda: law.sample(0, 10**12), ValueError, "shape", "7,451 GiB"),
    (lambda: law.sample(2**70), ValueError, "key", "integer"),
    (lambda: law.pdf(10**400), ValueError, "x", "401 digits"),
    (lambda: jax.jit(law.pdf)(1j), TypeError, "x", "complex128"),
    (lambda: ll.limit(y).marginal("a"), IndexError, "i must", "'a'"),
    (lambda: ll.limit(y).marginal(5), IndexError, "i must", "5"),
    (lambda: ll.mlp(h, 0), ValueError, "hidden", "0"),
    (lambda: ll.mlp(h, 2.5), TypeError, "hidden", "2.5"),
    (lambda: ll.mlp(h, {5}), TypeError, "hidden", "set {5}"),
    (lambda: ll.mlp(h, (5, "a")), ValueError, "hidden[1]", "'a'"),
    (lambda: ll.mlp(h, phi="tanh"), TypeError, "phi", "'tanh'"),
    (lambda: ll.rnn(x, phi=None), TypeError, "phi", "None"),
    (lambda: ll.mlp(h, phi=math.tanh), TypeError, "got tanh", "shape"),
    (lambda: ll.mlp(h, phi=jax.nn.softmax), TypeError, "got softmax", "coordinate"),
    (lambda: ll.rnn(x, phi=lambda z: 1.0), TypeError, "phi", "float"),
    (lambda: ll.dense(h, bias_std=np.ones(2)), ValueError, "bias_std", "(2,)"),
    (lambda: ll.layernorm(h, np.zeros(0)), ValueError, "eps", "(0,)"),
    (lambda: ll.leaky_relu(h, np.ones(2)), ValueError, "slope", "(2,)"),
    (lambda: ll.clip(h, [1, 2]), ValueError, "bound", "(2,)"),
    (lambda: ll.rotary(h, 1.0, np.ones(2)), ValueError, "base", "(2,)"),
    (lambda: ll.dot(ll.rotary(h, 1), ll.rotary(h, 1, 500.0)), ValueError, "base", "500"),
    (lambda: ll.map("tanh", h), TypeError, "phi", "'tanh'"),
    (lambda: ll.map(np.tanh, h), ValueError, "jnp.tanh", "np.tanh"),
    (lambda: ll.apply(3, ll.dot(W, W)), TypeError, "f must", "3"),
    (lambda: ll.stack([h, h], "a"), TypeError, "axis", "'a'"),
    (lambda: ll.stack(None), TypeError, "stack", "NoneType"),
    (lambda: ll.matrices(10**30), ValueError, "axis", "1" + 30 * "0"),
    (lambda: ll.kernel(ll.initial(10**6)), ValueError, "y has 1000000", "7,451 GiB"),
    (lambda: ll.Matrix(10**400), ValueError, "std", "401 digits"),
    (lambda: ll.mermaid("a"), TypeError, "mermaid", "str"),
    (lambda: ll.Pushforward(None, law), TypeError, "phi", "None"),
    (lambda: ll.Pushforward(jnp.tanh, LAWS["heads"]()), TypeError, "base", "HeadSum"),
    (lambda: ll.Combination(jnp.add, None), TypeError, "base", "NoneType"),
    (lambda: ll.simulate(deep, 10**10, 4, 0), ValueError, "width=10000000000", "take"),
]


@pytest.mark.parametrize(("call", "error", "argument", "value"), BAD)
def test_errors_name_the_argument(call, error, argument, value):
    refused(error, call, argument, value)


@pytest.mark.parametrize("figure", ["pdf", "logpdf", "cdf", "sf", "ppf", "cf"])
def test_points(figure):
    """What is no real number, such as complex ones, of which an imaginary part would be lost."""
    name = {"ppf": "q", "cf": "t"}.get(figure, "x")
    for bad, got in (("a", "'a'"), (None, "None"), (np.array([1j, 2]), "complex128"), (h, "Wide")):
        for target in (law, law.error):
            refused(TypeError, lambda t=target, b=bad: getattr(t, figure)(b), f"{name} must", got)


def test_points_that_pass():
    """NaN is NaN, infinities are points, integers of any size and objects that are numbers are
    numbers.
    """
    assert np.isnan(law.pdf(math.nan))
    assert law.cdf(math.inf) == 1
    assert law.pdf(10**30) == 0
    one = law.pdf(1)
    assert law.pdf(True) == one == law.pdf(np.float32(1)) == law.pdf(np.array([1], object))[0]
    assert law.pdf([]).shape == (0,)
    for shape in (6, np.int64(6), jnp.asarray(6), (2, 3), [2, 3], np.array([2, 3])):
        assert law.sample(0, shape).size == 6
    assert ll.Matrix(10**11).std == 1e11
    assert ll.initial(mean=2**70).op.mean == 2.0**70


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


# --- numbers of samples that no machine has ------------------------------------------------------

HUGE = {
    "limit": lambda c: ll.limit(y, samples=c).variance(),
    "limit_numbers": lambda c: ll.limit(ll.softmax(ll.dot(x, ll.Matrix() @ x)), samples=c),
    "limit_many_heads": lambda c: ll.limit(ll.attention(x, 100), samples=c).variance(),
    "kernel": lambda c: ll.kernel(y, samples=c),
    "average_law": lambda c: ll.average_law(y, jnp.square, samples=c),
    "finite": lambda c: ll.finite(y, 64, c, 0),
    "finite_samples": lambda c: ll.finite_samples(y, 64, c, 0),
    "simulate": lambda c: ll.simulate(y, 64, c, 0),
    "attention_law": lambda c: ll.attention_law(np.eye(2), 2, samples=c).variance(),
}


@pytest.mark.parametrize("name", HUGE)
def test_samples(name):
    """10¹² draws are refused before anything is drawn, with the memory that they would take."""
    refused(ValueError, lambda: HUGE[name](10**12), "samples=1000000000000", "GiB")


def test_samples_of_what_is_not_drawn():
    """Where nothing is sampled the number does not matter."""
    assert ll.limit(W, samples=10**12).kind == "exact"


# --- inside jax.jit, jax.grad and jax.vmap -------------------------------------------------------

ENGINES = {"finite": ll.finite, "finite_samples": ll.finite_samples, "simulate": ll.simulate}
TRACED = {
    "jit": lambda f: jax.jit(lambda s: f(ll.Matrix(s) @ h))(1.0),
    "grad": lambda f: jax.grad(lambda s: f(ll.Matrix(s) @ h))(1.0),
    "vmap": lambda f: jax.vmap(lambda s: f(ll.Matrix(s) @ h))(jnp.ones(2)),
    "closure": lambda f: jax.grad(lambda s: f(ll.Matrix() @ ll.map(lambda z: jnp.tanh(s * z), h)))(
        1.0
    ),
    "nothing_traced": lambda f: jax.jit(lambda s: f(W))(1.0),
}


@pytest.mark.parametrize("engine", ENGINES)
def test_drawing_engines(engine):
    """What draws numbers says so, whatever is traced: scales, functions, the key, or nothing."""
    for call in TRACED.values():
        refused(TypeError, lambda c=call: c(lambda w: ENGINES[engine](w, 8, 4, 0)), engine, "jit")
    draw = jax.jit(lambda key: ENGINES[engine](W, 8, 4, key))
    refused(TypeError, lambda: draw(jax.random.key(0)), engine, "jit")


def test_keys_and_slopes_inside_transformations():
    """A key or a number that must be known."""
    law_of = jax.jit(lambda k: ll.limit(y, 4, k).variance())
    refused(TypeError, lambda: law_of(jax.random.key(0)), "key", "jax.jit")
    slope = jax.grad(lambda s: ll.limit(ll.Matrix() @ ll.leaky_relu(h, s)).variance())
    refused(TypeError, lambda: slope(0.1), "slope", "jax.grad")


def test_known_key_inside_jit():
    """A key that is known serves inside jax.jit as outside."""

    def spread(q_std):
        K = ll.kernel(ll.attention(ll.initial((2,)), 2, q_std=q_std), samples=8, key=3)
        return K.variance()

    np.testing.assert_allclose(jax.jit(spread)(1.5), spread(1.5), rtol=1e-12)


@pytest.mark.parametrize("name", LAWS)
@pytest.mark.parametrize("figure", ["pdf", "cdf", "ppf", "cf", "expect", "entropy", "sample"])
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

BAD_PSI = [
    (math.tanh, TypeError, "math.tanh"),
    (lambda z: 1.0 if z > 0 else 0.0, TypeError, "jnp.where"),
    (lambda z: z.sum(), ValueError, "()"),
    (lambda z: (z, z), TypeError, "tuple"),
    (None, TypeError, "None"),
    (lambda a, b: a, TypeError, "argument"),
    (ll.tanh, TypeError, "Wide"),
]


@pytest.mark.parametrize(("psi", "error", "value"), BAD_PSI)
def test_psi(psi, error, value):
    refused(error, lambda: ll.average_law(W, psi), "psi", value)
    refused(error, lambda: ll.average_law(y, psi, samples=8), "psi", value)
    for make in LAWS.values():
        refused(error, lambda m=make: m().expect(psi), "psi", value)
        refused(error, lambda m=make: m().error.expect(psi), "psi", value)


def test_psi_of_numpy():
    """Compiled averages need jax.numpy, and say so; those that are not compiled do not mind."""
    for psi, mean in ((np.tanh, 0.0), (lambda z: np.where(z > 0, 1.0, 0.0), 0.5)):
        refused(TypeError, lambda p=psi: law.expect(p), "psi", "jnp.tanh")
        refused(TypeError, lambda p=psi: ll.average_law(W, p), "psi", "jnp.tanh")
        assert LAWS["heads"]().expect(psi) == pytest.approx(mean, abs=1e-3)


def test_psi_of_average_law():
    """Averages are real and finite numbers."""
    complex_psi = lambda z: jnp.exp(1j * z)
    refused(TypeError, lambda: ll.average_law(y, complex_psi, samples=8), "psi", "complex")
    refused(ValueError, lambda: ll.average_law(y, jnp.log, samples=8), "psi", "24")
    assert law.expect(complex_psi) == pytest.approx(complex(law.cf(1.0)), rel=1e-12)
