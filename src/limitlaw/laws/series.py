"""Powers of power series, for moments of sums."""

import math
from typing import Any


def power(a: list[Any], exponent: int) -> list[Any]:
    """The coefficients of (Σ_j a_j λ^j)^exponent with a_0 = 1, as many as a has (J. C. P. Miller's recursion).

    c_n = (1/n) Σ_{k=1}^n (k (exponent + 1) − n) a_k c_{n−k}.
    """
    c = [a[0]]
    for n in range(1, len(a)):
        c.append(sum((k * (exponent + 1) - n) * a[k] * c[n - k] for k in range(1, n + 1)) / n)
    return c


def even_moment(n: int, powers: list[Any], groups: Any, inner: int, outer: int) -> Any:
    """E Y^{2n} for E e^{θY} = (Σ_g u_g (Σ_k w_gk e^{λ v_gk})^p)^q, λ = θ²/(2pq).

    `powers`: Σ_k w_gk v_gk^j for j = 0 … n; `inner`: p; `outer`: q.
    """
    one = 0 * powers[0] + 1
    within = power([one, *(powers[j] / math.factorial(j) for j in range(1, n + 1))], inner)
    c = power([(groups * c).sum() for c in within], outer)
    return c[n] * math.factorial(2 * n) / (2.0 * inner * outer) ** n
