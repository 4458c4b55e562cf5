"""Turns with the same matrices as one loop give draw by draw what the same turns give that are
written one after the other.
"""

import importlib
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import limitlaw as ll
from limitlaw.engines.limit.conditions import Limit
from limitlaw.engines.turns import Turns

trace = importlib.import_module("limitlaw.depth.trace")
K = np.array([[1.0, 0.3, 0.2], [0.3, 1.2, -0.1], [0.2, -0.1, 0.8]])
NETWORKS: dict[str, dict[str, Any]] = {
    "pre-norm": {},
    "attention alone": {"norm": "none", "hidden": None},
    "grouped, causal": {"heads": 2, "kv_heads": 1, "mask": "causal"},
    "biases": {"bias_std": 0.3},
    "SwiGLU": {"gated": True, "phi": ll.silu, "normalise": ll.rmsnorm},
    "rotary": {"positions": ll.nn.Rotary(), "hidden": None},
}


def kernels(K: Any, scores: Any) -> Any:
    return K


def entries(K: Any, scores: Any) -> Any:
    seen = jnp.zeros(9) if scores is None else scores.reshape(-1)[:9]
    return jnp.where(jnp.isfinite(seen), seen, 0.0)


def read(program: Limit, rows: np.ndarray, which: int) -> np.ndarray:
    keys = jnp.broadcast_to(jax.random.key(0), len(rows))
    parts = program.plan.draws(program.given, rows, keys, None, None)
    return np.concatenate([np.asarray(part[which]) for part in parts], axis=1)


@pytest.mark.parametrize("name", NETWORKS)
def test_draw_by_draw(name: str) -> None:
    """The same normals make the same kernels and scores behind every turn."""
    options = {"heads": 1} | NETWORKS[name]
    net = ll.transformer(ll.initial((3,), cov=K), 3, shared=True, **options)
    first, layers = trace.stages(net)
    functions = Turns((kernels, entries))
    loop = trace.program_at_infinity(first, layers, functions, trace.tied_loop(net))
    turns = trace.program_at_infinity(first, layers, functions)
    assert loop.plan.has_loops
    assert not turns.plan.has_loops
    assert loop.recipe == turns.recipe
    rows = np.random.default_rng(1).normal(size=(2, len(loop.recipe)))
    for which in range(2):
        expected = read(turns, rows, which)
        # a part of 1e-10 of each variance is apart in every turn: 1e-5 of a score
        np.testing.assert_allclose(
            read(loop, rows, which), expected, atol=1e-4 * np.abs(expected).max()
        )


def log_variance(K: Any, scores: Any) -> Any:
    return jnp.log(jnp.mean(jnp.diagonal(K)))


def with_every_matrix(blocks: int, width: int, draws: int) -> np.ndarray:
    """ln of the variance behind so many equal blocks x + O softmax(qᵀk) v of one head of dimension
    1, q, k and v being products of LayerNorm(x) with one row each: the network itself, in NumPy.
    """
    random = np.random.default_rng(1)
    found = []
    for _ in range(draws):
        x = random.normal(size=(4, width))
        Q, K, V = random.normal(size=(3, width)) / np.sqrt(width)
        O = random.normal(size=width)
        for _ in range(blocks):
            z = (x - x.mean(axis=1, keepdims=True)) / x.std(axis=1, keepdims=True)
            p = np.outer(z @ Q, z @ K)
            A = np.exp(p - p.max(axis=1, keepdims=True))
            x = x + np.outer((A / A.sum(axis=1, keepdims=True)) @ (z @ V), O)
        found.append(np.log(np.mean(x**2)))
    return np.array(found)


def mean_and_largest(read: Any, replicates: Any, dim: Any) -> ll.depth.Column:
    """Of all draws; the largest stands in place of their spread."""
    return ll.depth.Column(replicates.mean(read), replicates.error(read), read.max(axis=0))


def test_many_blocks_of_narrow_heads() -> None:
    """Blocks with heads of fixed dimension are written out: regression on vectors that repeat
    earlier ones gave some draws a variance of 1e9. Logarithms, since variances vary over draws by
    factors of 100: their mean is that of the network itself within 5 σ, and the largest of m draws
    exceeds that of N equal ones with probability m/(m + N), here 0.6 %.
    """
    net = ll.transformer(ll.initial((4,)), 12, 1, 1, shared=True, hidden=None)
    statistic = ll.depth.Statistic("ln v", log_variance, summary=mean_and_largest)
    found = ll.trace(net, statistic, samples=64)["ln v"]
    expected = with_every_matrix(12, 256, 10_000)
    error = np.hypot(found.error[-1], expected.std() / np.sqrt(len(expected)))
    assert abs(found.value[-1] - expected.mean()) < 5 * error
    assert found.spread[-1] < expected.max()


def test_many_turns_stay_finite() -> None:
    """Deep turns repeat earlier ones, so that their Gram matrix is singular to rounding."""
    net = ll.transformer(ll.initial((16,)), 40, 1, shared=True)
    variance = ll.trace(net, "variance", samples=2)["variance"].value
    assert np.isfinite(variance).all()
    assert (np.diff(variance) > 0).all()
