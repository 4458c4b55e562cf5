"""Choosing scales: the scale at which a statistic reaches a target at some depth."""

import dataclasses
import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import Float

from limitlaw.arguments import positive_int, real_number, relative_error, shown
from limitlaw.depth.gradient_scales import DrawnGradient
from limitlaw.depth.layers import stages, tied_loop
from limitlaw.depth.statistics import Statistic, averaged
from limitlaw.depth.trace import chosen_statistics, program_at_infinity
from limitlaw.digits import plus_minus
from limitlaw.engines.bounds import bounded
from limitlaw.engines.effort import BUDGET
from limitlaw.engines.limit.conditions import Batches, seed_of
from limitlaw.engines.turns import Turns
from limitlaw.float64 import in_float64
from limitlaw.language.values import Wide
from limitlaw.numerics.replicates import Replicates
from limitlaw.progress import Watch, watched

SOLVE_DRAWS = 1024  # most draws, where the user does not say
BRENT_STEPS = 100  # most steps of Brent's method
USUAL = 4  # fewest values of x at which the function is needed
FIRST_STEP = 0.12  # half the first step in ln c
BESIDE = 1e-3  # step in ln c of a central difference at the root
ROOT_ROUNDING = 4 * float(np.finfo(float).eps)
SLOPE_STEP = 1e-7  # least distance in ln c of two points that tell the slope
PRECISION = 1e-10  # of the root in ln c, where the number of draws is given
# in units of the error to be reached: a step so short is taken along the slope, without looking at
# the function again; of few draws, and of more
SHORT, LONGER = 0.3, 2.0

NetworkOfScale = Callable[[Any], Wide]  # a scale, which may be traced → the network


@dataclasses.dataclass(frozen=True)
class Solution:
    """The scale that gives `target`, its standard error, and the statistic's slope there."""

    value: float
    error: float
    slope: float
    target: float
    samples: int

    def __float__(self) -> float:
        return self.value

    def __repr__(self) -> str:
        return f"Solution({plus_minus(self.value, self.error)}, {self.samples} draws)"


@in_float64
@bounded("ask for fewer samples, blocks or tokens")
def solve(
    network: NetworkOfScale,
    statistic: str | Callable[..., Any],
    target: int | float,
    over: tuple[int | float, int | float],
    at: int | None = None,
    samples: int | None = None,
    key: object = None,
    rtol: float | None = None,
    force: bool = False,
) -> Solution:
    """The scale c in `over` for which the mean of a statistic of `network(c)` is `target` after
    block `at`, as n → ∞.

        network = lambda c: transformer(x, 24, 12, 64, q_std=c)
        solve(network, "entropy", 0.8 * math.log(s), over=(0.1, 10))

    `network` is a function of a scale, `statistic` a name or a function as in `trace`, `at` by
    default the last block. Names of columns of `gradients` are statistics, too: `gradient` is the
    squared partial Jacobian norm from layer `at` to the last, by default from the input (0);
    `gradient_ratio` and `gradient_W_Q`, … are those of a block, by default the first. All scales
    have the same draws, so that their mean is a smooth function of c; its root is found by Brent's
    method in ln c. Its error is that of the mean divided by the slope.

    Without `samples` there are as many draws as a standard error of `rtol`·c takes (1 % of c), up
    to 1,024: the root is found with a few of them and then corrected with more, as far as ten
    minutes go. `force` is that of `trace`.
    """
    if not callable(network):
        raise TypeError(f"network must be a function of a scale, got {shown(network)}")
    low, high = sorted(real_number("over", bound) for bound in over)
    if not 0 < low < high:
        raise ValueError(f"over must be two different positive scales, got {over}")
    most = SOLVE_DRAWS if samples is None else positive_int("samples", samples)
    goal = relative_error(samples, rtol, BUDGET.rtol)
    least = 1 if samples is None else most  # of an unknown number the clock tells soon enough
    drawn: DrawnStatistic | DrawnGradient
    if isinstance(statistic, str) and statistic.startswith("gradient"):
        name, drawn = statistic, DrawnGradient(network, statistic, at, most, key)
    else:
        chosen = _of_each_draw(statistic)
        name, drawn = chosen.name, DrawnStatistic(network, chosen, at, most, least, key)
    root = Root(drawn, real_number("target", target), math.log(low), math.log(high), name)
    x = 0.5 * (root.low + root.high)
    with watched("solve") as watch:
        drawn.watch = watch
        drawn.at(x, 1)
        if samples is None and drawn.random:
            x, draws = _reached(root, x, goal)
        else:
            x, draws = root.find(x, most, PRECISION), most
            root.look_around(x, draws)
    (f, error), slope = root.at(x, draws), root.slope
    step = f / slope if slope else 0.0  # what it leaves out is of the order of its square
    error = math.hypot(error, drawn.bias(x))
    c = math.exp(x - step)
    error = c * math.hypot(error / slope, step * step) if slope else math.inf
    return Solution(c, error, slope / c, root.target, len(drawn.at(x, draws)))


