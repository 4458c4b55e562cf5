"""A loop at finite width: what passes from iteration to iteration is the carries, vectors by their
coordinates or their places in a frame.

The axes of the frame before the loop stay, since what is outside has places on them. Of the rest
only inner products matter, so that it may be turned: outputs of iterations have axes of their own,
as many as there are vectors, and carries share what is left. Where a frame has all D axes nothing
is turned.
"""

import dataclasses
import functools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, Int

from limitlaw.core.analysis import Analysis
from limitlaw.core.instructions import Scan
from limitlaw.core.kinds import Value
from limitlaw.core.labelled import Axes, Labelled, sizes
from limitlaw.core.space import Dim
from limitlaw.engines.frames.fresh import Form
from limitlaw.engines.frames.spaces import Frame, Space
from limitlaw.numerics.factors import gram, orthonormalise, pivoted_factor
from limitlaw.numerics.random import Quasi

if TYPE_CHECKING:
    from limitlaw.engines.frames.draw import FramesDraw

BatchArrays = list[Any]  # one array for each of several values
Time = int | Int[Array, ""]


@dataclasses.dataclass(frozen=True)
class PassingFrame:
    """How a frame passes through a loop: `old` axes that stay, `each` for the outputs of one of
    `times` iterations, and `carried` ones.
    """

    frame: Frame
    old: int
    each: int
    times: int
    carried: int

    @property
    def r(self) -> int:
        """All axes."""
        return self.frame.D.axes(self._wanted)

    @property
    def _wanted(self) -> int:
        return self.old + self.times * self.each + self.carried

    def start(self, carries: Float[Array, "vectors r"]) -> Float[Array, "vectors r2"]:
        """Places of carries before the loop."""
        if self.r < self._wanted:
            return _wider(carries, self.r)
        known = _wider(carries[:, : self.old], self.r - self.carried)
        return jnp.concatenate([known, self._fitted(carries[:, self.old :])], axis=-1)

    def after(self, t: Time, vectors: Float[Array, "vectors r"]) -> Float[Array, "vectors r2"]:
        """Places after iteration t, of its outputs and then of carries: outputs have the part L Q
        on new axes Q, carries what they have along these, and the rest turned.
        """
        vectors = _wider(vectors, self.r)
        if self.r < self._wanted:  # there is no other axis
            return vectors
        kept = self.r - self.carried
        if not self.each:
            known, rest = jnp.split(vectors, [kept], axis=-1)
            return jnp.concatenate([known, self._fitted(rest)], axis=-1)
        # what was drawn has places on the axes of later outputs, too: nothing else has, so far
        free = jnp.arange(vectors.shape[-1]) >= self.old + t * self.each
        rest = jnp.where(free, vectors, 0.0)
        _, _, Q = orthonormalise(rest[: self.each], jnp.zeros((0, rest.shape[-1]), rest.dtype))
        along = rest @ Q.T
        known = jnp.where(free, 0.0, vectors)[:, :kept]
        known = lax.dynamic_update_slice(known, along, (0, self.old + t * self.each))
        left = self._fitted((rest - along @ Q)[self.each :])
        return jnp.concatenate([known, jnp.pad(left, [(self.each, 0), (0, 0)])], axis=-1)

    def _fitted(self, rest: Float[Array, "vectors r"]) -> Float[Array, "vectors r2"]:
        """Vectors with the same inner products on as many axes as there are carries."""
        if rest.shape[-1] > self.carried:
            rest = pivoted_factor(gram(rest))
        return _wider(rest, self.carried)


def _wider(rows: Float[Array, "vectors r"], r: int) -> Float[Array, "vectors r2"]:
    return jnp.pad(rows, [(0, 0), (0, max(0, r - rows.shape[-1]))])


