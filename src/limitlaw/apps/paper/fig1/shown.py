"""The claims of figure 1, and its pictures."""

from limitlaw.apps.paper.computed.estimators import Estimated
from limitlaw.apps.paper.shown import densities, divergences
from limitlaw.apps.paper.shown.claims import Claim, ClaimRule, converges, limits_agree, rate
from limitlaw.apps.paper.shown.reading import Tables, agree, curve, row
from limitlaw.apps.reports.figure import Figure
from limitlaw.digits import compact, short

# D(finite ‖ limit) by an independent calculation, and n² D at n = 65,536 (theory §3).
DIVERGENCES = {
    16: (2.217e-2, 9e-5),
    64: (2.12e-3, 1e-5),
    256: (1.576e-4, 5e-7),
    1024: (1.035e-5, 4e-8),
}
RATE_CONSTANT = Estimated(11.04, 0.03)


def _rate_constant(tables: Tables) -> Claim:
    found = curve(tables["fig1_kl"])
    n = float(found.width[-1])
    value, error = n**2 * found.kl[-1], n**2 * found.error[-1]
    claim = f"n²·D tends to a constant (n = {int(n):,})"
    expected = f"{compact(*RATE_CONSTANT)} at n = 65,536"
    holds = agree(value, error, *RATE_CONSTANT)
    return Claim("fig1b", claim, expected, f"n²·D = {compact(value, error)}", holds)


def _known_divergences(tables: Tables) -> Claim:
    found = curve(tables["fig1_kl"])
    points = {int(n): (kl, e) for n, kl, e in zip(*found, strict=True) if int(n) in DIVERGENCES}
    holds = all(agree(*points[n], *known) for n, known in DIVERGENCES.items())
    claim = "D at n = 16, 64, 256, 1024 is that of an independent calculation"
    expected = ", ".join(compact(*known) for known in DIVERGENCES.values())
    measured = ", ".join(compact(*point) for point in points.values())
    return Claim("fig1b", claim, expected, measured, holds)


def _noise_floor(tables: Tables) -> Claim:
    floor = row(tables["kde_floor"])["kl"]
    kde, exact = (
        curve(tables["fig1_kl"], estimator).since(1024) for estimator in ("kde", "exact")
    )
    at, true = float(kde.kl[0]), float(exact.kl[0])
    holds = floor / 3 < at < 3 * floor and at > 10 * true
    claim = (
        "The paper's estimator stops at its noise floor at n = 1024, where the exact D is far "
        "below"
    )
    return Claim(
        "fig1b", claim, f"floor {short(floor)}", f"KDE {short(at)}, exact {short(true)}", holds
    )


FIG1_CLAIMS = (
    converges("fig1", "fig1b", "Two heads"),
    rate("fig1", "fig1b", "Two heads", 1024, 0.02),
    ClaimRule(("fig1_kl",), _rate_constant),
    ClaimRule(("fig1_kl",), _known_divergences),
    limits_agree("fig1", "fig1b", "Two heads"),
    ClaimRule(("fig1_kl", "kde_floor"), _noise_floor),
)
FIG1_FIGURES = (
    Figure(
        "fig1a",
        "Figure 1(a)",
        "the law of one output as the width grows",
        "Density of one coordinate of one token, in linear and in log scale. The wider the layer, "
        f"the closer to a limit whose tails are heavier than a Gaussian's. "
        f"{densities.DENSITY_TEXT}",
        densities.widths,
        {"fig1_density": densities.DENSITY_COLUMNS},
    ),
    Figure(
        "fig1b",
        "Figure 1(b)",
        "how fast the limit is reached",
        f"Divergence of the law at width <i>n</i> from its limit. {divergences.KL_TEXT} Dotted: "
        "what that estimator gives between two samples of one law. There the paper's curve ends; "
        "the exact one goes on as <i>n</i><sup>−2</sup>.",
        divergences.divergences,
        {"fig1_kl": divergences.KL_COLUMNS},
        divergences.NOISE_FLOOR,
    ),
)
