"""Scores that are drawn jointly have the covariance of Definition 3.1 (iv), exactly: they are
linear in what is drawn, and the coefficients are compared with sums over matrices.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import limitlaw as ll
from limitlaw.engines.limit.conditions import Limit
from limitlaw.engines.limit.waves import rotation_factor, waves
from limitlaw.engines.reading import numbers

K = np.cov(np.random.default_rng(3).normal(size=(4, 40)))  # of x₁, x₂, y₁, y₂


def inputs() -> tuple[Any, Any]:
    both = ll.initial((4,), cov=K)
    return both[:2], both[2:]


class Entry(NamedTuple):
    """One factor of a score: {matrix: coefficients on x and y}, and its position."""

    parts: dict[Any, np.ndarray]
    position: float = 0.0
    base: float | None = None

    def inner(self, other: "Entry") -> float:
        return sum(
            float(c @ K @ other.parts[W]) for W, c in self.parts.items() if W in other.parts
        )


X, Y = np.eye(4)[:2], np.eye(4)[2:]


def outer(queries: list[Entry], keys: list[Entry]) -> list[tuple[Entry, Entry]]:
    return [(q, k) for q in queries for k in keys]


def vectors(W: Any, x: np.ndarray, std: float = 1.0, base: float | None = None) -> list[Entry]:
    return [Entry({W: std * c}, 3.0 * i, base) for i, c in enumerate(x)]


def one_query_matrix() -> tuple[list[Any], list[Any]]:
    x, y = inputs()
    Q, V, U = ll.Matrix(2.0), ll.Matrix(), ll.Matrix(0.5)
    scores = [ll.dot(Q @ x, V @ x), ll.dot(Q @ y, U @ x), ll.dot(Q @ x, V @ y)]
    q, p = vectors("Q", X, 2.0), vectors("Q", Y, 2.0)
    return scores, [
        *outer(q, vectors("V", X)), *outer(p, vectors("U", X, 0.5)), *outer(q, vectors("V", Y))
    ]  # fmt: skip


def exchanged_roles() -> tuple[list[Any], list[Any]]:
    x, y = inputs()
    Q, V = ll.Matrix(), ll.Matrix()
    scores = [ll.dot(Q @ x, V @ x), ll.dot(V @ y, Q @ x)]
    q, v, w = vectors("Q", X), vectors("V", X), vectors("V", Y)
    return scores, outer(q, v) + outer(w, q)


def three_in_a_circle() -> tuple[list[Any], list[Any]]:
    """Two queries that are sums have matrices in common: one frame for all three."""
    x, y = inputs()
    A, B, C = ll.Matrix(), ll.Matrix(), ll.Matrix()
    a, c = A @ x + 0.5 * (B @ y), C @ x
    scores = [ll.dot(a, c), ll.dot(B @ x, C @ y), ll.dot(A @ y, B @ x)]
    sums = [Entry({"A": X[i], "B": 0.5 * Y[i]}) for i in range(2)]
    return scores, [
        *outer(sums, vectors("C", X)), *outer(vectors("B", X), vectors("C", Y)),
        *outer(vectors("A", Y), vectors("B", X)),
    ]  # fmt: skip


def heads() -> tuple[list[Any], list[Any]]:
    x, y = inputs()
    Q, V = ll.Matrix(np.array([[1.0], [2.0]]), (2, 1)), ll.Matrix(shape=(2, 1))
    scores = [ll.dot(Q @ x, V @ x), ll.dot(Q @ y, V @ x)]
    return scores, [
        pair for x in (X, Y) for h in range(2)
        for pair in outer(vectors(("Q", h), x, h + 1.0), vectors(("V", h), X))
    ]  # fmt: skip


def heads_that_meet_others() -> tuple[list[Any], list[Any]]:
    """The second dot product pairs heads in another order."""
    x, _ = inputs()
    Q, V = ll.Matrix(shape=(2, 1)), ll.Matrix(shape=(2, 1))
    k = V @ x
    scores = [ll.dot(Q @ x, k), ll.dot(Q @ x, k[::-1])]
    return scores, [
        pair for order in ((0, 1), (1, 0)) for h in range(2)
        for pair in outer(vectors(("Q", h), X), vectors(("V", order[h]), X))
    ]  # fmt: skip


def groups() -> tuple[list[Any], list[Any]]:
    """Three queries of each of two groups see the same keys."""
    x, y = inputs()
    Q, V = ll.Matrix(shape=(2, 3, 1)), ll.Matrix(shape=(2, 1, 1))
    scores = [ll.dot(Q @ x, V @ x), ll.dot(Q @ x, V @ y)]
    return scores, [
        pair for x in (X, Y) for g in range(2) for h in range(3)
        for pair in outer(vectors(("Q", g, h), X), vectors(("V", g), x))
    ]  # fmt: skip


def rotary() -> tuple[list[Any], list[Any]]:
    """The same matrices with rotary embeddings of two bases, without them, and exchanged."""
    x, y = inputs()
    Q, V = ll.Matrix(), ll.Matrix()
    places = 3.0 * np.arange(2)
    turned = lambda w: ll.rotary(w, places, 50.0)
    scores = [
        ll.dot(turned(Q @ x), turned(V @ x)), ll.dot(Q @ x, V @ y),
        ll.dot(turned(V @ y), turned(Q @ x)),
    ]  # fmt: skip
    q, v = vectors("Q", X, base=50.0), vectors("V", X, base=50.0)
    w = vectors("V", Y, base=50.0)
    return scores, outer(q, v) + outer(vectors("Q", X), vectors("V", Y)) + outer(w, q)


def phase(pair: tuple[Entry, Entry]) -> float:
    q, k = pair
    return 0.0 if q.base is None else q.position - k.position


def expected(pairs: list[tuple[Entry, Entry]]) -> np.ndarray:
    """Σ over matrices, times ∫₀¹ cos(Δ base^{−u}) du."""
    u = (np.arange(20_000) + 0.5) / 20_000
    c = lambda delta: float(np.cos(delta * 50.0**-u).mean())
    return np.array([
        [
            q.inner(r) * k.inner(t) * c(phase((q, k)) - phase((r, t)))
            + q.inner(t) * k.inner(r) * c(phase((q, k)) + phase((r, t)))
            for r, t in pairs
        ]
        for q, k in pairs
    ])  # fmt: skip


PROGRAMS = (
    one_query_matrix,
    exchanged_roles,
    three_in_a_circle,
    heads,
    heads_that_meet_others,
    groups,
    rotary,
)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_covariance(program: Callable[[], Any]) -> None:
    """Scores are linear in normals: the Gram matrix of the coefficients is the covariance."""
    scores, pairs = program()
    drawn = Limit((ll.stack([p.reshape(-1) for p in scores]).core,), numbers)
    assert drawn.is_function_of_recipe
    J = np.asarray(drawn.at(np.eye(len(drawn.recipe)))).reshape(len(drawn.recipe), -1)
    np.testing.assert_allclose(J.T @ J, expected(pairs), atol=1e-8)


@pytest.mark.parametrize("bases", [(10_000.0,), (1.0,), (0.5,), (10.0, 500.0)])
def test_waves(bases: tuple[float, ...]) -> None:
    """Σ_m f_m(φ) f_m(φ') = ∫₀¹ cos(φ a^{−u} − φ' b^{−u}) du; with one base this is c(φ − φ')."""
    found, phases = waves(frozenset(bases), 40.0), np.linspace(-40.0, 40.0, 23)
    f, g = (np.asarray(found.at(jnp.asarray(phases), base)) for base in (bases[0], bases[-1]))
    u, w = np.polynomial.legendre.leggauss(600)
    u = (u + 1) / 2
    angles = phases[:, None, None] * bases[0] ** -u - phases[:, None] * bases[-1] ** -u
    np.testing.assert_allclose(f @ g.T, np.cos(angles) @ w / 2, atol=1e-12)
    if len(bases) == 1:
        c = rotation_factor(phases[:, None] - phases, bases[0])
        np.testing.assert_allclose(f @ f.T, c, atol=1e-12)
    assert f.shape[1] < 80 * max(1, 1 / min(bases))


def test_unknown_positions() -> None:
    """Positions that are known only inside a transformation have the same scores' covariance."""

    def variances(places: Any) -> Any:
        x = ll.initial((2,), cov=K[:2, :2])
        q, k = (ll.rotary(ll.Matrix() @ x, places, 50.0) for _ in "qk")
        y = ll.softmax(ll.dot(q, k)) @ (ll.Matrix() @ x)
        return ll.limit(y[0], samples=2**12).variance()

    places = jnp.array([0.0, 3.0])
    inside, outside = jax.jit(variances)(places), variances(places)
    assert abs(float(inside) - outside) < 5e-3 * outside
