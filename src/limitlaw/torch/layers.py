"""The layers of a module: children, and the members of lists of blocks; equal blocks are one loop.

Two blocks are the same where their programs are, as functions of what they read, numbers included,
each with matrices and initial vectors of its own. A loop is compiled once, however deep the module
is.
"""

import dataclasses
import functools
import itertools
from collections.abc import Collection, Iterable, Mapping, Sequence

import numpy as np

from limitlaw.engines import engine
from limitlaw.language import ops
from limitlaw.language.functions import initial
from limitlaw.language.matrices import Matrix
from limitlaw.language.ops import matrices_of
from limitlaw.language.repeating import results_of, substituted
from limitlaw.language.tree import Value, ancestors
from limitlaw.language.values import Wide
from limitlaw.torch.converted import LabelledValue
from limitlaw.torch.writer import V


def chosen_layers(
    values: Sequence[LabelledValue], layers: Sequence[str] | None
) -> dict[str, LabelledValue]:
    """The last vectors of each layer, those of heads apart."""
    found = layers_of(values, layers)
    missing = [path for path in layers or () if path not in found]
    if missing or not found:
        known = ", ".join(dict.fromkeys(v.label.module for v in _wide(values))) or "none"
        raise ValueError(
            f"layers must be paths of submodules that give vectors ({known}), got "
            f"{missing or layers}"
        )
    return found


def _wide(values: Sequence[LabelledValue]) -> list[LabelledValue]:
    """The vectors of the residual stream: not those of heads."""
    everything = ancestors([v.value for v in values])
    given = {v.op.X.shape[-1] for v in everything if isinstance(v.op, ops.Data)}
    vectors = [v for v in values if isinstance(v.value, Wide) and v.label.name != "output"]
    # streams that start with data
    return [v for v in vectors if not v.layout.narrow or v.layout.dimension in given]


def layers_of(
    values: Sequence[LabelledValue], layers: Sequence[str] | None = None
) -> dict[str, LabelledValue]:
    """The last vectors of each layer, as far as there are any."""
    found: dict[str, LabelledValue] = {}
    wide = _wide(values)
    blocks = blocks_of([item.label.module for item in wide])
    for item in wide:
        for path in layer_of(item.label.module, blocks) if layers is None else layers:
            if within(item.label.module, path):
                found[path] = item
    return found


def layer_of(module: str, blocks: Collection[str] = ()) -> list[str]:
    """The layer of a submodule: the innermost of these blocks, else the member of the outermost
    list, else the child of the module.
    """
    parts = module.split(".")
    paths = [".".join(parts[: i + 1]) for i in range(len(parts))]
    inside = [path for path in paths if path in blocks]
    listed = [path for path, part in zip(paths, parts, strict=True) if part.isdigit()]
    return [(inside[-1:] or listed or paths)[0]] if module else []


def blocks_of(modules: Iterable[str]) -> set[str]:
    """The paths of blocks: members of a list that have submodules, the same in two of them, at any
    depth of names.
    """
    inner: dict[str, set[str]] = {}
    for module in modules:
        parts = module.split(".")
        for i, part in enumerate(parts[:-1]):
            if part.isdigit():
                path = ".".join(parts[: i + 1])
                inner.setdefault(path, set()).add(".".join(parts[i + 1 :]))
    lists: dict[str, list[str]] = {}
    for path in inner:
        lists.setdefault(path.rpartition(".")[0], []).append(path)
    return {
        path
        for members in lists.values()
        for path in members
        if any(other != path and inner[other] == inner[path] for other in members)
    }


def within(module: str, path: str) -> bool:
    """Is the module at this path, or inside of it?"""
    return module == path or module.startswith(f"{path}.")


# --- repeated layers as one `repeat` -------------------------------------------------------------


FEWEST_TURNS = 3  # fewest blocks that are worth a loop


@dataclasses.dataclass(frozen=True)
class LayerLoop:
    """Layers by name, the `repeat` whose iterations they are, and what the last one wrote."""

    names: tuple[str, ...]
    value: Wide
    last: Wide


