"""Tensors side by side."""

from typing import Any

import torch

from limitlaw.torch import making as make
from limitlaw.torch import nodes
from limitlaw.torch.nodes import Tensor


def concatenate(op: Any, tensors: Any, dim: int = 0) -> Tensor:
    """torch.cat: entries of one node stay entries of it, others become a concatenation."""
    parts = [make.given(torch.as_tensor(t)) if make.is_constant(t) else t for t in tensors]
    parts = [p for p in parts if 0 not in p.shape]
    if len(parts) == 1:
        return parts[0]
    if all(p.node is parts[0].node for p in parts):
        return parts[0].moved(lambda _: torch.cat([p.ids for p in parts], dim))
    axis = dim % len(parts[0].shape)
    shape = list(parts[0].shape)
    shape[axis] = sum(p.shape[axis] for p in parts)
    return nodes.Concatenation(tuple(shape), tuple(parts), axis).whole()


def stacked(op: Any, tensors: Any, dim: int = 0) -> Tensor:
    """torch.stack."""
    lifted = [
        t.unsqueeze(dim) if make.is_constant(t) else t.moved(lambda ids: ids.unsqueeze(dim))
        for t in tensors
    ]
    rank = len(lifted[0].shape)
    return concatenate(op, lifted, dim % rank)
