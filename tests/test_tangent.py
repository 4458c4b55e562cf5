"""`attention_ntk` against automatic differentiation of networks whose every matrix is drawn,
and theory §10.
"""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import limitlaw as ll

N, H, S, DRAWS = 96, 2, 3, 160
STDS = {"q": 1.4, "k": 0.9, "v": 0.8, "o": 1.3}


def a_kernel() -> np.ndarray:
    """Of two sequences of three tokens."""
    x = np.random.default_rng(5).normal(size=(2 * S, 5))
    return (x @ x.T / 5).reshape(2, S, 2, S)


def by_hand(key: jax.Array, d: int | None) -> dict[str, jax.Array]:
    """Θ of two sequences, matrix by matrix, |∂f/∂x|² and f², at width n."""
    inner = d or N
    keys = jax.random.split(key, 6)
    shapes = {c: (H, N, inner) if c == "o" else (H, inner, N) for c in "qkvo"}
    w = {c: jax.random.normal(k, shapes[c]) for c, k in zip("qkvo", keys[:4], strict=True)}
    root = np.linalg.cholesky(a_kernel().reshape(2 * S, 2 * S) + 1e-12 * np.eye(2 * S))
    x = (root @ jax.random.normal(keys[4], (2 * S, N))).reshape(2, S, N)
    u = jax.random.normal(keys[5], (S, N))

    def f(w: dict[str, jax.Array], x: jax.Array) -> jax.Array:
        W = {c: STDS[c] * w[c] / math.sqrt(w[c].shape[-1]) for c in w}
        q, k, v = (jnp.einsum("hab,sb->hsa", W[c], x) for c in "qkv")
        p = jnp.where(jnp.tril(jnp.ones((S, S), bool)), q @ k.mT / math.sqrt(inner), -jnp.inf)
        y = jnp.einsum("hab,hsb->sa", W["o"], jax.nn.softmax(p) @ v) / math.sqrt(H)
        return jnp.sum(u * y) / math.sqrt(N)

    first, second = ((jax.grad(f)(w, each), each) for each in x)
    theta = {c: jnp.sum(first[0][c] * second[0][c]) for c in "qkvo"}
    gradient = jnp.sum(jax.grad(f, argnums=1)(w, x[0]) ** 2)
    return theta | {"gradient": gradient, "output": f(w, x[0]) ** 2}


@pytest.mark.parametrize("d", [None, 4], ids=["wide", "narrow"])
def test_automatic_differentiation(d: int | None) -> None:
    found = jax.jit(jax.vmap(functools.partial(by_hand, d=d)))(
        jax.random.split(jax.random.key(1), DRAWS)
    )
    law = ll.attention_ntk(
        a_kernel(), H, d, "causal", **{f"{c}_std": std for c, std in STDS.items()}, samples=4000
    )
    drawn = {c: np.asarray(getattr(law.draws, c))[:, 0, 1] for c in "qkvo"}
    drawn["gradient"] = np.trace(np.asarray(law.draws.gradient)[:, 0], axis1=1, axis2=2)
    drawn["output"] = np.asarray(law.draws.output)[:, 0] ** 2
    for name, draws in drawn.items():
        other = np.asarray(found[name])
        error = math.hypot(draws.std() / math.sqrt(len(draws)), other.std() / math.sqrt(DRAWS))
        assert abs(draws.mean() - other.mean()) < 5 * error, name


@pytest.mark.parametrize(
    ("d", "expected"), [(None, (0.6628, 1.5673, 2.893)), (8, (0.6308, 1.5438, 2.819))]
)
def test_theory(d: int | None, expected: tuple[float, float, float]) -> None:
    """§10, s = 4, H = 2, K = G = I."""
    law = ll.attention_ntk(np.eye(4), 2, head_dim=d, samples=4000)
    for kernel, value in zip((law.q, law.v), expected, strict=False):
        assert abs(float(kernel.mean()[0, 0]) - value) < 5 * float(kernel.error.mean()[0, 0])
    trace = np.trace(np.asarray(law.draws.gradient)[:, 0], axis1=1, axis2=2)
    assert abs(trace.mean() - expected[2]) < 5 * trace.std() / math.sqrt(len(trace))


def test_the_output_has_the_law_of_the_layer() -> None:
    """f given the scores is Gaussian with variance tr(G C):
    one position read out is one coordinate of y.
    """
    G = np.zeros((3, 3))
    G[2, 2] = 1.0
    law = ll.attention_ntk(np.eye(3), 1, q_std=2.0, readout=G, samples=8000)
    y = ll.attention_law(np.eye(3), 1, q_std=2.0).marginal(2)
    f = law.output.marginal(0)
    assert abs(float(f.variance() - y.variance())) < 5 * float(f.error.variance())
    assert abs(float(f.kurtosis() - y.kurtosis())) < 5 * float(f.error.kurtosis())


def test_no_scores_no_training_of_them() -> None:
    """Θ^V has no spread, but for what is of order n^{-1/2} in frames at n = 2⁴⁴."""
    law = ll.attention_ntk(np.eye(3), 2, q_std=0.0, samples=10)
    assert float(law.q.mean()[0, 0]) == float(law.k.mean()[0, 0]) == 0
    np.testing.assert_allclose(law.draws.v, 1.0, rtol=2e-5)  # tr(A Aᵀ) = 3·(1/3)
    np.testing.assert_allclose(law.draws.v + law.draws.o, 2.0, rtol=2e-5)


def test_draw_i_depends_only_on_the_key_and_i() -> None:
    few, more = (ll.attention_ntk(np.eye(2), 2, samples=count, key=3) for count in (5, 9))
    np.testing.assert_array_equal(few.draws.q, more.draws.q[:5])
    assert "5 draws" in repr(few)


@pytest.mark.usefixtures("as_user")
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"kernel": np.ones((2, 3)), "heads": 1}, "kernel must be a square matrix"),
        ({"kernel": -np.eye(2), "heads": 1}, "kernel"),
        ({"kernel": np.eye(2), "heads": 0}, "heads"),
        ({"kernel": np.eye(2), "heads": 1, "q_std": -1.0}, "q_std"),
        ({"kernel": np.eye(2), "heads": 1, "readout": np.eye(3)}, "readout"),
        ({"kernel": np.eye(2), "heads": 1, "mask": "full"}, "mask"),
    ],
)
def test_bad_input(arguments: dict[str, object], said: str) -> None:
    with pytest.raises((ValueError, TypeError), match=said):
        ll.attention_ntk(**arguments)  # type: ignore[arg-type]


def test_parts() -> None:
    with pytest.raises(ValueError, match="parts must be letters"):
        ll.attention_ntk(np.eye(2), 1, samples=2).total("qx")
