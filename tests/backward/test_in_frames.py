"""The limit where components of order n^{-1/2} matter: against finite widths, which are exact, and
numbers from outside.
"""

import functools
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import limitlaw as ll
from limitlaw.core.program import Output
from limitlaw.core.transposes import _with_independent
from limitlaw.engines.limit.conditions import Limit
from limitlaw.engines.reading import numbers

Program = Callable[[], Any]
DRAWS = 2**11
WIDTHS = 128, 256


def tokens(s: int = 2) -> ll.Wide:
    return ll.initial((s,))


def theta(y: ll.Wide) -> ll.Scalars:
    """Its tangent kernel, where every token has a random readout."""
    return ll.ntk(ll.dot(ll.initial(), y)[0])


def squared(y: ll.Wide, x: ll.Wide) -> ll.Scalars:
    """|∂f/∂x|² of a random readout f."""
    b = ll.gradient(ll.dot(ll.initial(), y)[0], x)
    return ll.average(b * b).sum()


def two_linear_layers() -> ll.Scalars:
    """An independent matrix in place of each transpose is wrong by 5 to 20 % (backward.md §1)."""
    x = tokens(3)
    return squared(ll.attention(ll.attention(x, 1, q_std=2.0), 1, q_std=2.0), x)


def nonlinearity_on_top() -> ll.Scalars:
    return theta(ll.tanh(ll.attention(tokens(), 1, head_dim=2, q_std=2.0)))


def narrow_heads() -> ll.Scalars:
    return theta(ll.attention(tokens(3), 2, head_dim=2, mask="causal"))


def biases_and_gains() -> ll.Scalars:
    h = tokens() + ll.attention(tokens(), 1, head_dim=2, bias_std=0.5)
    f = ll.dot(ll.initial(), ll.layernorm(h, gain=True))[0]
    vectors = [each for each in ll.parameters(f).values() if isinstance(each, ll.Wide)]
    kernels = ll.ntk(f, wrt=vectors)
    return sum(kernels[1:], kernels[0])


def tied_attention() -> ll.Scalars:
    """Open in theory (backward.md §9): the same matrices in two layers."""
    x = tokens()
    Q, K, V = (ll.Matrix(1.5) for _ in range(3))
    h = x
    for _ in range(2):
        A = ll.softmax(ll.dot(Q @ h, K @ h))
        h = h + A @ (V @ h)
    return squared(h, x)


def norm_behind_attention() -> ll.Scalars:
    """Its part along the vector is of order n^{-1/2}, and scores read it."""
    return theta(ll.rmsnorm(ll.attention(tokens(), 1, q_std=2.0)))


def hopfield() -> ll.Scalars:
    """Wᵀ φ(W x) keeps a component of order one along x."""
    W = ll.Matrix()
    y = W.T @ ll.tanh(W @ ll.initial())
    return ll.average(y * y)


def four_times_as_many_rows() -> ll.Scalars:
    """Of 4n rows what is random adds up to 2 times, the component along x to 4 times as much."""
    W = ll.Matrix(rows=4 * ll.n)
    y = W.T @ ll.tanh(W @ ll.initial())
    return ll.average(y * y)


def chain() -> ll.Scalars:
    W, x = ll.Matrix(), ll.initial()
    y = W @ (W.T @ (W @ x))
    return ll.average(y * y)


def a_number_that_changes_sign() -> ll.Scalars:
    """The coordinates that it multiplies do not."""
    x, W = ll.initial(), ll.Matrix()
    b = W.T @ (ll.dot(ll.initial(), x) * ll.tanh(W @ x))
    return ll.average(b * b)


def a_readout_squared() -> ll.Scalars:
    x, W = ll.initial(), ll.Matrix()
    h = ll.tanh(W @ x)
    z = ll.dot(ll.initial(), h) * (ll.Matrix() @ h)
    b = ll.gradient(ll.average(z * z), x)
    return ll.average(b * b)


