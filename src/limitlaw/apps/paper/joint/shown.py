"""The claims about two tokens together, and their pictures."""

import math

import numpy as np

from limitlaw.apps.paper.shown import look
from limitlaw.apps.paper.shown.claims import Claim, ClaimRule
from limitlaw.apps.paper.shown.reading import Tables
from limitlaw.apps.reports.figure import Figure
from limitlaw.digits import short
from limitlaw.figures.picture import Field, Panel, Picture, PlotAxis
from limitlaw.runs import Table

DECADES = 4.0  # decades of a joint density below its peak


def _not_gaussian(tables: Tables) -> Claim:
    table = tables["joint"]
    side = math.isqrt(len(table["y1"]))
    area = float(table["y1"][side] - table["y1"][0]) ** 2
    p, g = table["density"], table["gaussian"]
    mass, kl = area * p.sum(), area * (p * np.log(p / g)).sum()
    holds = abs(mass - 1) < 0.01 and kl > 1e-3
    measured = f"D = {short(kl)}, with {100 * mass:.2f} % of the mass in the picture"
    return Claim(
        "joint", "Two tokens of one head are not jointly Gaussian", "D > 0", measured, holds
    )


def contours(table: Table) -> Picture:
    """The joint density of two tokens beside the Gaussian with the same covariance."""
    y1, y2 = np.unique(table["y1"]), np.unique(table["y2"])
    order = np.lexsort((table["y1"], table["y2"]))
    titles = {"density": "one head, limit", "gaussian": "Gaussian, same covariance"}
    grids = {column: _settled(table[column][order].reshape(len(y2), len(y1))) for column in titles}
    top = math.ceil(2 * math.log10(max(float(np.max(grid)) for grid in grids.values()))) / 2
    levels = np.arange(top - DECADES, top + 0.25, 0.5)
    panels = []
    for column, title in titles.items():
        logs = np.log10(np.maximum(grids[column], 10 ** (levels[0] - 1)))
        field = Field(y1, y2, logs, levels, look.DENSITY)
        panels.append(Panel(_token(1, y1), _token(2, y2), field=field, title=title))
    return Picture((tuple(panels),), (7.0, 3.4), 1)


def _settled(grid: np.ndarray) -> np.ndarray:
    """A density, with the highest of its neighbours where it is infinite."""
    finite_part = np.where(np.isfinite(grid), grid, 0.0)
    around = np.pad(finite_part, 1)
    highest = np.maximum.reduce(
        [around[:-2, 1:-1], around[2:, 1:-1], around[1:-1, :-2], around[1:-1, 2:]]
    )
    return np.where(np.isfinite(grid), grid, highest)


def _token(index: int, y: np.ndarray) -> PlotAxis:
    return PlotAxis(f"<i>y</i><sup>{index}</sup>", limits=(float(y[0]), float(y[-1])))


JOINT_CLAIMS = (ClaimRule(("joint",), _not_gaussian),)
JOINT_FIGURES = (
    Figure(
        "joint",
        "",
        "Two tokens together",
        "Joint density of one coordinate of two tokens with one head, and of the Gaussian with "
        "the same covariance, at the same levels in log scale. An average of Gaussian densities "
        "over the scores; nothing is smoothed.",
        contours,
        {"joint": ("y1", "y2", "density", "gaussian")},
    ),
)
