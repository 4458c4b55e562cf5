"""`program`: a PyTorch module as a program of limitlaw."""

import contextlib
import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import torch

from limitlaw.arguments import first_line
from limitlaw.float64 import in_float64
from limitlaw.torch import laying, nodes, writing
from limitlaw.torch.converted import EXACT, OF_TABLES, Converted, LabelledValue, attentions, replay
from limitlaw.torch.digits import Digits
from limitlaw.torch.errors import ConversionError, Label
from limitlaw.torch.exporting import Exported, exported
from limitlaw.torch.layers import layers_of, loops, rolled
from limitlaw.torch.layouts import Again, Layouts
from limitlaw.torch.nodes import Node, Tensor, ancestors
from limitlaw.torch.rewriting import Rewrite
from limitlaw.torch.scales import Parameters, made
from limitlaw.torch.splitting import compact, split
from limitlaw.torch.tracing import Known, Traced, traced
from limitlaw.torch.widths import (
    Laid,
    at_width,
    checked_family,
    common_width,
    fixed_nodes,
    growing_axes,
)
from limitlaw.torch.writer import Writer, filled, shaped

Module: TypeAlias = torch.nn.Module | Callable[[], torch.nn.Module]
# a module, a function that makes one, or a function of the width
AnyModule: TypeAlias = torch.nn.Module | Callable[..., torch.nn.Module]


@in_float64
def program(
    module: AnyModule, *inputs: Any, widths: Sequence[int] | None = None, **kwargs: Any
) -> Converted:
    """The program that `module(*inputs, **kwargs)` is at initialisation, replayed with the
    module's own weights.

    `module` is a `torch.nn.Module`, whose scales are measured, or a function that makes one, which
    is watched as it draws its parameters. Inputs are deterministic: token numbers, masks, images.
    The module is exported in eval mode and in float64, and is left as it was. Nothing is returned
    that does not give the module's own numbers at every value.

    As n → ∞ the dimension of heads is fixed, and so are those of given data; others grow in
    proportion to n. Another limit follows from `widths`, two or more: `module` is then a function
    of the width, inputs may be, and what grows is what differs between these. The program is that
    of the widest.
    """
    if widths is None:
        return conversion(module, inputs, kwargs).program
    family, (*narrower, widest) = checked_family(module, widths)
    others = {n: laid(_followed(*at_width(family, inputs, kwargs, n))[2]) for n in narrower}
    _, parameters, trace = _followed(*at_width(family, inputs, kwargs, widest))
    with _named():
        converted = written(trace, parameters.notes, {**others, widest: laid(trace)})
        replay(converted)
    return converted


@dataclasses.dataclass(frozen=True)
class Conversion:
    """A program, the graph it was made from, and the parameters of the module."""

    program: Converted
    exported: Exported
    parameters: Parameters