def back_to_a_fixed_dimension() -> ll.Scalars:
    W = ll.Matrix(cols=3)
    h = W @ ll.data([1.0, 0.5, -1.0])
    b = W.T @ ll.gradient(ll.dot(ll.initial(), ll.tanh(h), "linear"), h)
    return ll.average(b * b)


def a_score_of_what_vanishes() -> ll.Scalars:
    x, W = ll.initial(), ll.Matrix()
    b = ll.gradient(ll.average(x * x), x)
    c = ll.gradient(ll.dot(ll.initial(), ll.tanh(W @ x)), x)
    return ll.average(c * c) + ll.dot(b, x)


def a_score_of_two_gradients() -> ll.Scalars:
    """It is one of W x's space, whose coordinates must be as many as those of x."""
    x, W = ll.initial(), ll.Matrix(1.5)
    h = ll.tanh(W @ x)
    b, c = (ll.gradient(ll.dot(ll.initial(), h), x) for _ in range(2))
    return ll.dot(b, c) ** 2


def a_normalised_gradient() -> ll.Scalars:
    x, W = tokens(), ll.Matrix(1.5)
    y = ll.tanh(W @ x)
    b = ll.gradient(ll.average(y[0] * y[0]), x)[0]
    return ll.average((b / ll.apply(jnp.sqrt, ll.average(b * b))) ** 4)


PROGRAMS: tuple[Program, ...] = (
    two_linear_layers,
    nonlinearity_on_top,
    narrow_heads,
    biases_and_gains,
    tied_attention,
    norm_behind_attention,
    hopfield,
    four_times_as_many_rows,
    chain,
    a_number_that_changes_sign,
    a_readout_squared,
    back_to_a_fixed_dimension,
    a_score_of_what_vanishes,
    a_score_of_two_gradients,
    a_normalised_gradient,
)


@pytest.mark.parametrize("program", PROGRAMS)
def test_finite_widths_tend_to_it(program: Program) -> None:
    """Means of y and of log y: of 1/n one term is taken off, 2 m(2n) − m(n), the next is n⁻²."""
    y = program()
    limit = np.asarray(ll.limit(y, samples=DRAWS, key=3).sample(0, DRAWS))
    draws = [np.asarray(ll.finite_samples(y, n, 2 * DRAWS, 5)) for n in WIDTHS]
    for function in (lambda a: a, lambda a: np.log(1 + a)):
        here, *there = (function(a) for a in (limit, *draws))
        found = 2 * there[1].mean() - there[0].mean()
        errors = [a.std() / len(a) ** 0.5 for a in (here, *there)]
        error = np.sqrt(2 * errors[0] ** 2 + errors[1] ** 2 + 4 * errors[2] ** 2)
        assert abs(here.mean() - found) < 5 * error + 1 / WIDTHS[0] ** 2


def test_independence_is_told_apart() -> None:
    """With a fresh matrix for each transpose Θ^Q of the first of two linear layers is smaller
    (backward.md §1: by 8 % at q_std = 2), which the comparison with finite widths would see.
    """
    h = ll.attention(ll.attention(tokens(4), 1, q_std=2.0), 1)
    f = ll.dot(ll.initial((4,)), h)
    f = sum((f[i, i] for i in range(1, 4)), f[0, 0])
    y = ll.ntk(f, wrt=next(iter(ll.parameters(f).values())))
    assert "dot products under 1/√n" in ll.check(y)["no transposes"].why
    law = ll.limit(y, samples=2**15)
    (independent,) = _with_independent([y.core.value])
    program = Limit((Output(independent, ()),), numbers)
    draws = np.asarray(program.conditions(2**15, 0).arrays[0])
    assert law.mean() - draws.mean() > 5 * np.hypot(law.error.mean(), draws.std() / 2**7.5)


def test_a_chain_is_exact() -> None:
    """E |W Wᵀ W x|² = 5 of order one: moments of the Marchenko–Pastur law."""
    law = ll.limit(chain(), samples=256)
    assert abs(law.mean() - 5) < 1e-5
    assert law.std() < 1e-5


