"""What chunks return and tables hold: plain arrays that mean the same on every machine."""

from typing import Any

import numpy as np


def plain(name: str, values: Any) -> np.ndarray:
    """`values` as a NumPy array of float64, int64 or text, without conversion: a float32 is a mistake somewhere."""
    array = np.asarray(values)
    if array.dtype not in (np.float64, np.int64) and array.dtype.kind != "U":
        raise TypeError(f"{name} must be an array of float64, int64 or text, got {array.dtype}")
    return array
