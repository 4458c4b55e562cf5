"""Logarithmic axes with plain labels, guides of a slope, error bars, data that may be negative."""

import itertools
import math

import numpy as np

from limitlaw.figures import style
from limitlaw.figures.picture import Curve, PlotAxis, Style

_MOST_TICKS = 8


def power_axis(label: str, values: list[float]) -> PlotAxis:
    """A logarithmic axis over whole numbers: a tick at each if they are few, else at powers."""
    low, high = min(values), max(values)
    room = max(1.25, (high / low) ** 0.06)
    least = 1.05 * (high / low) ** 0.1  # so that labels leave each other room
    apart = all(b / a > least for a, b in itertools.pairwise(values))
    ticks = values if len(values) <= _MOST_TICKS and apart else _powers(low, high)
    labelled = tuple((t, style.number(t)) for t in ticks or values)
    return PlotAxis(label, True, labelled, (low / room, high * room))


def _powers(low: float, high: float) -> list[float]:
    """The powers of 4, 10 or 100 between two numbers, as many as fit."""
    ticks: list[float] = []
    for base in (4, 10, 100):
        first, last = (
            math.ceil(math.log(low, base) - 1e-9),
            math.floor(math.log(high, base) + 1e-9),
        )
        ticks = [float(base**i) for i in range(max(first, 0), last + 1)]
        if len(ticks) <= _MOST_TICKS:
            break
    return ticks


def positive_limits(*values: np.ndarray, room: float = 2.5) -> tuple[float, float]:
    """A range that holds the positive finite values, with room on both sides."""
    every = np.concatenate([np.ravel(v) for v in values]).astype(float)
    every = every[np.isfinite(every) & (every > 0)]
    if not len(every):
        return 0.1, 1.0
    return float(every.min()) / room, float(every.max()) * room


def positive(values: np.ndarray) -> np.ndarray:
    """The values, with NaN where they have no logarithm."""
    values = np.asarray(values, dtype=float)
    return np.where(np.isfinite(values) & (values > 0), values, np.nan)


def guide(x: np.ndarray, y: np.ndarray, slope: int, shift: float = 0.25) -> Curve:
    """A line of this slope through the later half of a curve, `shift` times its last point."""
    good = np.isfinite(y) & (y > 0)
    x, y = np.asarray(x, dtype=float)[good], y[good]
    ends = np.array([math.sqrt(x[0] * x[-1]), x[-1]])
    return Curve(ends, shift * y[-1] * (ends / x[-1]) ** slope, style.GUIDE, f"slope −{-slope}")


def measured(
    x: np.ndarray, y: np.ndarray, error: np.ndarray, bottom: float, look: Style, label: str
) -> list[Curve]:
    """Points with error bars on a log axis, where bars that reach 0 end at `bottom`; values ≤ 0
    become upper bounds.
    """
    value, error = np.asarray(y, dtype=float), np.nan_to_num(np.asarray(error, dtype=float))
    good = positive(value)
    low = np.where(good - error > bottom, good - error, np.minimum(bottom, good))
    curves = [Curve(x, good, look, label, low, good + error)]
    bound = positive(np.where(value > 0, np.nan, value + 2 * error))
    if np.isfinite(bound).any():
        curves.append(Curve(x, bound, style.BOUND, "upper bound (value + 2 errors)"))
    return curves