def test_what_grows_is_refused() -> None:
    """A readout that is tied to what it reads."""
    x, W = ll.initial(), ll.Matrix()
    y = ll.dot(W.T @ ll.relu(W @ x), x)
    with pytest.raises(ValueError, match="y grows with n"):
        ll.limit(y)


def score_of_a_chain() -> ll.Scalars:
    """√n |Wᵀ x|²/n, with the same random numbers at every width."""
    x, W = ll.initial(), ll.Matrix()
    return ll.dot(W @ (W.T @ x), x)


def score_of_hidden_neurons() -> ll.Scalars:
    """As many hidden neurons as the width has: their random numbers differ."""
    x, W = ll.initial(), ll.Matrix()
    return ll.dot(W.T @ ll.relu(W @ x), x)


@pytest.mark.parametrize(
    ("growing", "least"),
    [(score_of_a_chain, 0.7), (score_of_a_chain, 1.3), (score_of_hidden_neurons, 0.7)],
)
def test_what_grows_in_some_draws_is_refused(growing: Program, least: float) -> None:
    """In 24 or 10 % of them, and is 0 in the others."""
    x = ll.initial()
    some = ll.apply(lambda p: jnp.maximum(p - least, 0.0), ll.dot(ll.initial(), x))
    with pytest.raises(ValueError, match="y grows with n"):
        ll.limit(some * growing(), samples=512)


def test_what_is_heavy_tailed_does_not_grow() -> None:
    """Though draws at two widths differ, as do quantiles of 256 of them."""
    rough = lambda p: jnp.exp(2.5 * p)
    for key in range(3):
        x, W = ll.initial(), ll.Matrix()
        y = ll.apply(rough, ll.dot(ll.initial(), W.T @ ll.relu(W @ x)))
        assert ll.limit(y, samples=512, key=key).ppf(0.5) > 0


def test_what_is_undefined_does_not_grow() -> None:
    with pytest.raises(ValueError, match="must be finite, got 8 NaN"):
        ll.limit(ll.apply(jnp.log, -chain()), samples=8)


def test_infinitely_many_heads_are_refused() -> None:
    x, W = tokens(), ll.Matrix()
    with pytest.raises(ValueError, match="a number of heads"):
        ll.limit(W.T @ ll.tanh(W @ ll.attention(x, np.inf)))


def test_coordinates_and_kernels() -> None:
    """A coordinate of a gradient is Gaussian given Γ, a kernel its draws."""
    x = tokens()
    b = ll.gradient(ll.dot(ll.initial(), ll.attention(x, 1, head_dim=2))[0], x)
    law, kernel = ll.limit(b, samples=DRAWS), ll.kernel(b, samples=DRAWS)
    np.testing.assert_allclose(law.covariance(), kernel.mean(), rtol=1e-12, atol=1e-12)
    assert np.all(law.mean() == 0)
    one, two = (np.asarray(ll.finite_samples(b, n, 2**12, 0)) ** 2 for n in WIDTHS)
    error = np.sqrt((one.var(axis=0) + 4 * two.var(axis=0)) / 2**12)
    error = np.hypot(error, np.diag(kernel.error.mean()))
    found = 2 * two.mean(axis=0) - one.mean(axis=0)
    assert np.all(abs(found - np.diag(kernel.mean())) < 5 * error)


def test_coordinates_of_a_fixed_dimension() -> None:
    """They are no Gaussians given their Gram matrix: E y_α⁴ is that of finite widths."""
    W = ll.Matrix(cols=2)
    h = W @ ll.initial(dim=2)
    y = W.T @ ll.gradient(ll.dot(ll.initial(), ll.tanh(h), "linear"), h)
    law = ll.limit(y, samples=2**13)
    finite = np.asarray(ll.finite_samples(y, 2**9, 2**13, 0))
    fourth = law.expect(lambda y: y**4)
    errors = law.error.expect(lambda y: y**4), (finite**4).std() / 2**6.5
    assert abs(fourth - (finite**4).mean()) < 5 * np.hypot(*errors)


