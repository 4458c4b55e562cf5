"""A chunk: the unit of work that is computed in one go, stored, and found again."""

import dataclasses
import functools
import hashlib
import importlib.metadata
import json
import pathlib
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

PACKAGES = ("limitlaw", "jax", "jaxlib", "numpy", "scipy")
# folders and files on which no number depends
SHOWING = {"cli", "explore", "figures", "report", "reports", "shown", "torch"}


@dataclasses.dataclass(frozen=True, eq=False)
class Chunk:
    """A deterministic function of a module and arguments, with small arrays: sufficient
    statistics.

    Chunks of equal function, arguments (1, 1.0 and True differ) and versions are equal.
    """

    function: Callable[..., dict[str, np.ndarray]]
    arguments: tuple[tuple[str, Any], ...]

    @staticmethod
    def of(function: Callable[..., dict[str, np.ndarray]], /, **arguments: object) -> "Chunk":
        """The chunk `function(**arguments)`: texts, numbers, booleans, None, tuples of these."""
        if "<" in getattr(function, "__qualname__", "<partial>"):
            raise ValueError(
                "a chunk needs a function of a module, which other processes find by name, got "
                f"{function}"
            )
        return Chunk(
            function, tuple((name, _frozen(name, arguments[name])) for name in sorted(arguments))
        )

    @property
    def function_name(self) -> str:
        """The function's module and name."""
        return f"{self.function.__module__}.{self.function.__qualname__}"

    @property
    def name(self) -> str:
        """A readable name: module.function(trial=0, width=16)."""
        arguments = ", ".join(f"{name}={value!r}" for name, value in self.arguments)
        return f"{self.function_name}({arguments})"

    @functools.cached_property
    def identity(self) -> str:
        """A hash of function, arguments and versions; a change of any makes a new chunk."""
        return hashlib.sha256(canonical_json(self.description())).hexdigest()

    def description(self) -> dict[str, Any]:
        """All that the arrays depend on, as plain values for JSON."""
        return {
            "function": self.function_name,
            "arguments": dict(self.arguments),
            "versions": versions(),
        }

    def run(self) -> dict[str, np.ndarray]:
        """Compute the arrays, in 64-bit mode on any machine."""
        from limitlaw.float64 import in_float64

        found = in_float64(self.function)(**dict(self.arguments))
        return {name: plain(name, values) for name, values in found.items()}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Chunk) and self.identity == other.identity

    def __hash__(self) -> int:
        return hash(self.identity)

    def __reduce__(self) -> tuple[Any, ...]:
        # without the identity: another machine finds its own
        return Chunk, (self.function, self.arguments)


@functools.cache
def versions() -> dict[str, str]:
    """The versions that numbers depend on: packages, Python, a hash of limitlaw's source."""
    found = {name: importlib.metadata.version(name) for name in PACKAGES}
    return {
        **found,
        "python": f"{sys.version_info.major}.{sys.version_info.minor}",
        "source": _source_hash(),
    }


def plain(name: str, values: object) -> np.ndarray:
    """`values` as float64, int64 or text, none converted: a float32 is a mistake."""
    array = np.asarray(values)
    if array.dtype not in (np.float64, np.int64) and array.dtype.kind != "U":
        raise TypeError(f"{name} must be an array of float64, int64 or text, got {array.dtype}")
    return array


def canonical_json(value: object) -> bytes:
    """The one JSON text of a value: sorted, on one line."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":")).encode()


def _source_hash() -> str:
    """A hash of the lines that numbers depend on: chunks of older code are not used."""
    root = pathlib.Path(__file__).parents[1]
    files = sorted(path.relative_to(root).as_posix() for path in root.rglob("*.py"))
    computing = [
        name for name in files if SHOWING.isdisjoint(pathlib.PurePath(name).with_suffix("").parts)
    ]
    text = [[name, (root / name).read_text(encoding="utf-8")] for name in computing]
    return hashlib.sha256(canonical_json(text)).hexdigest()[:16]


def _frozen(name: str, value: object) -> Any:
    """An argument as plain Python: NumPy's scalars become numbers, lists tuples."""
    if isinstance(value, list | tuple):
        return tuple(_frozen(name, item) for item in value)
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, str | int | float):
        return value
    raise TypeError(
        f"{name} must be made of texts, numbers, booleans, None and tuples, got {value!r}"
    )
