"""Deep Transformers: the limit and finite width beside a chain of kernels written by hand,
in one process.

    python benchmarks/depth.py                       two cores, fewer draws, times scaled to 1,000
    python benchmarks/depth.py --draws 1000          on a GPU

`NumPy` and `by hand` are what one would write: loops; and a scan over layers in JAX, with the
closed form of GELU taken from limitlaw.
"""

import argparse
import functools
import resource
import time
from typing import Any

import numpy as np

TOKENS, HEADS, HEAD_DIM, LAYERS = 128, 12, 64, 24
EPS = 1e-5


def main() -> None:
    """Print the tables."""
    import jax

    jax.config.update("jax_enable_x64", True)
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--draws", type=int, default=32)
    parser.add_argument(
        "--batch", type=int, default=1, help="draws of the chain by hand at a time; 50 on a GPU"
    )
    arguments = parser.parse_args()
    print(
        f"{jax.devices()[0]}, {LAYERS} layers, {HEADS} heads of {HEAD_DIM}, {TOKENS} tokens, "
        "causal, pre-norm, GELU"
    )
    in_numpy()
    by_hand(arguments.draws, arguments.batch)
    in_the_limit(arguments.draws)
    at_a_width()
    any_width()
    many_tokens()
    for tokens in (256, 1024, 2048):
        long_sequence(tokens)
    print(
        "peak memory of the process "
        f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f} GiB"
    )


def in_numpy(draws: int = 4) -> None:
    """The same chain in NumPy, one draw at a time;
    a Hermite series in place of GELU's closed form.
    """
    start = time.perf_counter()
    for seed in range(draws):
        _numpy_draw(seed, TOKENS, LAYERS, np.tri(TOKENS, dtype=bool))
    print(f"NumPy:             1,000 draws {1000 * (time.perf_counter() - start) / draws:8.2f} s")


def _numpy_draw(seed: int, tokens: int, layers: int, mask: Any) -> Any:
    rng, K = np.random.default_rng(seed), np.eye(tokens)
    for _ in range(layers):
        L = np.linalg.cholesky(_normed(K) + 1e-10 * np.eye(tokens))
        q, k, v = L @ rng.standard_normal((3, HEADS, tokens, HEAD_DIM))
        p = np.where(mask, q @ k.swapaxes(1, 2) / np.sqrt(HEAD_DIM), -np.inf)
        A = np.exp(p - p.max(axis=-1, keepdims=True))
        out = (A / A.sum(axis=-1, keepdims=True)) @ v
        flat = out.swapaxes(0, 1).reshape(tokens, -1)
        K = K + flat @ flat.T / (HEADS * HEAD_DIM)
        K = K + _gelu_kernel(_normed(K))
    return K


def _normed(K: Any) -> Any:
    root = 1 / np.sqrt(np.diagonal(K) + EPS)
    return K * root * root[:, None]


def _gelu_kernel(K: Any) -> Any:
    """E[φ(u) φ(v)] for unit variances, as the series Σ c_k² ρ^k over Hermite coefficients of φ."""
    return np.polyval(_squared_coefficients()[::-1], K)


@functools.cache
def _squared_coefficients(degree: int = 60) -> Any:
    from scipy.special import erf

    x, w = np.polynomial.hermite_e.hermegauss(200)
    phi = 0.5 * x * (1 + erf(x / np.sqrt(2)))
    H = [np.ones_like(x), x]
    for k in range(1, degree):
        H.append((x * H[-1] - np.sqrt(k) * H[-2]) / np.sqrt(k + 1))  # normalised
    return np.array([np.sum(w * phi * h) for h in H]) ** 2 / (2 * np.pi)


