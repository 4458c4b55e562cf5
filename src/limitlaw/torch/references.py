"""Findings that need no measurement: weights and scores against a reference."""

from collections.abc import Iterator
from typing import Any

from limitlaw.torch.attending import Attention
from limitlaw.torch.converting import Conversion, Module, conversion
from limitlaw.torch.siblings import Expected, copies, misfits, unexpected

NARROW = 4  # heads of fewer coordinates cannot show a missing 1/√d


def check(
    module: Module, *inputs: Any, expected: Expected | None = None, **kwargs: Any
) -> tuple[str, ...]:
    """What is wrong with how a module starts, in words,
    without drawing anything: the quick part of `audit`.

    Blocks that are copies of others; layers whose weights are not as large as those of the same
    role in other blocks; scores without 1/√d; and `expected`: {"blocks.*.mlp.*": 0.02} for a
    standard deviation, "2/fan_in" for a variance.
    """
    return referred(conversion(module, inputs, kwargs), expected)


def referred(done: Conversion, expected: Expected | None) -> tuple[str, ...]:
    """`check` of a conversion."""
    arrays = {name: array.numpy() for name, array in done.exported.arrays.items()}
    scales = misfits(arrays, done.parameters, done.exported.kinds)
    found = [*copies(done.parameters), *scales, *_unscaled(done.program.attentions)]
    return tuple(dict.fromkeys([*found, *unexpected(done.exported, expected or {})]))


def _unscaled(attentions: tuple[Attention, ...]) -> Iterator[str]:
    """Scores that grow with the dimension of heads; query matrices that are smaller by √d,
    as T5's, make up for it.
    """
    for a in attentions:
        if a.dim >= NARROW and a.excess > a.dim**0.25:
            yield (
                f"{a.label.module or 'the module itself'}: q·k is multiplied by "
                f"{abs(a.scale):.3g}, expected 1/√d = "
                f"{a.dim**-0.5:.3g} with d = {a.dim}: the scores have {a.excess**2:.2g} times the "
                "variance, which "
                "grows with d and makes attention one-hot"
            )
