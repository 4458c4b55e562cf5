"""Covariances of Nonlin outputs φ(u), with each other and with Gaussian vectors: by integrals of
one or two functions, or of their factors (`products.py`).
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from limitlaw.core.covariance import Covariance, Equal, between
from limitlaw.core.kinds import Value
from limitlaw.core.labelled import Labelled
from limitlaw.engines.limit.products import factored

if TYPE_CHECKING:
    from limitlaw.engines.limit.moments import Moments


def map_with_map(moments: "Moments", v: Value, w: Value, equal: Equal) -> Covariance | None:
    """Cov(φ(u), ψ(u')) = E[φ(u) ψ(u')] − E φ(u) E ψ(u')."""
    if not {v, w} <= moments.facts.integrable:
        return factored(moments, v, w, equal)
    block = moments.product(v, w, equal)
    if block is None:
        return None
    first, second = moments.mean(v), moments.mean(w)
    if first is None or second is None:
        return block
    return block.mapped(lambda p, m, k: p - m * k, block.on_left(first), block.on_right(second))


def product(moments: "Moments", v: Value, w: Value, equal: Equal) -> Covariance | None:
    """E[φ(u) ψ(t)] of functions of one Gaussian vector each; else, or if independent, None."""
    u, t = moments.facts.argument.get(v), moments.facts.argument.get(w)
    if u is None or t is None or not {v, w} <= moments.facts.integrable:
        return None
    block = moments.covariance(u, t, between(equal, u.axes, t.axes))
    if block is None:
        return None
    numbers = [
        numbers_of(moments, v.instruction, block.on_left),
        numbers_of(moments, w.instruction, block.on_right),
    ]
    means = moments.mean(u), moments.mean(t)
    m_u = None if means[0] is None else block.on_left(means[0])
    m_t = None if means[1] is None else block.on_right(means[1])
    K_uu, K_tt = block.on_left(moments.variance(u)), block.on_right(moments.variance(t))
    functions = [v.instruction, w.instruction]
    return Covariance(
        moments.integrals.moment("product", functions, numbers, [m_u, m_t, K_uu, block.c, K_tt])
    )


def map_with_gaussian(moments: "Moments", v: Value, g: Value, equal: Equal) -> Covariance | None:
    """Cov(φ(u), g) = E φ'(u) Cov(u, g) (Stein); E[b] Cov(a, g) for φ = a b, b independent."""
    u = moments.facts.argument.get(v)
    if u is None:
        return factored(moments, v, g, equal)
    block = moments.covariance(u, g, between(equal, u.axes, g.axes))
    if block is None:
        return None
    numbers = numbers_of(moments, v.instruction)
    return block.scaled(
        moments.integrals.moment(
            "slope", [v.instruction], [numbers], [moments.mean(u), moments.variance(u)]
        )
    )


def numbers_of(
    moments: "Moments", op: Any, place: Callable[[Labelled], Labelled] = lambda a: a
) -> dict[Value, Labelled]:
    """The numbers among the arguments of φ, each put through `place`."""
    return {p: place(moments.numbers[p]) for p in op.args if not p.is_vector}
