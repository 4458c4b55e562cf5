"""Where a module attends: the scores of every softmax that mixes tokens,
and what multiplies q·k.
"""

import dataclasses
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from limitlaw.language import ops
from limitlaw.torch import nodes
from limitlaw.torch.labels import Label
from limitlaw.torch.nodes import Node, Tensor
from limitlaw.torch.writer import Writer


@dataclasses.dataclass(frozen=True)
class Attention:
    """One softmax over keys: its scores as numbers of the program, and which are seen (None: all).

    `scale` multiplies q·k, sums over `dim` coordinates (0: there is no such product); `balance` ≤
    1 is the ratio of the scales of the query and key matrices, the smaller over the larger.
    """

    label: Label
    scores: Any
    visible: np.ndarray | None
    scale: float
    dim: int
    balance: float

    @property
    def excess(self) -> float:
        """scale·√dim·balance: 1 for scores with 1/√d, and √d for those without."""
        return abs(self.scale) * math.sqrt(self.dim) * self.balance


def attentions(order: Sequence[Node], writer: Writer) -> Iterator[Attention]:
    """The softmaxes whose weights mix vectors, in the order of the module."""
    mixing = {
        t.node for node in order if isinstance(node, nodes.Contraction) for t in node.operands
    }
    for node in order:
        if isinstance(node, nodes.Softmax) and node in mixing:
            applied = _softmax_of(writer.values[node])
            if applied is not None:
                scores, *mask = applied.args
                seen = None
                if mask:
                    seen = np.asarray(mask[0].op.value) > 0  # type: ignore[attr-defined]
                yield Attention(node.label, scores, seen, *_scale(node))


def _softmax_of(value: Any) -> ops.Apply | None:
    """The instruction itself, behind reshapes."""
    while isinstance(value.op, ops.Reshape | ops.Transpose | ops.Index):
        value = value.op.x
    found = value.op
    return found if isinstance(found, ops.Apply) and found.structure == "softmax" else None


def _scale(node: nodes.Softmax) -> tuple[float, int, float]:
    """What multiplies q·k, over how many coordinates it sums,
    and how the scales of q and k compare.
    """
    found = list(_products(node.x, 1.0))
    if not found:
        return 0.0, 0, 1.0
    dims = [product.a.shape[-1] for _, product in found]
    scale, product = found[int(np.argmax(dims))]
    turned = any(isinstance(p.a.node, nodes.Rotation) for _, p in found)
    sizes = [s for s in (_size(product.a), _size(product.b)) if s is not None and s > 0]
    balance = math.sqrt(min(sizes) / max(sizes)) if len(sizes) == 2 else 1.0
    return scale, sum(dims) if turned else max(dims), balance


def _products(tensor: Tensor, factor: float) -> Iterable[tuple[float, nodes.Contraction]]:
    """The products q·k that scores are made of, each with what multiplies it."""
    node = tensor.node
    if isinstance(node, nodes.Contraction):
        yield factor * node.scale, node
    elif isinstance(node, nodes.Combination):
        for coefficient, term in node.terms:
            yield from _products(term, factor * coefficient)
    elif isinstance(node, nodes.Masked | nodes.Function):
        yield from _products(node.x, factor)


def _size(tensor: Tensor) -> float | None:
    """Variance × fan-in of the matrix that makes queries or keys;
    None behind a norm, which takes it away.
    """
    node = tensor.node
    if isinstance(node, nodes.Linear):
        return node.parameter.variance * node.weight.shape[-1]
    if isinstance(node, nodes.Rotation):
        return _size(node.x)
    if isinstance(node, nodes.Combination):
        sizes = [(c, _size(t)) for c, t in node.terms]
        return max((c * c * s for c, s in sizes if s is not None), default=None)
    return None
