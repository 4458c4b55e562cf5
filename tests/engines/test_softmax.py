"""softmax as engines compute it is the softmax that the language defines."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import limitlaw as ll
from limitlaw.engines.engine import TOKENS_IN_FRONT, softmax

TOKENS = (1, 3, TOKENS_IN_FRONT, TOKENS_IN_FRONT + 1)


def written(tokens: int, mask: object) -> object:
    """The function that `ll.softmax` writes."""
    x = ll.initial((tokens,))
    return ll.softmax(ll.dot(ll.Matrix() @ x, ll.Matrix() @ x), mask).op.f


@pytest.mark.parametrize("scale", [1e-8, 1.0, 1e4])
@pytest.mark.parametrize("tokens", TOKENS)
@pytest.mark.parametrize("mask", [None, "causal"])
def test_values_and_derivatives(mask: str | None, tokens: int, scale: float) -> None:
    p, t, c = jnp.asarray(scale * np.random.default_rng(0).normal(size=(3, 2, tokens, tokens)))
    masks = () if mask is None else (jnp.asarray(np.tri(tokens)),)
    f, g = softmax, written(tokens, mask)
    for one, other in (
        (f(p, *masks), g(p, *masks)),
        (
            jax.jvp(lambda a: f(a, *masks), (p,), (t,))[1],
            jax.jvp(lambda a: g(a, *masks), (p,), (t,))[1],
        ),
        (
            jax.vjp(lambda a: f(a, *masks), p)[1](c)[0],
            jax.vjp(lambda a: g(a, *masks), p)[1](c)[0],
        ),
    ):
        np.testing.assert_allclose(one, other, rtol=1e-13, atol=1e-15 * scale)
