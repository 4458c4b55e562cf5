"""`gradients` against networks written by hand, closed forms, and theory §10."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import limitlaw as ll

L, S, N, G = 2, 2, 16, 1.5
NAMES = "QKVO12"


def by_hand(key: jax.Array) -> jax.Array:
    """What comes back to two pre-norm blocks, causal with one head of dimension 2, every matrix
    drawn: |√n ∂f/∂x|²/(s n) behind each of them, f = n^{−1/2} Σ_i u_i·y_i, then Σ_w (∂f/∂w)² of
    each matrix, then |∂y/∂x|²/(s n) from the input.
    """
    keys = jax.random.split(key, 8)
    shapes = [(2, N), (2, N), (2, N), (N, 2), (N, N), (N, N)]
    w = [jax.random.normal(k, (L, *shape)) for k, shape in zip(keys, shapes, strict=False)]
    x, u = (jax.random.normal(k, (S, N)) for k in keys[6:])
    mask = jnp.tril(jnp.ones((S, S), bool))

    def norm(x: jax.Array) -> jax.Array:
        x = x - x.mean(axis=-1, keepdims=True)
        return x / jnp.sqrt((x**2).mean(axis=-1, keepdims=True) + 1e-5)

    def net(w: list[jax.Array], probes: jax.Array) -> jax.Array:
        x = probes[0]
        for block in range(L):
            Q, K, V, O, W, W2 = (a[block] / math.sqrt(a.shape[-1]) for a in w)
            z = norm(x)
            p = (z @ (G * Q).T) @ (z @ K.T).T / math.sqrt(2)
            x = x + jax.nn.softmax(jnp.where(mask, p, -jnp.inf)) @ z @ V.T @ O.T
            x = x + jnp.tanh(norm(x) @ W.T) @ W2.T + probes[block + 1]
        return x

    probes = jnp.stack([x, *[jnp.zeros((S, N))] * L])
    f = lambda *given: jnp.sum(u * net(*given)) / math.sqrt(N)
    to_w, to_x = jax.grad(f, (0, 1))(w, probes)
    J = jax.jacobian(lambda x: net(w, probes.at[0].set(x)))(x)
    sizes = jnp.stack([(g**2).sum(axis=(1, 2)) for g in to_w])
    found = (to_x**2).sum(axis=(1, 2)) / S, sizes.reshape(-1), jnp.sum(J**2)[None] / (S * N)
    return jnp.concatenate(found)


def network(depth: int = L) -> ll.Wide:
    x = ll.initial((S,))
    return ll.transformer(x, depth, 1, 2, mask="causal", q_std=G, hidden=ll.n, phi=ll.tanh)


@pytest.fixture(scope="module")
def at_width() -> ll.depth.Trace:
    return ll.gradients(network(), N, samples=4000)


def test_like_a_network_written_by_hand(at_width: ll.depth.Trace) -> None:
    """The gradient of every layer and of every matrix; the former is a partial Jacobian norm."""
    draws = np.asarray(jax.jit(jax.vmap(by_hand))(jax.random.split(jax.random.key(3), 4000)))
    columns = [at_width[f"gradient_W_{name}"] for name in NAMES]
    value = [at_width["gradient"].value, *(c.value[1:] for c in columns)]
    error = [at_width["gradient"].error, *(c.error[1:] for c in columns)]
    spread = [at_width["gradient"].spread, *(c.spread[1:] for c in columns)]
    expected, jacobian = draws[:, :-1], draws[:, -1]
    own = expected.std(axis=0) / math.sqrt(len(draws))
    gap = np.concatenate(value) - expected.mean(axis=0)
    assert np.all(abs(gap) < 5 * np.hypot(own, np.concatenate(error)))
    sd, fourth = expected.std(axis=0), ((expected - expected.mean(axis=0)) ** 2).std(axis=0)
    own = fourth / (2 * sd * math.sqrt(len(draws)))
    assert np.all(abs(np.concatenate(spread) - sd)[1:3] < 5 * math.sqrt(2) * own[1:3])
    to_x, own = jacobian.mean(), jacobian.std() / math.sqrt(len(draws))
    assert abs(value[0][0] - to_x) < 5 * math.hypot(own, error[0][0])


def test_rows(at_width: ll.depth.Trace) -> None:
    """What belongs to a block stands in its row; sums and ratios are those of the columns."""
    total = sum(at_width[f"gradient_W_{name}"].value for name in NAMES)
    np.testing.assert_allclose(at_width["gradient_matrices"].value, total, rtol=1e-12)
    assert np.isnan(total[0])
    assert not np.isnan(total[1:]).any()
    g, ratio = at_width["gradient"].value, at_width["gradient_ratio"]
    np.testing.assert_allclose(ratio.value[1:], g[:-1] / g[1:], rtol=1e-12)
    assert np.all(ratio.error[1:] < 0.2 * ratio.value[1:])
    assert np.isnan(ratio.value[0])
    assert "gradient of W_Q" in str(at_width)


def test_block_shares_of_the_tangent_kernel() -> None:
    """E Θ of all matrices is the sum over blocks, exactly so in each draw without a random
    readout's noise: n → ∞, where nothing is random.
    """
    x = ll.initial((S,))
    net = [x]
    for _ in range(3):
        net.append(ll.relu(ll.dense(net[-1], 1.3)))
    found = ll.gradients(net)
    theta = ll.limit(ll.ntk(ll.dot(ll.initial((S,)), net[-1])[0, 0])).mean()
    np.testing.assert_allclose(np.nansum(found["gradient_matrices"].value), S * theta, rtol=1e-9)
    assert found.width is None


@pytest.mark.parametrize("std", [1.0, 1.7])
def test_relu_in_closed_form(std: float) -> None:
    """σ²/2 a layer on the way back and on the way there."""
    net = ll.repeat(lambda x: ll.relu(ll.dense(x, std)), ll.initial((S,)), 3)
    found, c = ll.gradients(net), std**2 / 2
    np.testing.assert_allclose(found["gradient"].value, c ** np.arange(3, -1, -1), rtol=1e-12)
    np.testing.assert_allclose(found["gradient_ratio"].value[1:], c, rtol=1e-12)
    forward = c ** np.arange(3)  # |x|²/n before each block
    expected = S * forward * c ** np.arange(2, -1, -1) * std**2 / 2
    np.testing.assert_allclose(found["gradient_W_1"].value[1:], expected, rtol=1e-12)
    assert np.all(found["gradient"].error < 1e-9)
    assert np.all(found["gradient"].spread == 0)


def test_theory() -> None:
    """§10: tr Γ = 2.893 for four tokens, two heads, K = G = I, as n → ∞; scores are random."""
    x = ll.initial((4,))
    column = ll.gradients([x, ll.attention(x, heads=2)], samples=4096)["gradient"]
    assert abs(4 * column.value[0] - 2.893) < 5 * 4 * column.error[0] + 0.0005
    assert column.error[0] < 0.005
    assert column.value[1] == pytest.approx(1, abs=1e-12)


# two pre-norm blocks of four tokens, two causal narrow heads, GELU, from outside (S4): Σ_i
# |∂f/∂x_i|² at the input, behind one block and before the last norm, then of Q, V, W₁ and W₂ of
# the first block; with standard errors
S4 = {
    None: (
        (6.472, 2.181, 1.2171, 0.832, 2.017, 0.9977, 0.9323),
        (0.015, 0.003, 0.0007, 0.006, 0.005, 0.0014, 0.0013),
    ),
    64: (
        (6.91, 2.268, 1.242, 0.911, 2.133, 1.036, 0.966),
        (0.07, 0.015, 0.005, 0.027, 0.021, 0.007, 0.007),
    ),
}


@pytest.mark.parametrize("width", [None, 64])
def test_s4(width: int | None) -> None:
    net = [ll.initial((4,))]
    for _ in range(2):
        net.append(ll.nn.block(net[-1], 2, 8, mask="causal", q_std=2.0))
    found = ll.gradients([*net, ll.layernorm(net[-1])], width, samples=2048)
    g, matrices = found["gradient"], [found[f"gradient_W_{name}"] for name in "QV12"]
    value = np.array([*4 * g.value[:3], *(c.value[1] for c in matrices)])
    error = np.array([*4 * g.error[:3], *(c.error[1] for c in matrices)])
    expected, own = np.array(S4[width])
    assert np.all(abs(value - expected) < 4 * np.hypot(own, error))


def test_every_turn_of_a_loop() -> None:
    """Blocks x ↦ 2x: four times the square for each of them, and 1 at the end;
    a norm behind them counts, too.
    """
    loop = ll.repeat(lambda x: 2.0 * x, ll.initial((3,)), times=3)
    value = ll.gradients(loop, 8, samples=5)["gradient"].value
    np.testing.assert_allclose(value[:-1] / value[1:], 4.0, rtol=1e-12)
    assert value.shape == (4,)
    exact = ll.gradients(loop)["gradient"].value
    np.testing.assert_allclose(exact, [64, 16, 4, 1], rtol=1e-12)
    np.testing.assert_allclose(ll.gradients(3.0 * loop)["gradient"].value, 9 * exact, rtol=1e-12)
    x = ll.initial((3,))
    y = 2.0 * x
    np.testing.assert_allclose(ll.gradients([x, y, 2.0 * y])["gradient"].value, exact[1:])


def test_loops_one_after_the_other() -> None:
    """And one inside another: every iteration of the outer ones is a row."""
    double = lambda x: ll.repeat(lambda x: 2.0 * x, x, times=2)
    net = ll.repeat(lambda x: 3.0 * x, ll.repeat(double, ll.initial((2,)), 2), 2)
    found = ll.gradients(net)["gradient"].value
    np.testing.assert_allclose(found, [81 * 256, 81 * 16, 81, 9, 1], rtol=1e-12)


def test_with_the_forward_half() -> None:
    """The same rows, and the same numbers as each by itself."""
    net = ll.repeat(lambda x: ll.relu(ll.dense(x)), ll.initial((S,)), 2)
    for width in (None, 4):
        both = ll.trace(net, "variance", width, samples=16, key=1, gradients=True)
        alone = ll.gradients(net, width, samples=16, key=1)
        forward = ll.trace(net, "variance", width, samples=16, key=1)
        assert list(both) == ["variance", *alone]
        for name in both:
            expected = (forward if name == "variance" else alone)[name]
            np.testing.assert_array_equal(both[name].value, expected.value)
        assert both.plot().axes


def test_one_token() -> None:
    """Without attention nothing comes back to the others."""
    x = ll.initial((4,))
    all_of_them, last = (
        ll.gradients([x, ll.dense(x)], 64, samples=200, token=t)["gradient"] for t in (None, -1)
    )
    assert abs(all_of_them.value[0] - 1) < 5 * all_of_them.error[0]
    assert abs(last.value[0] - 0.25) < 5 * last.error[0]


def test_the_same_key_gives_the_same() -> None:
    x = ll.initial((S,))
    net = [x, ll.dense(x)]
    few, more = (ll.gradients(net, 64, samples=count, key=4) for count in (2, 4))
    again = ll.gradients(net, 64, samples=2, key=4)
    np.testing.assert_array_equal(few["gradient"].value, again["gradient"].value)
    assert not np.array_equal(few["gradient"].value, more["gradient"].value)


def test_what_the_readout_does_not_read() -> None:
    """Nothing comes back to it."""
    x, z = ll.initial((S,)), ll.initial((S,))
    assert ll.gradients([z, ll.dense(x)])["gradient"].value.tolist() == [0, 1]


def test_one_token_alone() -> None:
    """It has no correlation."""
    x = ll.initial()
    assert np.isnan(ll.gradients([x, ll.dense(x)])["gradient_correlation"].value).all()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"width": 0}, "width must be"),
        ({"width": 8, "token": 3}, r"token must be one of 0 … 2, got 3"),
        ({"width": 8, "token": "last"}, "token must be an integer"),
        ({"width": 8, "samples": 0}, "samples must be"),
    ],
)
@pytest.mark.usefixtures("as_user")
def test_bad_input(options: dict[str, object], said: str) -> None:
    x = ll.initial((3,))
    with pytest.raises((ValueError, TypeError), match=said):
        ll.gradients([x, ll.dense(x)], **options)  # type: ignore[arg-type]
