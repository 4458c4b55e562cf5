"""Findings that need no measurement: weights compared with those of the same role in other blocks
and with what the user expects, scores with 1/√d.
"""

import dataclasses
import fnmatch
import itertools
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch

from limitlaw.arguments import shown
from limitlaw.float64 import in_float64
from limitlaw.torch.converted import Attention
from limitlaw.torch.converting import Conversion, Module, conversion
from limitlaw.torch.exporting import Exported, name_of
from limitlaw.torch.scales import Parameters

Expected = Mapping[str, float | str]
FEWEST_COORDINATES = 4  # heads of fewer coordinates cannot show a missing 1/√d
CHANCE = 5.0  # standard errors
TOLERATED = 0.01  # relative differences of a scale that do not matter
_INDEX = re.compile(r"(?<![^.])\d+(?![^.])")
_OF_FAN_IN = re.compile(r"\s*([0-9.eE+-]+)\s*/\s*fan_in\s*")


@in_float64
def check(
    module: Module, *inputs: Any, expected: Expected | None = None, **kwargs: Any
) -> tuple[str, ...]:
    """Findings of what is wrong with how a module starts, in words, without drawing anything: the
    quick part of `audit`.

    They are blocks that are copies of others; layers whose weights are not as large as those of
    the same role in other blocks; scores without 1/√d; and deviations from `expected`:
    `{"blocks.*.mlp.*": 0.02}` for a standard deviation, "2/fan_in" for a variance.
    """
    return referred(conversion(module, inputs, kwargs), expected)


def referred(done: Conversion, expected: Expected | None) -> tuple[str, ...]:
    """The findings of `check` for a module that was converted."""
    arrays = {name: array.numpy() for name, array in done.exported.arrays.items()}
    scales = misfits(arrays, done.parameters, done.exported.kinds)
    found = [*copies(done.parameters), *scales, *_unscaled(done.program.attentions)]
    return tuple(dict.fromkeys([*found, *unexpected(done.exported, expected or {})]))


def _unscaled(attentions: tuple[Attention, ...]) -> Iterator[str]:
    """Findings of scores that grow with the head dimension; query matrices smaller by √d make up
    for it (T5).
    """
    for a in attentions:
        if a.dim >= FEWEST_COORDINATES and a.excess > a.dim**0.25:
            yield (
                f"{a.label.module or 'the module itself'}: q·k is multiplied by "
                f"{abs(a.scale):.3g}, expected 1/√d = {a.dim**-0.5:.3g} with d = {a.dim}: the "
                f"scores have {a.excess**2:.2g} times the variance, which grows with d and makes "
                "attention one-hot"
            )


@dataclasses.dataclass(frozen=True)
class EntrySize:
    """The mean square of the entries of a parameter, and its relative standard error."""

    name: str
    square: float
    error: float


def size_of(name: str, array: np.ndarray) -> EntrySize:
    """The measured size of the entries; entries that are 0, as those of padding, do not count
    unless all are.

    The error is at least that of normal entries, since few entries do not tell their own error.
    """
    squares = array[array != 0] ** 2 if array.any() else np.zeros(1)
    mean = float(squares.mean())
    if (array == array.flat[0]).all():
        return EntrySize(name, mean, 0.0)
    return EntrySize(
        name, mean, math.sqrt(max(2.0, float(squares.var()) / mean**2) / squares.size)
    )


def role(name: str) -> str:
    """The name without the number of its block."""
    return _INDEX.sub("*", name, count=1)


def block(name: str) -> str:
    """The name up to the number of its block."""
    match = _INDEX.search(name)
    return name[: match.end()] if match else ""


def module_of(name: str) -> str:
    """The module that a parameter is in; parameters but weights are named themselves."""
    path, _, last = name.rpartition(".")
    return path if last == "weight" and path else name


# --- copies --------------------------------------------------------------------------------------


def copies(parameters: Parameters) -> Iterator[str]:
    """Findings of blocks that start with the numbers of an earlier one."""
    found: dict[tuple[str, str], list[str]] = {}
    for name, parameter in parameters.random.items():
        if (
            parameter.key != name
            and role(parameter.key) == role(name)
            and block(name) != block(parameter.key)
        ):
            found.setdefault((block(name), block(parameter.key)), []).append(name)
    for (here, there), names in found.items():
        own = [name for name in parameters.random if block(name) == here]
        what = "all its weights" if len(names) == len(own) else ", ".join(map(module_of, names))
        yield (
            f"{here}: {what} equal those of {there}, expected independent draws: what identical "
            "layers add is correlated, so that the variance grows as the square of their number"
        )


# --- siblings ------------------------------------------------------------------------------------


def misfits(
    arrays: Mapping[str, np.ndarray],
    parameters: Parameters,
    kinds: Mapping[str, str] | None = None,
) -> Iterator[str]:
    """Findings of parameters whose scale is not that of the same role in other blocks of the same
    classes.
    """
    families: dict[tuple[str, str, tuple[int, ...]], list[str]] = {}
    for name, array in arrays.items():
        if array.size and block(name):
            kind = (kinds or {}).get(name, "")
            families.setdefault((role(name), kind, array.shape), []).append(name)
    for names in families.values():
        if any(name in parameters.random for name in names):
            yield from _outliers([size_of(name, arrays[name]) for name in names])


