"""What the paper and the theory claim, each beside the figure measured now and whether it holds.

Every claim is computed from the tables alone. A claim whose figure was not run is left out. Statistical ones allow
five standard errors.
"""

import math
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from limitlaw.digits import compact, short
from limitlaw.paper.estimators import Estimate
from limitlaw.paper.reading import SIGMAS, Curve, agree, curve, row
from limitlaw.runs.tables import Table

# D(finite ‖ limit) of figure 1 by an independent calculation, and n² D at n = 65,536 (theory §3).
DIVERGENCES = {16: (2.217e-2, 9e-5), 64: (2.12e-3, 1e-5), 256: (1.576e-4, 5e-7), 1024: (1.035e-5, 4e-8)}
RATE_CONSTANT = Estimate(11.04, 0.03)
VARIANCE, KURTOSIS = 0.391971443576, 0.243318425  # of one head, s = 4, K = I (theory §7)
NARROW = {8: (0.385685, 1.1160), 64: (0.391129, 0.35144), 128: (0.391548, 0.29734)}  # variance, kurtosis (theory §4)

Tables = Mapping[str, Table]


class Claim(NamedTuple):
    """A row of the table of claims."""

    figure: str
    claim: str
    expected: str
    measured: str
    holds: bool


def claims(tables: Tables) -> Table:
    """All claims about the tables that are there, as a table; `holds` is "yes" or "no"."""
    found = [rule(tables) for needed, rule in RULES if all(name in tables for name in needed)]
    columns = {name: np.array([str(getattr(claim, name)) for claim in found]) for name in Claim._fields[:-1]}
    return {**columns, "holds": np.array(["yes" if claim.holds else "no" for claim in found])}


# --- figures of the paper ---------------------------------------------------------------------------------------------


def _converges(figure: str, what: str) -> tuple[tuple[str, ...], Callable[[Tables], Claim]]:
    def rule(tables: Tables) -> Claim:
        found = curve(tables[f"{figure}_kl"])
        paper = Curve(*(column[found.width <= 1024] for column in found))
        claim = f"{what}: the law converges to its limit as the width grows"
        return Claim(_label(figure), claim, "D falls from each width to the next", str(paper), paper.falls)

    return (f"{figure}_kl",), rule


def _rate(figure: str, start: int, margin: float, what: str) -> tuple[tuple[str, ...], Callable[[Tables], Claim]]:
    def rule(tables: Tables) -> Claim:
        late = curve(tables[f"{figure}_kl"], reference="fixed_d" if figure == "fig3" else "limit").since(start)
        fitted = late.slope
        holds = abs(fitted.value + 2) <= margin + SIGMAS * fitted.error
        claim = f"{what}: D falls as n⁻² (fit from n = {start:,} to {int(late.width[-1]):,})"
        return Claim(_label(figure), claim, "slope → −2", f"slope {compact(*fitted)}", bool(holds))

    return (f"{figure}_kl",), rule


def _limits_agree(figure: str, what: str) -> tuple[tuple[str, ...], Callable[[Tables], Claim]]:
    def rule(tables: Tables) -> Claim:
        table = tables[f"{figure}_coupled"]
        sigmas = np.abs(table["variance"] - table["limit"]) / table["error"]
        claim = f"{what}: the limit of the finite-width engine is that of the infinite-width engine"
        measured = f"variances differ by at most {short(float(sigmas.max()))} standard errors"
        return Claim(_label(figure), claim, "the same variance", measured, bool((sigmas < SIGMAS).all()))

    return (f"{figure}_coupled",), rule


def _label(figure: str) -> str:
    """Where the paper has the divergences."""
    return "fig4" if figure == "fig4" else f"{figure}b"


def _known_divergences(tables: Tables) -> Claim:
    found = curve(tables["fig1_kl"])
    points = {int(n): (kl, e) for n, kl, e in zip(*found, strict=True) if int(n) in DIVERGENCES}
    holds = all(agree(*points[n], *known) for n, known in DIVERGENCES.items())
    expected = ", ".join(compact(*known) for known in DIVERGENCES.values())
    measured = ", ".join(compact(*point) for point in points.values())
    return Claim("fig1b", "D at n = 16, 64, 256, 1024 is that of an independent calculation", expected, measured, holds)


def _rate_constant(tables: Tables) -> Claim:
    found = curve(tables["fig1_kl"])
    n = float(found.width[-1])
    value, error = n**2 * found.kl[-1], n**2 * found.error[-1]
    expected = f"{compact(*RATE_CONSTANT)} at n = 65,536"
    holds = agree(value, error, *RATE_CONSTANT)
    return Claim(
        "fig1b", f"n²·D tends to a constant (n = {int(n):,})", expected, f"n²·D = {compact(value, error)}", holds
    )


