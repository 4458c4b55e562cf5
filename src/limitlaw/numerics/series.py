"""Products and powers of power series."""

from types import ModuleType

from limitlaw.numerics import Floats


def product(a: Floats, b: Floats, xp: ModuleType) -> Floats:
    """The coefficients of a product of power series, as many as each has, on the first axis."""
    n = len(a)
    return sum(xp.concatenate([xp.zeros_like(b[:k]), a[k] * b[: n - k]]) for k in range(n))


def power(a: Floats, exponent: int, xp: ModuleType) -> Floats:
    """The coefficients of (Σ_j a_j λ^j)^exponent by squaring: for a ≥ 0 nothing cancels."""
    while exponent % 2 == 0:
        a, exponent = product(a, a, xp), exponent // 2
    result = a
    while exponent > 1:
        a, exponent = product(a, a, xp), exponent // 2
        result = product(result, a, xp) if exponent % 2 else result
    return result
