"""∫ |d| and max |d| for a d that is a polynomial on each panel:
its roots and extrema are found, nothing is sampled.
"""

import numpy as np
from jaxtyping import Float
from numpy.polynomial import Legendre, legendre

from limitlaw.numerics.panels import ORDER, Panels, Resolution

ENDS = np.array([-1.0, 1.0])


def integral(panels: Panels, d: Float[np.ndarray, " x"]) -> float:
    """∫ |d|: on a panel where d changes sign, the antiderivative of the polynomial d
    dx/du between the roots.
    """
    c = panels.coefficients(d * panels.slopes)
    ends = legendre.legval(ENDS, c.T)
    signs = np.sign(np.concatenate([d.reshape(-1, ORDER), ends], 1))
    mixed = (signs.min(1) < 0) & (signs.max(1) > 0)
    plain = (panels.weights * np.abs(d)).reshape(-1, ORDER).sum(1)
    split = [_between_roots(Legendre(c[i])) for i in np.flatnonzero(mixed)]
    return float(plain[~mixed].sum() + sum(split))


def _between_roots(d: Legendre) -> float:
    """∫ |d| over [−1, 1]."""
    at = np.concatenate([[-1.0], _roots(d), [1.0]])
    return float(np.abs(np.diff(d.integ()(at))).sum())


def maximum(panels: Panels, d: Float[np.ndarray, " x"]) -> tuple[float, float]:
    """max |d|, and what the last coefficients contribute there;
    ends of panels count from inside, so jumps are seen.
    """
    c = panels.coefficients(d)
    rough, left = _heights(panels, d)
    best, error = 0.0, 0.0
    for i in np.flatnonzero(rough + 10 * left >= rough.max()):
        polynomial = Legendre(c[i])
        at = np.concatenate([ENDS, _roots(polynomial.deriv())])
        best, error = max(best, float(np.abs(polynomial(at)).max())), max(error, float(left[i]))
    return best, error


def of_maximum(relative: float) -> Resolution:
    """What a panel's polynomial leaves out of max |d|, and the most that it may;
    only panels that may hold it count.
    """

    def tails(
        panels: Panels, d: Float[np.ndarray, " x"]
    ) -> tuple[Float[np.ndarray, " panels"], float]:
        rough, left = _heights(panels, d)
        return np.where(rough + 10 * left >= rough.max(), left, 0), relative * float(rough.max())

    return tails


def _heights(
    panels: Panels, d: Float[np.ndarray, " x"]
) -> tuple[Float[np.ndarray, " panels"], Float[np.ndarray, " panels"]]:
    """On each panel the largest |d| at nodes and ends, and the last two coefficients."""
    c = panels.coefficients(d)
    ends = np.abs(legendre.legval(ENDS, c.T)).max(1)
    return np.maximum(np.abs(d).reshape(-1, ORDER).max(1), ends), np.abs(c[:, -2:]).sum(1)


def _roots(polynomial: Legendre) -> Float[np.ndarray, " roots"]:
    """Real roots inside (−1, 1), in order."""
    scale = np.abs(polynomial.coef).max()
    if scale == 0:
        return np.zeros(0)
    roots = (polynomial / scale).trim(1e-17).roots()
    real = roots[np.abs(roots.imag) < 1e-9].real
    return np.sort(real[np.abs(real) < 1])
