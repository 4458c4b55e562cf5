"""Rules that a healthy network keeps at initialisation, whatever was predicted."""

import math
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from limitlaw.torch.measuring import CORRELATION, ENTROPY, VARIANCE

if TYPE_CHECKING:
    from limitlaw.torch.table import Row

COLLAPSED = 0.95  # token correlation
ONE_HOT = 0.05  # of ln t
UNIFORM = 1e-6  # of ln t, from the largest entropy
GROWTH = 4.0  # times the number of blocks
FEWEST = 3  # blocks that show a trend


def ailments(rows: Iterable["Row"]) -> tuple[str, ...]:
    """What is unhealthy, in words."""
    rows = tuple(rows)
    return (*_collapse(rows), *_attention(rows), *_growth(rows))


def _blocks(rows: Iterable["Row"], statistic: str) -> list["Row"]:
    """The rows of a statistic in layers that are members of lists; all of them where there are none."""
    found = [row for row in rows if row.statistic == statistic]
    return [row for row in found if row.layer.rpartition(".")[2].isdigit()] or found


def _collapse(rows: tuple["Row", ...]) -> Iterator[str]:
    found = _blocks(rows, CORRELATION)
    given = next((row for row in rows if row.statistic == CORRELATION), None)
    if given is None or not found:
        return
    first, last = given.measured[0], found[-1].measured[0]
    if last > COLLAPSED and first < COLLAPSED:
        yield (
            f"{found[-1].layer}: the token correlation is {last:.3g}, that of {given.layer} {first:.3g}, expected "
            f"below {COLLAPSED}: tokens collapse onto one direction, and what follows cannot tell them apart"
        )


def _attention(rows: tuple["Row", ...]) -> Iterator[str]:
    for row in rows:
        if row.statistic != ENTROPY:
            continue
        value = row.measured[0]
        if value < ONE_HOT:
            yield (
                f"{row.layer}: attention is one-hot, its entropy {value:.2g} of ln t, expected above {ONE_HOT}: each "
                "token copies one other, and gradients through the softmax vanish"
            )
        if 1 - value < UNIFORM:
            yield (
                f"{row.layer}: attention is uniform, its entropy 1 − {max(0.0, 1 - value):.1g} of ln t, expected at "
                f"most 1 − {UNIFORM:g}: queries and keys are too small to matter"
            )


def _growth(rows: tuple["Row", ...]) -> Iterator[str]:
    found = [row for row in _blocks(rows, VARIANCE) if row.layer.rpartition(".")[2].isdigit()]
    if len(found) < FEWEST or found[0].layer.rpartition(".")[0] != found[-1].layer.rpartition(".")[0]:
        return
    first, last, most = found[0].measured[0], found[-1].measured[0], GROWTH * len(found)
    if first > 0 and last / first > most:
        each = math.exp(math.log(last / first) / (len(found) - 1))
        yield (
            f"{found[-1].layer}: the variance is {last / first:.3g} times that of {found[0].layer}, a factor of "
            f"{each:.2g} a block, expected at most {most:g} ({GROWTH:g} times the blocks): it grows faster than "
            "residual branches of equal size add up, and explodes with depth"
        )
