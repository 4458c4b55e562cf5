"""`gradients`: the gradient of a random readout at every layer of a network."""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from limitlaw.arguments import as_key, positive_int, shown
from limitlaw.depth.statistics import Statistic, mean_correlation, variance
from limitlaw.depth.table import Trace
from limitlaw.depth.trace import stages
from limitlaw.engines import engine
from limitlaw.engines.bounds import bounded
from limitlaw.engines.dense.backward import backward_grams
from limitlaw.engines.effort import Pace
from limitlaw.float64 import in_float64
from limitlaw.language.values import Wide
from limitlaw.numerics.replicates import INDEPENDENT

MOST_DRAWS = 1024  # most draws, where the user does not say
OF_GRADIENTS = (
    Statistic("gradient", variance, "gradient variance"),
    Statistic("gradient_correlation", mean_correlation, "gradient correlation"),
)


@in_float64
@bounded("ask for fewer samples, blocks or tokens, or a smaller width")
def gradients(
    network: Wide | Sequence[Wide],
    width: int,
    samples: int | None = None,
    key: object = None,
    token: int | None = None,
    force: bool = False,
) -> Trace:
    """The gradient at every block of a network at width n, with standard errors and its spread
    over draws.

    f = n^{−1/2} Σ_i u_i·y_i for the vectors y of `network` and standard normal u; dx_i = √n
    ∂f/∂x_i behind each block, where row 0 is the input of the first. Statistics: `gradient`, s⁻¹
    Σ_i |dx_i|²/n, which is 1 at y itself, and `gradient_correlation`, the mean cosine between dx_i
    and dx_j. `token`: read out this one alone. `network` is as for `trace`. Every matrix is drawn,
    and the program differentiated: as an approximation of the limit n → ∞ this has an error of
    O(1/n) beside the standard errors.

    Without `samples` there are up to 1,024 draws: as many as take 20 seconds. `force` is that of
    `trace`.
    """
    first, layers = stages(network)
    y = layers[-1] if isinstance(network, Sequence) else network
    outputs = [value.core for value in (first, *layers)]
    width = positive_int("width", width)
    program = engine.program_of((*outputs, y.core))
    key = 0 if key is None else key
    engine.check_drawable("gradients", program, key)
    engine.check_width(program, width, None)
    pace = Pace(
        MOST_DRAWS if samples is None else positive_int("samples", samples),
        at_most=samples is None,
    )
    grams = np.concatenate(
        backward_grams(y.core, outputs, _place(token, y), width, pace, as_key(key)), axis=1
    )
    dim = layers[-1].dim.at(width)
    columns = {}
    for s in OF_GRADIENTS:
        read = jax.vmap(jax.vmap(lambda gram, read=s.read: read(gram, None)))(jnp.asarray(grams))
        columns[s.name] = s.column(np.asarray(read), INDEPENDENT, dim)
    return Trace(columns, {s.name: s.label for s in OF_GRADIENTS}, width, len(grams), pace.effort)


def _place(token: int | None, y: Wide) -> int | None:
    if token is None:
        return None
    if not y.shape or isinstance(token, bool) or not isinstance(token, int | np.integer):
        raise TypeError(f"token must be an integer, or None for all of them, got {shown(token)}")
    if not -y.shape[-1] <= token < y.shape[-1]:
        raise ValueError(f"token must be one of 0 … {y.shape[-1] - 1}, got {token}")
    return int(token)
