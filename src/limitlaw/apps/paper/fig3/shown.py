"""The claims of figure 3, and its pictures."""

from limitlaw.apps.paper.shown import densities, divergences
from limitlaw.apps.paper.shown.claims import Claim, ClaimRule, converges, limits_agree, rate
from limitlaw.apps.paper.shown.reading import Tables, curve
from limitlaw.apps.reports.figure import Figure
from limitlaw.digits import compact


def _flattens(tables: Tables) -> Claim:
    wide, narrow = (curve(tables["fig3_kl"], reference=r) for r in ("limit", "fixed_d"))
    holds = 0.9e-6 < wide.kl[-1] < 2e-6 and narrow.kl[-1] < wide.kl[-1] / 2
    claim = (
        "Heads of dimension 64 flatten against the n × n limit, not against theirs (n = "
        f"{int(wide.width[-1]):,})"
    )
    measured = (
        f"{compact(wide.kl[-1], wide.error[-1])} and {compact(narrow.kl[-1], narrow.error[-1])}"
    )
    return Claim("fig3b", claim, "near 1e-6, and far below", measured, bool(holds))


FIG3_CLAIMS = (
    converges("fig3", "fig3b", "Heads of dimension 64"),
    rate(
        "fig3",
        "fig3b",
        "Against the limit at fixed head dimension",
        1024,
        0.03,
        reference="fixed_d",
    ),
    limits_agree("fig3", "fig3b", "Heads of dimension 64"),
    ClaimRule(("fig3_kl",), _flattens),
)
FIG3_FIGURES = (
    Figure(
        "fig3a",
        "Figure 3(a)",
        "low-rank heads",
        "Heads of fixed dimension <i>d</i>, their number growing with the width, in linear and in "
        "log scale. Blue lines are exact; the wide grey line is the limit for <i>n</i> × <i>n</i> "
        "heads, the dashed black one the limit at this <i>d</i>. Markers are the paper's KDE of "
        "one trial.",
        densities.widths,
        {"fig3_density": densities.DENSITY_COLUMNS},
    ),
    Figure(
        "fig3b",
        "Figure 3(b)",
        "how fast, with low-rank heads",
        f"Divergence from two limits. {divergences.KL_TEXT} Seen from the limit for <i>n</i> × "
        "<i>n</i> heads the exact curve flattens, since <i>d</i> stays fixed; from the limit at "
        "that <i>d</i> (triangles) it does not.",
        divergences.divergences,
        {"fig3_kl": divergences.KL_COLUMNS},
        divergences.NOISE_FLOOR,
    ),
)
