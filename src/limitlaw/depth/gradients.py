"""`gradients`: what comes back to every layer of a network from a random readout."""

import dataclasses
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from limitlaw.arguments import positive_int, relative_error, shown
from limitlaw.depth.layers import stages
from limitlaw.depth.readout import Backward
from limitlaw.depth.statistics import (
    Column,
    Read,
    Statistic,
    mean_correlation,
    variance,
)
from limitlaw.depth.summaries import deterministic, with_bias
from limitlaw.depth.table import Trace
from limitlaw.engines import engine
from limitlaw.engines.asked import all_asked_for
from limitlaw.engines.bounds import bounded
from limitlaw.engines.effort import BUDGET, Drawn, Pace
from limitlaw.engines.frames.finite import drawn_statistic
from limitlaw.engines.limit.conditions import Limit
from limitlaw.engines.limit.in_frames import InFrames
from limitlaw.engines.reading import Reading, numbers
from limitlaw.float64 import in_float64
from limitlaw.language.values import Scalars, Wide
from limitlaw.numerics.replicates import INDEPENDENT, Replicates

MOST_DRAWS = 1024  # most draws, where the user does not say


def ratios(read: Read, replicates: Replicates, dim: int | float) -> Column:
    """E g_{l−1} / E g_l, for g_l behind layer l; the error by the delta method."""
    mean = replicates.mean(read)
    below = np.where(mean[1:] > 0, mean[1:], math.nan)
    ratio = mean[:-1] / below
    influence = (read[:, :-1] - ratio * read[:, 1:]) / below
    nothing = np.full(len(mean), math.nan)
    value, error = (np.append(nothing[:1], a) for a in (ratio, replicates.error(influence)))
    return Column(value, error, nothing)


OF_THE_STREAM = (
    Statistic("gradient", variance, "gradient variance"),
    Statistic("gradient_correlation", mean_correlation, "gradient correlation"),
    Statistic("gradient_ratio", variance, "gradient ratio", ratios),
)
OF_MATRICES = "gradient_matrices"  # of all matrices of a layer together


@in_float64
@bounded("ask for fewer samples, blocks or tokens, or a smaller width")
def gradients(
    network: Wide | Sequence[Wide],
    width: int | None = None,
    samples: int | None = None,
    key: object = None,
    token: int | None = None,
    force: bool = False,
    rtol: float | None = None,
) -> Trace:
    """What comes back to every block of a network from a random readout, with standard errors and
    its spread over draws: as n → ∞, or exactly at width n, where no matrix is drawn.

    f = n^{−1/2} Σ_i u_i·y_i for the vectors y of `network` and standard normal u; b_i = √n ∂f/∂x_i
    for the vectors x behind each block, where row 0 is the input of the first. Statistics:

    - `gradient`: s⁻¹ Σ_i |b_i|²/n, which is 1 at y itself. Its mean is the squared partial
      Jacobian norm E |∂y/∂x|²_F/(s n) from x to y, since u is independent of the network. From
      one layer to another: `gradients` of the network that ends at the other.
    - `gradient_correlation`: the mean cosine between b_i and b_j.
    - `gradient_ratio`: the factor by which a block multiplies the gradient variance on its way
      back, `gradient` before the block over `gradient` behind it.
    - `gradient_W_Q`, `gradient_W_K`, `gradient_W_V`, `gradient_W_O` of attention, `gradient_W_1`,
      `gradient_W_2`, … of the other matrices of a block, in the order in which it uses them: Σ_w
      (∂f/∂w)² over the parameters w of W = σ w/√cols, of all heads; `gradient_matrices` is their
      sum, the block's share of the tangent kernel `ntk(f)`.

    `token`: read out this one alone. `network`, `samples`, `rtol` and `force` are as for `trace`,
    with up to 1,024 draws without `samples`. A loop is one loop forward and one back, compiled in
    the same time whatever its length; one with loops inside is written out. As n → ∞ coordinates
    of vectors on which nonlinearities act may stand for all (where transposes have components of
    order 1/√n); errors include that.
    """
    outputs, asked = asked_of(network, token)
    pace = _pace(samples, rtol, asked)
    if width is None:
        return _as_n_grows(outputs, asked, pace, key)
    arrays = drawn_statistic(
        "gradients",
        tuple(y.core for y in outputs),
        positive_int("width", width),
        pace,
        0 if key is None else key,
        asked.reading,
    )
    columns = asked.columns(arrays, INDEPENDENT)
    return Trace(columns, asked.labels, width, len(arrays[0]), pace.effort)


def asked_of(
    network: Wide | Sequence[Wide], token: int | None = None
) -> "tuple[tuple[Scalars, ...], Statistics]":
    """The numbers that a random readout of a network asks for, and the statistics of them."""
    _, layers = stages(network)
    y = layers[-1] if isinstance(network, Sequence) else network
    given = Backward.of(network, _place(token, y))
    asked = Statistics.of(given, math.prod(int(size) for size in y.shape))
    return (*given.grams, *given.norms), asked


class DrawnLimit(NamedTuple):
    """What statistics read off draws as n → ∞. `rougher`: off as many with a quarter of the hidden
    coordinates, if there are any. `program`: the one that was followed without frames.
    """

    arrays: Any
    replicates: Replicates
    rougher: Any
    program: Limit | None
    effort: str
    kind: str
    beyond: tuple[str, ...]

    @property
    def random(self) -> bool:
        """Does anything stay random?"""
        return self.program is None or self.program.random


