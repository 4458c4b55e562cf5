"""Powers of power series."""

from typing import Any


def product(a: Any, b: Any, xp: Any) -> Any:
    """The coefficients of a product of two series, as many as each has;
    they lie along the first axis.
    """
    return sum(
        xp.concatenate([xp.zeros_like(b[:k]), a[k] * b[: len(b) - k]]) for k in range(len(a))
    )


def power(a: object, exponent: int, xp: object) -> Any:
    """The coefficients of (Σ_j a_j λ^j)^exponent, as many as a has, by squaring:
    where a ≥ 0 nothing cancels.
    """
    result = None
    while True:
        if exponent % 2:
            result = a if result is None else product(result, a, xp)
        exponent //= 2
        if not exponent:
            return result
        a = product(a, a, xp)
