"""Fused weights taken apart: rows that different consumers read are different matrices.

One matrix for queries, keys and values, or for a gate and what it gates, is several independent
ones. Its rows are divided by the consumers that read them, and so are biases and entrywise nodes
on the way.
"""

import dataclasses
from collections.abc import Iterable, Sequence

import numpy as np
import torch

from limitlaw.torch import nodes
from limitlaw.torch.errors import Label
from limitlaw.torch.nodes import Node, Tensor, ancestors
from limitlaw.torch.tracing import Known


def split(outputs: Sequence[Tensor], known: Known) -> Known:
    """Take fused nodes apart, in place; the labels and numbers of a node become those of its
    parts.
    """
    kept = list(outputs)
    for node in reversed(ancestors([t.node for t in kept], alternatives=True)):
        if isinstance(
            node, nodes.Weighed | nodes.WeightedSum | nodes.Times | nodes.Elementwise
        ) or (isinstance(node, nodes.Random) and len(node.shape) == 1):
            known = _divided(node, _readers(node, kept), known)
    return known


def _readers(node: Node, outputs: Iterable[Tensor]) -> list[Tensor]:
    found = {id(t): t for t in outputs if t.node is node}
    for other in ancestors([t.node for t in outputs], alternatives=True):
        read = (*other.operands, *other.alternatives)
        found |= {id(t): t for t in read if t.node is node}
    return list(found.values())


def _divided(node: Node, readers: list[Tensor], known: Known) -> Known:
    """The node as one for each group of columns (of its last axis) that has readers of its own."""
    columns = node.shape[-1] if node.shape else 1
    read = [np.unique(t.ids.numpy() % columns) for t in readers]
    groups = _groups(read, columns)
    if len(groups) < 2:
        return known
    places = [torch.as_tensor(g) for g in groups]
    parts = [_part(node, p) for p in places]
    for t, columns_read in zip(readers, read, strict=True):
        g = next(i for i, group in enumerate(groups) if columns_read[0] in group)
        t.ids, t.node = _renumbered(t.ids, columns, groups[g]), parts[g]
    return [item for entry in known for item in _known(entry, node, parts, places)]


def _groups(read: list[np.ndarray], columns: int) -> list[np.ndarray]:
    """The finest division of the columns so that every reader reads one group."""
    root = np.arange(columns)
    for r in read:
        touched = np.unique(root[r])
        root[np.isin(root, touched)] = touched[0]
    used = np.unique(np.concatenate(read)) if read else np.arange(0)
    return [used[root[used] == g] for g in np.unique(root[used])]


def _renumbered(ids: torch.Tensor, columns: int, group: np.ndarray) -> torch.Tensor:
    place = np.zeros(columns, int)
    place[group] = np.arange(len(group))
    old = ids.numpy()
    return torch.from_numpy(old // columns * len(group) + place[old % columns])


def _part(node: Node, places: torch.Tensor) -> Node:
    """A node with only these columns."""
    shape = (*node.shape[:-1], len(places))
    if isinstance(node, nodes.Random):
        return dataclasses.replace(node, shape=shape, array=node.array[places.numpy()])
    if isinstance(node, nodes.Weighed):
        part = f"{node.part}[{','.join(map(str, places.tolist()))}]"
        return dataclasses.replace(
            node, shape=shape, weight=node.weight[places.numpy()], part=part
        )

    def taken(t: Tensor) -> Tensor:
        return t.moved(lambda ids: ids[..., places])

    if isinstance(node, nodes.WeightedSum):
        terms = tuple((c, taken(t)) for c, t in node.terms)
        return dataclasses.replace(node, shape=shape, terms=terms)
    if isinstance(node, nodes.Times):
        return dataclasses.replace(node, shape=shape, a=taken(node.a), b=taken(node.b))
    assert isinstance(node, nodes.Elementwise)
    return dataclasses.replace(node, shape=shape, x=taken(node.x))


def _known(
    entry: tuple[Label, Tensor, torch.Tensor],
    node: Node,
    parts: list[Node],
    places: list[torch.Tensor],
) -> Known:
    """What is known of a whole node, for each of its parts."""
    label, tensor, numbers = entry
    if tensor.node is not node:
        return [entry]
    if not tensor.is_whole:
        return []
    return [(label, part.whole(), numbers[..., p]) for part, p in zip(parts, places, strict=True)]


def compact(tensors: Iterable[Tensor]) -> None:
    """Leave out the rows of tables that no tensor reads: tokens that do not occur."""
    readers: dict[Node, dict[int, Tensor]] = {}
    for t in tensors:
        if isinstance(t.node, nodes.Random) and len(t.node.shape) > 1:
            readers.setdefault(t.node, {})[id(t)] = t
    for node, found in readers.items():
        assert isinstance(node, nodes.Random)
        columns = node.shape[-1]
        rows = np.unique(
            np.concatenate([t.ids.numpy().reshape(-1) // columns for t in found.values()])
        )
        if len(rows) == node.array.size // columns or len(rows) == 0:
            continue
        place = np.zeros(node.array.size // columns, int)
        place[rows] = np.arange(len(rows))
        node.array = node.array.reshape(-1, columns)[rows]
        node.shape = node.array.shape
        for t in found.values():
            ids = t.ids.numpy()
            t.ids = torch.from_numpy(place[ids // columns] * columns + ids % columns)
