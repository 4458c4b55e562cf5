"""Pictures by plotly.js, for the report: plain data for `Plotly.newPlot`, one plot for each panel
so that they can wrap, and one legend for all, whose entries show and hide their curves.
"""

import math
from html import escape
from typing import Any

import numpy as np

from limitlaw.figures.picture import Band, Curve, Field, Panel, Picture, PlotAxis, Style
from limitlaw.figures.style import MARKERS

SCALE = 1.35  # screen pixels for a point of line width
PLOTTED_DIGITS = 7  # digits of coordinates, which are for the eye
SWATCH = 38, 14  # size of an entry of a legend, in pixels
# Outlines of the markers in a square of side 2 about the origin.
_OUTLINES = {
    "square": "-.8,-.8 .8,-.8 .8,.8 -.8,.8",
    "diamond": "0,-1.1 1.1,0 0,1.1 -1.1,0",
    "triangle": "0,-1 1,.8 -1,.8",
    "down": "0,1 1,-.8 -1,-.8",
}
_FONT = {
    "family": "system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif",
    "size": 13,
    "color": "#222",
}
_AXIS_LOOK = {
    "gridcolor": "#e6e6e6",
    "linecolor": "#555",
    "ticks": "outside",
    "tickcolor": "#555",
    "mirror": True,
}


def plot(panel: Panel) -> dict[str, Any]:
    """The `data` and `layout` of one panel."""
    data = [_curve(curve) for curve in sorted(panel.curves, key=lambda curve: curve.style.layer)]
    if panel.field is not None:
        data.append(_field(panel.field))
    return {"data": data, "layout": _layout(panel)}


def _layout(panel: Panel) -> dict[str, Any]:
    return {
        "font": _FONT,
        "title": {
            "text": panel.title,
            "font": {"size": 14},
            "x": 0,
            "xref": "paper",
            "y": 0.98,
            "yanchor": "top",
        },
        "margin": {"l": 64, "r": 12, "t": 32, "b": 40},
        "showlegend": False,
        "xaxis": _axis(panel.x) | ({"constrain": "domain"} if panel.field else {}),
        "yaxis": _axis(panel.y)
        | ({"scaleanchor": "x", "constrain": "domain"} if panel.field else {}),
        "shapes": [_band(band) for band in panel.bands],
        "paper_bgcolor": "#fff",
        "plot_bgcolor": "#fff",
        "hovermode": "closest",
        "hoverlabel": {"namelength": -1},
    }


def _axis(axis: PlotAxis) -> dict[str, Any]:
    """The label, scale, ticks and range of an axis; ranges of log axes are exponents."""
    spec: dict[str, Any] = _AXIS_LOOK | {
        "title": {"text": axis.label, "standoff": 8},
        "zeroline": False,
        "showline": True,
        "automargin": True,
    }
    if axis.log:
        spec |= {
            "type": "log",
            "exponentformat": "power",
            "dtick": 2 if axis.limits[0] and (axis.limits[1] or 0) >= 1e7 * axis.limits[0] else 1,
            "minor": {"ticks": ""},
        }
    if axis.ticks:
        spec |= {
            "tickangle": 0,
            "tickfont": {"size": 12},
            "tickmode": "array",
            "tickvals": [t for t, _ in axis.ticks],
            "ticktext": [text for _, text in axis.ticks],
        }
    low, high = axis.limits
    if low is not None and high is not None:
        spec["range"] = [math.log10(low), math.log10(high)] if axis.log else [low, high]
    return spec


def _curve(curve: Curve) -> dict[str, Any]:
    """A scatter trace, with the name that the legend of the page knows it by."""
    look = curve.style
    modes = ["lines"] * (look.width > 0) + ["markers"] * bool(look.marker)
    spec: dict[str, Any] = {
        "type": "scatter",
        "x": _numbers(curve.x),
        "y": _numbers(curve.y),
        "mode": "+".join(modes),
        "name": curve.label,
        "hovertemplate": "%{x:.4~g}, %{y:.4~g}<extra>%{fullData.name}</extra>",
    }
    if look.width:
        width = SCALE * look.width
        dash = ",".join(f"{width * part:.1f}px" for part in look.dash) or "solid"
        spec["line"] = {"color": look.color, "width": width, "dash": dash}
    if look.marker:
        spec["marker"] = _marker(look)
    if curve.low is not None and curve.high is not None:
        spec["error_y"] = _bars(curve)
        spec["hovertemplate"] = (
            "%{x:.4~g}: %{y:.4~g} ± %{error_y.array:.2~g}<extra>%{fullData.name}</extra>"
        )
    return spec


