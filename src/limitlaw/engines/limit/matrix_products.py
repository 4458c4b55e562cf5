"""Covariances of matrix products, Cov(W x, W x') = std² E[x x'], and of initial vectors."""

import itertools
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp

from limitlaw.core import instructions as core
from limitlaw.core.covariance import Covariance, Equal, between, pair, sides
from limitlaw.core.kinds import Family, Value
from limitlaw.core.labelled import finite_shape, labelled
from limitlaw.engines.frames.fresh import inner

if TYPE_CHECKING:
    from limitlaw.engines.limit.moments import Moments


def initial_vectors(moments: "Moments", v: Value) -> Covariance:
    """Cov(h, h) of a batch of initial vectors."""
    op: Any = v.instruction
    cov = jnp.asarray(moments.given.numbers[op.cov])
    shape = finite_shape(op.order)
    if op.diagonal:
        variances = labelled(cov.reshape(shape), op.order)
        return Covariance(variances.rename({a: pair(a, a) for a in variances.axes}))
    layout = (
        *(a and pair(a, None) for a in op.order),
        *(a and pair(None, a) for a in op.order),
    )
    return Covariance(labelled(cov.reshape(*shape, *shape), layout))


def matrix_products(moments: "Moments", v: Value, w: Value, equal: Equal) -> Covariance | None:
    """Cov(W x, W x') = std² E[x x'], for each matrix of the family."""
    op, other = v.instruction, w.instruction
    assert isinstance(op, core.MatMul)
    assert isinstance(other, core.MatMul)
    W = op.family
    apart = between(equal | {pair(a, a) for a in W.axes}, op.x.axes, other.x.axes)
    if W.cols.wide:
        _in_order(moments, w)
        block = moments.second(op.x, other.x, apart)
        return None if block is None else _of_family(moments, block, W)
    x, y = moments.given.units(op.x), moments.given.units(other.x)
    left, right = sides(x.axes, y.axes, apart)
    return _of_family(moments, Covariance(inner(x.rename(left), y.rename(right))), W)


def _in_order(moments: "Moments", w: Value) -> None:
    """Ask for the rows of covariances of W x₁, W x₂, …, up to a stack of them, one after the
    other, so that no recursion runs through all of them.
    """
    terms = moments.facts.terms.get(w, ())
    rows = [
        (terms[i], moments.facts.together.as_one(terms[:i])) for i in range(len(terms) - 1, 0, -1)
    ]
    unknown = list(itertools.takewhile(lambda row: not moments.knows(*row), rows))
    for v, before in reversed(unknown):
        moments.covariance(v, before)


def _of_family(moments: "Moments", block: Covariance, W: Family) -> Covariance:
    """std² E[x x'] for each matrix of a family; entries by different ones are independent."""
    for axis in W.axes:
        block = block.restricted(axis, axis)
    return block.scaled(moments.given.given(W.std, W.layout).mapped(jnp.square))
