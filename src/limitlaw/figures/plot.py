"""Any number of laws in one picture: densities as lines, atoms as stems, samples as steps."""

import itertools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from limitlaw.figures import style
from limitlaw.laws import Law

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# share of the mass beyond the picture on either side, in linear and in log scale
MASS_BEYOND, MASS_BEYOND_LOG = 5e-4, 1e-9
DASHES = ("-", (0, style.DASHED), (0, style.DOTTED), (0, style.DASH_DOT))


def look(i: int) -> dict[str, Any]:
    """The colour and dashes of curve number i: different for as many as can be told apart."""
    dashes = DASHES[(i + i // len(style.COLOURS)) % len(DASHES)]
    return {
        "color": style.COLOURS[i % len(style.COLOURS)],
        "linestyle": dashes,
        "linewidth": 2.0 if dashes == "-" else 1.6,
    }


def plot(
    *laws: Law | Mapping[str, Law], ax: "Axes | None" = None, log: bool = False, **labelled: Law
) -> "Axes":
    """Draw laws of one number in one picture and return its matplotlib Axes.

    `plot(p, q)`, `plot({"n = 64": p, "limit": q})` or `plot(limit=q)`; `ax`: the Axes to draw in,
    by default a new picture; `log`: in log scale, out to 1e-9 of the mass. Densities are lines and
    atoms stems of their mass; samples, which have no density, are drawn as a histogram. Colours of
    text and axes are those of the reader's matplotlib style.
    """
    named = _named(laws, labelled)
    if ax is None:
        from matplotlib import pyplot

        ax = pyplot.subplots(figsize=(6.4, 4.0), layout="constrained")[1]
    axes = ax
    x = _range(list(named.values()), MASS_BEYOND_LOG if log else MASS_BEYOND)
    drawn = [_draw(axes, law, label, x, look(i)) for i, (label, law) in enumerate(named.items())]
    if log:
        axes.set_yscale("log")
        axes.set_ylim(*_decades(drawn))
    elif axes.get_yscale() == "linear":
        axes.set_ylim(bottom=0)
    axes.set_xlim(x[0], x[-1])
    axes.set_xlabel("$y$")
    axes.set_ylabel("density, log scale" if log else "density")
    axes.grid(alpha=0.25, linewidth=0.5)
    if len(named) > 1 or labelled or any(isinstance(law, Mapping) for law in laws):
        axes.legend(frameon=False, handlelength=3.5)
    return axes


def _named(laws: tuple[Any, ...], labelled: Mapping[str, Any]) -> dict[str, Law]:
    """All laws by label; anything but a law of one number is refused."""
    pairs: list[tuple[str | None, Any]] = []
    for law in laws:
        pairs += law.items() if isinstance(law, Mapping) else [(None, law)]
    named: dict[str, Law] = {}
    for label, law in [*pairs, *labelled.items()]:
        if not isinstance(law, Law):
            raise TypeError(
                f"plot takes laws, or a dict of laws by label, got {type(law).__name__}"
            )
        if law.shape:
            raise ValueError(
                f"plot draws laws of one number, got one of shape {law.shape}: take "
                "law.marginal(i)"
            )
        name = repr(law).split(", shape")[0] + ")" if label is None else str(label)
        free = itertools.chain([name], (f"{name}, {k}" for k in itertools.count(2)))
        named[next(each for each in free if each not in named)] = law
    if not named:
        raise ValueError("plot needs one law at least, got none")
    return named


def _range(laws: list[Law], beyond: float) -> Float[np.ndarray, " x"]:
    """Points from the smallest to the largest quantile of all laws."""
    ends = np.array([(float(law.ppf(beyond)), float(law.isf(beyond))) for law in laws])
    low, high = float(ends.min()), float(ends.max())
    margin = 0.02 * (high - low) or max(abs(low), 1.0)
    return np.linspace(low - margin, high + margin, 401)


def _draw(
    axes: "Axes", law: Law, label: str, x: Float[np.ndarray, " x"], looks: dict[str, Any]
) -> np.ndarray:
    """Draw one law, and return the heights of its curve."""
    if law.discrete:
        points, masses = (np.asarray(a) for a in law.atoms())
        bins = min(60, max(5, len(points) // 20))
        found, edges = np.histogram(points, bins, weights=masses, density=True)
        axes.stairs(found, edges, label=label, color=looks["color"], linewidth=1.2)
        return found
    p = heights(law, x)
    axes.plot(x, p, label=label, **looks)
    for point, mass in zip(*law.atoms(), strict=True):
        stem = {"color": looks["color"], "marker": "o", "markevery": [1], "linewidth": 1.2}
        axes.plot([point, point], [0, mass], **stem)
        text, at = f"P = {float(mass):.3g}", (float(point), float(mass))
        axes.annotate(text, at, xytext=(5, 3), textcoords="offset points")
    return p


def heights(law: Law, x: Float[np.ndarray, " x"]) -> Float[np.ndarray, " x"]:
    """The density, NaN where it is infinite or underflows, so that no line is drawn there."""
    p = np.asarray(law.pdf(x)) if len(law.atoms().points) else np.exp(np.asarray(law.logpdf(x)))
    return np.where(np.isfinite(p) & (p > 0), p, np.nan)


def _decades(drawn: list[np.ndarray]) -> tuple[float, float]:
    """The range from below the smallest height that is meant to be seen to above the largest."""
    positive = np.concatenate([h[np.isfinite(h) & (h > 0)] for h in drawn])
    top = float(positive.max(initial=1e-300))
    ends = [float(np.nanmin(np.where(h > 0, h, np.nan))) for h in drawn if (h > 0).any()]
    return max(max(ends) / 100, 1e-14 * top), 3 * top