def _outliers(sizes: list[EntrySize]) -> Iterator[str]:
    """Findings of sizes beyond chance from the median, or of the larger of two; a steady trend is
    taken to be intended.
    """
    if len(sizes) < 2 or _steady(sizes):
        return
    if len(sizes) == 2:
        small, large = sorted(sizes, key=lambda s: s.square)
        if _differ(large, small):
            yield _said(large, small.square, f"that of its sibling {module_of(small.name)}")
        return
    middle = float(np.median([s.square for s in sizes]))
    error = 1.25 * float(np.median([s.error for s in sizes])) / math.sqrt(len(sizes))
    for size in sizes:
        if _differ(size, EntrySize("", middle, error)):
            yield _said(size, middle, f"the median of its {len(sizes) - 1} siblings")


def _differ(a: EntrySize, b: EntrySize) -> bool:
    if not a.square or not b.square:
        return a.square != b.square
    return abs(math.log(a.square / b.square)) > max(
        CHANCE * math.hypot(a.error, b.error), 2 * TOLERATED
    )


def _steady(sizes: list[EntrySize]) -> bool:
    """Does every step from block to block go the same way, none by chance?"""
    steps = list(itertools.pairwise(sizes))
    up = {later.square > earlier.square for earlier, later in steps}
    return len(sizes) > 2 and len(up) == 1 and all(_differ(*step) for step in steps)


def _said(size: EntrySize, reference: float, whose: str) -> str:
    weights = "weights" if module_of(size.name) != size.name else "entries"
    ratio = math.sqrt(size.square / reference) if reference else math.inf
    siblings = (
        "those of its siblings"
        if whose.startswith("the median")
        else whose.replace("that", "those", 1)
    )
    return (
        f"{module_of(size.name)}: its {weights} are {ratio:.2g} times as large as {siblings}, "
        f"standard deviation {math.sqrt(size.square):.3g}, expected {math.sqrt(reference):.3g} "
        f"({whose}): this layer alone was initialised at another scale"
    )


# --- what the user expects -----------------------------------------------------------------------


def unexpected(exported: Exported, expected: Expected) -> Iterator[str]:
    """Findings of parameters of another scale than the user says, by patterns of fnmatch."""
    for pattern, wanted in expected.items():
        names = [
            name for name, array in exported.arrays.items() if _meant(name, pattern, array.ndim)
        ]
        if not names:
            raise ValueError(
                f"expected: no parameter is named {pattern!r}; there are "
                f"{', '.join(exported.arrays)}"
            )
        for name in names:
            yield from _compared(name, exported, pattern, wanted)


def _meant(name: str, pattern: str, rank: int) -> bool:
    """Biases and the weights of norms are meant only where the pattern ends as their names do."""
    own = rank > 1 or pattern.rpartition(".")[2] == name.rpartition(".")[2]
    return own and any(fnmatch.fnmatchcase(x, pattern) for x in (name, module_of(name)))


def _compared(name: str, exported: Exported, pattern: str, wanted: float | str) -> Iterator[str]:
    fan = fan_in(exported, name)
    variance = _variance(pattern, wanted, fan)
    size = size_of(name, exported.arrays[name].numpy())
    if _differ(size, EntrySize("", variance, 0.0)):
        yield (
            f"{module_of(name)}: its standard deviation is {math.sqrt(size.square):.3g}, variance "
            f"× fan-in {size.square * fan:.3g}, expected {math.sqrt(variance):.3g} and "
            f"{variance * fan:.3g} ({pattern!r}: {wanted}): what it gives is "
            f"{math.sqrt(size.square / variance):.2g} times as large"
            if variance
            else (
                f"{module_of(name)}: its standard deviation is {math.sqrt(size.square):.3g}, "
                f"expected 0 ({pattern!r})"
            )
        )


def _variance(pattern: str, wanted: float | str, fan: int) -> float:
    """The variance that the user expects: a number is a standard deviation, "c/fan_in" a
    variance.
    """
    if isinstance(wanted, str):
        match = _OF_FAN_IN.fullmatch(wanted)
        if match:
            return float(match[1]) / fan
    elif (
        isinstance(wanted, int | float) and not isinstance(wanted, bool) and 0 <= wanted < math.inf
    ):
        return float(wanted) ** 2
    raise ValueError(
        f'expected[{pattern!r}] must be a standard deviation, or a variance as "2/fan_in", got '
        f"{shown(wanted)}"
    )


def fan_in(exported: Exported, name: str) -> int:
    """The number of entries that meet in one output: the size of the first axis, for the right
    side of a product.
    """
    array = exported.arrays[name]
    if array.ndim < 2:
        return 1
    places = {
        node.name for node in exported.graph.nodes if exported.parameters.get(node.name) == name
    }
    for node in exported.graph.nodes:
        right = node.args[-1] if node.op == "call_function" and node.args else None
        if (
            name_of(node.target) in ("addmm", "mm", "matmul")
            and isinstance(right, torch.fx.Node)
            and right.name in places
        ):
            return int(array.shape[0])
    return math.prod(array.shape[1:])
