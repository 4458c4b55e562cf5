"""Colours, dashes, markers and labels of every picture, printed or interactive."""

import re

from limitlaw.figures.picture import Style

# Okabe and Ito's colours for colour-blind readers, from light to dark: they differ in grey too.
ORANGE, SKY, PURPLE = "#E69F00", "#56B4E9", "#CC79A7"
VERMILLION, GREEN, BLUE, BLACK = "#D55E00", "#009E73", "#0072B2", "#000000"
COLOURS = (BLUE, VERMILLION, GREEN, ORANGE, PURPLE, SKY)  # of curves, in order
GREY, LIGHT_GREY, BAND = "#6E6E6E", "#B8B8B8", "#E4E4E4"
SOLID: tuple[float, ...] = ()
DASHED, DOTTED, DASH_DOT = (6.0, 2.0), (1.0, 1.5), (6.0, 2.0, 1.0, 2.0)
# matplotlib's and plotly's names of the markers.
MARKERS = {
    "circle": ("o", "circle"),
    "square": ("s", "square"),
    "diamond": ("D", "diamond"),
    "triangle": ("^", "triangle-up"),
    "down": ("v", "triangle-down"),
}
GUIDE = Style(GREY, 1.1, (3.0, 3.0))
DOTTED_LINE = Style(BLACK, 1.2, DOTTED)
DOTS = Style(BLUE, 1.5, SOLID, "circle")
BOUND = Style(GREY, 0.0, SOLID, "down", filled=False)


def number(value: int | float) -> str:
    """A whole number as text, with commas from 10,000 on."""
    return f"{int(value):,}" if value >= 10_000 else f"{int(value)}"


def mathtext(label: str) -> str:
    """A label for matplotlib: italics, subscripts and superscripts as mathematics."""
    label = re.sub(r"<i>(.*?)</i>", r"$\1$", label)
    label = re.sub(r"<sub>(.*?)</sub>", r"$_{\\mathrm{\1}}$", label)
    label = re.sub(r"<sup>(.*?)</sup>", r"$^{\\mathrm{\1}}$", label)
    return label.replace("$$", "")
