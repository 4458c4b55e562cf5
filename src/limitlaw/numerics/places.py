"""Where a law of one number lives: points at which its density varies,
and on which scale, to choose panels by.
"""

import numpy as np
from jaxtyping import Float

# standard deviations; 1e-32 lies beyond
STEPS = np.array([-12.0, -6.0, -2.0, 0.0, 2.0, 6.0, 12.0])
FEW = 256  # components that are all looked at
OCTAVE = 4.0  # scales nearer than this count as one, where components are more

Places = tuple[Float[np.ndarray, " p"], Float[np.ndarray, " p"]]


def of_components(mean: object, sd: object) -> Places:
    """Of N(mean_k, sd_k²): the steps of each component, its scale;
    of many components for some of every scale.
    """
    mean, sd = np.asarray(mean, float), np.asarray(sd, float)
    mean, sd = mean[sd > 0], sd[sd > 0]
    if len(sd) > FEW:
        mean, sd = _some(mean, sd)
    return (mean[:, None] + sd[:, None] * STEPS).reshape(-1), np.repeat(sd, len(STEPS))


def _some(mean: Float[np.ndarray, " N"], sd: Float[np.ndarray, " N"]) -> Places:
    """For every scale the first, the middle and the last component in order of the means;
    and the ends of them all.
    """
    scale = np.floor(np.log(sd / sd.min()) / np.log(OCTAVE))
    order = np.lexsort((mean, scale))
    starts = np.flatnonzero(np.diff(scale[order], prepend=-1))
    stops = np.append(starts[1:], len(order))
    chosen = np.concatenate([starts, (starts + stops) // 2, stops - 1])
    ends = [np.argmin((mean - 12 * sd)[order]), np.argmax((mean + 12 * sd)[order])]
    chosen = order[np.concatenate([chosen, ends])]
    return mean[chosen], sd[chosen]


def of_scales(low: float, high: float) -> Places:
    """Of a mixture of N(0, v), √v between `low` and `high`."""
    low = max(low, 1e-12 * high)
    scales = np.geomspace(low, high, 1 + int(np.ceil(np.log(high / low) / np.log(OCTAVE))))
    return of_components(np.zeros_like(scales), scales)