def drawn_limit(
    outputs: tuple[Scalars, ...], asked: "Statistics", pace: Pace, key: Any
) -> DrawnLimit:
    """Draws of the statistics as n → ∞, in frames where components of order n^{-1/2} matter."""
    values, beyond, left = all_asked_for("gradients", outputs)
    if left is not None:
        frames = InFrames(values, left.of_order_one, key, beyond)
        arrays, rougher = frames.compared(asked.reading, pace)
        return DrawnLimit(arrays, INDEPENDENT, rougher, None, pace.effort, "sampled", beyond)
    program = Limit(values, asked.reading)
    if program.traced:
        raise engine.untraceable("gradients")
    found = program.replicated(pace, key)
    drawn = found.arrays, found.replicates, None, program
    return DrawnLimit(*drawn, found.effort, found.kind, beyond)


def _as_n_grows(outputs: tuple[Scalars, ...], asked: "Statistics", pace: Pace, key: Any) -> Trace:
    """The statistics as n → ∞."""
    found = drawn_limit(outputs, asked, pace, key)
    columns, count = asked.columns(found.arrays, found.replicates), len(found.arrays[0])
    if found.rougher is not None:
        other = asked.columns(found.rougher, INDEPENDENT)
        columns = {name: with_bias(c, other[name]) for name, c in columns.items()}
    if found.random or found.program is None:
        return Trace(columns, asked.labels, None, count, found.effort, found.beyond)
    inflated: dict[str, Column] = {}
    if found.kind == "quadrature":
        again = found.program.inflated().conditions(1, key)
        inflated = asked.columns(again.arrays, INDEPENDENT)
    columns = {name: deterministic(c, inflated.get(name)) for name, c in columns.items()}
    return Trace(columns, asked.labels, None, 1, "nothing is random", found.beyond)


def _place(token: int | None, y: Wide) -> int | None:
    if token is None:
        return None
    if not y.shape or isinstance(token, bool) or not isinstance(token, int | np.integer):
        raise TypeError(f"token must be an integer, or None for all of them, got {shown(token)}")
    if not -y.shape[-1] <= token < y.shape[-1]:
        raise ValueError(f"token must be one of 0 … {y.shape[-1] - 1}, got {token}")
    return int(token)


# --- statistics ----------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class OfLayers(Reading):
    """The variance and the mean correlation of each of the Gram matrices that the first outputs
    are, or hold (the latter for two tokens or more), and the numbers that all other outputs are.
    """

    grams: int
    several: bool
    coordinates = 0
    few = True

    def __call__(self, draw: Any, outputs: Any) -> list[Array]:
        found = numbers(draw, outputs)
        grams, others = (found[: self.grams], found[self.grams :])
        K = jnp.concatenate([g.reshape(-1, *g.shape[-2:]) for g in grams])
        read = [jax.vmap(lambda K: variance(K, None))(K)]
        if self.several:
            read.append(jax.vmap(lambda K: mean_correlation(K, None))(K))
        return [*read, jnp.concatenate([a.reshape(-1) for a in others])] if others else read


class Statistics(NamedTuple):
    """The statistics of a network. `places`: where those of matrices are among the numbers, layer
    by layer, −1 where a layer has no such matrix.
    """

    reading: OfLayers
    places: dict[str, list[int]]

    @classmethod
    def of(cls, given: Backward, tokens: int) -> "Statistics":
        """Those of a network with so many tokens."""
        all_names = [name for layer in given.places for name in layer]
        rows = len(given.places) + 1
        places = {name: [-1] * rows for name in dict.fromkeys(all_names)}
        for i, layer in enumerate(given.places, 1):
            for name, place in layer.items():
                places[name][i] = place
        return cls(OfLayers(len(given.grams), tokens > 1), places)

    @property
    def chosen(self) -> list[Statistic]:
        """All statistics, in the order of the columns."""
        names = [*self.places, "matrices"] if self.places else []
        labels = {"matrices": "all matrices"}
        of_matrices = [
            Statistic(f"gradient_{name}", variance, f"gradient of {labels.get(name, name)}")
            for name in names
        ]
        return [*OF_THE_STREAM, *of_matrices]

    @property
    def labels(self) -> dict[str, str]:
        """What tables and pictures call them."""
        return {s.name: s.label for s in self.chosen}

    def columns(self, arrays: Any, replicates: Replicates) -> dict[str, Column]:
        """The summary over draws of each statistic."""
        read = self.read([np.asarray(a) for a in arrays])
        return {s.name: s.column(read[s.name], replicates, math.inf) for s in self.chosen}

    def read(self, arrays: list[np.ndarray]) -> dict[str, np.ndarray]:
        """The statistics of each draw, layer by layer."""
        g = arrays[0]
        correlation = arrays[1] if self.reading.several else np.full(g.shape, math.nan)
        found = {"gradient": g, "gradient_correlation": correlation, "gradient_ratio": g}
        for name, places in self.places.items():
            known = np.array(places) >= 0
            found[f"gradient_{name}"] = np.where(known, arrays[-1][:, places], math.nan)
        if self.places:
            each = np.stack([found[f"gradient_{name}"] for name in self.places])
            total = np.where(np.isnan(each).all(axis=0), math.nan, np.nansum(each, axis=0))
            found[OF_MATRICES] = total
        return found


def _pace(samples: int | None, rtol: float | None, asked: Statistics) -> Pace:
    """`samples` draws, or as many as a relative error of `rtol` takes."""
    goal = relative_error(samples, rtol, BUDGET.rtol)
    if samples is not None:
        return Pace(positive_int("samples", samples), at_most=False)

    def error(found: Drawn) -> float:
        columns = asked.columns(*found)
        return max(statistic.relative_error(columns[statistic.name]) for statistic in asked.chosen)

    return Pace(MOST_DRAWS, at_most=True, error=error, rtol=goal)
