"""The density of a law beside others, near its middle and in its tails."""

import math
from collections.abc import Mapping

import numpy as np
from jaxtyping import Float
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from limitlaw.figures.plot import heights, look
from limitlaw.laws import Law

MIDDLE_SDS, TAIL_SDS = 3.5, 7.0  # standard deviations that the two panels show

Heights = Float[np.ndarray, " x"]


def density_figure(laws: Mapping[str, Law], title: str, variable: str = "y") -> Figure:
    """Densities by label, in linear and in log scale; the first law sets the ranges."""
    if not laws:
        raise ValueError("laws must be one law at least, by label, got none")
    first = next(iter(laws.values()))
    centre, sd = float(first.mean()), math.sqrt(float(first.variance()))
    if not sd > 0:
        raise ValueError(
            "the first of laws must have a positive variance to set the ranges, got 0"
        )
    x = centre + sd * np.linspace(-TAIL_SDS, TAIL_SDS, 281)
    curves = {label: heights(law, x) for label, law in laws.items()}
    figure = Figure(figsize=(9, 4.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    for i, (label, p) in enumerate(curves.items()):
        left.plot(x, p, label=label, **look(i))
        right.semilogy(x, p, label=label, **look(i))
    left.set(ylabel="density", ylim=(0, None))
    # the tails down to where the first law is at the edge and a little further
    bottom = float(np.nanmin(next(iter(curves.values())))) / 100
    top = 3 * max(float(np.nanmax(p)) for p in curves.values())
    right.set(ylabel="density, log scale", ylim=(bottom, top))
    for axes, reach in ((left, MIDDLE_SDS), (right, TAIL_SDS)):
        _abscissa(axes, centre, sd, reach, variable)
    figure.suptitle(title, fontsize="medium")
    _legend(figure, *left.get_legend_handles_labels())
    return figure


def _legend(figure: Figure, handles: list[Artist], labels: list[str]) -> None:
    """Put the legend below the panels, in as many columns as fit into the figure."""
    for columns in range(min(len(labels), 4), 0, -1):
        legend = figure.legend(
            handles,
            labels,
            loc="outside lower center",
            ncols=columns,
            frameon=False,
            handlelength=3.5,
        )
        if columns == 1 or legend.get_window_extent().width <= figure.bbox.width:
            return
        legend.remove()


def _abscissa(axes: Axes, centre: float, sd: float, reach: float, variable: str) -> None:
    """Label the variable below, and the same in standard deviations of the first law above."""
    axes.set_xlim(centre - reach * sd, centre + reach * sd)
    axes.set_xlabel(f"${variable}$")
    axes.grid(alpha=0.25, linewidth=0.5)
    both_ways = (lambda y: (y - centre) / sd, lambda t: centre + sd * t)
    top = axes.secondary_xaxis("top", functions=both_ways)
    top.set_xlabel(f"${variable}$ in standard deviations")
