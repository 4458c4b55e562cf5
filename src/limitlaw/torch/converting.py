"""`program`: a PyTorch module as a program of limitlaw."""

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import torch

from limitlaw.arguments import require_float64
from limitlaw.torch import nodes
from limitlaw.torch.converted import EXACT, OF_TABLES, Converted, Labelled, replay
from limitlaw.torch.errors import ConversionError
from limitlaw.torch.exporting import exported
from limitlaw.torch.layouts import Layouts
from limitlaw.torch.nodes import Node, Tensor, ancestors
from limitlaw.torch.scales import Parameters
from limitlaw.torch.tracing import Traced, traced
from limitlaw.torch.watching import made
from limitlaw.torch.writing import Writer

Module = torch.nn.Module | Callable[[], torch.nn.Module]


def program(module: Module, *inputs: Any, **kwargs: Any) -> Converted:
    """The program that `module(*inputs, **kwargs)` is at initialisation, replayed with the module's own weights.

    `module` is a `torch.nn.Module`, whose scales are measured, or a function that makes one, which is watched as it
    draws its parameters. Inputs are given: token numbers, masks, images. The module is exported in eval mode and in
    float64, and is left as it was. Nothing is returned that does not give the module's own numbers at every value.
    """
    require_float64("program")
    module, drawn = made(module)
    graph = exported(module, inputs, kwargs)
    parameters = Parameters({name: array.numpy() for name, array in graph.arrays.items()}, drawn)
    trace = traced(graph, parameters)
    if not any(isinstance(x, Tensor) for x in trace.outputs):
        raise ConversionError("the module returns nothing that depends on a random parameter")
    converted = _written(trace, parameters.notes)
    replay(converted)
    return converted


def _written(trace: Traced, notes: Iterable[str]) -> Converted:
    asked = [x for x in trace.outputs if isinstance(x, Tensor)]
    order = ancestors(reversed([x.node for x in asked]))
    compact([*(t for node in order for t in node.operands), *asked, *(t for _, t, _ in trace.known)])
    layouts = Layouts(order)
    writer = Writer(layouts, _width(order, layouts), _fixed(order, layouts))
    shapes = [_outer(layouts, x) for x in asked]
    outputs = tuple(writer.read(x, shape) for x, shape in zip(asked, shapes, strict=True))
    values = tuple(_labelled(trace, writer, _behind_tables(order)))
    return Converted(outputs, writer.width, values, writer.weights, tuple(notes))


def _outer(layouts: Layouts, tensor: Tensor) -> list[int]:
    """The shape of an output: that of torch, refined only where vectors are cut."""
    shape = [size for size in tensor.shape if size > 1]
    layout = layouts.of[tensor.node]
    if layout.coordinate is None or layouts.coordinate_is_whole(tensor, shape):
        return shape
    return layouts.met(tensor.node, [tensor])[0]


def compact(tensors: Iterable[Tensor]) -> None:
    """Leave out the rows of tables that no tensor reads: tokens that do not occur."""
    readers: dict[Node, dict[int, Tensor]] = {}
    for t in tensors:
        if isinstance(t.node, nodes.Random) and len(t.node.shape) > 1:
            readers.setdefault(t.node, {})[id(t)] = t
    for node, found in readers.items():
        assert isinstance(node, nodes.Random)
        columns = node.shape[-1]
        rows = np.unique(np.concatenate([t.ids.numpy().reshape(-1) // columns for t in found.values()]))
        if len(rows) == node.array.size // columns:
            continue
        place = np.zeros(node.array.size // columns, int)
        place[rows] = np.arange(len(rows))
        node.array = node.array.reshape(-1, columns)[rows]
        node.shape = node.array.shape
        for t in found.values():
            ids = t.ids.numpy()
            t.ids = torch.from_numpy(place[ids // columns] * columns + ids % columns)


def _width(order: Iterable[Node], layouts: Layouts) -> int:
    """The dimension that most values have, heads and given data apart."""
    found = [layouts.of[node] for node in order]
    sizes = Counter(x.dimension for x in found if x.coordinate is not None and not x.narrow)
    return max(sizes, key=lambda size: (sizes[size], size)) if sizes else 1


def _fixed(order: Iterable[Node], layouts: Layouts) -> frozenset[int]:
    """Dimensions in which given vectors stand: they stay as they are."""
    given = [node for node in order if isinstance(node, nodes.Given)]
    return frozenset(layouts.of[node].dimension for node in given if layouts.of[node].coordinate is not None)


def _behind_tables(order: Iterable[Node]) -> set[Node]:
    """The nodes that depend on a rotary table."""
    found: set[Node] = set()
    for node in order:
        if isinstance(node, nodes.Rotation) or any(t.node in found for t in node.operands):
            found.add(node)
    return found


def _labelled(trace: Traced, writer: Writer, behind: set[Node]) -> Iterable[Labelled]:
    """Every value of the program that the graph of the module has, too."""
    seen: set[Node] = set()
    for label, tensor, numbers in trace.known:
        node = tensor.node
        if node in seen or node not in writer.values or tensor.ids.numel() != numbers.numel():
            continue
        if not torch.equal(tensor.ids.reshape(-1), torch.arange(int(np.prod(node.shape)))):
            continue
        seen.add(node)
        tolerance = OF_TABLES if node in behind else EXACT
        yield Labelled(label, writer.values[node], writer.layout(node), numbers.numpy(), tolerance)
