"""The law of a kernel matrix that stays random at infinite width."""

from typing import Any

import numpy as np

from limitlaw.laws.empirical import Empirical


class RandomKernel(Empirical):
    """Draws (N, m, m) of a kernel matrix K given the scores:
    `mean()` is E K; `marginal((i, j))` is the law of K_ij.

    As an array, `np.asarray(kernel)`, it is its mean.
    """

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self.mean(), dtype=dtype)
