"""Products of tall arrays, in pieces too small for BLAS to start threads:
on a busy machine those wait for each other.

Measured with two cores and a load of four: 49 seconds for what takes one in pieces.
"""

import numpy as np
from jaxtyping import Float

PIECE = 2**17  # multiplications


def times(z: Float[np.ndarray, "N d"], W: Float[np.ndarray, "d k"]) -> Float[np.ndarray, "N k"]:
    """z W."""
    out = np.empty((len(z), W.shape[1]))
    rows = max(1, PIECE // max(W.size, 1))
    for i in range(0, len(z), rows):
        np.matmul(z[i : i + rows], W, out=out[i : i + rows])
    return out


def inner(a: Float[np.ndarray, "N d"], b: Float[np.ndarray, "N k"]) -> Float[np.ndarray, "d k"]:
    """aᵀ b."""
    out = np.zeros((a.shape[1], b.shape[1]))
    rows = max(1, PIECE // max(out.size, 1))
    for i in range(0, len(a), rows):
        out += a[i : i + rows].T @ b[i : i + rows]
    return out
