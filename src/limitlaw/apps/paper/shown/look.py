"""The look and the words of the paper's curves: limits, exact laws and estimates."""

from limitlaw.figures import style
from limitlaw.figures.picture import Style

# Groups (widths, numbers of heads, head dimensions) in order; tints for wide lines below others.
_GROUPS = (
    (style.ORANGE, "#F6D999", style.DOTTED, "circle"),
    (style.VERMILLION, "#F0BE98", style.DASH_DOT, "square"),
    (style.GREEN, "#98D6C5", style.DASHED, "triangle"),
    (style.BLUE, "#98C6E1", style.SOLID, "diamond"),
    (style.PURPLE, "#EBCADC", (9.0, 3.0), "down"),
    (style.SKY, "#BBE1F6", (3.0, 1.0), "circle"),
)
_PLACES = {1: (3,), 2: (1, 3), 3: (1, 2, 3)}  # few groups take the darker styles
KL_STYLES = {
    ("exact", "limit"): Style(style.BLUE, 1.5, style.SOLID, "circle"),
    ("kde", "limit"): Style(style.VERMILLION, 1.2, style.DASHED, "square", filled=False),
    ("exact", "fixed_d"): Style(style.GREEN, 1.5, style.DASH_DOT, "triangle"),
    ("kde", "fixed_d"): Style(style.PURPLE, 1.2, style.DOTTED, "diamond", filled=False),
}
NOISE_LEVEL = Style(style.GREY, 1.1, style.DOTTED)

DENSITY = "density"
WIDE_HEADS = "<i>n</i> × <i>n</i> heads"
KL = "<i>D</i><sub>KL</sub>"
KURTOSIS = "excess kurtosis"
_CURVES = {
    "exact": "exact",
    "kde": "KDE",
    "limit": "limit <i>n</i> → ∞",
    "gaussian": "Gaussian, <i>H</i> → ∞",
    "limit_fixed_d": "limit, fixed <i>d</i>",
    "limit_wide": f"limit, {WIDE_HEADS}",
}
_SYMBOLS = {"width": "<i>n</i>", "heads": "<i>H</i>", "head_dim": "<i>d</i>"}
ESTIMATORS = {"exact": "exact", "kde": "KDE (paper)"}
REFERENCES = {"limit": "from <i>n</i> × <i>n</i> limit", "fixed_d": "from fixed-<i>d</i> limit"}


def places(count: int) -> tuple[int, ...]:
    """The places of so many groups among the styles, in order."""
    return _PLACES.get(count, tuple(range(count)))


def curve_style(kind: str, group: int | None = None) -> Style:
    """The style of a density: limits wide and pale, exact laws thin, KDEs as markers."""
    if kind == "gaussian":
        return style.DOTTED_LINE
    if kind == "limit_fixed_d":
        return Style(style.BLACK, 1.3, style.DASHED)
    color, tint, dash, marker = _GROUPS[(3 if group is None else group) % len(_GROUPS)]
    if kind == "limit":
        return Style(style.LIGHT_GREY if group is None else tint, 3.6)
    if kind == "kde":
        return Style(
            style.VERMILLION if group is None else color, 0.0, style.SOLID, marker, filled=False
        )
    return Style(color, 1.4, dash)


def curve_label(kind: str, group: str = "") -> str:
    """The label of a curve, such as "n = 16, exact"."""
    words = _CURVES[kind].split(" <i>")[0] if group and kind == "limit" else _CURVES[kind]
    return f"{group}, {words}" if group else words


def group_label(column: str, value: int | float) -> str:
    """The label of a group, such as "n = 16" or "n → ∞"."""
    symbol = _SYMBOLS[column]
    return f"{symbol} → ∞" if value == float("inf") else f"{symbol} = {style.number(value)}"
