"""The claims of figure 5, and its pictures."""

from limitlaw.apps.paper.shown import densities, divergences
from limitlaw.apps.paper.shown.claims import converges, rate
from limitlaw.apps.reports.figure import Figure

FIG5_CLAIMS = (converges("fig5", "fig5b", "ReLU"), rate("fig5", "fig5b", "ReLU", 256, 0.05))
FIG5_FIGURES = (
    Figure(
        "fig5a",
        "Figure 5(a)",
        "ReLU inputs, the law of one output",
        "As figure 1(a), with tokens that have passed a ReLU and so are correlated. "
        f"{densities.DENSITY_TEXT}",
        densities.widths,
        {"fig5_density": densities.DENSITY_COLUMNS},
    ),
    Figure(
        "fig5b",
        "Figure 5(b)",
        "ReLU inputs, how fast the limit is reached",
        f"As figure 1(b). {divergences.KL_TEXT}",
        divergences.divergences,
        {"fig5_kl": divergences.KL_COLUMNS},
        divergences.NOISE_FLOOR,
    ),
)
