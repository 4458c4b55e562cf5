"""Infinitely many heads as a quadrature: an axis of size ∞ becomes one of N nodes.

A normalised sum over infinitely many independent heads is Gaussian, with the mean of one head's covariance (Hron et al.
2020). N heads whose scores are the points of a quasi-random sequence average just that.
"""

import math
from collections.abc import Sequence

from limitlaw.language import shapes
from limitlaw.language.graph import ancestors
from limitlaw.language.ops import Value
from limitlaw.language.resizing import reshaped

HELD = 2**25  # numbers in the largest array with an axis of nodes


def with_nodes(outputs: Sequence[Value], most: int) -> tuple[tuple[Value, ...], int]:
    """The same program with N ≤ `most` nodes on every infinite axis, and N; 0 where there is none."""
    values = ancestors(outputs)
    if not any(shapes.is_infinite(v.shape) for v in values):
        return tuple(outputs), 0
    count = _count(values, most)
    return reshaped(tuple(outputs), lambda x: tuple(count if size == math.inf else size for size in x.shape)), count


def _count(values: Sequence[Value], most: int) -> int:
    """A power of two that no other axis has, as large as memory allows."""
    largest = max(math.prod(int(s) for s in v.shape if s != math.inf) for v in values if shapes.is_infinite(v.shape))
    sizes = {size for v in values for size in v.shape}
    count = most
    while count > 2**8 and (count * largest > HELD or count in sizes):
        count //= 2
    return count
