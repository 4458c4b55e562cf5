"""The claims of figure 4, and its pictures."""

from limitlaw.apps.paper.shown import densities, divergences
from limitlaw.apps.paper.shown.claims import converges, limits_agree, rate
from limitlaw.apps.reports.figure import Figure
from limitlaw.figures.picture import Picture
from limitlaw.runs import Table


def side_by_side(density: Table | None, kl: Table | None, floor: Table | None) -> Picture:
    """A picture of the density, and beside it the divergence."""
    panels = (
        [] if density is None else [densities.linear_panel(densities.curves_by(density, "width"))]
    )
    panels += [] if kl is None else [divergences.divergence_panel(kl, floor)]
    return Picture((tuple(panels),), (7.2 if len(panels) == 2 else 4.6, 3.6), 5)


FIG4_CLAIMS = (
    converges("fig4", "fig4", "More tokens"),
    rate("fig4", "fig4", "More tokens", 1024, 0.03),
    limits_agree("fig4", "fig4", "More tokens"),
)
FIG4_FIGURES = (
    Figure(
        "fig4",
        "Figure 4",
        "more tokens",
        "As figure 1 with a longer sequence: the density of one output, and its divergence from "
        f"the limit. {densities.DENSITY_TEXT} {divergences.KL_TEXT}",
        side_by_side,
        {"fig4_density": densities.DENSITY_COLUMNS, "fig4_kl": divergences.KL_COLUMNS},
        divergences.NOISE_FLOOR,
        any_of=True,
    ),
)