def _of_each_draw(statistic: str | Callable[..., Any]) -> Statistic:
    """The statistic of the kernel and the scores that was asked for."""
    (chosen,) = chosen_statistics([statistic])
    if chosen.summary is not averaged:
        raise ValueError(
            "solve needs a statistic of each draw, as 'entropy' or 'correlation', got "
            f"{chosen.name!r}"
        )
    return chosen


def _reached(root: "Root", x: float, goal: float) -> tuple[float, int]:
    """The root with as many draws as an error in ln c below `goal` takes, and their number: found
    with one batch, then with more, each time from the last root.
    """
    start, precision, draws = time.monotonic(), SHORT * goal, 1
    while True:
        x = root.find(x, draws, precision)
        drawn, precision = root.drawn, LONGER * goal
        draws = len(drawn.at(x, draws))
        (_, error), slope = root.at(x, draws), root.slope
        found = error / abs(slope) if slope else math.inf
        if found <= goal or draws >= drawn.most:
            return x, draws
        wanted = BUDGET.few if math.isnan(found) else draws * min(4.0, 1.2 * (found / goal) ** 2)
        more = min(drawn.most, max(draws + drawn.together, math.ceil(wanted)))
        if math.isfinite(found) and _seconds(drawn, draws, more, start) > BUDGET.longest:
            return x, draws
        draws = more


def _seconds(
    drawn: "DrawnStatistic | DrawnGradient", draws: int, more: int, start: float
) -> float:
    """Seconds passed, and those that more draws take, perhaps at another x as well."""
    each = (time.monotonic() - start) / max(1, drawn.evaluated)
    return time.monotonic() - start + each * (2 * more - draws)


