"""The claims of the paper and of the theory, each with what is measured now and whether it holds.

Every claim is computed from the tables alone. Statistical ones allow five standard errors.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np

from limitlaw.apps.paper.shown.reading import SIGMAS, KLCurve, Tables, curve
from limitlaw.digits import compact, short
from limitlaw.runs import Table


class Claim(NamedTuple):
    """A row of the table of claims; `figure` is where the paper or the report shows it."""

    figure: str
    claim: str
    expected: str
    measured: str
    holds: bool


class ClaimRule(NamedTuple):
    """The tables that a claim needs, and the function that makes it from them."""

    needed: tuple[str, ...]
    claim: Callable[[Tables], Claim]


def claims(rules: Iterable[ClaimRule], tables: Tables) -> Table:
    """The claims whose tables are there, as a table; `holds` is "yes" or "no"."""
    found = [rule.claim(tables) for rule in rules if all(name in tables for name in rule.needed)]
    rows = [[*map(str, claim[:-1]), "yes" if claim.holds else "no"] for claim in found]
    columns = zip(*rows, strict=True) if rows else [()] * len(Claim._fields)
    return {name: np.array(c, str) for name, c in zip(Claim._fields, columns, strict=True)}


# --- claims that several experiments make --------------------------------------------------------


def converges(name: str, figure: str, what: str) -> ClaimRule:
    """The rule that divergences fall from each of the paper's widths to the next."""

    def rule(tables: Tables) -> Claim:
        found = curve(tables[f"{name}_kl"])
        paper = KLCurve(*(column[found.width <= 1024] for column in found))
        claim = f"{what}: the law converges to its limit as the width grows"
        return Claim(figure, claim, "D falls from each width to the next", str(paper), paper.falls)

    return ClaimRule((f"{name}_kl",), rule)


def rate(
    name: str, figure: str, what: str, start: int, margin: float, reference: str = "limit"
) -> ClaimRule:
    """Rule: divergences fall as n⁻² from the width `start` on, with `margin` in the exponent."""

    def rule(tables: Tables) -> Claim:
        late = curve(tables[f"{name}_kl"], reference=reference).since(start)
        fitted = late.slope
        holds = abs(fitted.value + 2) <= margin + SIGMAS * fitted.error
        claim = f"{what}: D falls as n⁻² (fit from n = {start:,} to {int(late.width[-1]):,})"
        return Claim(figure, claim, "slope → −2", f"slope {compact(*fitted)}", bool(holds))

    return ClaimRule((f"{name}_kl",), rule)


def limits_agree(name: str, figure: str, what: str) -> ClaimRule:
    """The rule that the finite-width and the infinite-width engine have the same limit."""

    def rule(tables: Tables) -> Claim:
        table = tables[f"{name}_coupled"]
        sigmas = np.abs(table["variance"] - table["limit"]) / table["error"]
        claim = (
            f"{what}: the limit of the finite-width engine is that of the infinite-width engine"
        )
        measured = f"variances differ by at most {short(float(sigmas.max()))} standard errors"
        return Claim(figure, claim, "the same variance", measured, bool((sigmas < SIGMAS).all()))

    return ClaimRule((f"{name}_coupled",), rule)
