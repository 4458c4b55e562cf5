"""Powers of power series, for moments of sums."""

import math
from typing import Any

import numpy as np

from limitlaw.laws.moments import unit


def product(a: Any, b: Any, xp: Any) -> Any:
    """The coefficients of a product of two series, as many as each has; they lie along the first axis."""
    return sum(xp.concatenate([xp.zeros_like(b[:k]), a[k] * b[: len(b) - k]]) for k in range(len(a)))


def power(a: Any, exponent: int, xp: Any) -> Any:
    """The coefficients of (Σ_j a_j λ^j)^exponent, as many as a has, by squaring: where a ≥ 0 nothing cancels."""
    result = None
    while True:
        if exponent % 2:
            result = a if result is None else product(result, a, xp)
        exponent //= 2
        if not exponent:
            return result
        a = product(a, a, xp)


def even_moment(n: int, nodes: Any) -> Any:
    """E Y^{2n} for E e^{θY} = (Σ_g u_g (Σ_k w_gk e^{λ v_gk})^p)^q, λ = θ²/(2pq), of `nodes` u, w, v, p and q.

    = (2n)!/(2pq)^n times the coefficient of λ^n. That is of order one in the variable λ/s, s ≈ n/(e V), where V is the
    larger of pq E v, which many heads make up together, and of the largest v, which a single one may.
    """
    if not n:
        return nodes.xp.ones(())
    pq = nodes.inner * nodes.outer
    V = nodes.xp.maximum(pq * nodes.variance(), nodes.ends()[1])
    s = nodes.xp.asarray(unit(n / math.e / nodes.xp.where(V > 0, V, 1.0)))
    a = [(nodes.weights * (s * nodes.variances) ** j).sum(1) / math.factorial(j) for j in range(1, n + 1)]
    within = power(nodes.xp.stack([nodes.xp.ones_like(a[0]), *a]), nodes.inner, nodes.xp)
    rows = (nodes.groups * within[1:]).sum(1)
    moment = power(nodes.xp.concatenate([nodes.xp.ones(1), rows]), nodes.outer, nodes.xp)[n]
    with np.errstate(over="ignore"):
        for i in range(1, n + 1):
            moment = moment * (2 * i * (2 * i - 1) / (2 * pq * s))
    return moment