def _noise_floor(tables: Tables) -> Claim:
    floor = row(tables["kde_floor"])["kl"]
    kde, exact = (curve(tables["fig1_kl"], estimator).since(1024) for estimator in ("kde", "exact"))
    at, true = float(kde.kl[0]), float(exact.kl[0])
    holds = floor / 3 < at < 3 * floor and at > 10 * true
    claim = "The paper's estimator stops at its noise floor at n = 1024, where the exact D is far below"
    return Claim("fig1b", claim, f"floor {short(floor)}", f"KDE {short(at)}, exact {short(true)}", holds)


def _random_score(tables: Tables) -> Claim:
    variance, kl = row(tables["fig2a_variance"], scaling="sqrt"), row(tables["fig2a_kl"])
    holds = abs(variance["variance"] - 1) < 0.05 and kl["kl"] < 3e-3
    first, second = compact(variance["variance"], variance["error"]), compact(kl["kl"], kl["error"])
    measured = f"variance {first}, D = {second} from N(0, 1)"
    claim = "Under 1/√n the score p₁₁ stays random: N(0, 1) (n = 256)"
    return Claim("fig2a", claim, "variance 1, D → 0", measured, holds)


def _vanishing_score(tables: Tables) -> Claim:
    found = row(tables["fig2a_variance"], scaling="linear")
    scaled, error = 256 * found["variance"], 256 * found["error"]
    holds = abs(scaled - 1) < 0.05
    return Claim(
        "fig2a",
        "Under 1/n the score p₁₁ tends to 0",
        "n · variance → 1",
        f"n · variance = {compact(scaled, error)}",
        holds,
    )


def _few_heads(tables: Tables) -> Claim:
    table = tables["fig2b_kl"]
    own, gaussian = (row(table, heads=1, reference=r, estimator="exact") for r in ("limit", "gaussian"))
    holds = own["kl"] + SIGMAS * own["error"] < gaussian["kl"] / 4
    claim = "One head at n = 256 follows its own limit, not the infinite-head Gaussian"
    first, second = (compact(found["kl"], found["error"]) for found in (own, gaussian))
    measured = f"D = {first} from its limit, {second} from the Gaussian"
    return Claim("fig2b", claim, "the first far below the second", measured, holds)


def _many_heads(tables: Tables) -> Claim:
    table = tables["fig2b_kl"]
    one, many = (row(table, heads=H, reference="gaussian", estimator="exact") for H in (1, 256))
    holds = many["kl"] + SIGMAS * many["error"] < one["kl"] / 4
    claim = "With 256 heads the law is near the infinite-head Gaussian"
    measured = f"D = {compact(many['kl'], many['error'])}, against {compact(one['kl'], one['error'])} with one head"
    return Claim("fig2b", claim, "D far below that of one head", measured, holds)


def _flattens(tables: Tables) -> Claim:
    wide, narrow = (curve(tables["fig3_kl"], reference=r) for r in ("limit", "fixed_d"))
    holds = 0.9e-6 < wide.kl[-1] < 2e-6 and narrow.kl[-1] < wide.kl[-1] / 2
    claim = f"Heads of dimension 64 flatten against the n × n limit, not against theirs (n = {int(wide.width[-1]):,})"
    measured = f"{compact(wide.kl[-1], wide.error[-1])} and {compact(narrow.kl[-1], narrow.error[-1])}"
    return Claim("fig3b", claim, "near 1e-6, and far below", measured, bool(holds))


# --- beyond the paper -------------------------------------------------------------------------------------------------


def _same_variance(tables: Tables) -> Claim:
    worst = float(np.abs(tables["heads"]["variance"] / VARIANCE - 1).max())
    claim = "Remark 3.2: the variance does not depend on the number of heads"
    return Claim("heads", claim, f"variance {VARIANCE}", f"largest relative difference {short(worst)}", worst < 1e-9)


def _kurtosis(tables: Tables) -> Claim:
    table = tables["heads"]
    scaled = table["heads"] * table["kurtosis"]
    holds = bool((np.abs(scaled / KURTOSIS - 1) < 1e-7).all())
    measured = f"{scaled[0]:.9g} at H = 1, {scaled[-1]:.9g} at H = {table['heads'][-1]}"
    return Claim(
        "heads", "The law is not Gaussian: H · excess kurtosis is a constant", f"H·κ = {KURTOSIS}", measured, holds
    )


