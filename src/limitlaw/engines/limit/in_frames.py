"""The limit of programs with transposes, in frames that keep components of order n^{-1/2}.

As n → ∞ a wide vector is its second moments *and*, where W and Wᵀ both act, its components of
order n^{-1/2} along other vectors: dot products under 1/√n read them. A frame holds both, so that
the calculation at finite width is the limit's too, at a width n at which 1/n is below rounding:
a frame has as many axes as there are vectors, whatever n is. Only nonlinearities need coordinates
of the vectors on which they act, of which `HIDDEN` stand for all n of them, in large programs as
few as max(256, 8 s) for s tokens. That is the law of a network with so many hidden neurons N,
which differs by O(1/N): laws state that error, by comparison with a quarter of them.

Where transposes add components of order one, as in Wᵀ φ(W x), the shape of W matters, and where
there are factors √n, as in one step of training under μP, that they cancel factors 1/√n of other
spaces: then n = `HIDDEN`, and a space of 4n dimensions has as many coordinates, if there is a
nonlinearity.
"""

import dataclasses
import functools
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from limitlaw.arguments import as_key, positive_int
from limitlaw.core.analysis import Analysis
from limitlaw.core.instructions import DimensionRatio
from limitlaw.core.kinds import Number, Value
from limitlaw.core.labelled import finite_shape, sizes
from limitlaw.core.program import Output, without_numbers
from limitlaw.core.space import Dim
from limitlaw.engines import engine
from limitlaw.engines.bounds import check_draw, check_memory, later
from limitlaw.engines.compiled import Compiled
from limitlaw.engines.effort import BUDGET, Pace, default_draws
from limitlaw.engines.engine import PROGRAMS, slots
from limitlaw.engines.frames.draw import FramesDraw
from limitlaw.engines.frames.finite import coordinates_held, demanded_outputs
from limitlaw.engines.frames.fresh import Dimension, SizeOrTraced
from limitlaw.engines.law import Last, law_given
from limitlaw.engines.limit.growth import check_growth
from limitlaw.engines.reading import ReadBy, Reading, numbers
from limitlaw.engines.run import batched, drawn
from limitlaw.laws import Empirical, Law, RandomKernel
from limitlaw.numerics.factors import gram
from limitlaw.numerics.pooled import Far, pooled
from limitlaw.numerics.random import Source, random_seed

# n^{-1/2} = 2⁻²² is what is dropped, and 2⁻⁵³ n^{1/2} = 2⁻³¹ a rounding of what scores read
WIDTH = 2.0**44
HIDDEN = 2**12  # coordinates of vectors on which nonlinearities act
HELD = 2**21  # numbers of a draw beyond which there are fewer coordinates, but
FEWEST, EACH = 2**8, 8  # never fewer than these, or than so many for each vector of a batch
COMPARED = 64  # draws at two widths, which show what grows with n
COMPARED_APART = 512  # the same, where the two have different random numbers


class WideDraw(FramesDraw):
    """One draw at a great width; vectors with coordinates have `coordinates(dim)` of them."""

    def __init__(
        self,
        facts: Analysis,
        numbers: Mapping[Number, Any],
        width: SizeOrTraced,
        coordinates: Callable[[Dim], int],
        key: Source,
        observed: int = 1,
    ):
        super().__init__(facts, numbers, lambda dim: _size(dim, width), key, observed)
        self.width, self.coordinates = width, coordinates

    def dimension_of(self, value: Value) -> Dimension:
        """D of a vector's space: n, or the number of coordinates that stand for all n."""
        component = self.facts.components[value]
        if component.points:
            return Dimension(self.coordinates(component.dim), lambda axes: None)
        return super().dimension_of(value)

    def ratio(self, value: Value, op: DimensionRatio) -> Any:
        """√(over/under), where one of the two is wide with D of the vectors that the number
        multiplies.
        """
        wide = [dim for dim in (op.over, op.under) if dim is not None and dim.wide]
        if len(wide) != 1 or not self._has_coordinates(wide[0], value):
            return super().ratio(value, op)
        return op.at(lambda dim: jnp.asarray(self.coordinates(dim), float))

    def _has_coordinates(self, dim: Dim, number: Value) -> bool:
        """A number multiplies a vector of R^D, or its image: do such vectors have coordinates?"""
        readers = _nearest(number, self.facts.readers.__getitem__, lambda v: v.is_vector)
        found = _nearest(readers, lambda v: v.vectors, lambda v: v.dim == dim) if readers else None
        return found is not None and self.facts.components[found].points

    def frames_of_block(self, facts: Analysis, key: Source) -> "WideDraw":
        """A draw of the block of a loop."""
        return WideDraw(facts, self.numbers, self.width, self.coordinates, key, self.observed)


