"""Rules of losses: ln Σ exp, and the cross-entropy of given classes."""

from collections.abc import Sequence

import torch

from limitlaw.torch import making as make
from limitlaw.torch.errors import ConversionError
from limitlaw.torch.making import Entries
from limitlaw.torch.nodes import Tensor


def log_sum_exp_over(x: Tensor, axes: Sequence[int], keepdim: bool) -> Tensor:
    rank = len(x.shape)
    gone = sorted(a % rank for a in axes)
    last = x.moved(lambda ids: ids.movedim(gone, list(range(-len(gone), 0))).flatten(-len(gone)))
    kept = [1 if a in gone else s for a, s in enumerate(x.shape)]
    found = make.log_sum_exp(last, -1)
    return found.moved(lambda ids: ids.reshape(kept)) if keepdim else found


def cross_entropy(
    x: Tensor,
    target: Entries,
    weight: object = None,
    reduction: int = 1,
    ignored: int = -100,
    smoothing: float = 0.0,
) -> Entries:
    """ln Σ exp(x) − x_target, its mean or sum over positions."""
    logs = make.log_softmax(x, 1 if len(x.shape) > 1 else 0)
    return nll(logs, target, weight, reduction, ignored, smoothing)


def nll(
    logs: Tensor,
    target: Entries,
    weight: object = None,
    reduction: int = 1,
    ignored: int = -100,
    smoothing: float = 0.0,
) -> Entries:
    if weight is not None or smoothing or not isinstance(target, torch.Tensor):
        raise ConversionError(
            "cross-entropy has a rule for given classes, without weights and label smoothing"
        )
    axis = 1 if len(logs.shape) > 1 else 0
    seen = target != ignored
    places = torch.where(seen, target, 0).unsqueeze(axis)
    own = logs.moved(lambda ids: ids.gather(axis, places).squeeze(axis))
    losses = make.multiply(own, -seen.double())
    if reduction == 0 or not isinstance(losses, Tensor):
        return losses
    total = make.reduce(losses, [], False, mean=False)
    return make.multiply(total, 1 / int(seen.sum())) if reduction == 1 else total
