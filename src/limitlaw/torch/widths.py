"""Several widths of one family of modules: which sizes grow with the width, and which are fixed.

The same graph is laid out at every width. A dimension that is the same in all of them is fixed as
n → ∞, as that of heads of 64; one that grows in proportion is a multiple of n. Heads of dimension
n/H, for one, are wide then.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch

from limitlaw.arguments import positive_int, shown
from limitlaw.torch.errors import ConversionError
from limitlaw.torch.layouts import Layouts
from limitlaw.torch.nodes import Node
from limitlaw.torch.splitting import Known

Inputs = tuple[tuple[Any, ...], dict[str, Any]]


class Laid(NamedTuple):
    """The nodes of a graph in order, their layouts, and what is known of its tensors."""

    order: Sequence[Node]
    layouts: Layouts
    known: Known


def checked_widths(module: object, widths: object) -> list[int]:
    """The widths in their order; checked, as is that the module is a function of them."""
    if isinstance(widths, str) or not isinstance(widths, Sequence):
        raise TypeError(f"widths must be a sequence of two or more integers, got {shown(widths)}")
    found = sorted({positive_int("widths", width) for width in widths})
    if len(found) < 2:
        raise ValueError(f"widths must be two or more different integers, got {shown(widths)}")
    if isinstance(module, torch.nn.Module) or not callable(module) or not _takes_one(module):
        raise TypeError(
            f"module must be a function of the width where widths are given, got {shown(module)}"
        )
    return found


def _takes_one(function: Callable[..., Any]) -> bool:
    try:
        inspect.signature(function).bind(1)
    except TypeError:
        return False
    except ValueError:  # it has no signature that could be read
        return True
    return True


def inputs_at(inputs: Sequence[Any], kwargs: Mapping[str, Any], width: int) -> Inputs:
    """The inputs at this width: some may be functions of it."""
    return tuple(_at(x, width) for x in inputs), {
        name: _at(x, width) for name, x in kwargs.items()
    }


def _at(x: object, width: int) -> Any:
    return x(width) if callable(x) and not isinstance(x, torch.Tensor) else x


def fixed_sizes(found: Mapping[int, Laid]) -> frozenset[Node]:
    """The nodes of the widest graph whose dimension is the same at every width;
    the others grow in proportion.
    """
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
                        f"{width}, "
                        "neither fixed nor a multiple of the width"
                    )
    return frozenset(widest.order) - growing


def growing_axes(found: Mapping[int, Laid]) -> list[str]:
    """A remark on what grows beside dimensions: the number of heads, which the program keeps."""
    (width, widest), *_, (other, laid) = sorted(found.items(), reverse=True)
    for small, large in zip(laid.order, widest.order, strict=True):
        few, many = laid.layouts.of[small].batch, widest.layouts.of[large].batch
        if tuple(few) != tuple(many):
            sizes = f"{tuple(few)} at width {other}, {tuple(many)} at width {width}"
            grows = f"the number of its vectors grows with the width ({sizes})"
            return [f"{large.label}: {grows}; the program keeps the last"]
    return []


def _dimension(laid: Laid, node: Node) -> int:
    """Of the vectors of a node; 1 for numbers."""
    layout = laid.layouts.of[node]
    return layout.dimension if layout.coordinate is not None else 1
