"""Covariances of products: of independent vectors, and of scores with the vectors they weight."""

from typing import TYPE_CHECKING, Any

import jax.numpy as jnp

from limitlaw.core import instructions as core
from limitlaw.core.covariance import Covariance, Equal, between, outer, swapped, total
from limitlaw.core.kinds import Value
from limitlaw.core.labelled import Axis, Labelled
from limitlaw.engines.limit.facts import LimitFacts, independent_factors, unnamed
from limitlaw.engines.limit.together import one_by_one

if TYPE_CHECKING:
    from limitlaw.engines.limit.moments import Moments


def factored(moments: "Moments", v: Value, w: Value, equal: Equal) -> Covariance | None:
    """Cov(a b, c d) of products of independent factors; else by quasi-Monte Carlo."""
    apart = in_two(moments.facts, v, w)
    if apart is not None:
        return _product_of_independent(moments, *apart, equal)
    if any(in_two(moments.facts, t, u) for t in _terms(moments, v) for u in _terms(moments, w)):
        if len(_terms(moments, v)) > 1:
            return one_by_one(moments, v, w, equal)
        block = one_by_one(moments, w, v, swapped(equal))
        return block and block.swapped
    return moments.nodes.covariance(v, w)


def _terms(moments: "Moments", v: Value) -> tuple[Value, ...]:
    return moments.facts.terms.get(v, (v,))


def in_two(facts: LimitFacts, v: Value, w: Value) -> tuple[Any, Any] | None:
    """(a, c) and (b, d) of products v = a b, w = c d, one pair independent of the other; (None,
    None) where there is none, None for an absent factor.
    """
    factors, others = (independent_factors(facts, x.instruction) or (x, None) for x in (v, w))
    for (a, b), (c, d) in ((factors, others), (factors, others[::-1])):
        apart = all(x is None or y is None or facts.independent(x, y) for x, y in ((a, d), (b, c)))
        if apart and (b is not None or d is not None):
            return (a, c), (b, d)
    return None


def _product_of_independent(
    moments: "Moments", ac: Any, bd: Any, equal: Equal
) -> Covariance | None:
    """E[ac] E[bd] − E a E b E c E d, of which the second term is 0 or cancels in
    Cov(a,c) Cov(b,d) + E a E c Cov(b,d) + Cov(a,c) E b E d.

    A factor that is absent is 1.
    """
    M, N = (_product_of_means(moments, x, y) for x, y in (ac, bd))
    if M is None or N is None:
        first, second = (
            product if x is None or y is None else moments.second(x, y, _within(equal, x, y))
            for product, (x, y) in ((M, ac), (N, bd))
        )
        return None if first is None or second is None else first.times(second)
    A, B = (
        None if x is None or y is None else moments.covariance(x, y, _within(equal, x, y))
        for x, y in (ac, bd)
    )
    terms = [x.times(y) for x, y in ((A, B), (M, B), (A, N)) if x is not None and y is not None]
    return total(terms) if terms else None


def _within(equal: Equal, x: Value, y: Value) -> Equal:
    return between(equal, x.axes, y.axes)


def _product_of_means(moments: "Moments", x: Value | None, y: Value | None) -> Covariance | None:
    """E x E y."""
    m, k = (Labelled(jnp.ones(()), ()) if z is None else moments.mean(z) for z in (x, y))
    return None if m is None or k is None else outer(m, k)


def bilinear(moments: "Moments", v: Any, w: Any) -> Covariance | None:
    """Cov(Σ_j p_ij v_j, Σ_l p_kl w_l) = E[q_i q_k] Σ_jl E[k_j k_l] E[v_j w_l], p = qᵀk/√n."""
    both = v in moments.facts.bilinear and w in moments.facts.bilinear
    if not both or unnamed(v.instruction.a) is not unnamed(w.instruction.a):
        return None  # E p = 0
    q, k = unnamed(v.instruction.a).inputs
    sides = [_names_of(x.instruction.a) for x in (v, w)]
    queries, keys = (_renamed(moments.second(f, f), *sides) for f in (q, k))
    vectors = moments.second(v.instruction.w, w.instruction.w)
    if queries is None or keys is None or vectors is None:
        return None
    product = queries.times(keys).times(vectors)
    return (
        product.contract(None, v.instruction.over)
        .swapped.contract(None, w.instruction.over)
        .swapped
    )


def _renamed(block: Covariance | None, left: Any, right: Any) -> Covariance | None:
    return None if block is None else block.rename(left).swapped.rename(right).swapped


def _names_of(p: Value) -> dict[Axis, Axis]:
    """The final name of each axis of numbers, by its name when they were made."""
    renames = []
    while isinstance(p.instruction, core.Rename):
        renames.append(p.instruction)
        p = p.instruction.x
    called = {axis: axis for axis in p.axes}
    for rename in reversed(renames):
        called = {axis: rename.name_of(name) for axis, name in called.items()}
    return called