def _heads_rate(tables: Tables) -> Claim:
    table = tables["heads"]
    expected = KURTOSIS**2 / 48
    scaled = float(table["heads"][-1] ** 2 * table["kl"][-1])
    holds = abs(scaled / expected - 1) < 0.01
    claim = f"D from the infinite-head Gaussian falls as H⁻²: H²·D → κ₁²/48 (H = {table['heads'][-1]})"
    return Claim("heads", claim, f"κ₁²/48 = {1e3 * expected:.4f}e-3", f"H²·D = {1e3 * scaled:.4f}e-3", holds)


def _narrow_heads(tables: Tables) -> Claim:
    table = tables["head_dim"]
    found = {d: row(table, head_dim=float(d)) for d in NARROW}
    pairs = {d: (figures["variance"], figures["kurtosis"]) for d, figures in found.items()}
    holds = all(abs(pairs[d][0] / v - 1) < 1e-5 and abs(pairs[d][1] / k - 1) < 1e-3 for d, (v, k) in NARROW.items())
    expected, measured = (", ".join(f"{v:.6f} / {k:.4f}" for v, k in each.values()) for each in (NARROW, pairs))
    return Claim("head_dim", "Variance / excess kurtosis at head dimension 8, 64, 128", expected, measured, holds)


def _joint(tables: Tables) -> Claim:
    table = tables["joint"]
    side = math.isqrt(len(table["y1"]))
    area = float(table["y1"][side] - table["y1"][0]) ** 2
    p, g = table["density"], table["gaussian"]
    mass, kl = area * p.sum(), area * (p * np.log(p / g)).sum()
    holds = abs(mass - 1) < 0.01 and kl > 1e-3
    measured = f"D = {short(kl)}, with {100 * mass:.2f} % of the mass in the picture"
    return Claim("joint", "Two tokens of one head are not jointly Gaussian", "D > 0", measured, holds)


def _random_average(tables: Tables) -> Claim:
    table = tables["theorem_figures"]
    last = np.isfinite(table["width"]).nonzero()[0][-1]
    distance, samples = float(table["distance"][last]), float(table["samples"][last])
    falling = bool((np.diff(table["distance"][: last + 1]) < 1.4 / math.sqrt(samples)).all())
    holds = falling and distance < 0.02 + 1.95 / math.sqrt(samples)
    n = int(table["width"][last])
    claim = f"Theorem 3.1: averages over coordinates converge to the predicted random limit (n = {n:,})"
    return Claim("theorem", claim, "Kolmogorov distance → 0", f"distance {short(distance)}", holds)


def _no_constant(tables: Tables) -> Claim:
    table = tables["theorem_figures"]
    limit, last = float(table["variance"][-1]), float(table["variance"][-2])
    holds = 0.8 < last / limit < 1.3
    claim = "… and not to a constant, as a Gaussian theory would have it"
    return Claim("theorem", claim, f"variance → {short(limit)}, not 0", f"variance {short(last)}", holds)


RULES: tuple[tuple[tuple[str, ...], Callable[[Tables], Claim]], ...] = (
    _converges("fig1", "Two heads"),
    _rate("fig1", 1024, 0.02, "Two heads"),
    (("fig1_kl",), _rate_constant),
    (("fig1_kl",), _known_divergences),
    _limits_agree("fig1", "Two heads"),
    (("fig1_kl", "kde_floor"), _noise_floor),
    (("fig2a_variance", "fig2a_kl"), _random_score),
    (("fig2a_variance",), _vanishing_score),
    (("fig2b_kl",), _few_heads),
    (("fig2b_kl",), _many_heads),
    _converges("fig3", "Heads of dimension 64"),
    _rate("fig3", 1024, 0.03, "Against the limit at fixed head dimension"),
    _limits_agree("fig3", "Heads of dimension 64"),
    (("fig3_kl",), _flattens),
    _converges("fig4", "More tokens"),
    _rate("fig4", 1024, 0.03, "More tokens"),
    _limits_agree("fig4", "More tokens"),
    _converges("fig5", "ReLU"),
    _rate("fig5", 256, 0.05, "ReLU"),
    (("heads",), _same_variance),
    (("heads",), _kurtosis),
    (("heads",), _heads_rate),
    (("head_dim",), _narrow_heads),
    (("joint",), _joint),
    (("theorem_figures",), _random_average),
    (("theorem_figures",), _no_constant),
)
