"""The joint density of heads that are i.i.d. given the kernel,
from the program of one head at infinite width.
"""

import numpy as np
from jaxtyping import Float

from limitlaw.engines.heads.axis import HeadAxis
from limitlaw.engines.heads.softmax import softmax_scores
from limitlaw.engines.limit.conditions import Limit, seed_of
from limitlaw.engines.limit.statistics import covariance
from limitlaw.numerics.importance import JointDensity
from limitlaw.numerics.linear_algebra import times
from limitlaw.numerics.quasi import MOST_DIMENSIONS, chi_quantile


def joint_density(axis: HeadAxis, key: object) -> JointDensity | None:
    """Of the sum over heads; None where there is no density,
    or the covariance of a head is no function of normals.
    """
    program = Limit((axis.resized(1),), covariance)
    if program.traced or not program.is_function_of_recipe:
        return None
    basis = _active(program)
    heads = int(axis.heads)
    if not len(basis) or heads * (len(basis) + 1) > MOST_DIMENSIONS:
        return None
    density = JointDensity(
        lambda z: _covariance(program, times(z, basis)), len(basis), heads, seed_of(key)
    )
    return density if density.exists else None


def _covariance(program: Limit, z: Float[np.ndarray, "N r"]) -> Float[np.ndarray, "N m m"]:
    """The covariance of one head at given normals, some of which become χ variables
    with the same quantiles.
    """
    x = z.copy()
    for j in np.flatnonzero(np.isfinite(program.recipe)):
        x[:, j] = chi_quantile(program.recipe[j], z[:, j])
    C = np.asarray(program.at(x))
    return C.reshape(len(z), *C.shape[-2:])


def _active(program: Limit) -> Float[np.ndarray, "active r"]:
    """An orthonormal basis of the directions on which the covariance may depend;
    steepest first, where that is known.

    Softmax ignores a common shift, and masked scores do nothing. Of χ variables all are kept.
    """
    scores = softmax_scores(program) if np.isinf(program.recipe).all() else None
    return np.eye(len(program.recipe)) if scores is None else scores.directions