class DrawnStatistic:
    """The statistic of every draw as a function of x = ln c, with the same draws at every x:
    `together` at a time, at most `most`, at least `least`.
    """

    def __init__(
        self,
        network: NetworkOfScale,
        statistic: Statistic,
        at: int | None,
        most: int,
        least: int,
        key: object,
    ) -> None:
        self._network, self._at, self.most, self._least = network, at, most, least
        self._functions, self._seed = Turns((statistic.function,)), seed_of(key)
        self._x, self.evaluated, self.together = math.nan, 0, 1
        self.watch: Watch | None = None
        self._seen: dict[float, list[Float[np.ndarray, " draws"]]] = {}

    def _move_to(self, x: float) -> None:
        """Switch to the network at another scale."""
        network = self._network(math.exp(x))
        program = program_at_infinity(*stages(network), self._functions, tied_loop(network))
        self._x, self._program = x, program
        if not program.random:  # a draw for each set of nodes, if there are any
            self.most = BUDGET.replicates if program.plan.shares_nodes else 1
        self._batches = Batches(program, self.most if program.random else 1, self._seed)
        self.together = self._batches.size

    def at(self, x: float, draws: int) -> Float[np.ndarray, " draws"]:
        """The values of `draws` draws at x, each of which is drawn only once. Where nothing is
        random there are as many as sets of nodes.
        """
        if x != self._x and len(self._seen.get(x, ())) * self.together < draws:
            self._move_to(x)
        draws = min(draws, self.most) if self._program.random else self.most
        batches = self._seen.setdefault(x, [])
        while len(batches) * self.together < draws:
            batches.append(self._batch(len(batches)))
        known = np.concatenate(batches)
        return known[: max(draws, min(self.together, self.most))]

    @property
    def random(self) -> bool:
        """Does anything stay random in the limit?"""
        return self._program.random

    def error(self, values: Float[np.ndarray, " draws"]) -> float:
        """The standard error of the mean of these values; 0 where nothing is random."""
        if self.most == 1 and not self.random:
            return 0.0
        return float(Replicates(self._batches.replicate).error(values))

    def bias(self, x: float) -> float:
        """Of kernels and scores there is none."""
        return 0.0

    def _batch(self, batch: int) -> Float[np.ndarray, " draws"]:
        numbers, program = self._batches.numbers(batch), self._program
        calls = USUAL * -(-self._least // self.together)
        program.plan.draws.check(calls, program.given, *numbers)
        arrays = program.plan.draws(program.given, *numbers)
        self.evaluated += self.together
        if self.watch is not None:  # a search visits some points, each with so many draws
            expected = USUAL * (batch + 1) * self.together
            self.watch.reached(self.evaluated, max(expected, self.evaluated + self.together))
        values = np.concatenate([np.asarray(part[0]) for part in arrays], axis=1)
        last = values.shape[1] - 1
        layer = last if self._at is None else positive_int("at", self._at)
        if layer > last:
            raise ValueError(f"at must be one of the {last} blocks of network, got {layer}")
        return values[:, layer]


class Root:
    """The root of the mean of a drawn statistic minus its target, between two x = ln c.

    `slope` is that of the function near the root that was found last.
    """

    def __init__(
        self,
        drawn: DrawnStatistic | DrawnGradient,
        target: float,
        low: float,
        high: float,
        name: str,
    ) -> None:
        self.drawn, self.target, self.low, self.high = drawn, target, low, high
        self._name, self.slope = name, 0.0

    def at(self, x: float, draws: int) -> tuple[float, float]:
        """The function at x by so many draws, and its standard error."""
        values = self.drawn.at(x, draws)
        return float(np.mean(values)) - self.target, self.drawn.error(values)

    def find(self, x: float, draws: int, precision: float) -> float:
        """A point within `precision` of the root, by Brent's method inside a bracket that is
        looked for from x on; x itself where the slope says that it is as near.
        """
        from scipy.optimize import brentq

        seen: dict[float, float] = {}

        def f(x: float) -> float:
            seen[x] = self.at(x, draws)[0]
            return seen[x]

        away = abs(f(x) / self.slope) if self.slope else FIRST_STEP
        if away <= precision and self.slope:
            return x
        a, b = self._bracket(f, x, min(2 * away, 0.25 * (self.high - self.low)))
        root = float(brentq(f, a, b, xtol=precision, rtol=ROOT_ROUNDING, maxiter=BRENT_STEPS))
        value = seen[root] if root in seen else f(root)
        near = min((p for p in seen if abs(p - root) > SLOPE_STEP), key=lambda p: abs(p - root))
        self.slope = (seen[near] - value) / (near - root)
        return root

    def look_around(self, x: float, draws: int) -> None:
        """Find the slope at x by a central difference."""
        above, below = (self.at(x + step, draws)[0] for step in (BESIDE, -BESIDE))
        self.slope = (above - below) / (2 * BESIDE)

    def _bracket(self, f: Callable[[float], float], x: float, step: float) -> tuple[float, float]:
        """Two points between which the sign of f changes: by steps that double each time, in the
        direction in which f falls to 0; else the ends.
        """
        here, ahead = f(x), f(x + step)
        if here * ahead <= 0:
            return x, x + step
        up = abs(ahead) < abs(here)
        a, step = (x + step, step) if up else (x, -step)
        while self.low < a < self.high:
            step *= 2
            b = min(max(a + step, self.low), self.high)
            if f(a) * f(b) <= 0:
                return a, b
            a = b
        first, last = f(self.low), f(self.high)
        if not first * last <= 0:
            low, high = math.exp(self.low), math.exp(self.high)
            raise ValueError(
                f"target {self.target:g} is not reached in over=({low:g}, {high:g}): "
                f"{self._name} is {first + self.target:.6g} at one end and "
                f"{last + self.target:.6g} at the other"
            )
        return self.low, self.high
