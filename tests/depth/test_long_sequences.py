"""Many tokens at fixed head dimension: queries, keys and values are s × d, and a block costs
O(H d s² + s³).
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import limitlaw as ll
from limitlaw.depth.layers import stages
from limitlaw.depth.statistics import STATISTICS
from limitlaw.depth.trace import program_at_infinity
from limitlaw.engines.engine import softmax
from limitlaw.engines.turns import Turns

TOKENS, HEADS, HEAD_DIM = 384, 4, 16


def one_draw(tokens: int = TOKENS) -> tuple[Any, Any]:
    """The function that draws, and its arguments."""
    net = ll.transformer(
        ll.initial((tokens,), cov=0.7 * np.eye(tokens) + 0.3), 3, HEADS, HEAD_DIM, q_std=0.8
    )
    first, layers = stages(net)
    program = program_at_infinity(first, layers, Turns((STATISTICS["variance"].read,)))
    keys = program.keys(0, 0, 1)
    row = jnp.zeros((1, len(program.recipe)))
    return program.plan.draws.function, (program.given, row, keys, None, None)


def test_cost() -> None:
    """12 H d s² in products of matrices: none of a head's weights with all of s roots, which would
    take 2 H s³.
    """
    draw, arguments = one_draw()
    flops = draw.lower(*arguments).compile().cost_analysis()["flops"]
    # twice, for what is done entry by entry and one step of Cholesky's loop
    assert flops < 2 * 12 * HEADS * HEAD_DIM * TOKENS**2


def test_one_factor() -> None:
    """Queries, keys and values are made of one factor of the kernel."""
    draw, arguments = one_draw()
    assert str(jax.make_jaxpr(draw)(*arguments)).count("custom_vmap_call[") == 1


def in_numpy(rng: np.random.Generator, s: int, d: int) -> tuple[float, float]:
    """Variance behind two blocks of attention, and the entropy of the second: definitions."""
    K = 0.7 * np.eye(s) + 0.3
    for _ in range(2):
        root = 1 / np.sqrt(np.diagonal(K))
        L = np.linalg.cholesky(K * root * root[:, None])
        q, k, v = L @ rng.standard_normal((3, HEADS, s, d))
        p = 2.0 * q @ k.swapaxes(1, 2) / np.sqrt(d)
        A = np.exp(p - p.max(axis=-1, keepdims=True))
        A /= A.sum(axis=-1, keepdims=True)
        flat = (A @ v).swapaxes(0, 1).reshape(s, -1)
        K = K + flat @ flat.T / (HEADS * d)
    return np.trace(K) / s, -np.mean(np.sum(A * np.log(A), axis=-1))


def test_more_tokens_than_dimensions() -> None:
    """Against loops in NumPy."""
    s, d, draws = 20, 3, 512
    net = ll.transformer(
        ll.initial((s,), cov=0.7 * np.eye(s) + 0.3),
        *(2, HEADS, d),
        hidden=None,
        q_std=2.0,
        normalise=ll.rmsnorm,
    )
    found = ll.trace(net, ["variance", "entropy"], samples=draws, key=1)
    rng = np.random.default_rng(2)
    known = np.array([in_numpy(rng, s, d) for _ in range(draws)])
    for i, name in enumerate(("variance", "entropy")):
        error = np.hypot(found[name].error[-1], known[:, i].std() / np.sqrt(draws))
        assert abs(found[name].value[-1] - known[:, i].mean()) < 5 * error, name


def test_large_scores_head_by_head() -> None:
    """The same numbers."""
    p = jax.random.normal(jax.random.key(0), (2, 3, 600, 500))
    read = STATISTICS["entropy"].read
    kernel = jnp.eye(2)
    whole = np.mean([read(kernel, p[i, j]) for i in range(2) for j in range(3)])
    np.testing.assert_allclose(read(kernel, p), whole, rtol=1e-12)
    np.testing.assert_allclose(softmax(p), jax.nn.softmax(p, axis=-1), rtol=1e-12)
