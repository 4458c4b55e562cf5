"""The graph of a module, followed twice: with the module's own numbers, and with symbols.

What depends on no random parameter is a constant and is computed at once. Everything else becomes
nodes, by one rule an operation (`rules`).
"""

import dataclasses
import operator
from collections.abc import Collection
from typing import Any

import torch
from torch.utils import _pytree as pytree

from limitlaw.arguments import first_line
from limitlaw.torch import nodes
from limitlaw.torch.errors import ConversionError
from limitlaw.torch.exporting import Exported
from limitlaw.torch.labels import Label, label_of
from limitlaw.torch.nodes import Node, Tensor
from limitlaw.torch.refusing import refused
from limitlaw.torch.rules import ADVICE, RULES
from limitlaw.torch.scales import Parameters

_OF_SHAPES = {
    "zeros_like",
    "ones_like",
    "full_like",
    "empty_like",
    "new_zeros",
    "new_ones",
    "new_full",
    "new_empty",
}
_SILENT = {
    "_assert_tensor_metadata",
    "_assert_async",
    "sym_constrain_range_for_size",
    "_assert_scalar",
}


@dataclasses.dataclass(frozen=True)
class Traced:
    """The outputs of a module, and for every tensor of its graph the symbol and the
    numbers it stands for.
    """

    outputs: list[Any]
    numbers: list[Any]  # those of the outputs
    known: list[tuple[Label, Tensor, torch.Tensor]]


def traced(exported: Exported, parameters: Parameters, given: Collection[str] = ()) -> Traced:
    """Follow a graph. What nodes that are named in `given` compute is asked for,
    and is a constant behind them.
    """
    tables = _tables(exported)
    leaves: dict[str, Node] = {}
    symbols: dict[Any, Any] = {}
    numbers: dict[Any, Any] = {}
    known: list[tuple[Label, Tensor, torch.Tensor]] = []
    asked: list[tuple[Any, Any]] = []
    for node in exported.graph.nodes:
        if node.op == "placeholder":
            numbers[node], symbols[node] = _placeholder(
                node.name, exported, parameters, tables, leaves
            )
        elif node.op == "get_attr":
            raise ConversionError(
                f"{label_of(node)}: control flow inside the graph (torch.cond, loops) has no rule"
            )
        elif node.op == "output":
            outputs, exact = (
                pytree.tree_flatten(_filled(node.args[0], x))[0] for x in (symbols, numbers)
            )
            if given:
                outputs, exact = ([pair[i] for pair in asked] for i in (0, 1))
            return Traced(outputs, exact, known)
        else:
            label = label_of(node)
            numbers[node], symbols[node] = _step(node, label, numbers, symbols)
            _keep(known, label, symbols[node], numbers[node])
            if node.name in given:
                asked.append((symbols[node], numbers[node]))
                symbols[node] = numbers[node]
    raise AssertionError("a graph has an output")


def computed(exported: Exported, arrays: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The numbers of every tensor of a graph, by the name of its node, for these parameters."""
    numbers: dict[Any, Any] = {}
    for node in exported.graph.nodes:
        if node.op == "placeholder":
            own = exported.parameters.get(node.name)
            numbers[node] = exported.constants[node.name] if own is None else arrays[own]
        elif node.op == "call_function" and name_of(node.target) not in _SILENT:
            args, kwargs = (
                _exactly(_filled(node.args, numbers)),
                _exactly(_filled(dict(node.kwargs), numbers)),
            )
            numbers[node] = node.target(*args, **kwargs)
    return {node.name: x for node, x in numbers.items() if isinstance(x, torch.Tensor)}


def _tables(exported: Exported) -> set[str]:
    """The parameters that are read as embeddings."""
    found = [
        node.args[0]
        for node in exported.graph.nodes
        if node.op == "call_function" and name_of(node.target) == "embedding"
    ]
    return {exported.parameters[node.name] for node in found if node.name in exported.parameters}


def _placeholder(
    name: str,
    exported: Exported,
    parameters: Parameters,
    tables: set[str],
    leaves: dict[str, Node],
) -> tuple[Any, Any]:
    """The numbers of an input of the graph, and its symbol:
    one for all parameters with the same numbers.
    """
    if name not in exported.parameters:
        return exported.constants[name], exported.constants[name]
    target = exported.parameters[name]
    array = exported.arrays[target]
    if target in parameters.constants:
        return array, array
    parameter = parameters.random[target]
    if parameter.key not in leaves:
        label = Label(target.rpartition(".")[0], "", "parameter", target)
        tied = any(
            parameters.random[t].key == parameter.key for t in tables if t in parameters.random
        )
        leaves[parameter.key] = nodes.Random(
            tuple(array.shape), parameter, array.numpy(), tied, label=label
        )
    return array, leaves[parameter.key].whole()


def _filled(args: Any, values: dict[Any, Any]) -> Any:
    return torch.fx.node.map_arg(args, lambda node: values[node])


def _step(
    node: Any, label: Label, numbers: dict[Any, Any], symbols: dict[Any, Any]
) -> tuple[Any, Any]:
    """The numbers and the symbol of one operation."""
    name = name_of(node.target)
    if name in _SILENT:
        return None, None
    args, kwargs = _filled(node.args, symbols), _filled(dict(node.kwargs), symbols)
    random = any(isinstance(x, Tensor) for x in pytree.tree_flatten((args, kwargs))[0])
    random = random and name not in _OF_SHAPES
    if random:
        refused(name, label, args)
        if name not in RULES and node.target is not operator.getitem:
            raise ConversionError(f"{label}: the operation {node.target} has no rule. {ADVICE}")
    exact, exactly = (
        _exactly(_filled(node.args, numbers)),
        _exactly(_filled(dict(node.kwargs), numbers)),
    )
    result = node.target(*exact, **exactly)
    if not random:
        return result, result
    if node.target is operator.getitem:
        return result, args[0][args[1]]
    return result, _ruled(node, name, label, args, kwargs)


def _ruled(node: Any, name: str, label: Label, args: Any, kwargs: Any) -> Any:
    try:
        symbol = RULES[name](node.target, *args, **kwargs)
    except ConversionError as error:
        raise ConversionError(f"{label}: {first_line(error)}") from error
    except (TypeError, ValueError, IndexError, RuntimeError, AttributeError) as error:
        raise ConversionError(
            f"{label}: the rule for {node.target} does not cover these arguments "
            f"({first_line(error)})"
        ) from error
    for tensor in pytree.tree_flatten(symbol)[0]:
        if isinstance(tensor, Tensor):
            _labelled(tensor.node, label)
    return symbol


def _labelled(node: Node, label: Label) -> None:
    """What a rule has made bears its label."""
    if not node.label.operation:
        node.label = label
        for operand in node.operands:
            _labelled(operand.node, label)


def name_of(target: object) -> str:
    """The name of an operation without its overload: "add" for aten.add.Tensor."""
    packet = getattr(target, "_overloadpacket", None)
    return str(getattr(target if packet is None else packet, "__name__", target))


def _exactly(args: object) -> Any:
    """Arguments with float64 for float32: what a module casts for speed is computed in full."""
    return pytree.tree_map(lambda x: torch.float64 if x is torch.float32 else x, args)


def _keep(
    known: list[tuple[Label, Tensor, torch.Tensor]], label: Label, symbol: object, numbers: object
) -> None:
    if (
        isinstance(symbol, Tensor)
        and isinstance(numbers, torch.Tensor)
        and numbers.is_floating_point()
    ):
        known.append((label, symbol, numbers.detach().clone()))
