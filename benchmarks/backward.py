"""Gradients without matrices: beside forward draws of the same network, at finite width and as
n → ∞, and beside `jax.grad` of the network with every matrix drawn. Ratios of one run, of the
processor's time.

    python benchmarks/backward.py [dense] [finite] [limit]

`dense`: four tokens, two blocks of two heads of 8, against `jax.grad`. `finite`: two blocks of 2
to 12 heads. `limit`: 12 blocks of 12 heads of 64, 64 tokens.
"""

import functools
import sys
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import limitlaw as ll

TOKENS, BLOCKS, HEADS, HEAD_DIM = 4, 2, 2, 8
DRAWS, DENSE_DRAWS = 1000, 20
WIDTHS = 64, 256, 1024
FINITE = (4, 2, 8, 1000), (8, 4, 16, 256), (16, 12, 16, 64)  # tokens, heads of d, draws
LARGE, LARGE_DRAWS = (64, 12, 12, 64), 16  # tokens, blocks, heads of d


def network(
    tokens: int = TOKENS,
    blocks: int = BLOCKS,
    heads: int = HEADS,
    head_dim: int = HEAD_DIM,
    read: int = 1,
) -> tuple[ll.Scalars, ll.Scalars]:
    """|y_i|²/n of the last layer, and |∂f/∂x_i|² of a readout f of so many last tokens."""
    x = ll.initial((tokens,))
    h = x
    for _ in range(blocks):
        h = ll.nn.block(h, heads, head_dim, mask="causal")
    f = ll.dot(ll.initial((read,)), ll.layernorm(h[-read:]))
    b = ll.gradient((f * np.eye(read)).sum(), x)
    return ll.average(h * h), ll.average(b * b)


def seconds(f: Callable[[], Any], times: int = 3) -> float:
    """The best of some warm calls, of the processor's time."""
    f()
    found = []
    for _ in range(times):
        start = time.process_time()
        jax.block_until_ready(f())
        found.append(time.process_time() - start)
    return min(found)


def dense(width: int) -> Callable[[jax.Array], jax.Array]:
    """∂f/∂x of the same network, every matrix drawn, by `jax.grad`."""
    hidden, heads = 4 * width, HEADS * HEAD_DIM
    seen = jnp.tril(jnp.ones((TOKENS, TOKENS), bool))

    def norm(x: jax.Array) -> jax.Array:
        c = x - x.mean(axis=-1, keepdims=True)
        return c / jnp.sqrt((c * c).mean(axis=-1, keepdims=True) + 1e-5)

    def f(x: jax.Array, key: jax.Array) -> jax.Array:
        def matrix(i: int, rows: int, cols: int) -> jax.Array:
            return jax.random.normal(jax.random.fold_in(key, i), (rows, cols)) / cols**0.5

        for i in range(0, 6 * BLOCKS, 6):
            z = norm(x)
            q, k, v = (
                (z @ matrix(i + j, heads, width).T).reshape(TOKENS, HEADS, HEAD_DIM)
                for j in range(3)
            )
            p = jnp.einsum("ihd,jhd->hij", q, k) / HEAD_DIM**0.5
            A = jax.nn.softmax(jnp.where(seen, p, -jnp.inf))
            o = jnp.einsum("hij,jhd->ihd", A, v).reshape(TOKENS, heads)
            x = x + o @ matrix(i + 3, width, heads).T
            g = jax.nn.gelu(norm(x) @ matrix(i + 4, hidden, width).T, approximate=False)
            x = x + g @ matrix(i + 5, width, hidden).T
        u = jax.random.normal(jax.random.fold_in(key, 98), (width,))
        return norm(x)[-1] @ u / width**0.5

    def one(key: jax.Array) -> jax.Array:
        x = jax.random.normal(jax.random.fold_in(key, 99), (TOKENS, width))
        return (jax.grad(f)(x, key) ** 2).sum(axis=-1)

    return jax.jit(lambda keys: jax.lax.map(one, keys))


def beside_dense() -> None:
    """A table, milliseconds a draw."""
    forward, backward = network()
    print(
        f"{'width':>6} {'forward':>9} {'gradient':>9} {'ratio':>6} {'jax.grad, dense':>16} times"
    )
    for width in WIDTHS:
        draws = [
            seconds(functools.partial(ll.finite_samples, y, width, DRAWS, 0)) / DRAWS
            for y in (forward, backward)
        ]
        by_grad = dense(width)
        keys = jax.random.split(jax.random.key(0), DENSE_DRAWS)
        drawn = seconds(functools.partial(by_grad, keys), 2) / DENSE_DRAWS
        ours = np.asarray(ll.finite_samples(backward, width, DRAWS, 1)).sum(axis=1)
        theirs = np.asarray(by_grad(jax.random.split(jax.random.key(1), 100))).sum(axis=1)
        error = (ours.var() / DRAWS + theirs.var() / 100) ** 0.5
        apart = abs(ours.mean() - theirs.mean()) / error
        print(
            f"{width:6} {1e3 * draws[0]:9.3f} {1e3 * draws[1]:9.3f} {draws[1] / draws[0]:6.2f} "
            f"{1e3 * drawn:16.2f} {drawn / draws[1]:6.1f}   means apart by {apart:.1f} "
            "standard errors",
            flush=True,
        )


def beside_forward() -> None:
    """Gradient draws over forward draws at finite width, for more heads and tokens."""
    for tokens, heads, head_dim, draws in FINITE:
        for width in WIDTHS:
            each = [
                seconds(functools.partial(ll.finite_samples, y, width, draws, 0)) / draws
                for y in network(tokens, BLOCKS, heads, head_dim)
            ]
            print(
                f"s = {tokens:2}, H = {heads:2}, d = {head_dim}, n = {width:4}: "
                f"{1e3 * each[0]:8.3f} {1e3 * each[1]:8.3f} ms   ratio {each[1] / each[0]:.2f}",
                flush=True,
            )


def large_limit() -> None:
    """A draw of the limit with gradients of a readout of all tokens, the comparison with a quarter
    of the hidden coordinates included, over a forward one.
    """
    each = [
        seconds(lambda y=y: ll.limit(y.sum(), samples=LARGE_DRAWS, force=True).mean(), 2)  # type: ignore[misc]
        / LARGE_DRAWS
        for y in network(*LARGE, read=LARGE[0])
    ]
    print(f"limit: {1e3 * each[0]:.1f} {1e3 * each[1]:.1f} ms   ratio {each[1] / each[0]:.2f}")


PARTS = {"dense": beside_dense, "finite": beside_forward, "limit": large_limit}


def main() -> None:
    """The parts that are named, or all of them."""
    for name in sys.argv[1:] or PARTS:
        PARTS[name]()


if __name__ == "__main__":
    main()
