"""The layers of a network that was written as a program."""

from collections.abc import Sequence
from typing import Any

from limitlaw.language import ops
from limitlaw.language.repeating import results_of
from limitlaw.language.tree import Value, ancestors
from limitlaw.language.values import Wide, wide


def stages(network: object) -> tuple[Wide, list[Wide]]:
    """The input of the first layer, and the output of each layer; a loop counts as one layer."""
    if isinstance(network, Sequence):
        given = [wide(f"network[{i}]", x) for i, x in enumerate(network)]
        if len(given) < 2:
            raise ValueError(
                "network must be two or more vectors, the first of which is what the first layer "
                "is given"
            )
        return given[0], given[1:]
    loops = _loops(wide("network", network))
    if not loops:
        raise ValueError(
            "network must have blocks that were written with repeat, as nn.transformer has; of "
            "other networks hand in a sequence of vectors, one for each layer"
        )
    layers = [layer for _, _, made in loops for layer in made]
    shapes = {x.shape for x in layers}
    if len(shapes) > 1:
        raise ValueError(
            "all blocks of network must have the same batch shape, got "
            f"{', '.join(map(str, shapes))}"
        )
    return wide("network", loops[0][1]), layers


def tied_loop(network: object) -> Wide | None:
    """The layers as one loop with tied weights, if that is what the network is; else None."""
    loops = [] if isinstance(network, Sequence) else _loops(wide("network", network))
    op = loops[0][0].op if len(loops) == 1 else None
    if not isinstance(op, ops.Unrolled) or op.tied is None:
        return None
    block = op.tied
    return results_of(
        ops.Scan((op.x,), (), (), (block.argument,), (block.result,), len(op.turns), shared=True)
    )[0]


def _loops(network: Wide) -> list[tuple[Value, Value, list[Any]]]:
    """The loops of a program in order, not those inside blocks: the result of each (of several
    streams the first), its start, and its layers, for a scan a single one.
    """
    found: dict[object, tuple[Value, Value, list[Any]]] = {}
    places: dict[Value, int] = {}
    inside: set[Value] = set()
    for v in ancestors([network]):
        op = v.op
        if isinstance(op, ops.Unrolled):
            found[v] = v, op.x, list(op.turns)
            inside |= set(ancestors(op.turns)) - set(ancestors([op.x]))
        elif isinstance(op, ops.FromScan) and not op.stacked and isinstance(v, Wide):
            if op.place <= places.setdefault(op.scan, op.place):
                places[op.scan] = op.place
                found[op.scan] = v, op.loop.starts[op.place], [v]
            inside |= set(ancestors(op.loop.results)) - set(ancestors(op.loop.starts))
    return [loop for loop in found.values() if loop[0] not in inside]
