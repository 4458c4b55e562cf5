"""What a conversion gives: a program, its labelled values,
and the weights of the module to replay it with.
"""

import dataclasses
import math
from typing import Any

import numpy as np

from limitlaw.torch.attending import Attention
from limitlaw.torch.digits import Layout
from limitlaw.torch.errors import ReplayError
from limitlaw.torch.evaluating import Evaluation
from limitlaw.torch.labels import Label

EXACT, OF_TABLES = 1e-10, 1e-5  # relative errors in float64, and behind float32 tables


@dataclasses.dataclass(frozen=True)
class Labelled:
    """A value of the program, where in the module it was written,
    and the numbers that the module has there.
    """

    label: Label
    value: Any
    layout: Layout
    expected: np.ndarray
    tolerance: float


@dataclasses.dataclass(frozen=True)
class Replayed:
    """The relative error of every labelled value,
    in the order in which the module computes them.
    """

    errors: tuple[tuple[Label, float], ...]

    @property
    def worst(self) -> float:
        """The largest relative error."""
        return max((error for _, error in self.errors), default=0.0)

    def __str__(self) -> str:
        return f"{len(self.errors)} values replayed, relative error at most {self.worst:.1e}"


@dataclasses.dataclass(frozen=True)
class Converted:
    """A module as a program.

    `outputs` are values of limitlaw, one for each tensor that the module returns; `output` is the
    first. `width` is the n at which the program is the module; `weights` are the module's own
    numbers by matrix and initial vector; `notes` say what was found on the way; `attentions` are
    its softmaxes over keys.
    """

    outputs: tuple[Any, ...]
    width: int
    values: tuple[Labelled, ...]
    weights: dict[Any, np.ndarray]
    notes: tuple[str, ...]
    attentions: tuple[Attention, ...] = ()

    @property
    def output(self) -> Any:
        """The first output."""
        return self.outputs[0]

    def __getitem__(self, name: str) -> Any:
        """The last value that a submodule computes, by its path."""
        found = [v.value for v in self.values if v.label.module == name]
        if not found:
            known = sorted({v.label.module for v in self.values})
            raise KeyError(
                f"no value of the program was written in module {name!r}; there are "
                f"{', '.join(known)}"
            )
        return found[-1]

    def __str__(self) -> str:
        lines = [f"{len(self.values)} values at width {self.width}", *self.notes]
        return "\n".join(lines)


def replay(converted: Converted) -> Replayed:
    """Run a program with the weights of its module and compare every value with what the module
    computes there.

    Raises a `ReplayError` that names the first value that differs by more than 1e-10 of its
    largest entry in float64 (1e-5 behind tables that the module keeps in float32).
    """
    evaluation = Evaluation(converted.weights, converted.width)
    errors = []
    for item in converted.values:
        (array,) = evaluation.of([item.value])
        error = _difference(_laid(array, item.layout), item.expected)
        if not error <= item.tolerance:
            raise ReplayError(
                f"{item.label}: the program gives other numbers than the module, relative error "
                f"{error:.1e}, "
                f"expected at most {item.tolerance:.0e} (node {item.label.name} of the exported "
                "graph)"
            )
        errors.append((item.label, error))
    return Replayed(tuple(errors))


def _laid(array: np.ndarray, layout: Layout) -> np.ndarray:
    """The entries of a value in the order of its torch tensor."""
    if layout.coordinate is not None:
        array = np.moveaxis(array, -1, layout.coordinate)
    return array.reshape(-1)


def _difference(array: np.ndarray, expected: np.ndarray) -> float:
    if array.size != math.prod(expected.shape):
        return math.inf
    size = float(np.abs(expected).max(initial=0.0))
    return float(np.abs(array - expected.reshape(-1)).max(initial=0.0)) / (size or 1.0)
