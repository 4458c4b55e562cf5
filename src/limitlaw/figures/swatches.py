"""Legends of the report: one for all panels of a figure,
whose entries show and hide their curves.
"""

from html import escape

from limitlaw.figures.interactive import SCALE
from limitlaw.figures.picture import Picture, Style

WIDTH, HEIGHT = 38, 14
# Outlines of the markers in a square of side 2 about the origin.
_OUTLINES = {
    "square": "-.8,-.8 .8,-.8 .8,.8 -.8,.8",
    "diamond": "0,-1.1 1.1,0 0,1.1 -1.1,0",
    "triangle": "0,-1 1,.8 -1,.8",
    "down": "0,1 1,-.8 -1,-.8",
}


def legend(picture: Picture) -> str:
    """A list of buttons, each label once in the order of the panels;
    nothing for a picture without curves.
    """
    curves = [
        curve for row in picture.rows for panel in row for curve in panel.curves if curve.label
    ]
    styles = {curve.label: curve.style for curve in reversed(curves)}
    items = "".join(
        _item(label, styles[label]) for label in dict.fromkeys(curve.label for curve in curves)
    )
    return f'<ul class="legend">\n{items}</ul>\n' if items else ""


def _item(label: str, style: Style) -> str:
    button = (
        f'<button type="button" aria-pressed="true" data-label="{escape(label)}">{_swatch(style)} '
        f"{label}</button>"
    )
    return f"<li>{button}</li>\n"


def _swatch(style: Style) -> str:
    """A short piece of the curve."""
    box = f'viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" aria-hidden="true"'
    return f"<svg {box}>{_line(style)}{_marker(style)}</svg>"


def _line(style: Style) -> str:
    if not style.width:
        return ""
    width = SCALE * style.width
    dashes = ",".join(f"{width * part:.1f}" for part in style.dash)
    look = (
        f'stroke="{style.color}" stroke-width="{width:.2f}" stroke-dasharray="{dashes or "none"}"'
    )
    return f'<line x1="1" x2="{WIDTH - 1}" y1="{HEIGHT / 2}" y2="{HEIGHT / 2}" {look}/>'


def _marker(style: Style) -> str:
    if not style.marker:
        return ""
    place = f'transform="translate({WIDTH / 2} {HEIGHT / 2}) scale(4)"'
    look = (
        f'{place} fill="{style.color if style.filled else "#fff"}" stroke="{style.color}" '
        'stroke-width=".35"'
    )
    if style.marker == "circle":
        return f'<circle r=".95" {look}/>'
    return f'<polygon points="{_OUTLINES[style.marker]}" {look}/>'
