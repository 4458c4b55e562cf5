"""The labels by which errors name a place in a module, and the words in which it is refused."""

import dataclasses
import re
from collections.abc import Sequence

import torch

_PLACE = re.compile(r'File "([^"]+)", line (\d+), in \S+\n\s*(.*)')


@dataclasses.dataclass(frozen=True)
class Label:
    """The path of a module, the line of its `forward`, the operation, its name in the graph."""

    module: str
    line: str
    operation: str
    name: str

    def __str__(self) -> str:
        where = f" ({self.line})" if self.line else ""
        return f"{self.operation} in {self.module or 'the module itself'}{where}"


NOWHERE = Label("", "", "", "")


def label_of(node: torch.fx.Node) -> Label:
    """The label of a node of an exported graph."""
    stack = node.meta.get("nn_module_stack") or {}
    path = [entry[0] for entry in stack.values()]
    places = _PLACE.findall(node.meta.get("stack_trace") or "")
    line = "{}:{}: {}".format(*places[-1]) if places else ""
    return Label(path[-1] if path else "", line, str(node.target), node.name)


class ConversionError(ValueError):
    """A module that has no program; the message names the operation, where it is, and a remedy."""


class ReplayError(ConversionError):
    """A program with other numbers than its module; the message names the first wrong value."""


# --- refused by name -----------------------------------------------------------------------------


REFUSED = {
    "_native_batch_norm_legit": (
        "batch norm in train mode mixes the samples of a batch: use eval mode, or LayerNorm"
    ),
    "topk": (
        "top-k routing (mixtures of experts) chooses by random values: convert one expert by "
        "itself"
    ),
    "sort": "sorting random values has no rule",
    "nonzero": "data-dependent control flow has no rule: shapes depend on random values",
    **dict.fromkeys(
        ("scatter", "scatter_add", "index_add", "index_put"),
        "scatter writes have no rule: write the result with torch.where or torch.cat",
    ),
    **dict.fromkeys(
        ("bernoulli", "native_dropout"),
        "dropout in train mode draws at random: call it with training=False",
    ),
    "multinomial": "drawing from random values has no rule",
    **dict.fromkeys(
        ("lstm", "gru"),
        "recurrent layers have no rule here: write them with limitlaw.lstm or limitlaw.gru",
    ),
}


def refused(name: str, label: Label, args: Sequence[object]) -> None:
    """Raise for what limitlaw refuses by name, when random values enter it."""
    if name == "dropout" and all(args[1:3]):  # with p > 0, in train mode
        raise ConversionError(f"{label}: {REFUSED['bernoulli']}")
    if name.rstrip("_") in REFUSED:
        raise ConversionError(f"{label}: {REFUSED[name.rstrip('_')]}")
