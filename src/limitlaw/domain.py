"""The domain of accuracy: within it every number is right to its stated error.

Covariances of `initial` and scales of matrices beyond it, and laws with larger variances, are
refused in a line. The domain: variances, and standard deviations of scores, from 1e-12 to 1e12,
and exactly zero; variances in one law up to 1e16 times each other; densities up to 12 standard
deviations out, logarithms of densities and of tails up to 40; users' functions whose structure is
no finer than 1e-3 of a standard deviation.
"""

from jaxtyping import Float
from numpy import ndarray

VARIANCES = 1e-12, 1e12
RATIO_OF_VARIANCES = 1e16
DEVIATIONS, LOG_DEVIATIONS = 12.0, 40.0


def check_scales(name: str, values: Float[ndarray, "..."]) -> None:
    """Raise unless every standard deviation of a matrix is zero or in the domain."""
    low, high = VARIANCES
    out = values[(values > high) | ((values > 0) & (values < low))]
    if out.size:
        raise ValueError(
            f"{name} must be 0 or from {low:g} to {high:g}, where results are accurate, got "
            f"{out.flat[0]:g}"
        )


def check_variances(name: str, values: Float[ndarray, "..."], small: bool = True) -> None:
    """Raise unless the largest variance is 0 or in the domain (`small`: also if it is too small);
    others may be small beside it.
    """
    largest, (low, high) = values.max(initial=0.0), VARIANCES
    if largest > high or (small and 0 < largest < low):
        raise ValueError(
            f"{name} must be 0 or from {low:g} to {high:g}, where results are accurate, got "
            f"{largest:g}: measure in another unit"
        )