def by_hand(draws: int, batch: int) -> None:
    """K → K, layer by layer."""
    import jax

    one = jax.jit(
        jax.vmap(
            lambda key: jax.lax.scan(_block, jax.numpy.eye(TOKENS), jax.random.split(key, LAYERS))[
                1
            ]
        )
    )
    keys = jax.random.split(jax.random.key(0), batch)
    start = time.perf_counter()
    jax.block_until_ready(one(keys))
    first = time.perf_counter() - start
    start = time.perf_counter()
    for i in range(max(1, draws // batch)):
        jax.block_until_ready(one(jax.random.split(jax.random.key(i), batch)))
    seconds = (time.perf_counter() - start) / (batch * max(1, draws // batch))
    print(f"by hand:           first {first:6.1f} s, 1,000 draws {1000 * seconds:8.2f} s")


def _block(K: Any, key: Any) -> tuple[Any, Any]:
    import jax
    import jax.numpy as jnp

    from limitlaw import phi
    from limitlaw.numerics.linear_algebra import cholesky
    from limitlaw.phi import moments

    def normed(K: Any) -> Any:
        root = jax.lax.rsqrt(jnp.diagonal(K) + EPS)
        return K * root * root[:, None]

    L = cholesky(normed(K) + 1e-10 * jnp.eye(TOKENS))
    q, k, v = jnp.einsum("ij,ahjd->ahid", L, jax.random.normal(key, (3, HEADS, TOKENS, HEAD_DIM)))
    scores = jnp.einsum("hid,hjd->hij", q, k) / np.sqrt(HEAD_DIM)
    A = jax.nn.softmax(jnp.where(np.tri(TOKENS, dtype=bool), scores, -jnp.inf), axis=-1)
    out = jnp.einsum("hij,hjd->ihd", A, v).reshape(TOKENS, -1)
    K = K + out @ out.T / (HEADS * HEAD_DIM)
    N = normed(K)
    d = jnp.diagonal(N)
    return K + moments.product(
        phi.gelu, phi.gelu, 0.0, 0.0, d[:, None] + 0 * N, N, d[None] + 0 * N
    ), jnp.trace(K)


def in_the_limit(draws: int) -> None:
    """`trace` as n → ∞."""
    import limitlaw as ll

    net = ll.transformer(ll.initial((TOKENS,)), LAYERS, HEADS, HEAD_DIM, mask="causal")
    for names in (["variance"], None):
        _timed(
            f"limit, {'all statistics' if names is None else 'variance'}", net, names, None, draws
        )


def at_a_width() -> None:
    """Twelve layers of GPT-2's width, 16 tokens."""
    import limitlaw as ll

    net = ll.transformer(ll.initial((16,)), 12, 12, 64, mask="causal")
    _timed("n = 768, 12 layers, 16 tokens", net, ["variance", "correlation", "entropy"], 768, 128)


def any_width() -> None:
    """Attention alone needs no coordinates: a million of them cost what a thousand do."""
    import limitlaw as ll

    net = ll.transformer(ll.initial((16,)), 6, 4, 64, hidden=None, mask="causal")
    for width in (10**3, 10**6):
        _timed(f"attention alone, n = {width:,}", net, ["variance"], width, 2048)


def _timed(
    name: str, net: Any, statistics: list[str] | None, width: int | None, draws: int
) -> None:
    import jax

    import limitlaw as ll

    start = time.perf_counter()
    # a GPU compiles for as many as it draws at a time
    few = 1 if jax.default_backend() == "cpu" else draws
    ll.trace(net, statistics, width, samples=few, key=0)
    first = time.perf_counter() - start
    start = time.perf_counter()
    ll.trace(net, statistics, width, samples=draws, key=0)
    seconds = (time.perf_counter() - start) / draws
    print(
        f"{name + ':':32s} first {first:6.1f} s, 1,000 draws {1000 * seconds:8.2f} s, "
        f"{1000 * seconds:8.3f} ms a draw"
    )


def long_sequence(tokens: int, layers: int = 2) -> None:
    """A block of one draw beside the same in NumPy, in processor time: the machine may do other
    things.
    """
    import limitlaw as ll

    net = ll.transformer(ll.initial((tokens,)), layers, HEADS, HEAD_DIM, mask="causal")
    ll.trace(net, ["variance"], samples=1, key=0)
    start = time.process_time()
    ll.trace(net, ["variance"], samples=1, key=1)
    ours = (time.process_time() - start) / layers
    _squared_coefficients()
    start = time.process_time()
    _numpy_draw(0, tokens, layers, np.tri(tokens, dtype=bool))
    numpy = (time.process_time() - start) / layers
    print(
        f"{tokens:5,} tokens: {ours:6.3f} processor seconds a block, NumPy {numpy:6.3f}, "
        f"{numpy / ours:.1f} times"
    )


def many_tokens() -> None:
    """The law of one of 4,096 tokens."""
    import limitlaw as ll

    start = time.perf_counter()
    law = ll.limit(ll.attention(ll.initial((4096,)), heads=2)[0])
    print(
        f"one of 4,096 tokens: {time.perf_counter() - start:.1f} s, variance {law.variance():.6g}"
    )


if __name__ == "__main__":
    main()
