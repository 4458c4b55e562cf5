"""The gradient flow of an infinitely wide attention layer beside gradient descent of dense
networks that start from the same scores: how far outputs and scores are apart after training, for
the flow and for a frozen tangent kernel.

    python benchmarks/training.py
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import limitlaw as ll
from limitlaw.learning.training import LOSSES, FlowWeights, _Flow

SEQUENCES, TOKENS, D, HEADS = 3, 4, 5, 2
TIME, STEP, TARGETS = 0.5, 0.005, 3.0


class Apart(NamedTuple):
    """Root mean squares of differences at the end of training."""

    outputs: float
    scores: float
    frozen: float  # outputs under a frozen kernel


def apart(width: int, seed: int, layer: ll.AttentionLayer, step: float = STEP) -> Apart:
    """One dense network, and the flow from where it starts."""
    rng = np.random.default_rng(seed)
    x = jnp.asarray(np.random.default_rng(0).normal(size=(SEQUENCES, TOKENS, D)))
    t = TARGETS * jnp.asarray(np.random.default_rng(1).normal(size=SEQUENCES))
    z = x / D**0.5
    E = np.linalg.qr(rng.normal(size=(width, D)))[0]
    tokens = jnp.asarray(np.einsum("nD,ksD->ksn", E, z) * width**0.5)  # n⁻¹ x xᵀ = z zᵀ
    d = layer.head_dim or width
    shapes = dict.fromkeys("qkv", (HEADS, d, width)) | {"o": (HEADS, width, d)}
    w = {name: jnp.asarray(rng.normal(size=shape)) for name, shape in shapes.items()}
    normals = rng.normal(size=width)
    u = jnp.asarray(normals * (width**0.5 / np.linalg.norm(normals)))
    s = {name: getattr(layer, f"{name}_std") for name in "qkvo"}

    def met(w: Any, x: jax.Array, name: str) -> jax.Array:
        return s[name] * jnp.einsum("hab,sb->hsa", w[name], x) / width**0.5

    def scores(w: Any, x: jax.Array) -> jax.Array:
        return jnp.einsum("hia,hja->hij", met(w, x, "q"), met(w, x, "k")) / d**0.5

    def f(w: Any, x: jax.Array) -> jax.Array:
        A = jax.nn.softmax(jnp.where(layer.seen(TOKENS), scores(w, x), -jnp.inf))
        y = s["o"] * jnp.einsum("hab,hsb->sa", w["o"], A @ met(w, x, "v")) / (d * HEADS) ** 0.5
        return u @ y[layer.readout] / width**0.5

    def loss(w: Any) -> jax.Array:
        return LOSSES["squared"](jax.vmap(f, (None, 0))(w, tokens), t).sum()

    slope = jax.grad(loss)

    def stepped(_: int, w: Any) -> Any:
        return jax.tree.map(lambda w, g: w - step * g, w, slope(w))

    after = jax.jit(lambda w: jax.lax.fori_loop(0, round(TIME / step), stepped, w))(w)
    first, ends = _start(layer, w, E, u), []
    for frozen in (False, True):
        flow = _Flow(layer, LOSSES["squared"], frozen)
        solved, _, _ = flow._followed(first, z, t, jnp.array([0.0, TIME]))
        ends.append(jax.tree.map(lambda a: a[-1], solved))
    moved = _Flow(layer, LOSSES["squared"], False)._outputs(first, z, ends[0])
    stuck = _Flow(layer, LOSSES["squared"], True)._outputs(first, z, ends[1])
    there = jax.vmap(f, (None, 0))(after, tokens)
    p = jax.vmap(scores, (None, 0))(after, tokens)
    ours = jax.vmap(layer.scores, (None, 0))(ends[0], z)
    return Apart(_rms(there - moved), _rms(p - ours), _rms(there - stuck))


def _start(layer: ll.AttentionLayer, w: Any, E: Any, u: Any) -> FlowWeights:
    """The coordinates in which the flow knows a network's weights."""
    width = len(u)
    q, k, v = (jnp.einsum("hab,bD->hDa", w[name], E) for name in "qkv")
    B = jnp.einsum("a,hab->hb", u, w["o"])[:, None] / width**0.5
    if layer.head_dim is not None:
        return FlowWeights((q, k), (v, B))
    M = jnp.einsum("hDa,hEa->hDE", q, k) / width**0.5
    return FlowWeights((M,), (jnp.einsum("hga,hDa->hgD", B, v) / width**0.5,))


def _rms(a: Any) -> float:
    return float(jnp.sqrt(jnp.mean(a * a)))


def main() -> None:
    """A table over widths."""
    print(f"{'':24} {'width':>6} {'outputs':>9} {'scores':>9} {'frozen':>9}   r.m.s. apart")
    layers = {
        "n × n heads": ll.AttentionLayer(HEADS),
        "heads of 2, causal": ll.AttentionLayer(HEADS, 2, "causal", q_std=2.0, readout=-1),
    }
    with jax.enable_x64(True):
        for name, layer in layers.items():
            for width, networks in ((64, 8), (256, 8), (1024, 4)):
                found = np.array([apart(width, i, layer) for i in range(networks)])
                root = np.sqrt((found**2).mean(axis=0))
                print(f"{name:24} {width:6}", *(f"{v:9.4f}" for v in root))


if __name__ == "__main__":
    main()
