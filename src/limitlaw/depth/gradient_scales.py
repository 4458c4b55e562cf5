"""Statistics of gradients as functions of a scale, for `solve`."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import Float

from limitlaw.arguments import shown
from limitlaw.depth.gradients import OF_THE_STREAM, DrawnLimit, Statistics, asked_of, drawn_limit
from limitlaw.engines.effort import Pace
from limitlaw.language.values import Wide
from limitlaw.progress import Watch

RATIO_COLUMN = "gradient_ratio"
AT_ONCE = 16  # fewest draws of a network


class DrawnGradient:
    """A statistic of `gradients` of every draw as a function of x = ln c, with the same draws at
    every x, of which there are at most `most`.

    `at`: the layer; without it 0, the input, from which everything has come back, or the first
    block for ratios and matrices, which the input does not have.
    """

    def __init__(
        self, network: Callable[[Any], Wide], name: str, at: int | None, most: int, key: object
    ) -> None:
        self._network, self._name, self._at, self._key = network, name, at, key
        self.most, self.together, self.evaluated = most, min(AT_ONCE, most), 0
        self.watch: Watch | None = None
        self._seen: dict[float, Float[np.ndarray, " draws"]] = {}
        self._biases: dict[float, float] = {}

    def at(self, x: float, draws: int) -> Float[np.ndarray, " draws"]:
        """The values of `draws` draws at x or more; of one, where nothing is random."""
        draws = min(max(draws, self.together), self.most)
        known = self._seen.get(x)
        if known is None or len(known) < draws:
            found, asked = self._found(x, draws)
            known = self._seen[x] = self._values(asked, found.arrays)
            rougher = found.rougher
            self._biases[x] = 0.0
            if rougher is not None:
                self._biases[x] = float(np.mean(self._values(asked, rougher)) - np.mean(known)) / 3
            self.random, self._replicates = found.random, found.replicates
            if not found.random:
                self.most = 1
        return known

    def error(self, values: Float[np.ndarray, " draws"]) -> float:
        """The standard error of the mean of these values; 0 where nothing is random."""
        return float(self._replicates.error(values)) if self.random else 0.0

    def bias(self, x: float) -> float:
        """How far hidden coordinates may move the mean at x: a third of what a quarter of them
        does.
        """
        return self._biases[x]

    def _found(self, x: float, draws: int) -> tuple[DrawnLimit, Statistics]:
        outputs, asked = asked_of(self._network(math.exp(x)))
        found = drawn_limit(outputs, asked, Pace(draws, at_most=False), self._key)
        self.evaluated += len(found.arrays[0])
        if self.watch is not None:
            self.watch.reached(self.evaluated, self.evaluated + draws)
        return found, asked

    def _values(self, asked: Statistics, arrays: Any) -> Float[np.ndarray, " draws"]:
        """The statistic of each draw; of a ratio E a / E b, r + (a − r b)/E b, which has its mean
        and, to first order, its error.
        """
        read = asked.read([np.asarray(a) for a in arrays])
        if self._name not in read:
            raise ValueError(
                f"statistic must be one of {', '.join(read)} for this network, got {self._name!r}"
            )
        g, (_, layers) = read[self._name], read["gradient"].shape
        of_stream = self._name in {s.name for s in OF_THE_STREAM} - {RATIO_COLUMN}
        layer = (0 if of_stream else 1) if self._at is None else self._at
        if isinstance(layer, bool) or not isinstance(layer, int) or not 0 <= layer < layers:
            raise ValueError(
                f"at must be one of the layers 0 … {layers - 1} of network, got {shown(self._at)}"
            )
        if self._name == RATIO_COLUMN and layer:
            ratio = g[:, layer - 1].mean() / g[:, layer].mean()
            return ratio + (g[:, layer - 1] - ratio * g[:, layer]) / g[:, layer].mean()
        if self._name == RATIO_COLUMN or np.isnan(g[:, layer]).all():
            raise ValueError(f"at: {self._name} is not defined at layer {layer} of network")
        return np.asarray(g[:, layer])
