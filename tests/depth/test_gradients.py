"""`gradients` against networks written by hand, closed forms, and theory §10."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import limitlaw as ll

S, H, N = 3, 2, 16


def by_hand(key: jax.Array) -> jax.Array:
    """Σ_i |√n ∂f/∂x_i|²/(s n) of one causal attention layer,
    every matrix drawn, f = n^{−1/2} Σ_i u_i·y_i.
    """
    keys = jax.random.split(key, 3)
    W = jax.random.normal(keys[0], (4, H, N, N)) / math.sqrt(N)
    mask = jnp.tril(jnp.ones((S, S), bool))

    def f(x: jax.Array) -> jax.Array:
        q, k, v = (jnp.einsum("hab,sb->hsa", W[i], x) for i in range(3))
        A = jax.nn.softmax(jnp.where(mask, 1.5 * q @ k.mT / math.sqrt(N), -jnp.inf))
        y = jnp.einsum("hab,hsb->sa", W[3], A @ v) / math.sqrt(H)
        return jnp.sum(jax.random.normal(keys[2], (S, N)) * y)

    return jnp.sum(jax.grad(f)(jax.random.normal(keys[1], (S, N))) ** 2) / (S * N)


def test_like_a_network_written_by_hand() -> None:
    draws = np.asarray(jax.jit(jax.vmap(by_hand))(jax.random.split(jax.random.key(3), 4000)))
    x = ll.initial((S,))
    column = ll.gradients(
        [x, ll.attention(x, heads=H, q_std=1.5, mask="causal")], N, samples=4000
    )["gradient"]
    error = math.hypot(draws.std() / math.sqrt(len(draws)), column.error[0])
    assert abs(column.value[0] - draws.mean()) < 5 * error
    assert draws.std() == pytest.approx(column.spread[0], rel=0.15)


def test_theory() -> None:
    """§10: tr Γ = 2.893 for four tokens, two heads, K = G = I as n → ∞;
    2.891(12) at n = 64 by brute force.
    """
    x = ll.initial((4,))
    column = ll.gradients([x, ll.attention(x, heads=2)], 64, samples=2000)["gradient"]
    assert abs(4 * column.value[0] - 2.893) < 5 * 4 * column.error[0]
    assert column.error[0] < 0.01
    assert abs(column.value[1] - 1) < 5 * column.error[1]


def test_every_turn_of_a_loop() -> None:
    """Blocks x ↦ 2x: four times the square for each of them, and 1 at the end;
    a norm behind them counts, too.
    """
    loop = ll.repeat(lambda x: 2.0 * x, ll.initial((3,)), times=3)
    value = ll.gradients(loop, 8, samples=5)["gradient"].value
    np.testing.assert_allclose(value[:-1] / value[1:], 4.0, rtol=1e-12)
    assert value.shape == (4,)
    behind = ll.gradients(3.0 * loop, 8, samples=5)["gradient"].value
    np.testing.assert_allclose(behind, 9 * value, rtol=1e-12)
    x = ll.initial((3,))
    y = 2.0 * x
    written = ll.gradients([x, y, 2.0 * y], 8, samples=5)["gradient"].value
    np.testing.assert_allclose(written[0] / written[1], 4.0, rtol=1e-12)


def test_one_token() -> None:
    """Without attention nothing comes back to the others."""
    x = ll.initial((4,))
    all_of_them, last = (
        ll.gradients([x, ll.dense(x)], 64, samples=200, token=t)["gradient"] for t in (None, -1)
    )
    assert abs(all_of_them.value[0] - 1) < 5 * all_of_them.error[0]
    assert abs(last.value[0] - 0.25) < 5 * last.error[0]


def test_the_same_key_gives_the_same() -> None:
    net = ll.transformer(ll.initial((3,)), depth=2, heads=2)
    few, more = (ll.gradients(net, 8, samples=count, key=4) for count in (2, 2))
    np.testing.assert_array_equal(few["gradient"].value, more["gradient"].value)
    assert list(few) == ["gradient", "gradient_correlation"]
    assert "gradient variance" in str(few)


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