def _size(dim: Dim, width: SizeOrTraced) -> SizeOrTraced:
    return width * float(dim.factor) if dim.wide else dim.at(1)


def _nearest(
    start: Value, following: Callable[[Value], Iterable[Value]], wanted: Callable[[Value], bool]
) -> Value | None:
    """The first value that is wanted, breadth first."""
    seen, behind = {start}, [start]
    while behind:
        v = behind.pop(0)
        if wanted(v):
            return v
        new = [u for u in following(v) if u not in seen]
        seen.update(new)
        behind += new
    return None


# --- what is read off a draw ---------------------------------------------------------------------


@ReadBy
def second_moment(draw: FramesDraw, outputs: tuple[Output, ...]) -> Float[Array, "m m"]:
    """⟨y yᵀ⟩ = D^{-1} Σ_α y_α y_αᵀ over the flattened entries."""
    ((y, layout),) = outputs
    units = draw.units(y).whole(layout)
    return gram(units.reshape(-1, units.shape[-1]))


@ReadBy
def coordinate(
    draw: FramesDraw, outputs: tuple[Output, ...]
) -> tuple[Float[Array, " m"], Float[Array, "m m"]]:
    """Mean and covariance of a coordinate of y given what is drawn: m = ⟨y⟩ and ⟨y yᵀ⟩ − m mᵀ
    of wide vectors in frames, which are Gaussian given their Gram matrix; of others a coordinate
    that was drawn, and 0.
    """
    ((y, layout),) = outputs
    component, space, m = draw.facts.components[y], draw.space(y), math.prod(finite_shape(layout))
    if component.points or not component.dim.wide:
        point = draw.settled(y).mapped(space.coordinates).whole(layout).reshape(m)
        return point, jnp.zeros((m, m), point.dtype)
    K = second_moment(draw, outputs)
    if not component.has_one:
        return jnp.zeros(m, K.dtype), K
    mean = draw.settled(y).mapped(space.average).whole(layout).reshape(m)
    return mean, K - mean[:, None] * mean


# --- laws ----------------------------------------------------------------------------------------


class Sizes(NamedTuple):
    """n, and how many coordinates stand for all of a vector: in proportion to the dimension of its
    space where there are `tied` matrices, whose shapes matter.
    """

    width: float
    hidden: int
    tied: bool

    def coordinates(self, dim: Dim) -> int:
        """How many coordinates stand for all of a space: all, where it does not grow with n."""
        if not dim.wide:
            return dim.at(1)
        return max(1, round(self.hidden * dim.factor)) if self.tied else self.hidden


