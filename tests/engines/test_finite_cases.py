"""Edge cases and errors of `finite`, and its distance to the limit."""

import functools
import math
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest
from eager import defined
from networks import iterated

import limitlaw as ll
from statistics_of_samples import disagreement

DRAWS = 6_000


def tokens(s: int = 3) -> ll.Wide:
    return ll.relu(ll.matrices(s) @ ll.initial())


@pytest.fixture
def quick_compilation(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same programs, compiled without LLVM's optimisations: many programs that run once."""
    options = {"xla_backend_optimization_level": 0}
    monkeypatch.setattr(jax, "jit", functools.partial(jax.jit, compiler_options=options))


# --- Edge cases ----------------------------------------------------------------------------------

ONE = np.eye(3, dtype=bool)
EDGE_CASES: dict[str, tuple[Callable[[], ll.Wide], int]] = {
    "more tokens than coordinates": (lambda: ll.attention(tokens(5), 2), 2),
    "width, tokens and heads one": (lambda: ll.attention(tokens(1), 1), 1),
    "width one, narrow heads": (lambda: ll.attention(tokens(3), 2, head_dim=5), 1),
    "repeated tokens": (lambda: ll.attention(tokens(2)[[0, 0, 1]], 1), 4),
    "a kernel of rank one": (lambda: ll.attention(ll.initial((3,), cov=np.ones((3, 3))), 2), 4),
    "zero queries": (lambda: ll.attention(ll.initial((3,)), 2, q_std=0.0), 4),
    "zero values": (lambda: ll.attention(tokens(3), 2, v_std=0.0), 4),
    "zero initial vectors": (lambda: ll.layernorm(ll.attention(ll.initial((2,), cov=0.0), 2)), 4),
    "scores of size 1e4": (lambda: ll.attention(tokens(3), 2, q_std=1e2, k_std=1e2), 4),
    "one token seen, scores of size 1e8": (
        lambda: ll.attention(tokens(3), 2, mask=ONE, q_std=1e8),
        4,
    ),
    "rank exhausted": (iterated, 2),
    "norm of one coordinate": (lambda: ll.layernorm(tokens(3)), 1),
    "many axes, two layers": (
        lambda: ll.attention(ll.attention(ll.initial((2, 1, 2)), 2), 1, mask="causal"),
        2,
    ),
}
ALWAYS_ZERO = ("zero values", "zero initial vectors", "norm of one coordinate")
FIRST_TWO_EQUAL = (
    "repeated tokens",
    "a kernel of rank one",
    "zero queries",
    "zero values",
    "zero initial vectors",
)


@pytest.mark.usefixtures("quick_compilation")
@pytest.mark.parametrize("case", EDGE_CASES)
def test_edge_cases_just_work(case: str) -> None:
    program, width = EDGE_CASES[case]
    y = program()
    law = ll.finite(y, width, DRAWS, 0)
    assert law.shape == y.shape
    draws = np.asarray(law.sample(1, DRAWS))
    assert np.isfinite(draws).all()
    assert (
        not draws.any()
        if case in ALWAYS_ZERO
        else disagreement(draws, defined(y, width, DRAWS, 2)) < 1
    )
    if case in FIRST_TWO_EQUAL:
        np.testing.assert_allclose(draws[:, 0], draws[:, 1], atol=1e-6)


# --- Errors --------------------------------------------------------------------------------------

Y = ll.Matrix() @ ll.initial((2,))
NARROW = ll.Matrix(rows=3) @ ll.initial()
HALF = ll.Matrix(rows=ll.n / 2) @ ll.initial()
ERRORS: list[tuple[Callable[[Any], Any], type[Exception], str]] = [
    (lambda f: f(Y, 0, 5, 0), ValueError, "width must be a positive integer, got 0"),
    (lambda f: f(Y, -4, 5, 0), ValueError, "width must be a positive integer, got -4"),
    (lambda f: f(Y, 4.5, 5, 0), ValueError, "width must be a positive integer, got 4.5"),
    (lambda f: f(Y, "4", 5, 0), TypeError, "width must be a positive integer, got '4'"),
    (lambda f: f(HALF, 5, 5, 0), ValueError, "width divisible by 2"),
    (lambda f: f(Y, 4, 0, 0), ValueError, "samples must be a positive integer, got 0"),
    (lambda f: f(Y, 4, 2.0, 0), ValueError, "samples must be a positive integer, got 2.0"),
    (lambda f: f(Y, 4, 5, None), TypeError, "key must be one JAX key"),
    (
        lambda f: f(Y, 4, 5, jax.random.split(jax.random.key(0))),
        TypeError,
        "key must be one JAX key",
    ),
    (
        lambda f: f(Y, 4, 5, 0, coordinates=5),
        ValueError,
        "coordinates must be at most the 4 of the output's space",
    ),
    (lambda f: f(NARROW, 4, 5, 0, coordinates=4), ValueError, "coordinates must be at most the 3"),
    (
        lambda f: f(Y, 4, 5, 0, coordinates=0),
        ValueError,
        "coordinates must be a positive integer, got 0",
    ),
    (lambda f: f(np.ones(3), 4, 5, 0), TypeError, "y must be a value of a program"),
    (lambda f: f((), 4, 5, 0), ValueError, "at least one value"),
    (
        lambda f: f(ll.attention(Y, math.inf), 4, 5, 0),
        ValueError,
        "heads=math.inf has no meaning at finite width",
    ),
    (lambda f: f(ll.rotary(Y, 0.0), 4, 5, 0), TypeError, "may only enter a dot"),
]


@pytest.mark.usefixtures("as_user")
@pytest.mark.parametrize(
    "function", [ll.finite, ll.finite_samples, ll.simulate], ids=lambda f: f.__name__
)
@pytest.mark.parametrize("index", range(len(ERRORS)), ids=lambda i: ERRORS[i][2])
def test_errors_are_those_of_the_dense_engine(index: int, function: Callable[..., Any]) -> None:
    call, kind, message = ERRORS[index]
    with pytest.raises(kind, match=message.replace("(", r"\(")):
        call(function)


@pytest.mark.usefixtures("as_user")
def test_several_outputs_have_no_law() -> None:
    with pytest.raises(TypeError, match="finite_samples"):
        ll.finite((Y, Y), 4, 5, 0)  # type: ignore[arg-type]


@pytest.mark.usefixtures("as_user")
def test_32_bit_mode_gives_the_same() -> None:
    law, draws = ll.finite(Y, 4, 5, 0), ll.finite_samples(Y, 4, 5, 0)
    with jax.enable_x64(False):
        assert np.array_equal(ll.finite(Y, 4, 5, 0).variance(), law.variance())
        assert np.array_equal(ll.finite_samples(Y, 4, 5, 0), draws)


# --- The distance to the limit -------------------------------------------------------------------

GRID = np.linspace(-6, 6, 601)


def limit_density() -> np.ndarray:
    """s = 4, H = 2, K = I: φ_2(t) = φ_1(t/√2)², φ_1(t)
    = E exp(−t²v/2), v = |softmax(p)|², by quadrature.
    """
    nodes, weights = np.polynomial.hermite_e.hermegauss(40)
    weights = weights / weights.sum()
    g = np.stack(np.meshgrid(nodes, nodes, nodes), axis=-1).reshape(-1, 3)
    W = np.prod(np.stack(np.meshgrid(weights, weights, weights), axis=-1).reshape(-1, 3), axis=1)
    across = np.linalg.svd(np.ones((1, 4)))[2][1:]  # softmax ignores a common shift
    A = np.exp(g @ across)
    A /= A.sum(axis=1, keepdims=True)
    v = (A**2).sum(axis=1)
    t = np.linspace(0, 40, 2001)
    phi = np.array([W @ np.exp(-(s**2) * v / 4) for s in t]) ** 2
    phi[0] /= 2  # trapezoidal rule
    return (np.cos(np.outer(GRID, t)) @ phi) * (t[1] - t[0]) / np.pi


@pytest.mark.long
def test_the_distance_to_the_limit_is_that_of_the_theory() -> None:
    """KL(finite ‖ limit) of the paper's main setting, theory §3:
    2.217(9)e-2 and 2.12(1)e-3 at n = 16 and 64.
    """
    q = limit_density()
    np.testing.assert_allclose(
        q[[300, 350, 450]], [0.646080127, 0.173194601, 2.9134945e-05], rtol=1e-6
    )
    y = ll.attention(ll.clip(ll.matrices(4) @ ll.initial(), 100.0), 2)[0]
    for n, expected in ((16, 2.217e-2), (64, 2.12e-3)):
        p = np.asarray(ll.finite(y, n, 100_000, 0).pdf(GRID))
        KL = np.sum(p * np.log(p / q)) * (GRID[1] - GRID[0])
        assert abs(KL / expected - 1) < 0.03, KL
