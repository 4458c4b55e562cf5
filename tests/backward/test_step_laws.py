"""Laws of one step of training, against numbers from outside (backward.md §3 and §8)."""

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import limitlaw as ll


def itself(f: Any) -> Any:
    """A loss of derivative 1."""
    return f


def size(change: Any) -> ll.Scalars:
    """mean |Δ|."""
    return ll.average(ll.map(jnp.abs, change)).mean() if isinstance(change, ll.Wide) else change


# --- an MLP of tanh with three hidden layers -----------------------------------------------------

# (parametrization, η, optimizer), and mean |Δh₁|, |Δh₂|, |Δh₃|, Δf of dense networks from outside
# with the standard error of the last, at n = 32 and 128
ROWS = {
    "mup": (
        ("mup", 1.0, "sgd"),
        {32: (".322 .473 .524 -.465", 0.002), 128: (".325 .482 .530 -.463", 0.002)},
    ),
    "ntk": (
        ("ntk", 1.0, "sgd"),
        {32: (".0569 .0952 .1223 -.712", 0.005), 128: (".0288 .0485 .0624 -.724", 0.004)},
    ),
    "standard": (
        ("standard", 0.1, "sgd"),
        {32: (".0057 .118 .212 -1.573", 0.008), 128: (".0029 .232 .401 -5.477", 0.020)},
    ),
    "sign": (
        ("mup", 0.2, "sign"),
        {32: (".2 .1973 .2298 -.227", 0.001), 128: (".2 .1978 .2299 -.227", 0.001)},
    ),
}
LIMITS = {"mup": (0.328, 0.485, 0.533, -0.467), "sign": (0.2, 0.1975, 0.2301, -0.229)}


def changes(name: str) -> list[ll.Scalars]:
    (parametrization, eta, optimizer), _ = ROWS[name]
    hidden = [ll.Matrix(cols=1) @ ll.data([1.0])]
    for _ in range(2):
        hidden.append(ll.Matrix() @ ll.tanh(hidden[-1]))
    V, x = ll.Matrix(rows=1), ll.tanh(hidden[-1])
    f = ll.dot(V.T @ ll.data([1.0]), x) if parametrization == "mup" else ll.average(V @ x)
    before = [*hidden, f]
    after = ll.after_step(before, f, itself, eta, optimizer, parametrization)
    return [size(b - a) for a, b in zip(before, after, strict=True)]


@pytest.mark.parametrize("width", [32, 128])
@pytest.mark.parametrize("name", ROWS)
def test_mlp_at_width(name: str, width: int) -> None:
    """Exact draws, dense networks and those from outside, whose number their error tells."""
    written, error = ROWS[name][1][width]
    expected = np.array([float(x) for x in written.split()])
    rounding = np.array([0.5 * 0.1 ** len(x.partition(".")[2]) for x in written.split()])
    y, draws = ll.stack(changes(name)), {"exact": 2000, "dense": 1000}
    exact = np.asarray(ll.finite_samples(y, width, draws["exact"], 0))
    dense = np.asarray(ll.simulate(y, width, draws["dense"], 1))
    sd = exact.std(axis=0)
    errors = [sd / draws["exact"] ** 0.5, sd / draws["dense"] ** 0.5, sd * error / sd[-1]]
    assert np.all(abs(exact.mean(axis=0) - dense.mean(axis=0)) < 5 * np.hypot(*errors[:2]) + 1e-12)
    assert np.all(
        abs(exact.mean(axis=0) - expected) < 5 * np.hypot(errors[0], errors[2]) + rounding
    )


@pytest.mark.parametrize("name", LIMITS)
def test_mlp_in_the_limit(name: str) -> None:
    law = ll.limit(ll.stack(changes(name)), samples=2**9)
    assert np.all(abs(law.mean() - np.array(LIMITS[name])) < 5 * law.error.mean() + 5e-4)


def test_mlp_under_ntk_does_not_move() -> None:
    """By n^{-1/2} only."""
    law = ll.limit(ll.stack(changes("ntk")[:3]))
    assert not np.any(law.mean())
    assert not np.any(law.std())


def two_layers() -> list[ll.Scalars]:
    """A factor √n meets 1/√n of a space in which no vector needs coordinates."""
    h = ll.Matrix(cols=2) @ ll.data([1.0, 0.5])
    y = ll.Matrix() @ ll.tanh(h)
    f = ll.dot(ll.initial(), y, "linear")
    before = h, y, f
    after = ll.after_step(before, f, itself, 1.0, parametrization="mup")
    return [size(b - a) for a, b in zip(before, after, strict=True)]


