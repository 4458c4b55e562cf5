"""A loop at finite width: what passes from iteration to iteration is the carries, vectors by their
coordinates or their places in a frame; `passing.py` says how frames pass. Loops that follow go on
with the draws of its iterations, of which it keeps what they need (`kept.py`).
"""

import functools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float

from limitlaw.core.analysis import Component
from limitlaw.core.instructions import Scan
from limitlaw.core.kinds import Value
from limitlaw.core.labelled import Axes, Labelled, sizes
from limitlaw.core.space import Dim
from limitlaw.engines.frames.fresh import Form
from limitlaw.engines.frames.kept import KeptState
from limitlaw.engines.frames.passing import GrowingFrame, PassingFrame, Time, wider
from limitlaw.engines.frames.spaces import Frame, Space
from limitlaw.numerics.pooled import Pooled, pooled
from limitlaw.numerics.random import Quasi, Source

if TYPE_CHECKING:
    from limitlaw.engines.frames.draw import FramesDraw

BatchArrays = list[Any]  # one array for each of several values


class FramesLoop:
    """The iterations of a scan, in a draw that has come to it."""

    def __init__(self, draw: "FramesDraw", value: Value, op: Scan):
        if op.shared:
            raise TypeError("at finite width iterations with the same matrices are written out")
        self.draw, self.value, self.op = draw, value, op
        self.first = op.first or value
        same = draw.facts.loops[self.first]
        self.facts, self.stage = draw.facts.of_iteration(value), draw.facts.stage(value)
        self.made = draw.facts.kept_before(value)
        self.keeps = value is not same[-1]
        met = [u for v in same for u in (*v.inputs, *draw.facts.readers[v])]
        self.spaces = {v.dim: draw.space(v) for v in met if v.dim is not None}
        block = self.facts.block
        assert block is not None
        self.passing: dict[Component, Dim] = {
            self.facts.components[v]: v.dim
            for v in (*block.arguments, *block.results)
            if v in self.facts.components and v.dim is not None and v.dim in self.spaces
        }
        self.constants = self._known(op.constants, op.invariant)
        along = zip(op.sequences, op.elements, strict=True)
        self.along = [self._array(u, (op.axis, *v.axes)) for u, v in along]
        self.starts = self._known(op.starts, op.carried)
        self.before = draw.kept.get(self.first)
        # the numbers of an iteration are made at once where it takes long to compile
        pools = type(draw.source) if isinstance(draw.source, Pooled) else Pooled
        self.pools = pools if len(same) > 1 or isinstance(draw.source, Pooled) else None
        self.turned = {
            dim: self._passing(dim, space)
            for dim, space in self.spaces.items()
            if isinstance(space, Frame)
        }
        if self.keeps:
            self.turned = self._growing(self.turned)

    def _passing(self, dim: Dim, frame: Frame) -> PassingFrame | GrowingFrame:
        each, carried = (_count(values, dim) for values in (self.op.outputs, self.op.carried))
        return PassingFrame(frame, frame.r, each, self.op.times, self.op.reverse, carried)

    def _growing(
        self, frames: Mapping[Dim, PassingFrame | GrowingFrame]
    ) -> dict[Dim, PassingFrame | GrowingFrame]:
        """Frames that grow by as many axes as an iteration draws, which one shows."""
        found: dict[Dim, int] = {}

        def iteration() -> None:
            t = self.op.order[0]
            spaces = self.spaces | {
                dim: turned.frame.carried(turned.old) for dim, turned in frames.items()
            }
            made = jax.tree.map(lambda x: x[t], self.before)
            self.within(self.starts, t, self.entries(t), spaces, jax.random.key(0), made)
            for dim, space in spaces.items():
                if isinstance(space, Frame):
                    found[dim] = space.r - frames[dim].old

        jax.eval_shape(iteration)
        times, reverse = self.op.times, self.op.reverse
        return {
            dim: GrowingFrame(turned.frame, turned.old, found[dim], times, reverse)
            for dim, turned in frames.items()
        }

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
        self,
        carries: BatchArrays,
        t: Time,
        elements: BatchArrays,
        spaces: Mapping[Dim, Space],
        source: Source,
        made: KeptState | None,
    ) -> "FramesDraw":
        """Iteration t, from these carries on, and from what loops `made` that it follows."""
        inside = self.draw.frames_of_block(self.facts, source)
        inside.spaces |= {component: spaces[dim] for component, dim in self.passing.items()}
        if made is not None:
            made.restore(inside, self.made)
        arrays = (*carries, *elements, *self.constants)
        for v, array in zip(self.op.block.arguments, arrays, strict=True):
            known = Labelled(array, v.axes)
            inside.results[v] = Form(known, None) if v.is_vector else known
        inside.evaluate_all(self.stage.values)
        return inside

    def step(self, source: Source, carries: BatchArrays, at: Any) -> tuple[BatchArrays, Any]:
        """Carries after an iteration, its outputs, what is read off it, and what is kept of it."""
        t, elements, made = at
        op, first = self.op, len(self.op.starts)

        def iteration(source: Source) -> tuple[BatchArrays, Any]:
            frames = {dim: turned.inside(t) for dim, turned in self.turned.items()}
            inside = self.within(carries, t, elements, {**self.spaces, **frames}, source, made)
            results = [inside.settled(y) if y.is_vector else inside[y] for y in op.block.results]
            like = (*op.carried, *op.outputs)
            found = [x.with_axes(v.axes).array for x, v in zip(results, like, strict=True)]
            dims = [v.dim for v in like]
            for dim, turned in self.turned.items():
                own = [i for i, other in enumerate(dims) if other == dim]
                own = [i for i in own if i >= first] + [i for i in own if i < first]
                for i, array in _turned(found, own, functools.partial(turned.after, t)):
                    found[i] = array
            read = self.draw.read_iteration(inside, self.value, self.stage.values)
            return found[:first], (found[first:], read, self._kept(inside, t))

        if isinstance(source, Quasi) or self.pools is None:
            return iteration(source)
        return iteration(pooled(self.pools, source, iteration))

    def _kept(self, inside: "FramesDraw", t: Time) -> KeptState | None:
        if not self.keeps:
            return None

        def placed(component: Component, w: Float[Array, "*batch r"]) -> Float[Array, "*batch r2"]:
            turned = self.turned.get(self.passing.get(component))  # type: ignore[arg-type]
            return turned.after(t, w) if isinstance(turned, GrowingFrame) else w

        own = [c for c in inside.spaces if c not in self.passing]
        return KeptState.of(inside, self.stage.kept, own, placed)

    # --- all iterations --------------------------------------------------------------------------

    def followed(self, count: int) -> tuple[BatchArrays, BatchArrays, Any]:
        """Carries after so many iterations, their outputs, and what is read off them.

        A `Quasi` that is not made at once hands out its numbers in order, so that its iterations
        are written out.
        """
        op, carries, source = self.op, list(self.starts), self.draw.key(self.value)
        for dim, turned in self.turned.items():
            own = [i for i, v in enumerate(op.carried) if v.dim == dim]
            for i, array in _turned(carries, own, turned.start):
                carries[i] = array
        if not isinstance(source, Quasi) or isinstance(source, Pooled):
            key = source.fresh_key() if isinstance(source, Quasi) else source

            def step(carries: BatchArrays, at: Any) -> tuple[BatchArrays, Any]:
                return self.step(jax.random.fold_in(key, at[0]), carries, at)

            order = slice(op.times - count, None) if op.reverse else slice(count)
            at = jnp.arange(op.times)[order], [x[order] for x in self.along], self.before
            carries, (outputs, read, kept) = lax.scan(step, carries, at, reverse=op.reverse)
        else:
            found = {}
            for t in op.order[:count]:
                made = jax.tree.map(lambda x, t=t: x[t], self.before)
                carries, found[t] = self.step(source, carries, (t, self.entries(t), made))
            rows = [found[t] for t in sorted(found)]
            outputs, read, kept = jax.tree.map(lambda *parts: jnp.stack(parts), *rows)
        for turned in self.turned.values():
            turned.frame.r = turned.r
        self.draw.kept[self.first] = kept
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
    rows = f(jnp.concatenate([wider(arrays[i].reshape(-1, arrays[i].shape[-1]), r) for i in own]))
    ends = np.cumsum([math.prod(shape[:-1]) for shape in shapes])
    for i, shape, part in zip(own, shapes, jnp.split(rows, ends[:-1]), strict=True):
        yield i, part.reshape(*shape[:-1], rows.shape[-1])


def scanned(draw: "FramesDraw", value: Value, op: Scan) -> list[Form | Labelled]:
    """One compiled loop: for all iterations if each is read, else for all but the last,
    of which a fresh part may be left.
    """
    loop = FramesLoop(draw, value, op)
    if not op.outputs and draw.reader is None and loop.pools is None:
        t, source = op.order[-1], draw.key(value)
        carries = loop.followed(op.times - 1)[0] if op.times > 1 else loop.starts
        source = source if isinstance(source, Quasi) else jax.random.fold_in(source, t)
        inside = loop.within(carries, t, loop.entries(t), loop.spaces, source, None)
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
