"""The look of curves of studies: a colour, dash and marker for each, and published numbers."""

import dataclasses

import numpy as np

from limitlaw.figures import style
from limitlaw.figures.picture import Curve, Style

_LINES = (
    Style(style.BLUE, 1.5, style.SOLID, "circle"),
    Style(style.VERMILLION, 1.5, style.DASHED, "square"),
    Style(style.GREEN, 1.5, style.DASH_DOT, "triangle"),
    Style(style.PURPLE, 1.5, style.DOTTED, "diamond"),
)
PUBLISHED = Style(style.BLACK, 0.0, style.SOLID, "diamond", filled=False, size=5.5)
SECOND = Style(style.GREY, 0.0, style.SOLID, "triangle", filled=False, size=5.5)
FORMULA = Style(style.LIGHT_GREY, 3.6)
AT_INFINITY = "<i>n</i> → ∞"


def line(
    place: int, x: np.ndarray, y: np.ndarray, error: np.ndarray | None = None, label: str = ""
) -> Curve:
    """The curve at this place in the legend, with error bars of one standard error."""
    look = _LINES[place % len(_LINES)]
    if error is None:
        return Curve(x, y, look, label)
    return Curve(x, y, look, label, y - error, y + error)


def level(ends: tuple[float, float], y: float, label: str = "") -> Curve:
    """A dotted line across a panel."""
    return Curve(np.array(ends, float), np.full(2, y), style.DOTTED_LINE, label)


def bare(place: int, x: np.ndarray, y: np.ndarray, label: str = "") -> Curve:
    """The curve at this place without markers, for many points."""
    return Curve(x, y, dataclasses.replace(_LINES[place % len(_LINES)], marker=""), label)


def dots(place: int, x: np.ndarray, y: np.ndarray, label: str = "") -> Curve:
    """The markers of the curve at this place, without a line."""
    return Curve(x, y, dataclasses.replace(_LINES[place % len(_LINES)], width=0.0), label)
