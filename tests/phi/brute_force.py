"""Gaussian moments of functions by brute force: NumPy,
known features of each function, many graded panels.
"""

import jax
import jax.numpy as jnp
import numpy as np

LIMIT = 37.0  # where the density underflows: a function may be 0 up to there
# Each function for jax, for NumPy, and the points around which panels are graded.
FUNCTIONS = {
    "step": (lambda z: jnp.where(z > 0.3, 1.0, 0.0), lambda z: np.where(z > 0.3, 1.0, 0.0), [0.3]),
    "ramp": (lambda z: jnp.maximum(z - 0.3, 0), lambda z: np.maximum(z - 0.3, 0), [0.3]),
    "abs and sign": (
        lambda z: jnp.abs(z - 2) + jnp.sign(z),
        lambda z: np.abs(z - 2) + np.sign(z),
        [0.0, 2.0],
    ),
    "stairs": (
        lambda z: jnp.round(jnp.clip(z, -20, 20)),
        lambda z: np.round(np.clip(z, -20, 20)),
        [k + 0.5 for k in range(-20, 20)],
    ),
    "hard sigmoid": (jax.nn.hard_sigmoid, lambda z: np.clip(z + 3, 0, 6) / 6, [-3.0, 3.0]),
    "hard tanh": (jax.nn.hard_tanh, lambda z: np.clip(z, -1, 1), [-1.0, 1.0]),
    "relu6": (jax.nn.relu6, lambda z: np.clip(z, 0, 6), [0.0, 6.0]),
    "elu": (
        jax.nn.elu,
        lambda z: np.where(z > 0, z, np.expm1(np.minimum(z, 0))),
        [0.0, -3.0, -10.0],
    ),
    "tanh": (lambda z: jnp.tanh(z), np.tanh, [0.0, 2, -2, 6, -6, 12, -12]),
    "bell": (lambda z: jnp.exp(-(z**2)), lambda z: np.exp(-(z**2)), [0.0, 1.5, -1.5, 4, -4]),
    "square": (jnp.square, np.square, []),
    "bump": (
        lambda z: jnp.exp(-(((z - 1.3) / 0.05) ** 2)),
        lambda z: np.exp(-(((z - 1.3) / 0.05) ** 2)),
        [1.3, 1.2, 1.4, 1.15, 1.45, 1.0, 1.6],
    ),
    "large": (
        lambda z: 1e6 * jnp.tanh(z),
        lambda z: 1e6 * np.tanh(z),
        [0.0, 2, -2, 6, -6, 12, -12],
    ),
    "far": (lambda z: jnp.maximum(z - 1e3, 0), lambda z: np.maximum(z - 1e3, 0), [1e3]),
    "steep": (
        lambda z: jax.nn.softplus(50 * z),
        lambda z: np.logaddexp(0, 50 * z),
        [0.0, 0.04, -0.04, 0.12, -0.12, 0.3, -0.3],
    ),
    "constant": (lambda z: jnp.full_like(z, 3.0), lambda z: np.full_like(z, 3.0), []),
    "identity": (lambda z: 1.0 * z, lambda z: z, []),
}


def graded(centres, finest):
    """Nodes and weights for E f(Z), for f with structure around `centres` as fine as `finest`."""
    steps = finest * 2.0 ** np.arange(np.ceil(np.log2(30 / finest)))
    near = [c + np.concatenate([-steps, [0.0], steps]) for c in centres if abs(c) < LIMIT + 1]
    edges = np.unique(
        np.clip(np.concatenate([np.linspace(-LIMIT, LIMIT, 149), *near]), -LIMIT, LIMIT)
    )
    x, w = np.polynomial.legendre.leggauss(16)
    half = 0.5 * np.diff(edges)[:, None]
    x = (0.5 * (edges[1:] + edges[:-1])[:, None] + half * x).ravel()
    return x, (half * w).ravel() * np.exp(-0.5 * x * x) / np.sqrt(2 * np.pi)


def mean(name, m, k):
    """E f(u), u ~ N(m, k)."""
    _, f, features = FUNCTIONS[name]
    sigma = np.sqrt(k)
    if sigma == 0:
        return f(np.asarray(float(m)))
    x, w = graded([(c - m) / sigma for c in features], min(0.1, 0.02 / sigma))
    return (w * f(m + sigma * x)).sum()


def second(name, m, k):
    """E f(u)²."""
    _, f, features = FUNCTIONS[name]
    sigma = np.sqrt(k)
    x, w = graded(
        [(c - m) / max(sigma, 1e-300) for c in features], min(0.1, 0.02 / max(sigma, 1e-8))
    )
    return (w * f(m + sigma * x) ** 2).sum()


def product(first, other, m_u, m_v, K_uu, rho, K_vv):
    """E f(u)g(v): u = m_u + σ_u x, v given x in an inner integral."""
    (_, f, of_f), (_, g, of_g) = FUNCTIONS[first], FUNCTIONS[other]
    su, sv = np.sqrt(K_uu), np.sqrt(K_vv)
    if rho == 0:
        return mean(first, m_u, K_uu) * mean(other, m_v, K_vv)
    t = np.sqrt((1 - rho) * (1 + rho))
    centres = [(c - m_u) / su for c in of_f] + [(c - m_v) / (rho * sv) for c in of_g]
    finest = min(0.1, 0.02 / su, 0.02 / sv, *([0.3 * t] if t else []))
    x, w = graded(centres, finest)
    mu = m_v + rho * sv * x
    if t == 0:
        return (w * f(m_u + su * x) * g(mu)).sum()
    inner = np.concatenate(
        [_inner(g, of_g, part, t * sv) for part in np.array_split(mu, -(-len(mu) // 400))]
    )
    return (w * f(m_u + su * x) * inner).sum()


def _inner(g, features, mu, s):
    """E g(v), v ~ N(μ, s²), for each μ."""
    finest = min(0.25, 0.02 / s)
    steps = finest * 2.0 ** np.arange(np.ceil(np.log2(30 / finest)))
    offsets = np.concatenate([-steps, [0.0], steps])
    near = [np.clip(((c - mu) / s)[:, None] + offsets, -LIMIT, LIMIT) for c in features]
    even = np.broadcast_to(np.linspace(-LIMIT, LIMIT, 75), (len(mu), 75))
    edges = np.sort(np.concatenate([even, *near], axis=1), axis=1)
    half, middle = 0.5 * np.diff(edges, axis=1), 0.5 * (edges[:, 1:] + edges[:, :-1])
    used = (half > 0).any(axis=0)
    half, middle = half[:, used], middle[:, used]
    xi, w = np.polynomial.legendre.leggauss(10)
    y = middle[..., None] + half[..., None] * xi
    terms = (w * np.exp(-0.5 * y * y) * g(mu[:, None, None] + s * y)).sum(axis=-1)
    return (half * terms).sum(axis=1) / np.sqrt(2 * np.pi)
