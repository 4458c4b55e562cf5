"""What comes back to every layer of a network from a random readout of its vectors y,

    f = n^{-1/2} Σ_i u_i·y_i,   u_i ~ N(0, I),

written as a program: gradients of f in the vectors behind each layer, and in its matrices.
"""

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any

from limitlaw.backward.reverse import CameBack, came_back, is_product
from limitlaw.backward.tangent import squared_norms
from limitlaw.backward.uses import Parameter
from limitlaw.depth.layers import stages
from limitlaw.language import ops
from limitlaw.language.functions import dot, initial
from limitlaw.language.matrices import Matrix
from limitlaw.language.tree import Value, ancestors
from limitlaw.language.values import Scalars, Wide
from limitlaw.language.writing_out import around_loops, every_iteration, without_loops


@dataclasses.dataclass(frozen=True)
class Backward:
    """The backward half of a network, layer by layer; those of a loop are numbers with an axis of
    iterations in front. `grams`: n⁻¹⟨b_i, b_j⟩ with b_i = √n ∂f/∂x_i, for the vectors x that the
    first layer is given and for those that each layer gives. `norms`: Σ_w (∂f/∂w)² over the
    parameters of matrices W = σ w/√cols; `places`: for each layer, where in all of them, one after
    the other, those of its matrices are.
    """

    grams: tuple[Scalars, ...]
    norms: tuple[Scalars, ...]
    places: tuple[dict[str, int], ...]

    @classmethod
    def of(cls, network: Wide | Sequence[Wide], token: int | None) -> "Backward":
        """That of a network with a random readout of all tokens, or of one."""
        first, layers = stages(network)
        y = layers[-1] if isinstance(network, Sequence) else network
        f, behind = readout(y, token), [first, *layers]
        if not _made_of_loops(f, behind):
            (f,) = without_loops([f])
            behind = [x for layer in behind for x in every_iteration(layer)]
        writer = _Writer([], [], [])
        came = came_back(f, lambda v: v in behind or is_product(v), writer.read)
        before: set[Value] = set()
        for i, x in enumerate(behind):
            layer = set(around_loops([x])) - before
            before |= layer
            writer.add(x, [(v, b) for v, b in came.products if i and v in layer], came)
        return cls(tuple(writer.grams), tuple(writer.norms), tuple(writer.places))


def _made_of_loops(f: Scalars, behind: Iterable[Wide]) -> bool:
    """Is each loop that f reads a sequence of layers, without loops inside?"""
    each = [x.op.scan for x in behind if _is_carry(x)]  # type: ignore[attr-defined]
    layers = set(each)
    loops = [v for v in around_loops([f]) if isinstance(v.op, ops.Scan)]
    inside = (u for v in loops for u in ancestors(v.op.results))  # type: ignore[attr-defined]
    apart = len(layers) == len(each) and layers.issuperset(loops)
    return apart and not any(isinstance(u.op, ops.Scan) for u in inside)


def _is_carry(x: Value) -> bool:
    return isinstance(x.op, ops.FromScan) and not x.op.stacked


@dataclasses.dataclass(frozen=True)
class _Writer:
    """Writes the backward half, layer by layer."""

    grams: list[Scalars]
    norms: list[Scalars]
    places: list[dict[str, int]]

    @staticmethod
    def read(loop: Value, came: CameBack) -> tuple[Scalars, ...]:
        """Of an iteration: the Gram matrices of all carries that are vectors, which it is given,
        and the squared norms of its matrices.
        """
        grams = (_gram(_of(came, x)) for x in _vectors(loop))
        return (*grams, *squared_norms(came.products).values())

    def add(self, x: Wide, products: list[tuple[Any, Any]], came: CameBack) -> None:
        """A layer that gives x, or the layers of a loop; `products` are those of it, or those
        before the loop, with their backward vectors.
        """
        own = squared_norms(products)
        start = self._count
        self.norms.extend(own.values())
        known = dict(zip(own, range(start, start + len(own)), strict=True))
        if _is_carry(x):
            self._add_loop(x, known, came)
        elif own or self.grams:
            self.places.append(_named(known))
        self.grams.append(_gram(_of(came, x)))

    @property
    def _count(self) -> int:
        """How many norms there are."""
        return sum(int(norm.shape[0]) if norm.shape else 1 for norm in self.norms)

    def _add_loop(self, x: Wide, known: dict[Parameter, int], came: CameBack) -> None:
        op: Any = x.op
        loop, order = op.scan, list(range(op.loop.times)[:: -1 if op.loop.reverse else 1])
        if loop not in came.read:
            self.places.extend({} for _ in order)
            return
        vectors, read = _vectors(loop), came.read[loop]
        each = len(order)
        start = self._count
        matrices = list(squared_norms(came.iterations[loop].products))
        self.norms.extend(read[len(vectors) :])
        for t in order:
            places = {matrix: start + i * each + t for i, matrix in enumerate(matrices)}
            self.places.append(_named(known | places))
            known = {}
        if each > 1:
            self.grams.append(read[vectors.index(op.loop.arguments[op.place])][order[1:]])


def _vectors(loop: Value) -> list[Any]:
    """The carries of a loop that are vectors."""
    op: Any = loop.op
    return [x for x in op.arguments[: len(op.starts)] if isinstance(x, Wide)]


def _of(came: CameBack, x: Any) -> Wide:
    return came.found.get(x, 0.0 * x)


def readout(y: Wide, token: int | None) -> Scalars:
    """f, of all tokens or of one."""
    y = y if token is None else y[..., token]
    u = initial(y.shape, dim=y.dim)
    each = dot(u[..., None], y[..., None])[..., 0, 0]
    return each.sum() if each.ndim else each


def _gram(b: Wide) -> Scalars:
    """n⁻¹⟨b_i, b_j⟩ over the flattened batch."""
    b = b.reshape(-1)
    return dot(b, b, "linear")


def _named(places: dict[Parameter, int]) -> dict[str, int]:
    """Places by the names of matrices, W_1, W_2, … for those that have none, in the order in which
    the layer multiplies by them.
    """
    found: dict[str, int] = {}
    unnamed = 0
    for matrix, place in places.items():
        assert isinstance(matrix, Matrix)
        unnamed += not matrix.name
        name = f"W_{matrix.name or unnamed}"
        same = sum(known.split("'")[0] == name for known in found)
        found[name + "'" * same] = place
    return found
