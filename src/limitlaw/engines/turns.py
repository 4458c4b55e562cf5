"""Statistics of layers: functions of the kernel behind a layer and of its attention scores."""

import dataclasses
from collections.abc import Callable, Iterable
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float

from limitlaw.core.instructions import Apply
from limitlaw.core.kinds import Value
from limitlaw.core.program import Output, ancestors
from limitlaw.engines.frames.draw import FramesDraw
from limitlaw.engines.reading import Reading

Scores = Float[Array, "..."] | tuple[Float[Array, "..."], ...] | None
Function = Callable[[Float[Array, "m m"], Scores], Any]  # (kernel, scores) → an array


@dataclasses.dataclass(frozen=True)
class Turns(Reading):
    """f(kernel, scores) of every output, with an axis of iterations in front: of size 1, or the
    length of a loop.

    `kernel` is n⁻¹⟨x_i, x_j⟩ over the flattened entries of what the layer gives, or its limit as n
    → ∞. `scores`: what the softmax of the layer reads, −∞ where a mask hides it; a tuple if there
    are several, None without attention. `given`: the first output is the input of the first layer,
    which has no scores of its own.
    """

    functions: tuple[Function, ...]
    given: bool = True
    coordinates = 0
    iterations = True

    def of_iteration(self, draw: FramesDraw, value: Value, layer: Iterable[Value]) -> list[Any]:
        """The statistics of a layer that gives `value` and consists of the values `layer`."""
        kernel, scores = draw.second_moment(value), scores_of(draw, layer)
        return [jnp.asarray(f(kernel, scores), float) for f in self.functions]

    def __call__(self, draw: FramesDraw, outputs: tuple[Output, ...]) -> list[Any]:
        before = set(ancestors([outputs[0].value])) if self.given else set()
        read = []
        for value, _ in outputs:
            layer = [v for v in ancestors([value]) if v not in before]
            before.update(layer)
            if value in draw.turns:
                read.append(draw.turns[value])
            else:
                read.append([a[None] for a in self.of_iteration(draw, value, layer)])
        return read


def scores_of(draw: FramesDraw, layer: Iterable[Value]) -> Scores:
    """The scores that the softmaxes among some values read."""
    found = [_scores(draw, v.instruction) for v in layer if _is_softmax(v)]
    return tuple(found) if len(found) > 1 else found[0] if found else None


def _is_softmax(v: Value) -> bool:
    return isinstance(v.instruction, Apply) and v.instruction.structure == "softmax"


def _scores(draw: FramesDraw, op: Any) -> Float[Array, "..."]:
    p, *mask = (draw[u].whole(layout) for u, layout in zip(op.args, op.layouts, strict=True))
    return jnp.where(mask[0] > 0, p, -jnp.inf) if mask else p
