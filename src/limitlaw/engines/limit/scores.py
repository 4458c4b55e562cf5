"""Scores of wide vectors in the limit (Definition 3.1 (iv)): Gaussian under 1/√n, deterministic
under 1/n.

    Cov(p_k, p_l) = E[Z^{q_k} Z^{q_l}] E[Z^{k_k} Z^{k_l}] + E[Z^{q_k} Z^{k_l}] E[Z^{k_k} Z^{q_l}]

Most scores are independent of all others given the kernels, and drawn as L N Lᵀ by the rule of
frames. Those that may be correlated with others are drawn in `forms.py`.
"""

from typing import Any

import jax.numpy as jnp

from limitlaw.core.covariance import Covariance, total
from limitlaw.core.instructions import Dot
from limitlaw.core.kinds import Value
from limitlaw.core.labelled import Labelled, elementwise, multiply
from limitlaw.engines.limit.means import zeros
from limitlaw.engines.limit.moments import Moments
from limitlaw.engines.limit.waves import rotation_factor


def covariance(moments: Moments, p: Value) -> Covariance | None:
    """Cov(p_k, p_l) of scores that are correlated with no others; None stands for zero."""
    dot = scored(p)
    straight = _product(moments, (dot.q, dot.q), (dot.k, dot.k))
    crossed = _product(moments, (dot.q, dot.k), (dot.k, dot.q))
    if dot.base is not None:
        straight, crossed = (
            None if block is None else _turned(moments, block, dot, dot.base, sign)
            for block, sign in ((straight, 1.0), (crossed, -1.0))
        )
    terms = [block for block in (straight, crossed) if block is not None]
    return total(terms) if terms else None


def scored(p: Value) -> Dot:
    """The dot product that makes an array of scores."""
    assert isinstance(p.instruction, Dot)
    return p.instruction


def _product(
    moments: Moments, qs: tuple[Value, Value], ks: tuple[Value, Value]
) -> Covariance | None:
    """E[q q'] E[k k'], where entries meet by axis."""
    queries, keys = moments.second(*qs), moments.second(*ks)
    return None if queries is None or keys is None else queries.times(keys)


def _turned(moments: Moments, block: Covariance, dot: Dot, base: float, sign: float) -> Covariance:
    """The covariance times c(Δ), Δ the phases' difference (sum, where queries meet keys)."""
    phases = phase(moments, dot)
    here, there = block.on_left(phases), block.on_right(phases)
    c = elementwise(lambda left, right: rotation_factor(left - sign * right, base), here, there)
    return Covariance(multiply(block.c, c))


def phase(moments: Moments, dot: Dot) -> Labelled:
    """The position of q minus the position of k, for each score."""
    if dot.base is None:
        return Labelled(jnp.zeros(()), ())
    given = zip(dot.positions, dot.orders, strict=True)
    return elementwise(jnp.subtract, *(moments.given.given(slot, order) for slot, order in given))


def deterministic(moments: Moments, p: Value) -> Labelled:
    """Scores under 1/n: E[Z^q Z^k], entry by entry along the axes that q and k share."""
    dot = scored(p)
    block = moments.second(dot.q, dot.k)
    if block is None:
        return zeros(p)
    for axis in dot.q.axes:
        if axis in dot.k.axes and any(axis in (pair.left, pair.right) for pair in block.labels):
            block = block.restricted(axis, axis)
    block = block.dense(
        [p.left for p in block.pairs if p.left is not None and p.left is not p.right]
    )
    called: Any = {pair: pair.left or pair.right for pair in block.labels}
    found = block.c.rename(called)
    if dot.base is None:
        return found
    return multiply(
        found, phase(moments, dot).mapped(lambda delta: rotation_factor(delta, dot.base or 1.0))
    )
