"""Several widths of one family of modules: which sizes grow with the width, and which are fixed.

The same graph is laid out at every width. A dimension that is the same in all of them is fixed as
n → ∞, as that of heads of 64; one that grows in proportion is a multiple of n. Heads of dimension
n/H, for example, are wide then.
"""

import functools
import inspect
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import torch

from limitlaw.arguments import positive_int, shown
from limitlaw.torch import nodes
from limitlaw.torch.errors import ConversionError
from limitlaw.torch.layouts import Layouts
from limitlaw.torch.nodes import Node, Tensor
from limitlaw.torch.tracing import Known

ModuleFamily: TypeAlias = Callable[[int], torch.nn.Module]


class Laid(NamedTuple):
    """The nodes of a graph in order, their layouts, and the labels and numbers of its tensors."""

    order: Sequence[Node]
    layouts: Layouts
    known: Known


def checked_family(module: object, widths: object) -> tuple[ModuleFamily, list[int]]:
    """The module, which must be a function of the width, and the widths in their order."""
    if isinstance(widths, str) or not isinstance(widths, Sequence):
        raise TypeError(f"widths must be a sequence of two or more integers, got {shown(widths)}")
    found = sorted({positive_int("widths", width) for width in widths})
    if len(found) < 2:
        raise ValueError(f"widths must be two or more different integers, got {shown(widths)}")
    if isinstance(module, torch.nn.Module) or not callable(module) or not _takes_one(module):
        raise TypeError(
            f"module must be a function of the width where widths are given, got {shown(module)}"
        )
    return module, found


def _takes_one(function: Callable[..., Any]) -> bool:
    try:
        inspect.signature(function).bind(1)
    except TypeError:
        return False
    except ValueError:  # it has no signature that could be read
        return True
    return True


def at_width(
    family: ModuleFamily, inputs: Sequence[Any], kwargs: Mapping[str, Any], width: int
) -> tuple[Callable[[], torch.nn.Module], tuple[Any, ...], dict[str, Any]]:
    """A function that makes the module of this width, and its inputs, some of which may be
    functions of the width.
    """
    named = {name: _at(x, width) for name, x in kwargs.items()}
    return functools.partial(family, width), tuple(_at(x, width) for x in inputs), named


def _at(x: object, width: int) -> Any:
    return x(width) if callable(x) and not isinstance(x, torch.Tensor) else x


def common_width(
    order: Iterable[Node], asked: Iterable[Tensor], layouts: Layouts, fixed: frozenset[Node]
) -> int:
    """The dimension of most weight matrices and outputs; fixed dimensions count only if there is
    no other.
    """
    read = [node.x.node for node in order if isinstance(node, nodes.Weighed)]
    found = [
        node
        for node in (*read, *(x.node for x in asked))
        if layouts.of[node].coordinate is not None
    ]
    sizes = Counter(
        layouts.of[node].dimension
        for node in found
        if not layouts.of[node].narrow or node not in fixed
    )
    return max(sizes, key=lambda size: (sizes[size], -size)) if sizes else 1


def fixed_nodes(
    order: Sequence[Node], layouts: Layouts, family: Mapping[int, Laid] | None
) -> frozenset[Node]:
    """The nodes of fixed dimension: those of heads, or those that are fixed in a family, and those
    with a dimension of data.
    """
    given = {
        layouts.of[n].dimension
        for n in order
        if isinstance(n, nodes.Fixed) and _has_vectors(layouts, n)
    }
    fixed = (
        _fixed_sizes(family)
        if family
        else frozenset(node for node in order if layouts.of[node].narrow)
    )
    known = fixed | {
        n for n in order if _has_vectors(layouts, n) and layouts.of[n].dimension in given
    }
    return frozenset(_of_one_space(order, layouts, set(known)))


def _of_one_space(order: Sequence[Node], layouts: Layouts, fixed: set[Node]) -> set[Node]:
    """Fixed nodes, and those that live in one space with one: they are added, or meet in a dot
    product.
    """
    while True:
        before = len(fixed)
        for node in order:
            read = [] if isinstance(node, nodes.Weighed) else [t.node for t in node.operands]
            one = [n for n in (node, *read) if _has_vectors(layouts, n)]
            if any(n in fixed for n in one):
                fixed.update(one)
        if len(fixed) == before:
            return fixed


def _has_vectors(layouts: Layouts, node: Node) -> bool:
    return layouts.of[node].coordinate is not None


def _fixed_sizes(found: Mapping[int, Laid]) -> frozenset[Node]:
    """The nodes of the widest graph with one dimension at all widths; the others grow."""
    (width, widest), *others = sorted(found.items(), reverse=True)
    growing: set[Node] = set()
    for other, laid in others:
        if [type(node) for node in laid.order] != [type(node) for node in widest.order]:
            raise ConversionError(
                f"widths: the graphs at widths {other} and {width} are not the same"
            )
        for small, large in zip(laid.order, widest.order, strict=True):
            d, D = _dimension(laid, small), _dimension(widest, large)
            if d != D:
                growing.add(large)
                if d * width != D * other:
                    raise ConversionError(
                        f"{large.label}: its dimension is {d} at width {other} and {D} at width "
                        f"{width}, neither fixed nor a multiple of the width"
                    )
    return frozenset(widest.order) - growing


def growing_axes(found: Mapping[int, Laid]) -> list[str]:
    """A remark on what grows besides dimensions: the number of heads, which the program keeps."""
    (width, widest), *_, (other, laid) = sorted(found.items(), reverse=True)
    for small, large in zip(laid.order, widest.order, strict=True):
        few, many = laid.layouts.of[small].batch, widest.layouts.of[large].batch
        if tuple(few) != tuple(many):
            sizes = f"{tuple(few)} at width {other}, {tuple(many)} at width {width}"
            grows = f"the number of its vectors grows with the width ({sizes})"
            return [f"{large.label}: {grows}; the program keeps the last"]
    return []


def _dimension(laid: Laid, node: Node) -> int:
    """The dimension of the vectors of a node; 1 for numbers."""
    layout = laid.layouts.of[node]
    return layout.dimension if layout.coordinate is not None else 1