def one_layer() -> list[ll.Scalars]:
    """Without a transpose."""
    h = ll.Matrix(cols=2) @ ll.data([1.0, 0.5])
    f = ll.dot(ll.initial(), ll.tanh(h), "linear")
    after = ll.after_step((h, f), f, itself, 1.0, parametrization="mup")
    return [size(after[0] - h), after[1] - f]


@pytest.mark.parametrize("net", [two_layers, one_layer])
def test_factors_of_width_cancel(net: Any) -> None:
    """The limit, each number by itself, by a finite width."""
    found = net()
    draws = np.asarray(ll.finite_samples(ll.stack(found), 2**9, 2**9, 0))
    for number, y in zip(found, draws.T, strict=True):
        law = ll.limit(number, samples=2**8)
        error = np.hypot(law.error.mean(), y.std() / 2**4.5)
        assert abs(law.mean() - y.mean()) < 5 * error + 1 / 2**9


# --- attention -----------------------------------------------------------------------------------


def tr(f: ll.Scalars) -> ll.Scalars:
    """Σ_i u_i·x_i of dot products of all pairs."""
    return sum((f[i, i] for i in range(1, f.shape[0])), f[0, 0])


def root_mean_square(change: ll.Wide) -> ll.Scalars:
    """Over coordinates, averaged over tokens: √(π/2) times mean |Δ| of Gaussian coordinates."""
    return ll.apply(jnp.sqrt, ll.average(change * change)).mean()


def attention() -> ll.Scalars:
    """Four tokens, two n × n heads, g = 2: mean |Δp|, √mean Δy², Δf and −η Θ."""
    x = ll.initial((4,))
    q, k, v, o = (ll.Matrix(std, shape=(2, 1)) for std in (2.0, 1.0, 1.0, 1.0))
    p = ll.dot(q @ x, k @ x)
    y = ll.normalised_sum(ll.softmax(p) @ (o @ (v @ x)), 0)
    f = tr(ll.dot(ll.initial((4,)), y))
    after = ll.after_step({"p": p, "y": y, "f": f}, f, itself, 0.5)
    dp, dy = abs(after["p"] - p).mean(), root_mean_square(after["y"] - y)
    return ll.stack([dp, dy, after["f"] - f, -0.5 * ll.ntk(f)])


def test_attention_in_the_limit() -> None:
    """Scores move by O(1) under the NTK parametrisation, and activations do."""
    law = ll.limit(attention(), samples=2**12)
    expected = np.array([0.3045, 0.1918 * (np.pi / 2) ** 0.5, -3.828, -4.233])
    error = np.hypot(law.error.mean(), [5e-5, 5e-5, 0.002, 0.002])
    assert np.all(abs(law.mean() - expected) < 5 * error)


@pytest.mark.parametrize(
    ("width", "expected", "error"),
    [
        (32, (0.380, 0.266, -3.78, -4.36), (None, None, 0.03, 0.05)),
        (128, (0.335, 0.217, -3.81, -4.23), (0.004, 0.003, 0.03, 0.05)),
    ],
)
def test_attention_at_width(width: int, expected: Any, error: Any) -> None:
    y = np.asarray(ll.finite_samples(attention(), width, 2000, 0))
    own, sd = y.mean(axis=0), y.std(axis=0)
    own[1], sd[1] = own[1] * (2 / np.pi) ** 0.5, sd[1] * (2 / np.pi) ** 0.5
    outside = [sd[i] * error[2] / sd[2] if e is None else e for i, e in enumerate(error)]
    assert np.all(abs(own - expected) < 5 * np.hypot(sd / 2000**0.5, outside))


# --- a block -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("eta", "expected", "error"),
    [
        (0.3, (0.1213, 0.1376, -2.004), (0.0006, 0.0007, 0.005)),
        (1.0, (0.319, 0.358, -5.597), (0.001, 0.001, 0.008)),
    ],
)
def test_block_in_the_limit(eta: float, expected: Any, error: Any) -> None:
    """A pre-norm block: mean |Δ| behind attention and behind the MLP, and Δf."""
    x = ll.initial((4,))
    middle = x + ll.attention(ll.layernorm(x), 2, 8, q_std=2.0)
    top = middle + ll.mlp(ll.layernorm(middle), hidden=4 * ll.n, phi=ll.gelu)
    f = tr(ll.dot(ll.initial((4,)), ll.layernorm(top)))
    after = ll.after_step([middle, top, f], f, itself, eta)
    moved = [root_mean_square(b - a) for a, b in zip((middle, top), after[:2], strict=True)]
    law = ll.limit(ll.stack([*moved, after[2] - f]), samples=2**10)
    scale = np.array([(2 / np.pi) ** 0.5, (2 / np.pi) ** 0.5, 1.0])
    assert np.all(
        abs(law.mean() * scale - expected) < 5 * np.hypot(law.error.mean() * scale, error)
    )