def _marker(look: Style) -> dict[str, Any]:
    name = MARKERS[look.marker][1] + ("" if look.filled else "-open")
    return {
        "symbol": name,
        "size": 1.75 * look.size,
        "color": look.color,
        "line": {"width": 1.5, "color": look.color},
    }


def _bars(curve: Curve) -> dict[str, Any]:
    assert curve.low is not None
    assert curve.high is not None
    up, down = _numbers(curve.high - curve.y), _numbers(curve.y - curve.low)
    return {
        "symmetric": False,
        "array": up,
        "arrayminus": down,
        "thickness": 1.2,
        "width": 4,
        "color": curve.style.color,
    }


def _band(band: Band) -> dict[str, Any]:
    """A rectangle below the traces, as wide as the panel."""
    return {
        "type": "rect",
        "xref": "paper",
        "x0": 0,
        "x1": 1,
        "y0": band.low,
        "y1": band.high,
        "fillcolor": band.color,
        "line": {"width": 0},
        "layer": "below",
    }


def _field(field: Field) -> dict[str, Any]:
    """Filled contours of a power of ten, the same steps as in print."""
    whole = [float(level) for level in field.levels if float(level).is_integer()]
    return {
        "type": "contour",
        "x": _numbers(field.x),
        "y": _numbers(field.y),
        "z": [_numbers(row) for row in field.values],
        "customdata": [_numbers(10**row) for row in field.values],
        "hovertemplate": "%{x:.3~g}, %{y:.3~g}: %{customdata:.3~g}<extra></extra>",
        "colorscale": "Viridis",
        "zmin": float(field.levels[0]),
        "zmax": float(field.levels[-1]),
        "contours": {"start": float(field.levels[0]), "end": float(field.levels[-1]), "size": 0.5},
        "line": {"width": 0.6, "color": "white"},
        "colorbar": {
            "tickvals": whole,
            "ticktext": [f"10<sup>{int(level)}</sup>" for level in whole],
            "title": {"text": field.label, "side": "right"},
            "thickness": 14,
        },
    }


def _numbers(values: np.ndarray) -> list[float | None]:
    """Numbers rounded to a few digits; None, which JSON can say, where they are not finite."""
    return [
        float(f"{v:.{PLOTTED_DIGITS}g}") if math.isfinite(v) else None
        for v in np.asarray(values, dtype=float).tolist()
    ]


def legend(picture: Picture) -> str:
    """A list of buttons, each label once in the order of the panels; empty without curves."""
    curves = [curve for panel in picture.panels for curve in panel.curves if curve.label]
    styles = {curve.label: curve.style for curve in reversed(curves)}
    labels = dict.fromkeys(curve.label for curve in curves)
    items = "".join(
        f'<li><button type="button" aria-pressed="true" data-label="{escape(label)}">'
        f"{_swatch(styles[label])} {label}</button></li>\n"
        for label in labels
    )
    return f'<ul class="legend">\n{items}</ul>\n' if items else ""


def _swatch(style: Style) -> str:
    """A short piece of a curve, for the legend."""
    w, h = SWATCH
    box = f'viewBox="0 0 {w} {h}" width="{w}" height="{h}" aria-hidden="true"'
    return f"<svg {box}>{_swatch_line(style)}{_swatch_marker(style)}</svg>"


def _swatch_line(style: Style) -> str:
    if not style.width:
        return ""
    width = SCALE * style.width
    dashes = ",".join(f"{width * part:.1f}" for part in style.dash)
    look = (
        f'stroke="{style.color}" stroke-width="{width:.2f}" stroke-dasharray="{dashes or "none"}"'
    )
    w, h = SWATCH
    return f'<line x1="1" x2="{w - 1}" y1="{h / 2}" y2="{h / 2}" {look}/>'


def _swatch_marker(style: Style) -> str:
    if not style.marker:
        return ""
    w, h = SWATCH
    place = f'transform="translate({w / 2} {h / 2}) scale(4)"'
    look = (
        f'{place} fill="{style.color if style.filled else "#fff"}" stroke="{style.color}" '
        'stroke-width=".35"'
    )
    if style.marker == "circle":
        return f'<circle r=".95" {look}/>'
    return f'<polygon points="{_OUTLINES[style.marker]}" {look}/>'
