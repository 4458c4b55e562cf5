"""The exact finite-width engine against the definition: same program, same width, two engines."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from eager import defined, exact
from networks import NETWORKS
from numpy_jax import by_numpy

import limitlaw as ll
from limitlaw.numerics.factors import orthonormalise
from statistics_of_samples import disagreement

DRAWS = {1: 4_000, 4: 4_000, 8: 4_000, 16: 2_500, 64: 1_200}


def everyday(number: int, width: int) -> bool:
    """Widths 1 and 16 of every network, 4 or 8, and 64 of every third."""
    return {4: number % 2 == 0, 8: number % 2 == 1, 64: number % 3 == 0}.get(width, True)


@pytest.mark.usefixtures("as_user")  # without runtime type checks, which the random programs meet
@pytest.mark.parametrize(
    ("name", "width"),
    [
        pytest.param(name, width, marks=() if everyday(number, width) else pytest.mark.long)
        for number, name in enumerate(NETWORKS)
        for width in DRAWS
    ],
)
def test_networks(name: str, width: int) -> None:
    """Bounded statistics within 5 standard errors and two-sample KS,
    one coordinate per draw; evaluated by NumPy.
    """
    y = NETWORKS[name]()
    draws = DRAWS[width]
    assert (
        disagreement(defined(y, width, draws, width), exact(y, width, 2 * draws, 1000 + width)) < 1
    )


COMPILED = [("paper, relu", 16), ("tied layers", 2), ("pre-norm stack", 4)]


@pytest.mark.parametrize(("name", "width"), COMPILED)
def test_compiled(name: str, width: int) -> None:
    """The same through the public functions."""
    y = NETWORKS[name]()
    simulated = np.asarray(ll.simulate(y, width, 4_000, jax.random.key(width)))
    assert (
        disagreement(
            simulated,
            np.asarray(ll.finite_samples(y, width, 16_000, jax.random.key(1000 + width))),
        )
        < 1
    )


def test_numpy_evaluates_as_jax_does() -> None:
    """Gather, scatter, loops, products and reductions by the interpreter of the
    tests and by JAX.
    """

    def function(x: jax.Array, k: jax.Array) -> list[jax.Array]:
        B, L, Q = orthonormalise(x, jnp.eye(2, x.shape[1]))
        doubled = jax.lax.while_loop(lambda v: v.sum() < 10, lambda v: 2 * v, jnp.abs(x[0]) + 0.1)
        total = jax.lax.fori_loop(0, 3, lambda i, v: v.at[i].add(1.0) @ (x.T @ x), x[1])
        picked = x[k, ::-1][..., jnp.array([[0, 2], [1, 1]])]
        rest = jnp.where(x > 0, jnp.pad(x[:, 1:], [(0, 0), (1, 0)]), x[::-1]) ** 3
        return [
            B,
            L,
            Q,
            doubled,
            total,
            picked,
            rest,
            jax.nn.softmax(x),
            jnp.einsum("ij,kj->k", x, x),
            jnp.argmax(x),
        ]

    rng = np.random.default_rng(0)
    x, k = rng.standard_normal((5, 4, 4)), rng.integers(0, 4, (5, 2))
    results = by_numpy(function)(x, k)
    for ours, theirs in zip(results, jax.vmap(function)(x, k), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-12)
