"""Covariances of what a family of matrices makes, and of Gaussian vectors that are known by their roots."""

import jax.numpy as jnp
import numpy as np

from limitlaw.engines.blocks import Block
from limitlaw.engines.fresh import Fresh
from limitlaw.language import ops
from limitlaw.language.ops import Value
from limitlaw.language.shapes import finite_shape
from limitlaw.numerics.factors import gram


def family(block: Block, matrix: ops.Matrix, v: Value, w: Value) -> Block:
    """std² E[x x'] for each matrix of a family: entries made by different matrices are independent."""
    left, right = finite_shape(v.shape), finite_shape(w.shape)
    block = block.spread(left, right)
    for k, size in enumerate(reversed(finite_shape(matrix.shape)), start=1):
        if size > 1:
            block = block.restricted(len(left) - k, len(right) - k)
    return block.scaled(jnp.asarray(matrix.std) ** 2, left)


def block_of(fresh: Fresh) -> Block:
    """The covariance of Gaussian vectors on roots."""
    shape = fresh.shape
    right = tuple(1 if own else size for own, size in zip(fresh.own, fresh.c.shape[:-1], strict=True))
    owns = [a for a, own in enumerate(fresh.own) if own]
    others = [a for a, own in enumerate(fresh.own) if not own]
    c = fresh.c.transpose(*owns, *others, len(shape))
    rows = c.reshape(*c.shape[: len(owns)], -1, fresh.roots)
    sizes = c.shape[len(owns) : -1]
    K = gram(rows).reshape(*c.shape[: len(owns)], *sizes, *sizes)
    order = np.argsort([*owns, *others]).tolist()
    K = K.transpose(*order, *range(len(shape), K.ndim))
    array = K.reshape(*K.shape[: len(shape)], *right)
    return Block(array, shape, shape, tuple((a, a) for a in owns))