@dataclasses.dataclass(frozen=True)
class InFrames:
    """Values whose transposes are followed. `square`: may they add components of order one?
    `beyond`: what their laws say of themselves.
    """

    outputs: tuple[Output, ...]
    square: bool
    key: Any
    beyond: tuple[str, ...]

    def law(self, samples: int | None) -> Law:
        """The law of numbers, or of one coordinate of vectors: of the only output."""
        return self._compared(samples, self._law)

    def kernel(self, samples: int | None) -> RandomKernel:
        """The law of ⟨y yᵀ⟩ over the flattened entries of the only output, given what is drawn; of
        numbers, their law.
        """
        return self._compared(samples, self._kernel)

    def compared(self, reading: Reading, pace: Pace) -> tuple[Any, Any]:
        """What a reading reads off draws, and off as many with a quarter of the coordinates: three
        times as far from the limit as the first are. None in their place where no vector has
        coordinates.
        """
        arrays = self.drawn(reading, pace, self.sizes)
        if self._most == 0:
            return arrays, None
        return arrays, self.drawn(reading, Pace(pace.samples, at_most=False), self._rougher)

    @property
    def _output(self) -> Output:
        (output,) = self.outputs
        return output

    def _law(self, pace: Pace, sizes: Sizes) -> Law:
        output = self._output
        if not output.value.is_vector:
            (found,) = self.drawn(numbers, pace, sizes)
            return Empirical(found, "sampled", self.beyond)
        mean, covariance = self.drawn(coordinate, pace, sizes)
        last = Last(None, 1, finite_shape(output.layout))
        seed = 0 if self.key is None else random_seed(as_key(self.key))
        return law_given(last, mean, covariance, "sampled", self.beyond, seed=seed)

    def _kernel(self, pace: Pace, sizes: Sizes) -> RandomKernel:
        if not self._output.value.is_vector:
            return RandomKernel(self.drawn(numbers, pace, sizes)[0], beyond=self.beyond)
        arrays = self.drawn(second_moment, pace, sizes)
        found = arrays if self._output.layout else arrays[:, 0, 0]
        return RandomKernel(found, beyond=self.beyond)

    def _compared(self, samples: int | None, law_of: Any) -> Any:
        """A law, with the error of hidden coordinates, if there are any."""
        m = engine.entries(self._output)
        each = m * (m + 1) if self._output.value.is_vector else m
        most = default_draws(m) if samples is None else positive_int("samples", samples)
        check_memory(most, each, "ask for fewer samples, or entries, as in y[0]")
        pace = Pace(most, at_most=samples is None)
        law = law_of(pace, self.sizes)
        law.effort = pace.effort
        if self._most == 0:
            return law
        same = Pace(pace.samples, at_most=False)
        return law.compared_with(later(lambda: law_of(same, self._rougher)))

    # --- sizes -----------------------------------------------------------------------------------

    @functools.cached_property
    def _batches(self) -> list[int]:
        """How many vectors there are in each batch that needs coordinates."""
        program = engine.program_of(demanded_outputs(self.outputs))
        return [
            math.prod(sizes(v.axes))
            for part, times in Analysis(program).parts()
            for v, c in part.components.items()
            if c.points and c.dim.wide
            for _ in range(times)
        ]

    @property
    def _most(self) -> int:
        """The vectors of the largest batch; 0 if there is none."""
        return max(self._batches, default=0)

    @property
    def sizes(self) -> Sizes:
        """Those of a draw: `HIDDEN` coordinates, fewer where there are very many vectors, and as
        many more as a batch needs.
        """
        affordable = 2 ** math.floor(math.log2(HELD / max(sum(self._batches), 1)))
        least = max(FEWEST, 2 ** math.ceil(math.log2(EACH * max(self._most, 1))))
        hidden = max(min(HIDDEN, affordable), least)
        tied = self.square and self._most > 0
        return Sizes(float(hidden) if tied else WIDTH, hidden, tied)

    @property
    def _rougher(self) -> Sizes:
        """With a quarter of the coordinates."""
        width, hidden, tied = self.sizes
        return Sizes(width / 4 if tied else width, hidden // 4, tied)

    # --- draws -----------------------------------------------------------------------------------

    def drawn(self, reading: Reading, pace: Pace, sizes: Sizes) -> Any:
        """What a reading reads off draws: arrays with the draws in front."""
        outputs = demanded_outputs(self.outputs)
        program = engine.program_of(outputs)
        engine.check_drawable("limit", program, self.key)
        source = jax.random.key(0) if self.key is None else as_key(self.key)

        def of(pace: Pace, sizes: Sizes) -> Any:
            batch, draws = _compiled(outputs, reading, sizes)
            return drawn("limit", draws, batch, (program.arrays, sizes.width), pace, source)

        if sizes != self.sizes:
            return of(pace, sizes)  # the draws that these are compared with were checked
        compared = COMPARED_APART if sizes.tied else COMPARED
        some = Pace(min(compared, pace.samples), at_most=False)
        ratio, narrower = 2.0**10, sizes._replace(width=sizes.width / 2**10)
        if sizes.tied:
            ratio, narrower = 16.0, Sizes(sizes.width / 16, sizes.hidden // 16, True)
        first = of(some, sizes)
        check_growth(of(some, narrower), first, ratio, same_numbers=not sizes.tied)
        return first if some.samples == pace.samples else of(pace, sizes)


def _compiled(outputs: tuple[Output, ...], reading: Reading, sizes: Sizes) -> tuple[int, Compiled]:
    """The number of draws computed together, and the compiled function of (slots, width), key and
    first draw.
    """
    program = engine.program_of(outputs)
    cost = coordinates_held(program, sizes.coordinates)
    check_draw(sizes.hidden, cost, "ask for fewer entries")
    batch = engine.draws_together(cost, BUDGET.coordinates_elsewhere)

    def made() -> Compiled:
        plain = without_numbers(outputs)

        def draw(arguments: tuple[list[Any], Float[Array, ""]], key: Key[Array, ""]) -> Any:
            arrays, width = arguments

            def of(source: Source) -> Any:
                program = engine.program_of(plain)
                facts, given = Analysis(program), slots(program, arrays)
                run = WideDraw(facts, given, width, sizes.coordinates, source, reading.coordinates)
                run.run(program)
                return reading(run, plain)

            return of(pooled(Far, key, of))

        return Compiled(batched(draw, batch), called_rarely=reading.few)

    name = "limit in frames", engine.structure(program, outputs), reading, sizes[1:], batch
    return batch, PROGRAMS.get(name, made)
