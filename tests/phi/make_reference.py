"""Writes reference.json: Gaussian moments by an independent quadrature,
in extended precision where there is any.

Run `python tests/nonlinearities/make_reference.py`; needs mpmath, and takes two minutes. Two
dimensions: order-20 Gauss–Legendre panels in (x, y), u = σ_u x, v = σ_v (ρx + √(1 − ρ²) y), graded
finely in both, without any closed form of a moment. One dimension (ρ = 0, ±1, means and slopes):
`mpmath.quad` with 30 digits. sin and cos: characteristic functions.
"""

import json
import math
import pathlib

import mpmath as mp
import numpy as np
from scipy import special

mp.mp.dps = 30
L = np.longdouble
NODES, WEIGHTS = (L(a) for a in np.polynomial.legendre.leggauss(20))

MP = {
    "identity": lambda x: x,
    "relu": lambda x: max(x, mp.mpf(0)),
    "leaky_relu": lambda x: x if x >= 0 else x * mp.mpf(0.1),
    "abs": abs,
    "sign": mp.sign,
    "clip": lambda x: min(max(x, mp.mpf(-1)), mp.mpf(1)),
    "erf": mp.erf,
    "gelu": lambda x: x * mp.ncdf(x),
    "tanh": mp.tanh,
    "sigmoid": lambda x: 1 / (1 + mp.exp(-x)),
    "silu": lambda x: x / (1 + mp.exp(-x)),
    "softplus": lambda x: mp.log1p(mp.exp(x)) if x < 0 else x + mp.log1p(mp.exp(-x)),
}
LONG = {
    "identity": lambda x: x,
    "relu": lambda x: np.maximum(x, 0),
    "leaky_relu": lambda x: np.where(x >= 0, x, L(0.1) * x),
    "abs": np.abs,
    "sign": np.sign,
    "clip": lambda x: np.clip(x, -1, 1),
    "erf": lambda x: L(special.erf(x.astype(float))),
    "gelu": lambda x: L(special.ndtr(x.astype(float))) * x,
    "tanh": np.tanh,
    "sigmoid": lambda x: L(0.5) + L(0.5) * np.tanh(L(0.5) * x),
    "silu": lambda x: x * (L(0.5) + L(0.5) * np.tanh(L(0.5) * x)),
    "softplus": lambda x: np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x))),
}
VARIANCES = [(1e-6, 1e-6), (1.0, 1.0), (1e6, 1e6), (1e-6, 1e6), (1e6, 1.0)]
CORRELATIONS = [0.0, 0.5, -0.5, 1 - 1e-8, -(1 - 1e-8), 1.0, -1.0]
MIXED = [
    ("relu", "tanh"),
    ("sign", "gelu"),
    ("clip", "softplus"),
    ("tanh", "silu"),
    ("abs", "erf"),
]
MEANS = [(0.7, -0.4), (-2.0, 3.0)]


def places(name):
    return [-1, 1] if name == "clip" else [0]


def graded(centres, width, limit=12):
    """Edges of panels at most 1 long, graded around each centre from its width on;
    all arrays of one row per case.
    """
    steps = L(1.7) ** np.arange(-2, 40)
    edges = [
        np.broadcast_to(
            np.linspace(-limit, limit, 2 * limit + 1, dtype=L), (*width.shape, 2 * limit + 1)
        )
    ]
    for c in centres:
        for sign in (-1, 1):
            edges.append(c[..., None] + sign * width[..., None] * steps)
        edges.append(c[..., None])
    return np.sort(np.clip(np.concatenate(edges, axis=-1), -limit, limit), axis=-1)


def nodes_and_weights(edges):
    keep = (np.diff(edges, axis=-1) > 0).any(axis=tuple(range(edges.ndim - 1)))
    a, b = edges[..., :-1][..., keep, None], edges[..., 1:][..., keep, None]
    x = (a + b) / 2 + (b - a) / 2 * NODES
    w = (b - a) / 2 * WEIGHTS * np.exp(-x * x / 2) / np.sqrt(2 * L(np.pi))
    return x.reshape(*x.shape[:-2], -1), w.reshape(*w.shape[:-2], -1)