def test_others_refuse_it() -> None:
    W = ll.Matrix()
    y = W.T @ ll.tanh(W @ ll.initial())
    with pytest.raises(ValueError, match="average_law has no rule for transposes"):
        ll.average_law(y, jnp.square)


def test_s4() -> None:
    """Two pre-norm blocks, narrow heads, causal (numbers from outside, 4 standard errors)."""
    x = tokens(4)
    h = x
    for _ in range(2):
        h = ll.nn.block(h, 2, 8, mask="causal", q_std=2.0)
    f = ll.dot(ll.initial((4,)), ll.layernorm(h))
    f = sum((f[i, i] for i in range(1, 4)), f[0, 0])
    b = ll.gradient(f, x)
    Q, V, W1, W2 = (ll.ntk(f, wrt=list(ll.parameters(f).values())[:6])[i] for i in (0, 2, 4, 5))
    law = ll.limit(ll.stack([ll.average(b * b).sum(), Q, V, W1, W2]), samples=2**11)
    y = np.asarray(law.sample(0, 2**14))
    expected = np.array([6.472, 0.832, 2.017, 0.9977, 0.9323])
    error = np.array([0.015, 0.006, 0.005, 0.0014, 0.0013])
    own = y.std(axis=0) / (2**11) ** 0.5 * (1 + 1 / 8) ** 0.5
    assert np.all(abs(y.mean(axis=0) - expected) < 4 * np.hypot(error, own))


def test_two_sequences() -> None:
    """Θ between them, of matrices of the first block and of all (from outside, 4 errors)."""
    h = ll.initial((2, 3), cov=np.kron([[1.0, 0.5], [0.5, 1.0]], np.eye(3)))
    for _ in range(2):
        h = ll.nn.block(h, 2, 8, q_std=2.0)
    u, y = ll.initial((3,)), ll.layernorm(h)
    f = sum((ll.dot(u[i], y[:, i]) for i in (1, 2)), ll.dot(u[0], y[:, 0]))
    kernels = ll.ntk(f[0], f[1], wrt=list(ll.parameters(f).values()))
    chosen = [kernels[i] for i in (0, 2, 4, 5)]
    law = ll.limit(ll.stack([*chosen, sum(kernels[1:], kernels[0])]), samples=2**10)
    expected = np.array([0.048, 0.357, 0.196, 0.300, 2.177])
    error = np.array([0.003, 0.004, 0.001, 0.001, 0.014])
    assert np.all(abs(law.mean() - expected) < 4 * np.hypot(error, law.error.mean()))


def test_gains_and_biases_of_blocks() -> None:
    """Two causal blocks with biases (numbers from outside: 4 errors of means, spreads to 8 %)."""
    norm = functools.partial(ll.layernorm, gain=True)
    h = tokens(4)
    for _ in range(2):
        h = ll.nn.block(h, 2, 8, mask="causal", bias_std=0.5, normalise=norm)
    f = ll.dot(ll.initial((4,)), norm(h))
    f = sum((f[i, i] for i in range(1, 4)), f[0, 0])
    found = ll.parameters(f)
    kinds: dict[str, list[ll.Scalars]] = {"W": [], "γ": [], "h": []}
    for name, kernel in zip(found, ll.ntk(f, wrt=list(found.values())), strict=True):
        kinds[name[0]].append(kernel)
    law = ll.limit(ll.stack([sum(k[1:], k[0]) for k in kinds.values()]), samples=2**10)
    expected, error = np.array([6.119, 6.903, 1.960]), np.array([0.007, 0.007, 0.003])
    assert np.all(abs(law.mean() - expected) < 4 * np.hypot(error, law.error.mean()))
    np.testing.assert_allclose(law.std(), [0.64, 0.59, 0.31], rtol=0.08)
