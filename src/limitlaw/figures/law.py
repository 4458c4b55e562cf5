"""The density of a law beside others, near its middle and in its tails."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxtyping import Float
from matplotlib.figure import Figure

from limitlaw.figures import style
from limitlaw.laws import Law

POINTS = 281  # of each curve
MIDDLE, FAR = 3.5, 7.0  # standard deviations that the two panels show
STYLES: tuple[dict[str, Any], ...] = (
    {"color": style.BLUE, "linestyle": "-", "linewidth": 2.2},
    {"color": style.VERMILLION, "linestyle": (0, style.DASHED), "linewidth": 1.5},
    {"color": style.BLACK, "linestyle": (0, style.DOTTED), "linewidth": 1.5},
    {"color": style.GREEN, "linestyle": (0, style.DASH_DOT), "linewidth": 1.5},
)


def density_figure(laws: Mapping[str, Law], title: str, variable: str = "y") -> Figure:
    """Densities of laws of one number by label, in linear and in log scale; the first law sets the ranges."""
    if not laws or len(laws) > len(STYLES):
        raise ValueError(f"laws must be 1 to {len(STYLES)} laws by label, got {len(laws)}")
    first = next(iter(laws.values()))
    centre, sd = float(first.mean()), math.sqrt(float(first.variance()))
    if not sd > 0:
        raise ValueError("the first of laws must have a positive variance to set the ranges, got 0")
    x = centre + sd * np.linspace(-FAR, FAR, POINTS)
    curves = {label: _density(law, x) for label, law in laws.items()}
    figure = Figure(figsize=(9, 4.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    _middle(left, x, curves)
    _tails(right, x, curves)
    for axes, reach in ((left, MIDDLE), (right, FAR)):
        _abscissa(axes, centre, sd, reach, variable)
    figure.suptitle(title, fontsize="medium")
    figure.legend(
        *left.get_legend_handles_labels(), loc="outside lower center", ncols=len(laws), frameon=False, handlelength=3.5
    )
    return figure


def _density(law: Law, x: Float[np.ndarray, " x"]) -> Float[np.ndarray, " x"]:
    """Of one law; not a number where it is infinite or underflows, so that no line is drawn there."""
    p = np.exp(np.asarray(law.logpdf(x)))
    return np.where(np.isfinite(p) & (p > 0), p, np.nan)


def _middle(axes: Any, x: Any, curves: Mapping[str, Any]) -> None:
    """The bulk, in linear scale."""
    for look, (label, p) in zip(STYLES, curves.items(), strict=False):
        axes.plot(x, p, label=label, **look)
    axes.set_ylabel("density")
    axes.set_ylim(bottom=0)


def _tails(axes: Any, x: Any, curves: Mapping[str, Any]) -> None:
    """The tails, in log scale, down to where the first law is at the edge and a little further."""
    for look, (label, p) in zip(STYLES, curves.items(), strict=False):
        axes.semilogy(x, p, label=label, **look)
    axes.set_ylabel("density, log scale")
    axes.set_ylim(np.nanmin(next(iter(curves.values()))) / 100, 3 * max(float(np.nanmax(p)) for p in curves.values()))


def _abscissa(axes: Any, centre: float, sd: float, reach: float, variable: str) -> None:
    """The variable below, the same in standard deviations of the first law above."""
    axes.set_xlim(centre - reach * sd, centre + reach * sd)
    axes.set_xlabel(f"${variable}$")
    axes.grid(alpha=0.25, linewidth=0.5)
    top = axes.secondary_xaxis("top", functions=(lambda y: (y - centre) / sd, lambda t: centre + sd * t))
    top.set_xlabel(f"${variable}$ in standard deviations")
