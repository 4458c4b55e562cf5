"""Gaussian integrals by Gauss–Legendre rules on panels,
cut wherever an integrand bends: plain, slow, and independent.

Two orders of the rule give a value and its error.
"""

import functools
import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from adversary.functions import DENSITY, Function

Array = Any
FINE, COARSE = 14, 9  # points in a panel
# standard deviations; beyond it is 1e-50: moments behind a threshold come from far out
EDGE = 15.0
FARTHEST = 37.0  # where densities underflow: a function that is 0 up to there is 0
STEPS = 2.0 ** np.arange(-1, 7)  # panels grow geometrically with the distance from a break
DEEP = 2.0 ** np.arange(-44, -1)  # and shrink towards a point where the integrand is singular


@functools.cache
def legendre(points: int) -> tuple[Array, Array]:
    """Nodes and weights of the Gauss–Legendre rule on [−1, 1]."""
    return np.polynomial.legendre.leggauss(points)


def normal_rule(cuts: Iterable[float], points: int, edge: float = EDGE) -> tuple[Array, Array]:
    """Nodes z and weights for E f(z), z ~ N(0, 1), f smooth between `cuts`."""
    inside = [c for c in cuts if -edge < c < edge]
    panels = np.linspace(-edge, edge, 1 + math.ceil(4 * edge))
    edges = np.unique(np.concatenate([panels, np.asarray(inside, float)]))
    x, w = legendre(points)
    half = np.diff(edges) / 2
    z = ((edges[:-1] + edges[1:]) / 2)[:, None] + half[:, None] * x
    return z.ravel(), (half[:, None] * w * DENSITY * np.exp(-(z**2) / 2)).ravel()


def around(points: Iterable[float], scale: float, deep: bool = False) -> Array:
    """The points, and cuts at growing distances from them, on a `scale`."""
    steps = np.concatenate([DEEP, STEPS]) if deep else STEPS
    offsets = scale * np.concatenate([-steps[::-1], [0.0], steps])
    return (np.asarray(list(points), float)[:, None] + offsets).ravel()


def cuts_of(phi: Function, sd: float) -> Array:
    """Where φ(sd·z) bends, in z."""
    if sd == 0:
        return np.zeros(0)
    if phi.everywhere:
        return np.arange(-EDGE, EDGE, min(1.0, 1.5 / sd)) if sd < 200 else np.zeros(0)
    far = [x / sd for x in phi.breaks if EDGE - 3 < abs(x) / sd < FARTHEST]
    fading = np.linspace(0.0, 3.0, 61)  # behind breaks that are far out, on the scale sd/x
    tails = [np.sign(x) * (abs(x) + fading) for x in far]
    return np.concatenate([around([x / sd for x in {0.0, *phi.breaks}], 1 / sd), *tails])


def edge_of(phi: Function, sd: float) -> float:
    """How far out φ(sd·z) has to be seen: behind breaks that are far out."""
    places = [abs(x) / sd for x in phi.breaks] if sd else []
    return max([EDGE, *(x + 3 for x in places if EDGE - 3 < x < FARTHEST)])


def mean_of(phi: Function, variance: float, points: int = FINE) -> float:
    """E φ(u), u ~ N(0, variance)."""
    sd = math.sqrt(variance)
    z, w = normal_rule(cuts_of(phi, sd), points, edge_of(phi, sd))
    return float(w @ phi(sd * z))


def product_of(phi: Function, K_uu: float, K_uv: float, K_vv: float, points: int = FINE) -> float:
    """E φ(u)φ(v) for (u, v) ~ N(0, [[K_uu, K_uv], [K_uv, K_vv]])."""
    if phi.name == "sin":  # (e^{K_uv} − e^{−K_uv})/2 · e^{−(K_uu + K_vv)/2}
        half = (np.longdouble(K_uu) + np.longdouble(K_vv)) / 2
        if abs(K_uv) < 1:  # the difference of two numbers near 1
            return float(np.sinh(np.longdouble(K_uv)) * np.exp(-half))
        return float((np.exp(K_uv - half) - np.exp(-K_uv - half)) / 2)
    sd_u, sd_v = math.sqrt(K_uu), math.sqrt(K_vv)
    if K_uu == K_uv == K_vv:  # one and the same number
        z, w = normal_rule(cuts_of(phi, sd_u), points, edge_of(phi, sd_u))
        return float(w @ phi(sd_u * z) ** 2)
    slope, rest = _regression(K_uu, K_uv, K_vv)
    z, w = normal_rule(
        np.concatenate([cuts_of(phi, sd_u), _narrow_cuts(phi, slope, rest, sd_u)]),
        points,
        edge_of(phi, sd_u),
    )
    u, given = sd_u * z, slope * sd_u * z  # v = given + rest·z'
    return float(w @ (phi(u) * conditional_mean(phi, given, rest, sd_v, points)))


