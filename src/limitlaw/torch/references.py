"""Weights compared with those of the same role in other blocks, and with what the user expects."""

import dataclasses
import fnmatch
import itertools
import math
import re
from collections.abc import Iterator, Mapping

import numpy as np
import torch

from limitlaw.arguments import shown
from limitlaw.torch.exporting import Exported, name_of
from limitlaw.torch.finding import AuditFinding
from limitlaw.torch.reading.roles import NUMBER
from limitlaw.torch.recipes.comparing import set_all
from limitlaw.torch.scales import Parameters

Expected = Mapping[str, float | str]
CHANCE = 5.0  # standard errors
TOLERATED = 0.01  # relative differences of a scale that do not matter
_OF_FAN_IN = re.compile(r"\s*([0-9.eE+-]+)\s*/\s*fan_in\s*")


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
    """The name without the numbers of blocks."""
    return NUMBER.sub("*", name)


def block(name: str, other: str) -> str:
    """The name up to the first number that is not that of a sibling."""
    for one, two in zip(NUMBER.finditer(name), NUMBER.finditer(other), strict=True):
        if one[0] != two[0]:
            return name[: one.end()]
    return ""


def module_of(name: str) -> str:
    """The module that a parameter is in; parameters but weights are named themselves."""
    path, _, last = name.rpartition(".")
    return path if last == "weight" and path else name


# --- copies --------------------------------------------------------------------------------------


def copies(parameters: Parameters) -> Iterator[AuditFinding]:
    """Findings of blocks that start with the numbers of an earlier one, at any depth of names."""
    found: dict[tuple[str, str], list[str]] = {}
    for name, parameter in parameters.random.items():
        if parameter.key != name and role(parameter.key) == role(name):
            here, there = block(name, parameter.key), block(parameter.key, name)
            found.setdefault((here, there), []).append(name)
    alike: dict[tuple[str, str], list[str]] = {}
    for (here, there), names in found.items():
        own = [name for name in parameters.random if name.startswith(f"{here}.")]
        what = "all its weights" if len(names) == len(own) else ", ".join(map(module_of, names))
        whole = what if len(names) == len(own) else role(what)
        alike.setdefault((there, whole), []).append(what if whole != what else here)
    for (there, what), places in alike.items():
        several = what == "all its weights"
        yield AuditFinding(
            ", ".join(places) if several else places[0],
            f"{what} equal those of {there}, expected independent draws"
            if several
            else f"they equal those of {there}, expected independent draws",
            "what identical layers add is correlated, so that the variance grows as the square "
            "of their number",
            "nn.ModuleList(make_layer() for _ in range(n))  # nn.TransformerEncoder copies one",
            "fault",
        )


# --- siblings ------------------------------------------------------------------------------------


def misfits(
    arrays: Mapping[str, np.ndarray],
    parameters: Parameters,
    kinds: Mapping[str, str] | None = None,
    roles: Mapping[str, str] | None = None,
) -> Iterator[AuditFinding]:
    """Findings of parameters whose scale is not that of the same role in other blocks of the same
    classes.
    """
    families: dict[tuple[str, str, str, tuple[int, ...]], list[str]] = {}
    for name, array in arrays.items():
        if array.size and role(name) != name:
            key = (role(name), (kinds or {}).get(name, ""), (roles or {}).get(name, ""))
            families.setdefault((*key, array.shape), []).append(name)
    for names in families.values():
        if any(name in parameters.random for name in names):
            sizes = [size_of(name, arrays[name]) for name in names]
            meant = [  # 1/√(2(l+1)) for block l
                dataclasses.replace(s, square=s.square * (l + 1)) for l, s in enumerate(sizes)
            ]
            if len(names) < 3 or list(_apart(meant)):
                yield from _outliers(sizes)


def _outliers(sizes: list[EntrySize]) -> Iterator[AuditFinding]:
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
    yield from _apart(sizes)


def _apart(sizes: list[EntrySize]) -> Iterator[AuditFinding]:
    """Findings of sizes beyond chance from the median."""
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


def _said(size: EntrySize, reference: float, whose: str) -> AuditFinding:
    weights = "weights" if module_of(size.name) != size.name else "entries"
    ratio = math.sqrt(size.square / reference) if reference else math.inf
    siblings = (
        "those of its siblings"
        if whose.startswith("the median")
        else whose.replace("that", "those", 1)
    )
    std = math.sqrt(reference)
    return AuditFinding(
        module_of(size.name),
        f"its {weights} are {ratio:.2g} times as large as {siblings}, "
        f"standard deviation {math.sqrt(size.square):.3g}, expected {std:.3g} ({whose})",
        "this layer alone was initialised at another scale",
        set_all([size.name], f"torch.nn.init.normal_(p, std={std:.3g})"),
    )


# --- what the user expects -----------------------------------------------------------------------


def unexpected(exported: Exported, expected: Expected) -> Iterator[AuditFinding]:
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


def _compared(
    name: str, exported: Exported, pattern: str, wanted: float | str
) -> Iterator[AuditFinding]:
    fan = fan_in(exported, name)
    variance = _variance(pattern, wanted, fan)
    size = size_of(name, exported.arrays[name].numpy())
    if _differ(size, EntrySize("", variance, 0.0)):
        own, std = math.sqrt(size.square), math.sqrt(variance)
        yield AuditFinding(
            module_of(name),
            f"its standard deviation is {own:.3g}, variance × fan-in {size.square * fan:.3g}, "
            f"expected {std:.3g} and {variance * fan:.3g} ({pattern!r}: {wanted})",
            f"what it gives is {own / std:.2g} times as large" if std else "it is not 0",
            set_all([name], f"torch.nn.init.normal_(p, std={std:.3g})"),
            "fault",
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