@dataclasses.dataclass(frozen=True)
class _Block:
    """A block: its result as a function of an argument."""

    argument: Wide
    result: Wide

    @functools.cached_property
    def signature(self) -> tuple[object, list[np.ndarray]]:
        """The structure of the block, and its numbers."""
        start = initial(tuple(int(s) for s in self.argument.shape), dim=self.argument.dim)
        program = engine.program_of((self.turned(start, 2).core,))
        return program.structure, [np.asarray(a) for a in program.arrays]

    def turned(self, start: Wide, times: int) -> Wide:
        """The block applied `times` times to `start`, each time with weights of its own."""
        (turned,) = results_of(ops.Scan((start,), (), (), (self.argument,), (self.result,), times))
        return turned

    def same(self, other: "_Block") -> bool:
        """Do both blocks compute the same function?"""
        (one, numbers), (two, others) = self.signature, other.signature
        return one == two and all(map(np.array_equal, numbers, others))


def loops(
    values: Sequence[LabelledValue],
    layers: Mapping[str, LabelledValue],
    asked_for: Iterable[Value],
) -> list[LayerLoop]:
    """The loops among layers, in order; layers whose inner values are read elsewhere are
    no loop.
    """
    found: list[LayerLoop] = []
    known: dict[Value, Value] = {}
    for names in _lists(layers):
        loop = _loop(values, layers, names, known)
        if loop is None:
            continue
        new = {**known, loop.last: loop.value}
        gone = _matrices([loop.last]) - _matrices(loop.value.op.inputs)
        if gone.isdisjoint(_matrices([substituted(v, new) for v in asked_for])):
            known = new
            found.append(loop)
    return found


def _matrices(values: Iterable[Value]) -> set[Matrix]:
    return set(matrices_of(ancestors(values)))


def rolled(y: V, found: Iterable[LayerLoop]) -> V:
    """A value with loops in place of the blocks that were written out."""
    return substituted(y, {loop.last: loop.value for loop in found})


def _lists(layers: Mapping[str, LabelledValue]) -> list[tuple[str, ...]]:
    """Consecutive layers that are members of one list."""
    groups = itertools.groupby(
        layers, key=lambda name: name.rpartition(".")[0] if _member(name) else name
    )
    return [
        names
        for names in (tuple(group) for _, group in groups)
        if len(names) >= FEWEST_TURNS and _member(names[0])
    ]


def _member(name: str) -> bool:
    return name.rpartition(".")[2].isdigit()


def _loop(
    values: Sequence[LabelledValue],
    layers: Mapping[str, LabelledValue],
    names: tuple[str, ...],
    known: dict[Value, Value],
) -> LayerLoop | None:
    """The loop of all these layers, or of all but the first if that one differs."""
    outputs = [layers[name].vectors for name in names]
    blocks = [_block(x, y) for x, y in itertools.pairwise(outputs)]
    first = blocks[0]
    if first is None or not all(b is not None and b.same(first) for b in blocks[1:]):
        return None
    start, taken = outputs[0], names[1:]
    for before in _before(values, names[0], outputs[0]):
        own = _block(before, outputs[0])
        if own is not None and own.same(first):
            start, taken = before, names
            break
    if len(taken) < FEWEST_TURNS - 1:
        return None
    return LayerLoop(taken, first.turned(substituted(start, known), len(taken)), outputs[-1])


def _before(values: Sequence[LabelledValue], name: str, output: Wide) -> list[Wide]:
    """The vectors that the first block may have read: earlier ones of its shape, the
    latest first.
    """
    earlier = itertools.takewhile(lambda item: not within(item.label.module, name), values)
    found = [v.value for v in earlier if isinstance(v.value, Wide)]
    return [v for v in reversed(found) if v.shape == output.shape and v.dim == output.dim][:2]


def _block(x: Wide, y: Wide) -> _Block | None:
    """y as a function of x; None where it reads anything else that is random."""
    if not isinstance(x, Wide) or x.shape != y.shape or x.dim != y.dim:
        return None
    argument = Wide(ops.Argument(), x.shape, x.dim)
    result = substituted(y, {x: argument})
    inside, before = ancestors([result]), ancestors([x])
    if argument not in inside or _matrices([result]) & _matrices([x]):
        return None
    if any(not isinstance(v.op, ops.Constant | ops.Ones) for v in set(inside) & set(before)):
        return None
    return _Block(argument, result)