def in_the_plane(phi, psi, m_u, m_v, K_uu, K_uv, K_vv):
    """E φ(u)ψ(v) for |ρ| < 1 by panels in both directions."""
    m_u, m_v, K_uu, K_uv, K_vv = (L(a) for a in (m_u, m_v, K_uu, K_uv, K_vv))
    s_u, s_v = np.sqrt(K_uu), np.sqrt(K_vv)
    rho, s = K_uv / s_u / s_v, np.sqrt(K_vv - K_uv * K_uv / K_uu)
    edges = [graded([(p - m_u) / s_u for p in places(phi)], 1 / s_u).ravel()]
    if rho != 0:
        edges.append(
            graded(
                [(p - m_v) / (rho * s_v) for p in places(psi)], np.hypot(s, 1) / abs(rho * s_v)
            ).ravel()
        )
        edges.append(
            graded([(p - m_v) / (rho * s_v) for p in places(psi)], s / abs(rho * s_v)).ravel()
        )
    x, w = nodes_and_weights(np.sort(np.concatenate(edges)))
    total = L(0)
    for part in np.array_split(np.arange(len(x)), max(1, len(x) // 200)):
        mu = m_v + rho * s_v * x[part]
        y, wy = nodes_and_weights(
            graded([(p - mu) / s for p in places(psi)], np.full(mu.shape, 1 / s))
        )
        inner = (wy * LONG[psi](mu[:, None] + s * y)).sum(axis=-1)
        total += (w[part] * LONG[phi](m_u + s_u * x[part]) * inner).sum()
    return float(total)


def on_the_line(f, points):
    """E f(Z) with mpmath, between points where f is not smooth on long scales."""
    cuts = {mp.mpf(k) for k in range(-13, 14, 2)}
    for c, width in points:
        cuts |= {mp.mpf(c)} | {
            c + s * width * mp.mpf(4) ** j for j in range(-1, 9) for s in (-1, 1)
        }
    cuts = sorted(x for x in cuts if -13 <= x <= 13)
    return mp.quad(lambda x: mp.npdf(x) * f(x), cuts)


def line_points(name, m, k):
    sigma = mp.sqrt(mp.mpf(k))
    return [((p - mp.mpf(m)) / sigma, 1 / sigma) for p in places(name)]


def moment_on_line(name, m, k, power=1, stein=False):
    sigma = mp.sqrt(mp.mpf(k))
    f = MP[name]
    value = on_the_line(
        lambda x: f(mp.mpf(m) + sigma * x) ** power * (x / sigma if stein else 1),
        line_points(name, m, k),
    )
    return float(value)


def singular(phi, psi, m_u, m_v, K_uu, sign, K_vv):
    s_u, s_v = mp.sqrt(mp.mpf(K_uu)), sign * mp.sqrt(mp.mpf(K_vv))
    points = line_points(phi, m_u, K_uu) + [(sign * c, w) for c, w in line_points(psi, m_v, K_vv)]
    return float(
        on_the_line(
            lambda x: MP[phi](mp.mpf(m_u) + s_u * x) * MP[psi](mp.mpf(m_v) + s_v * x), points
        )
    )


def case(phi, psi, m_u, m_v, K_uu, rho, K_vv, squares):
    K_uv = rho * math.sqrt(K_uu * K_vv)
    for name, m, k in ((phi, m_u, K_uu), (psi, m_v, K_vv)):
        if (name, m, k) not in squares:
            squares[name, m, k] = moment_on_line(name, m, k, power=2)
    scale = math.sqrt(squares[phi, m_u, K_uu] * squares[psi, m_v, K_vv])
    if rho == 0:
        value = moment_on_line(phi, m_u, K_uu) * moment_on_line(psi, m_v, K_vv)
    elif abs(rho) == 1:
        value = singular(phi, psi, m_u, m_v, K_uu, int(rho), K_vv)
    else:
        value = in_the_plane(phi, psi, m_u, m_v, K_uu, K_uv, K_vv)
    return [phi, psi, m_u, m_v, K_uu, K_uv, K_vv, rho, value, scale]


def waves(K_uu, rho, K_vv):
    """E sin u sin v and E cos u cos v = ½(e^{−Var(u − v)/2} ∓ e^{−Var(u + v)/2})."""
    K_uv = rho * math.sqrt(K_uu * K_vv)
    a, c = (mp.mpf(K_uu) + mp.mpf(K_vv)) / 2, mp.mpf(K_uv)
    rows = []
    for name, s in (("sin", -1), ("cos", 1)):
        squares = [(1 + s * mp.exp(-2 * mp.mpf(k))) / 2 for k in (K_uu, K_vv)]
        value = (mp.exp(c - a) + s * mp.exp(-c - a)) / 2
        rows.append(
            [
                name,
                name,
                0,
                0,
                K_uu,
                K_uv,
                K_vv,
                rho,
                float(value),
                float(mp.sqrt(squares[0] * squares[1])),
            ]
        )
    return rows


def main():
    squares, products, means = {}, [], []
    for phi in MP:
        for m, k in [
            (0.0, 1e-6),
            (0.0, 1.0),
            (0.0, 1e6),
            (0.7, 1e-6),
            (-1.5, 1.0),
            (40.0, 1e6),
            (3.0, 0.25),
        ]:
            values = [moment_on_line(phi, m, k, stein=stein) for stein in (False, True)]
            means.append([phi, m, k, *values, math.sqrt(moment_on_line(phi, m, k, power=2))])
        print(phi, flush=True)
    for K_uu, K_vv in VARIANCES:
        for rho in CORRELATIONS:
            products += waves(K_uu, rho, K_vv)
            products += [case(phi, phi, 0.0, 0.0, K_uu, rho, K_vv, squares) for phi in MP]
            if (K_uu, K_vv) != (1e-6, 1e-6):
                products += [
                    case(phi, psi, 0.0, 0.0, K_uu, rho, K_vv, squares) for phi, psi in MIXED
                ]
            print(K_uu, K_vv, rho, len(products), flush=True)
    for m_u, m_v in MEANS:
        for rho in (0.5, 1 - 1e-8, -1.0):
            for phi in MP:
                products.append(case(phi, phi, m_u, m_v, 1.0, rho, 2.25, squares))
            products.append(case("tanh", "relu", m_u, m_v, 1.0, rho, 1e4, squares))
        print(m_u, m_v, len(products), flush=True)
    path = pathlib.Path(__file__).with_name("reference.json")
    rows = {"product": products, "mean": means}
    path.write_text(
        "{\n"
        + ",\n".join(
            f'"{k}": [\n' + ",\n".join(map(json.dumps, v)) + "\n]" for k, v in rows.items()
        )
        + "\n}\n"
    )


if __name__ == "__main__":
    main()
