"""The graph of a module, followed twice: with the module's own numbers, and with symbols.

What depends on no random parameter is a constant and is computed at once. Everything else becomes
nodes, by one rule for each operation (`rules`).
"""

import dataclasses
import operator
from collections.abc import Collection, Iterable, Mapping, Sequence

import torch
from torch.utils import _pytree as pytree

from limitlaw.arguments import first_line, shown
from limitlaw.torch import nodes
from limitlaw.torch.complexes import Complex
from limitlaw.torch.errors import ConversionError, Label, label_of, refused
from limitlaw.torch.exporting import SILENT, Exported, arguments_of, name_of, result_of
from limitlaw.torch.nodes import Node, Tensor
from limitlaw.torch.rules import ATEN_ADVICE, AtenRule, rule_of
from limitlaw.torch.scales import Parameters

_OF_SHAPES = """
    zeros_like ones_like full_like empty_like new_zeros new_ones new_full new_empty
""".split()  # noqa: SIM905

# tensors of a graph, with their labels and their numbers
Known = list[tuple[Label, Tensor, torch.Tensor]]
# the results of the nodes of a graph: tensors, lists of them, settings
GraphResults = dict[torch.fx.Node, object]


@dataclasses.dataclass(frozen=True)
class Traced:
    """The random outputs of a module, and the symbol and numbers of every tensor of its graph."""

    outputs: list[tuple[Tensor, torch.Tensor]]
    known: Known


def traced(exported: Exported, parameters: Parameters, given: Collection[str] = ()) -> Traced:
    """Follow a graph; the tensors named in `given` are outputs, and constants for what follows."""
    tables = _tables(exported)
    leaves: dict[str, Node] = {}
    symbols: GraphResults = {}
    numbers: GraphResults = {}
    known: Known = []
    asked: list[tuple[object, object]] = []
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
            found, exact = (
                pytree.tree_flatten(arguments_of(node, x.__getitem__))[0]
                for x in (symbols, numbers)
            )
            return Traced(_random(asked if given else zip(found, exact, strict=True)), known)
        else:
            label = label_of(node)
            numbers[node], symbols[node] = _step(node, label, numbers, symbols)
            known += [
                (label, symbol, exact.detach().clone())
                for symbol, exact in _random([(symbols[node], numbers[node])])
                if exact.is_floating_point()
            ]
            if node.name in given:
                asked.append((symbols[node], numbers[node]))
                symbols[node] = numbers[node]
    raise AssertionError("a graph has an output")


def _random(pairs: Iterable[tuple[object, object]]) -> list[tuple[Tensor, torch.Tensor]]:
    """The symbols that are random, with their numbers."""
    return [
        (symbol, numbers)
        for symbol, numbers in pairs
        if isinstance(symbol, Tensor) and isinstance(numbers, torch.Tensor)
    ]


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
) -> tuple[object, object]:
    """The numbers of an input of the graph, and its symbol, which is the same one for equal
    arrays.
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


def _step(
    node: torch.fx.Node, label: Label, numbers: GraphResults, symbols: GraphResults
) -> tuple[object, object]:
    """The numbers and the symbol of one operation."""
    name = name_of(node.target)
    args, kwargs = arguments_of(node, symbols.__getitem__)
    kinds = {type(x) for x in pytree.tree_flatten((args, kwargs))[0]}
    random = bool(kinds & {Tensor, Complex})
    if not random or name in SILENT or name in _OF_SHAPES:
        result = result_of(node, numbers)
        return result, result
    refused(name, label, args)
    if node.target is operator.getitem:
        return result_of(node, numbers), args[0][args[1]]
    assert callable(node.target)
    rule = rule_of(node.target, Complex in kinds)
    if rule is None:
        raise ConversionError(f"{label}: the operation {node.target} has no rule. {ATEN_ADVICE}")
    return result_of(node, numbers), _ruled(rule, node, label, args, kwargs)


def _ruled(
    rule: AtenRule,
    node: torch.fx.Node,
    label: Label,
    args: Sequence[object],
    kwargs: Mapping[str, object],
) -> object:
    try:
        symbol = rule(*args, **kwargs)
    except ConversionError as error:
        raise ConversionError(f"{label}: {first_line(error)}") from error
    except (TypeError, ValueError, IndexError, RuntimeError, AttributeError) as error:
        read = ", ".join(_shown(x) for x in args)
        raise ConversionError(
            f"{label}: the operation {node.target} has no rule for these arguments ({read}). "
            f"{ATEN_ADVICE}"
        ) from error
    for tensor in pytree.tree_flatten(symbol)[0]:
        if isinstance(tensor, Tensor):
            _labelled(tensor.node, label)
    return symbol


def _shown(x: object) -> str:
    """An argument of an operation in a few words."""
    if isinstance(x, Tensor | Complex):
        return f"random values of shape {tuple(x.shape)}"
    if isinstance(x, torch.Tensor):
        return f"constants of shape {tuple(x.shape)}"
    return shown(x)


def _labelled(node: Node, label: Label) -> None:
    """Give a node that a rule has made, and its operands, the label of the operation."""
    if not node.label.operation:
        node.label = label
        for operand in node.operands:
            _labelled(operand.node, label)