def conversion(module: Module, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Conversion:
    """The conversion of a module: its program, with all that the program was made from."""
    graph, parameters, trace = _followed(module, inputs, kwargs)
    with _named():
        converted = written(trace, parameters.notes)
        replay(converted)
    return Conversion(converted, graph, parameters)


@contextlib.contextmanager
def _named() -> Iterator[None]:
    """A context in which every failure is a `ConversionError`."""
    try:
        yield
    except (ConversionError, MemoryError):
        raise
    except Exception as error:
        raise ConversionError(
            f"no program was found for this module ({type(error).__name__}: {first_line(error)}); "
            "convert its submodules one by one"
        ) from error


def _followed(
    module: Module, inputs: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Exported, Parameters, Traced]:
    """The graph of a module, its parameters, and the symbol of each tensor."""
    made_module, drawn = made(module)
    graph = exported(made_module, inputs, kwargs)
    parameters = Parameters({name: array.numpy() for name, array in graph.arrays.items()}, drawn)
    trace = traced(graph, parameters)
    if not trace.outputs:
        trace = _before_zeros(trace)
        parameters.notes.append(
            f"the module returns constants, as behind a head of zeros: the program is that of "
            f"{trace.known[-1][0]}, the last random values"
        )
    return graph, parameters, trace


def _before_zeros(trace: Traced) -> Traced:
    """The graph up to the last random values, where nothing random is returned."""
    if not trace.known:
        raise ConversionError("the module returns nothing that depends on a random parameter")
    _, tensor, numbers = trace.known[-1]
    return Traced([(dataclasses.replace(tensor), numbers)], trace.known)


def laid(trace: Traced) -> Laid:
    """The nodes of a graph that was followed, and which of their axes are coordinates."""
    asked = [x for x, _ in trace.outputs]
    return _laid(asked, split(asked, trace.known))


def _laid(asked: Sequence[Tensor], known: Known) -> Laid:
    """The layouts of the nodes behind these tensors; some are replaced on the way, in place."""
    while True:
        order = ancestors(reversed([x.node for x in asked]))
        tables = [t for _, t, _ in known if isinstance(t.node, nodes.Random)]
        compact([*_read_by(order), *asked, *(t for t in tables if t.node in set(order))])
        try:
            return Laid(order, Layouts(order, laying.LAYOUT_RULES), known)
        except Rewrite as again:
            again.apply([*_read_by(order), *asked, *(t for _, t, _ in known)])


def _read_by(order: Iterable[Node]) -> list[Tensor]:
    """What nodes read, in every form."""
    every = ancestors(list(order), alternatives=True)
    return [t for node in every for t in (*node.operands, *node.alternatives)]


def written(
    trace: Traced, notes: Iterable[str], family: Mapping[int, Laid] | None = None
) -> Converted:
    """The program of a graph (of a family: of the widest), which is not replayed yet."""
    found = laid(trace) if family is None else family[max(family)]
    asked = [x for x, _ in trace.outputs]
    while True:
        try:
            return _written(trace, notes, found, family)
        except Again as cut:
            found.layouts.resume(cut)
        except Rewrite as again:
            tensors = [*_read_by(found.order), *asked, *(t for _, t, _ in found.known)]
            again.apply(tensors)
            found, family = _laid(asked, found.known), None


def _written(
    trace: Traced, notes: Iterable[str], last_laid: Laid, family: Mapping[int, Laid] | None
) -> Converted:
    order, layouts, known = last_laid
    fixed = fixed_nodes(order, layouts, family)
    asked = [x for x, _ in trace.outputs]
    writer = Writer(
        layouts, writing.WRITING_RULES, common_width(order, asked, layouts, fixed), fixed
    )
    behind = _behind_tables(order)
    label = Label("", "", "output", "output")
    last = [
        _read(writer, label, x, numbers, OF_TABLES if x.node in behind else EXACT)
        for x, numbers in trace.outputs
    ]
    values = (*_labelled(known, writer, behind), *last)
    found = loops(values, layers_of(values), [v.value for v in last])
    outputs = tuple(rolled(v.value, found) for v in last)  # what is replayed is written out
    said = [
        f"{node.label}: its rows are numbers, not a vector: each is read by itself"
        for node in layouts.coordinatewise()
    ]
    said += growing_axes(family) if family else []
    attending = tuple(attentions(order, writer))
    return Converted(outputs, writer.width, values, writer.weights, (*notes, *said), attending)


def _read(
    writer: Writer, label: Label, x: Tensor, numbers: torch.Tensor, tolerance: float
) -> LabelledValue:
    """An output or an embedding in torch's shape, cut further only where vectors are."""
    layouts = writer.layouts
    shape = [size for size in x.shape if size > 1]
    vectors = layouts.of[x.node].coordinate is not None
    if vectors and not layouts.coordinate_is_whole(x, shape):
        shape, _ = layouts.met(x.node, [x])
        whole = tuple(shape)
    else:
        whole = x.shape
    axis = layouts.coordinate(x, shape)
    batch = [size for i, size in enumerate(shape) if i != axis]
    value = filled(writer.read(x, shape), batch)
    outer = None if axis is None else [i for i, size in enumerate(whole) if size > 1][axis]
    value = shaped(value, [size for i, size in enumerate(whole) if i != outer])
    return LabelledValue(label, value, Digits(tuple(whole), outer), numbers.numpy(), tolerance)


def _behind_tables(order: Iterable[Node]) -> set[Node]:
    """The nodes that depend on a rotary table."""
    found: set[Node] = set()
    for node in order:
        if isinstance(node, nodes.Rotation) or any(t.node in found for t in node.operands):
            found.add(node)
    return found


def _labelled(known: Known, writer: Writer, behind: set[Node]) -> Iterable[LabelledValue]:
    """Every value of the program that the graph of the module has, too."""
    seen: set[Node] = set()
    for label, tensor, numbers in known:
        node = tensor.node
        if (
            isinstance(node, nodes.Random)
            and node in writer.values
            and "embedding" in label.operation
        ):
            yield _read(writer, label, tensor, numbers, EXACT)
            continue
        if node in seen or node not in writer.values or tensor.ids.numel() != numbers.numel():
            continue
        if not torch.equal(tensor.ids.reshape(-1), torch.arange(int(np.prod(node.shape)))):
            continue
        seen.add(node)
        tolerance = OF_TABLES if node in behind else EXACT
        yield LabelledValue(
            label, writer.values[node], writer.layout(node), numbers.numpy(), tolerance
        )
