"""Statistics of layers whose blocks are loops: read off every turn of one compiled program."""

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from limitlaw.depth.trace import program_at_infinity
from limitlaw.engines.effort import Pace
from limitlaw.engines.frames.finite import drawn_statistic
from limitlaw.engines.infinite_width import checked
from limitlaw.engines.turns import Turns
from limitlaw.language import ops
from limitlaw.language.graph import ancestors
from limitlaw.language.values import Wide
from limitlaw.torch import measuring as measure
from limitlaw.torch.attending import Attention
from limitlaw.torch.converted import Labelled
from limitlaw.torch.layers import within
from limitlaw.torch.looping import loops, rolled
from limitlaw.torch.measuring import ENTROPY, SCORES, Draws

# the names of layers, and what gives them: one each, or a loop for several
Stage = tuple[tuple[str, ...], Wide]


def stages(
    values: Sequence[Labelled], layers: Mapping[str, Labelled], attentions: Mapping[str, Attention]
) -> list[Stage] | None:
    """The layers in their order, repeated ones as one loop; None where there is no loop, or
    attentions in a layer cannot be told apart.
    """
    outputs = [item.value for item in layers.values()]
    found = loops(values, layers, [outputs[-1]])
    if not found or not _one_each(layers, attentions):
        return None
    inside = {name: loop for loop in found for name in loop.names}
    result: list[Stage] = []
    for name, item in layers.items():
        if name not in inside:
            result.append(((name,), rolled(item.value, found)))
        elif name == inside[name].names[0]:
            result.append((inside[name].names, inside[name].value))
    return result


def _one_each(layers: Mapping[str, Labelled], attentions: Mapping[str, Attention]) -> bool:
    """Has every layer one attention at most, and every attention a layer?"""
    before: set[Any] = set()
    count = 0
    for name, item in layers.items():
        own = set(ancestors([item.value])) - before
        before |= own
        softmaxes = sum(isinstance(v.op, ops.Apply) and v.op.structure == "softmax" for v in own)
        inside = sum(within(a.label.module, name) for a in attentions.values())
        if softmaxes != inside or inside > 1:
            return False
        count += inside
    return count == len(attentions)


def _read(kernel: Any, scores: Any) -> Any:
    """The statistics of vectors, then those of scores where there are any."""
    found = list(measure.of_grams(kernel, jnp).values())
    if scores is not None:
        found += measure.of_scores(scores, scores > -jnp.inf, jnp)
    return jnp.stack(found)


READ = Turns((_read,), given=False)  # the first output is a layer like the others


def at_width(
    parts: Sequence[Stage], attentions: Mapping[str, Attention], width: int, samples: int
) -> dict[str, Draws]:
    """The statistics of so many draws at this width."""
    outputs = tuple(value.core for _, value in parts)
    pace = Pace(samples, at_most=False)
    arrays = drawn_statistic("audit", outputs, width, pace, jax.random.key(0), READ)
    return _named(parts, attentions, [np.asarray(found[0]) for found in arrays])


def at_infinity(
    parts: Sequence[Stage], attentions: Mapping[str, Attention], samples: int
) -> dict[str, Draws]:
    """The same as n → ∞; raises where there is no limit."""
    first, *others = [value for _, value in parts]
    checked("audit", others[-1])
    found = program_at_infinity(first, others, READ).conditions(samples, None, at_most=False)
    read = [np.asarray(array[0]) for array in found.arrays]
    return _named(_written_out(parts, read), attentions, read)


def _written_out(parts: Sequence[Stage], read: Sequence[np.ndarray]) -> Sequence[Stage]:
    """A loop that the limit had to write out gives its turns one by one."""
    if len(read) == len(parts):
        return parts
    return [((name,), value) for names, value in parts for name in names]


def _named(
    parts: Sequence[Stage], attentions: Mapping[str, Attention], read: Sequence[np.ndarray]
) -> dict[str, Draws]:
    """By layer and attention, from arrays (draws, turns, statistics)."""
    of_layers: dict[str, Draws] = {}
    of_attentions: dict[str, Draws] = {}
    for (names, value), array in zip(parts, read, strict=True):
        own = list(measure.of_grams(np.eye(max(1, int(np.prod([int(s) for s in value.shape]))))))
        for turn, name in enumerate(names):
            at = array[:, turn]
            of_layers[name] = dict(zip(own, at.T, strict=False))
            for other, a in attentions.items():
                if within(a.label.module, name):
                    of_attentions[other] = dict(
                        zip((ENTROPY, SCORES), at.T[len(own) :], strict=True)
                    )
    for name in attentions:  # which may be a layer itself
        of_layers[name] = {**of_layers.get(name, {}), **of_attentions[name]}
    return of_layers
