"""Token ids as vectors."""

import numpy as np

from limitlaw.arguments import non_negative_number, shown
from limitlaw.core.space import Dim, n
from limitlaw.language.functions import initial
from limitlaw.language.values import Wide


def embedding(ids: object, std: float = 1.0, dim: Dim | int = n) -> Wide:
    """A vector N(0, std²) for each id, shape of `ids`: equal tokens have the same vector."""
    array = np.asarray(ids)
    if array.dtype.kind not in "iu" or array.ndim == 0 or array.size == 0:
        raise TypeError(
            "ids must be an array of integers with at least one axis and one entry, got "
            f"{shown(ids)}"
        )
    found, places = np.unique(array, return_inverse=True)
    table = non_negative_number("std", std) * initial((len(found),), dim=dim)
    return table[places.reshape(array.shape)]
