"""What the iterations of a loop keep at finite width for loops that follow it: vectors and numbers
that those read, what matrices have met, and how many axes frames have that no other iteration
knows.
"""

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp

from limitlaw.core.analysis import Analysis, Component
from limitlaw.core.instructions import MatMul
from limitlaw.core.kinds import Family, Value
from limitlaw.core.labelled import Labelled
from limitlaw.engines.frames.fresh import Form
from limitlaw.engines.frames.ledger import Ledger, Met
from limitlaw.engines.frames.spaces import Frame

if TYPE_CHECKING:
    from limitlaw.engines.frames.draw import FramesDraw

# where vectors of a component stand after an iteration
Placed = Callable[[Component, Any], Any]


@functools.partial(
    jax.tree_util.register_dataclass,
    data_fields=["results", "met"],
    meta_fields=["families", "axes"],
)
@dataclasses.dataclass(frozen=True)
class KeptState:
    """Of one iteration, or of all along a first axis: what is known of some values; what
    `families` have met; the number of `axes` of frames, each by a vector in it.
    """

    results: tuple[Labelled, ...]
    met: tuple[dict[bool, tuple[Any, Any]], ...]  # bases and their images, by side
    families: tuple[Family, ...]
    axes: tuple[tuple[Value, int], ...]

    @classmethod
    def of(
        cls,
        inside: "FramesDraw",
        values: Sequence[Value],
        own: Sequence[Component],
        placed: Placed,
    ) -> "KeptState":
        """What is kept of a draw of one iteration; `own`: the components that no other iteration
        knows.
        """
        facts = inside.facts
        components = facts.components

        def known(v: Value) -> Labelled:
            if not v.is_vector:
                return inside[v]
            return inside.settled(v).mapped(functools.partial(placed, components[v]))

        def met(family: Family, found: Mapping[bool, Met]) -> dict[bool, tuple[Any, Any]]:
            sides = _sides(facts, family)
            return {
                left: (
                    placed(components[sides[left]], one.basis),
                    placed(components[sides[not left]], one.images),
                )
                for left, one in found.items()
            }

        frames = [(c, inside.spaces[c]) for c in own if c in inside.spaces]
        one_of = {component: v for v, component in reversed(components.items())}
        return cls(
            tuple(map(known, values)),
            tuple(met(family, ledger.met) for family, ledger in inside.ledgers.items()),
            tuple(inside.ledgers),
            tuple((one_of[c], space.r) for c, space in frames if isinstance(space, Frame)),
        )

    def restore(self, inside: "FramesDraw", values: Sequence[Value]) -> None:
        """Know in another draw of the same iteration what was kept."""
        for v, known in zip(values, self.results, strict=True):
            inside.results[v] = Form(known, None) if v.is_vector else known
        for family, met in zip(self.families, self.met, strict=True):
            std = jnp.asarray(inside.numbers[family.std])
            ledger = inside.ledgers[family] = Ledger(family, std)
            ledger.met = {left: Met(*arrays) for left, arrays in met.items()}
        for v, r in self.axes:
            frame = inside.space(v)
            assert isinstance(frame, Frame)
            frame.r = r


def _sides(facts: Analysis, family: Family) -> dict[bool, Value]:
    """A vector that a family may meet from the right (False), and one from the left (True)."""
    product = facts.products[family][0]
    op = product.instruction
    assert isinstance(op, MatMul)
    return {op.transposed: op.x, not op.transposed: product}