def _regression(K_uu: float, K_uv: float, K_vv: float) -> tuple[float, float]:
    """v = slope·u + rest·z' with z' a standard normal independent of u."""
    if K_uu == 0:
        return 0.0, math.sqrt(K_vv)
    slope = np.longdouble(K_uv) / np.longdouble(K_uu)
    rest = np.longdouble(K_vv) - slope * np.longdouble(K_uv)
    return float(slope), math.sqrt(max(float(rest), 0.0))


def _narrow_cuts(phi: Function, slope: float, rest: float, sd_u: float) -> Array:
    """Where E[φ(v) | u] bends, in z = u/sd_u: around the breaks of φ(slope·u),
    on the scale of what is added to it.
    """
    reach = slope * sd_u
    if abs(reach) < 1e-12 * max(rest, 1e-300) or reach == 0 or phi.everywhere:
        return np.zeros(0)
    return around([x / reach for x in {0.0, *phi.breaks}], max(rest, 1e-300) / abs(reach))


def conditional_mean(phi: Function, given: Array, rest: float, sd: float, points: int) -> Array:
    """E φ(given + rest·z) for each entry of `given`, cut where φ bends;
    `sd` is that of the whole argument.
    """
    if rest <= 1e-9 * max(sd, 1e-300) and not _jumps(phi):
        return phi(given)
    if rest == 0:
        return phi(given)
    x, weight = legendre(points)
    bends = np.arange(-EDGE, EDGE, min(1.0, 1.5 / rest)) if phi.everywhere and rest < 200 else None
    if bends is not None:
        z, w = normal_rule(bends, points)
        return phi(given[:, None] + rest * z) @ w
    offsets = np.concatenate([-STEPS[::-1], [0.0], STEPS])
    centres = np.array(sorted({0.0, *phi.breaks}))
    cuts = ((centres[:, None] + offsets).ravel()[None] - given[:, None]) / rest
    fixed = np.broadcast_to(np.linspace(-EDGE, EDGE, 31), (len(given), 31))
    edges = np.sort(np.clip(np.concatenate([cuts, fixed], axis=1), -EDGE, EDGE), axis=1)
    half = np.diff(edges, axis=1)[..., None] / 2
    z = (edges[:, :-1, None] + edges[:, 1:, None]) / 2 + half * x
    return (
        half * weight * DENSITY * np.exp(-(z**2) / 2) * phi(given[:, None, None] + rest * z)
    ).sum(axis=(1, 2))


def _jumps(phi: Function) -> bool:
    return phi.name in ("sign", "step", "stairs", "leap")


def kernel_of(phi: Function, K: Array) -> tuple[Array, Array, Array]:
    """E φ(h)φ(h)ᵀ and E φ(h) for h ~ N(0, K), and the error of the former:
    two orders, and one rounding of K.
    """
    s = len(K)
    values, errors = np.zeros((s, s)), np.zeros((s, s))
    for i in range(s):
        for j in range(i + 1):
            entries = float(K[i, i]), float(K[i, j]), float(K[j, j])
            value = product_of(phi, *entries)
            error = abs(value - product_of(phi, *entries, COARSE)) + (
                _sensitivity(phi, entries, value) if i != j else 0
            )
            values[i, j] = values[j, i] = value
            errors[i, j] = errors[j, i] = error
    means = np.array([mean_of(phi, float(k)) for k in np.diag(K)])
    return values, means, errors


def _sensitivity(phi: Function, entries: tuple[float, float, float], value: float) -> float:
    """What a rounding of the correlation does: near ±1 it may be much more than a rounding."""
    K_uu, K_uv, K_vv = entries
    moved = K_uv * (1 - 2.0**-50)
    near = K_uv**2 > 0.9 * K_uu * K_vv
    return abs(product_of(phi, K_uu, moved, K_vv) - value) if near and K_uv else 0.0
