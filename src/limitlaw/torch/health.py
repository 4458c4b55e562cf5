"""Rules that a healthy network keeps at initialisation, whatever was predicted.

The bounds are choices, wide enough for what published Transformers start with: no theorem has
them. A correlation of 0.95 leaves a tenth of the variance of a difference of tokens; an entropy of
0.05 ln t is 1.15 tokens of 16; 10⁻⁶ below ln t the scores have a standard deviation of about 10⁻³;
residual branches as large as what they are added to first give a variance that grows as the number
of blocks, and 4 times that is out of line; exponents come in halves, and 1/4 is half way to the
first. A bound is broken where 5 standard errors do not bring a measurement back.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from limitlaw.digits import plus_minus
from limitlaw.torch.finding import AuditFinding, places
from limitlaw.torch.measuring import CORRELATION, ENTROPY, SCORE_VARIANCE, VARIANCE

if TYPE_CHECKING:
    from limitlaw.torch.growing import Growth
    from limitlaw.torch.table import AuditRow

COLLAPSED = 0.95  # token correlation
ONE_HOT = 0.05  # share of ln t
UNIFORM = 1e-6  # distance from the largest entropy, as a share of ln t
GROWS = 4.0  # times the number of blocks
FEWEST_BLOCKS = 3  # blocks that show a trend
EXPONENT = 0.25  # exponent of the width
SURE = 5.0  # standard errors
NAMED_LAYERS = 3  # layers that one finding names


def ailments(rows: Iterable["AuditRow"]) -> tuple[AuditFinding, ...]:
    """The findings about measurements, in words."""
    rows = tuple(rows)
    return (*_collapse(rows), *_attention(rows), *_growth(rows))


def _blocks(rows: Iterable["AuditRow"], statistic: str) -> list["AuditRow"]:
    """The rows of a statistic in members of lists; all of its rows where there are no lists."""
    found = [row for row in rows if row.statistic == statistic]
    return [row for row in found if row.layer.rpartition(".")[2].isdigit()] or found


def _collapse(rows: tuple["AuditRow", ...]) -> Iterator[AuditFinding]:
    found = _blocks(rows, CORRELATION)
    given = next((row for row in rows if row.statistic == CORRELATION), None)
    if given is None or not found:
        return
    first, last = given.measured[0], found[-1].measured[0]
    if last - SURE * found[-1].error > COLLAPSED and first < COLLAPSED:
        yield AuditFinding(
            found[-1].layer,
            f"the token correlation is {last:.3g}, that of {given.layer} {first:.3g}, expected "
            f"below {COLLAPSED}",
            "tokens collapse onto one direction, and what follows cannot tell them apart",
            "scale what ends each branch by 1/√(2L), or norm what it reads",
        )


def _attention(rows: tuple["AuditRow", ...]) -> Iterator[AuditFinding]:
    entropies = [row for row in rows if row.statistic == ENTROPY]
    one_hot = [r for r in entropies if r.measured[0] + SURE * r.error < ONE_HOT]
    flat = [r for r in entropies if 1 - r.measured[0] + SURE * r.error < UNIFORM]
    if one_hot:
        yield AuditFinding(
            places([row.layer for row in one_hot], len(entropies)),
            f"attention is one-hot, its entropy {one_hot[0].measured[0]:.2g} of ln t, expected "
            f"above {ONE_HOT}",
            "each token copies one other, and gradients through the softmax vanish",
            "initialise q and k smaller, or norm them",
        )
    if flat:
        value = flat[0].measured[0]
        yield AuditFinding(
            places([row.layer for row in flat], len(entropies)),
            f"attention is uniform, its entropy 1 − {max(0.0, 1 - value):.1g} of ln t, expected "
            f"at most 1 − {UNIFORM:g}",
            "queries and keys are too small to matter",
            "initialise q and k larger",
        )


def _growth(rows: tuple["AuditRow", ...]) -> Iterator[AuditFinding]:
    found = [row for row in _blocks(rows, VARIANCE) if row.layer.rpartition(".")[2].isdigit()]
    if (
        len(found) < FEWEST_BLOCKS
        or found[0].layer.rpartition(".")[0] != found[-1].layer.rpartition(".")[0]
    ):
        return
    first, last, most = found[0].measured[0], found[-1].measured[0], GROWS * len(found)
    chance = SURE * math.hypot(
        *(row.error / row.measured[0] for row in (found[0], found[-1]) if row.measured[0] > 0)
    )
    if first > 0 and last / first > most * math.exp(chance):
        each = math.exp(math.log(last / first) / (len(found) - 1))
        yield AuditFinding(
            found[-1].layer,
            f"the variance is {last / first:.3g} times that of {found[0].layer}, a factor of "
            f"{each:.2g} a block, expected at most {most:g} ({GROWS:g} times the blocks)",
            "it grows faster than residual branches of equal size make it",
            "norm what each branch reads, and scale what ends it by 1/√(2L)",
        )


def growing(growth: Sequence["Growth"]) -> tuple[AuditFinding, ...]:
    """Layers whose scale grows with the width, named where it begins; scores that grow."""
    return (*_layers_that_grow(growth), *_scores_that_grow(growth))


def _layers_that_grow(growth: Sequence["Growth"]) -> Iterator[AuditFinding]:
    """Findings of layers that grow by more than the one before; what follows grows too, up to a
    norm.
    """
    before, error = 0.0, 0.0
    for one in growth:
        if one.statistic != VARIANCE or one.measured is None:
            continue
        exponent, own = one.measured
        step = exponent - max(before, 0.0)
        if step > EXPONENT and step > SURE * math.hypot(own, error):
            yield AuditFinding(
                one.layer,
                f"its scale grows with width as n^{plus_minus(*one.measured)}, expected n^0 as "
                "before it",
                f"here {_nearest(step)} is missing",
            )
        if abs(exponent - before) > SURE * math.hypot(own, error):
            before, error = exponent, own


def _scores_that_grow(growth: Sequence["Growth"]) -> Iterator[AuditFinding]:
    """A finding of the attentions whose scores grow."""
    found = [
        (one.layer, one.measured)
        for one in growth
        if one.statistic == SCORE_VARIANCE and one.measured is not None
        if one.measured[0] > max(EXPONENT, SURE * one.measured[1])
    ]
    if found:
        names = ", ".join(name for name, _ in found[:NAMED_LAYERS])
        names += f", … ({len(found)} in all)" if len(found) > NAMED_LAYERS else ""
        yield AuditFinding(
            names,
            f"the scores grow with width as n^{plus_minus(*found[0][1])}, expected n^0",
            "attention becomes one-hot as the module gets wider",
            "divide scores by the square root of the head dimension",
        )


def _nearest(step: float) -> str:
    """The power of the width that would end the growth."""
    halves = round(2 * step)
    return {1: "a factor 1/√n", 2: "a factor 1/n"}.get(halves, f"a factor n^-{halves / 2:g}")
