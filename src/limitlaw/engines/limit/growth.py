"""Does a number grow with n? A look at few draws at two widths, before there are many.

Scores of vectors that are not independent grow like √n, or n. A number may grow in some draws and
not in others, as relu(p) s does with such a score s, so that its median says nothing.
"""

import math
from typing import Any

import jax
import numpy as np
from jaxtyping import Bool, Float

ROUNDED = 1e-12  # what is smaller is rounding
NEXT_TO_NOTHING = 1e-3  # of the largest draw: differences between widths are smaller
LEAST_SHARE = 1 / 32  # of the draws that grow
LEVELS = (0.75, 0.9)  # of quantiles, beside the median
RANKS_OFF = 2.0  # standard deviations by which the rank of a quantile may be off

Magnitudes = Float[np.ndarray, "draws *rest"]


def check_growth(narrower: Any, wide: Any, ratio: float, same_numbers: bool) -> None:
    """Refuse what is larger by √ratio or more at a width `ratio` times as large. `same_numbers`:
    draws of both widths have the same random numbers.
    """
    grows = _draw_by_draw if same_numbers else _by_quantiles
    for one, other in zip(jax.tree.leaves(narrower), jax.tree.leaves(wide), strict=True):
        if grows(np.abs(one), np.abs(other), ratio**0.25).any():
            raise ValueError(
                "limit: y grows with n, as dot products under 1/√n do whose vectors are not "
                "independent: there is no limit; divide by √n, or take a finite width"
            )


def _draw_by_draw(
    narrower: Magnitudes, wide: Magnitudes, factor: float
) -> Bool[np.ndarray, "*rest"]:
    """Does it grow in more than a few draws? In each, what has a limit has nearly reached it at
    both widths.
    """
    floor = ROUNDED + NEXT_TO_NOTHING * narrower.max(axis=0)
    share = np.mean(wide > factor * narrower + floor, axis=0)
    return np.asarray(share >= LEAST_SHARE)


def _by_quantiles(
    narrower: Magnitudes, wide: Magnitudes, factor: float
) -> Bool[np.ndarray, "*rest"]:
    """Do medians grow, or upper quantiles by more than chance? Ranks of quantiles of draws are
    binomial.
    """
    draws = len(wide)
    one, other = np.sort(narrower, axis=0), np.sort(wide, axis=0)
    grows = np.median(other, axis=0) > factor * np.median(one, axis=0) + ROUNDED
    for p in LEVELS:
        off = RANKS_OFF * math.sqrt(draws * p * (1 - p))
        low, high = math.floor(draws * p - off), math.ceil(draws * p + off)
        grows |= other[max(low, 0)] > factor * one[min(high, draws - 1)] + ROUNDED
    return np.asarray(grows)
