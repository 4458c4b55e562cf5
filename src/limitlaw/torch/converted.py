"""The result of a conversion: a program, its labelled values, and the module's own weights."""

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from limitlaw.core import kinds as core
from limitlaw.engines.dense.simulate import evaluate
from limitlaw.float64 import in_float64
from limitlaw.language import ops
from limitlaw.language.matrices import Matrix
from limitlaw.language.tree import Value
from limitlaw.language.values import Scalars, Wide, scalars, wide
from limitlaw.torch import nodes
from limitlaw.torch.digits import Digits
from limitlaw.torch.errors import Label, ReplayError
from limitlaw.torch.nodes import Node
from limitlaw.torch.writer import AnyValue, Writer

# --- attention -----------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Attention:
    """One softmax over keys: its scores as numbers of the program, which are seen (None: all)."""

    label: Label
    scores: Scalars
    visible: np.ndarray | None


def attentions(order: Sequence[Node], writer: Writer) -> Iterator[Attention]:
    """The softmaxes whose weights mix vectors, in the order of the module."""
    mixing = {
        t.node for node in order if isinstance(node, nodes.Contraction) for t in node.operands
    }
    for node in order:
        if isinstance(node, nodes.Softmax) and node in mixing:
            applied = _softmax_of(writer.values[node])
            if applied is not None:
                scores, *mask = map(scalars, applied.args)
                given = [m.op.value for m in mask if isinstance(m.op, ops.Constant)]
                seen = np.asarray(given[0]) > 0 if given else None
                yield Attention(node.label, scores, seen)


def _softmax_of(value: Value) -> ops.Apply | None:
    """The softmax that makes these weights, behind reshapes; None where there is none."""
    while isinstance(value.op, ops.Reshape | ops.Transpose | ops.Index):
        value = value.op.x
    found = value.op
    return found if isinstance(found, ops.Apply) and found.structure == "softmax" else None


# --- programs ------------------------------------------------------------------------------------


EXACT, OF_TABLES = 1e-10, 1e-5  # relative errors in float64, and behind float32 tables


@dataclasses.dataclass(frozen=True)
class LabelledValue:
    """A value of the program, where in the module it was written, and the numbers that the module
    has there.
    """

    label: Label
    value: AnyValue
    layout: Digits
    expected: np.ndarray
    tolerance: float

    @property
    def vectors(self) -> Wide:
        """The value, which must be vectors."""
        return wide(f"what {self.label.module} gives", self.value)


@dataclasses.dataclass(frozen=True)
class Replayed:
    """The relative error of every labelled value, in the order of the module's computation."""

    errors: tuple[tuple[Label, float], ...]

    @property
    def worst(self) -> float:
        """The largest relative error of all values."""
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

    outputs: tuple[AnyValue, ...]
    width: int
    values: tuple[LabelledValue, ...]
    weights: dict[Matrix | Value, np.ndarray]
    notes: tuple[str, ...]
    attentions: tuple[Attention, ...] = ()

    @property
    def output(self) -> AnyValue:
        """The first of the outputs."""
        return self.outputs[0]

    def __getitem__(self, name: str) -> AnyValue:
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


@in_float64
def replay(converted: Converted) -> Replayed:
    """Run a program with the weights of its module and compare every value with what the module
    computes there.

    Raises a `ReplayError` that names the first value that differs by more than 1e-10 of its
    largest entry in float64 (1e-5 behind tables that the module keeps in float32).
    """
    found = computed(converted, [item.value for item in converted.values])
    errors = []
    for item, array in zip(converted.values, found, strict=True):
        laid, expected = _laid(array, item.layout), item.expected.reshape(-1)
        error = math.inf
        if laid.size == expected.size:
            size = float(np.abs(expected).max(initial=0.0)) or 1.0
            error = float(np.abs(laid - expected).max(initial=0.0)) / size
        if not error <= item.tolerance:
            raise ReplayError(
                f"{item.label}: the program gives other numbers than the module, relative error "
                f"{error:.1e}, expected at most {item.tolerance:.0e} (node {item.label.name} of "
                "the exported graph)"
            )
        errors.append((item.label, error))
    return Replayed(tuple(errors))


class _OwnWeights:
    """The numbers of a module as the weights of the dense engine."""

    def __init__(self, arrays: Mapping[Any, np.ndarray]):
        self._arrays = arrays

    def initial(self, value: core.Value) -> jax.Array:
        """The module's numbers for initial vectors."""
        return jnp.asarray(self._arrays[value.source])

    def multiply(self, family: core.Family, x: jax.Array, transposed: bool = False) -> jax.Array:
        """W x with the module's own W, batch axes broadcast as in NumPy."""
        if transposed:
            raise TypeError("a program of a PyTorch module has no transposed matrices")
        W = self._arrays[family.source]
        return jnp.asarray(np.einsum("...rc,...c->...r", W, np.asarray(x), optimize=True))


def computed(converted: Converted, values: Sequence[AnyValue]) -> list[np.ndarray]:
    """The arrays of values for the numbers of the module; loops must be written out."""
    weights = _OwnWeights(converted.weights)
    return [np.asarray(array) for array in evaluate(values, converted.width, weights)]


def _laid(array: np.ndarray, layout: Digits) -> np.ndarray:
    """The entries of a value in the order of its torch tensor."""
    if layout.coordinate is not None:
        array = np.moveaxis(array, -1, layout.coordinate)
    return array.reshape(-1)