class FramesLoop:
    """The iterations of a scan, in a draw that has come to it."""

    def __init__(self, draw: "FramesDraw", value: Value, op: Scan):
        if op.shared:
            raise TypeError("at finite width iterations with the same matrices are written out")
        self.draw, self.value, self.op = draw, value, op
        self.facts = Analysis.of_block(op.block)
        met = (*op.inputs, *draw.facts.readers[value])
        self.spaces = {v.dim: draw.space(v) for v in met if v.dim is not None}
        self.constants = self._known(op.constants, op.invariant)
        along = zip(op.sequences, op.elements, strict=True)
        self.along = [self._array(u, (op.axis, *v.axes)) for u, v in along]
        self.turned = {
            dim: PassingFrame(
                space, space.r, _count(op.outputs, dim), op.times, _count(op.carried, dim)
            )
            for dim, space in self.spaces.items()
            if isinstance(space, Frame)
        }
        self.starts = self._known(op.starts, op.carried)

    def _passing(self, dim: Dim, frame: Frame) -> PassingFrame:
        each, carried = (_count(values, dim) for values in (self.op.outputs, self.op.carried))
        return PassingFrame(frame, frame.r, each, self.op.times, carried)

    def _known(self, values: Iterable[Value], like: Iterable[Value]) -> BatchArrays:
        return [self._array(u, v.axes) for u, v in zip(values, like, strict=True)]

    def _array(self, u: Value, axes: Axes) -> Any:
        known = self.draw.settled(u) if u.is_vector else self.draw[u]
        return known.with_axes(axes).array

    def entries(self, t: Time) -> BatchArrays:
        """Of all sequences."""
        return [x[t] for x in self.along]

    # --- one iteration ---------------------------------------------------------------------------

    def within(
        self, carries: BatchArrays, t: Time, elements: BatchArrays, spaces: Mapping[Dim, Space]
    ) -> "FramesDraw":
        """Iteration t, from these carries on."""
        draw, block = self.draw, self.op.block
        key = draw.key(self.value)
        key = key if isinstance(key, Quasi) else jax.random.fold_in(key, t)
        inside = draw.frames_of_block(self.facts, key)
        arrays = (*carries, *elements, *self.constants)
        for v, array in zip(block.arguments, arrays, strict=True):
            known = Labelled(array, v.axes)
            inside.results[v] = Form(known, None) if v.is_vector else known
        for v in (*block.arguments, *block.results):
            if v in self.facts.components and v.dim is not None and v.dim in spaces:
                inside.spaces[self.facts.components[v]] = spaces[v.dim]
        inside.run(self.facts.program)
        return inside

    def step(self, carries: BatchArrays, at: Any) -> tuple[BatchArrays, Any]:
        """Carries after an iteration, its outputs, and what is read off it."""
        t, elements = at
        op, first = self.op, len(self.op.starts)
        frames = {dim: turned.frame.carried(turned.r) for dim, turned in self.turned.items()}
        inside = self.within(carries, t, elements, {**self.spaces, **frames})
        results = [inside.settled(y) if y.is_vector else inside[y] for y in op.block.results]
        like = (*op.carried, *op.outputs)
        made = [x.with_axes(v.axes).array for x, v in zip(results, like, strict=True)]
        dims = [v.dim for v in like]
        for dim, turned in self.turned.items():
            own = [i for i, other in enumerate(dims) if other == dim]
            own = [i for i in own if i >= first] + [i for i in own if i < first]
            for i, array in _turned(made, own, functools.partial(turned.after, t)):
                made[i] = array
        return made[:first], (made[first:], self.draw.read_iteration(inside, self.value))

    # --- all iterations --------------------------------------------------------------------------

    def followed(self, count: int) -> tuple[BatchArrays, BatchArrays, Any]:
        """Carries after so many iterations, their outputs, and what is read off them.

        A `Quasi` hands out its numbers in order, so that its iterations are written out.
        """
        op, carries = self.op, list(self.starts)
        for dim, turned in self.turned.items():
            own = [i for i, v in enumerate(op.carried) if v.dim == dim]
            for i, array in _turned(carries, own, turned.start):
                carries[i] = array
        if not isinstance(self.draw.source, Quasi):
            order = slice(op.times - count, None) if op.reverse else slice(count)
            at = jnp.arange(op.times)[order], [x[order] for x in self.along]
            carries, (outputs, read) = lax.scan(self.step, carries, at, reverse=op.reverse)
        else:
            found = {}
            for t in op.order[:count]:
                carries, found[t] = self.step(carries, (t, self.entries(t)))
            rows = [found[t] for t in sorted(found)]
            outputs, read = jax.tree.map(lambda *parts: jnp.stack(parts), *rows)
        for turned in self.turned.values():
            turned.frame.r = turned.r
        return carries, outputs, read


def _turned(
    arrays: BatchArrays,
    own: Sequence[int],
    f: Callable[[Float[Array, "vectors r"]], Float[Array, "vectors r2"]],
) -> Iterator[tuple[int, Any]]:
    """Batches of vectors, by their places in `arrays`, after f of all of them as rows."""
    shapes = [arrays[i].shape for i in own]
    if not own:
        return
    r = max(shape[-1] for shape in shapes)
    rows = f(jnp.concatenate([_wider(arrays[i].reshape(-1, arrays[i].shape[-1]), r) for i in own]))
    ends = np.cumsum([math.prod(shape[:-1]) for shape in shapes])
    for i, shape, part in zip(own, shapes, jnp.split(rows, ends[:-1]), strict=True):
        yield i, part.reshape(*shape[:-1], rows.shape[-1])


def scanned(draw: "FramesDraw", value: Value, op: Scan) -> list[Form | Labelled]:
    """One compiled loop: for all iterations if each is read, else for all but the last,
    of which a fresh part may be left.
    """
    loop = FramesLoop(draw, value, op)
    if not op.outputs and draw.reader is None:
        t = op.order[-1]
        carries = loop.followed(op.times - 1)[0] if op.times > 1 else loop.starts
        inside = loop.within(carries, t, loop.entries(t), loop.spaces)
        return [inside[y] for y in op.following]
    carries, outputs, read = loop.followed(op.times)
    draw.keep_read(value, read)
    axes = [v.axes for v in op.carried] + [(op.axis, *y.axes) for y in op.outputs]
    known = map(Labelled, carries + outputs, axes)
    vectors = (y.is_vector for y in op.block.results)
    return [Form(x, None) if is_vector else x for x, is_vector in zip(known, vectors, strict=True)]


def _count(values: Iterable[Value], dim: Dim) -> int:
    """How many vectors of a space."""
    return sum(math.prod(sizes(v.axes)) for v in values if v.dim == dim)
