"""Reverse mode on a program: the backward vectors of f.

A loop is gone through by a reverse loop over the same iterations, whose block is the pullback of
its own:

    c̄_t = Σ_i (∂c_{t+1,i}/∂c_t)ᵀ c̄_{t+1,i} + Σ_i (∂y_{t,i}/∂c_t)ᵀ ȳ_{t,i},

where c̄ is carried, ȳ are the backward vectors of outputs, those of sequences are outputs, and
those of constants are added up. What the block of the loop made is read there as it is, and W is
the transpose of the same iteration's.
"""

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, cast

from limitlaw.backward.pullbacks import pulled
from limitlaw.core.program import after_inputs
from limitlaw.language import ops
from limitlaw.language.repeating import argument, scanned_back
from limitlaw.language.shapes import is_infinite
from limitlaw.language.tree import Value, ancestors
from limitlaw.language.values import Scalars, Wide, scalars, wide
from limitlaw.language.writing_out import outside, without_loops

Wanted = Callable[[Value], bool]  # is the backward of a value wanted?


def gradient(f: Scalars, wrt: Any) -> Any:
    """b = √D ∂f/∂v for a vector v of R^D, or for each of several: programs in the same matrices.

    `f` is a number of a program, a `dot`, an `average` or a function of such, and `wrt` a vector
    on which it depends, or a tuple of vectors. With this scaling entries of b are of order one as
    those of v are, and n⁻¹ Σ_α b_α² = |∂f/∂v|². What `gradient` gives is written with transposes,
    prints, and runs on the engines; so do dot products of it with vectors of f's own program.
    Through a loop (`repeat`, `scan`) goes a reverse loop. Gradients of gradients write loops out,
    with matrices of their own: a program cannot read both these and what comes out of the loop.

    Examples:
        >>> import limitlaw as ll
        >>> x = ll.initial((2,))
        >>> y = ll.tanh(ll.Matrix() @ x)
        >>> f = ll.dot(ll.initial(), y)[0]
        >>> b = ll.gradient(f, x)
        >>> ll.simulate(b, width=64, samples=10, key=0).shape
        (10, 2)
    """
    several = isinstance(wrt, tuple | list)
    vectors = [wide("wrt", v) for v in (wrt if several else (wrt,))]
    f = checked_number(f)
    if reverses([f]):
        f, *vectors = cast(Any, without_loops([f, *vectors]))
    found = came_back(f, set(vectors).__contains__).found
    for v in vectors:
        if v not in found:
            raise ValueError(f"f must depend on what wrt names, got {v!r}, which it does not read")
    return tuple(found[v] for v in vectors) if several else found[vectors[0]]


def checked_number(f: object) -> Scalars:
    """f, which must be one number of a program."""
    if not isinstance(f, Scalars) or f.shape:
        raise TypeError(f"f must be one number of a program, a Scalars of shape (), got {f!r}")
    return f


def reverses(values: Iterable[Value]) -> bool:
    """Are there reverse loops among what values read?"""
    return any(isinstance(v.op, ops.Scan) and v.op.follows for v in ancestors(values))


@dataclasses.dataclass(frozen=True)
class CameBack:
    """What comes back from some values: the backward of every value outside of loops on which they
    depend. Of each loop that is gone through, those inside included: the reverse `loops`, what
    comes back in an iteration, and what is `read` of it in all iterations.
    """

    found: dict[Value, Any]
    loops: dict[Value, Value] = dataclasses.field(default_factory=dict)
    iterations: dict[Value, "CameBack"] = dataclasses.field(default_factory=dict)
    read: dict[Value, tuple[Any, ...]] = dataclasses.field(default_factory=dict)

    def add(self, v: Value, b: Any) -> None:
        """One more part of the backward of v."""
        self.found[v] = self.found[v] + b if v in self.found else b

    @property
    def products(self) -> list[tuple[Wide, Wide]]:
        """Every product with a matrix, and its backward vector."""
        return self.made_with(is_product)

    def made_with(self, kind: Wanted) -> list[tuple[Wide, Wide]]:
        """Every value of some kind, and its backward vector."""
        made = [v for v in after_inputs(self.found, outside) if kind(v)]
        return [(cast(Wide, v), self.found[v]) for v in made if v in self.found]


# of a loop and what comes back in one of its iterations, the values wanted of every iteration
Reader = Callable[[Value, CameBack], Sequence[Value]]


def came_back(
    f: Scalars,
    wanted: Wanted,
    reader: Reader = lambda loop, iteration: (),
    before: Mapping[Value, Value] | None = None,
) -> CameBack:
    """What comes back from one number to every value that it reads and that depends on one that is
    `wanted`. `before`: for loops that were gone through before, the reverse loop, which the one
    that is written now follows, so that what it reads may be in its block.
    """
    if any(is_infinite(getattr(v, "shape", ())) for v in ancestors([f])):
        raise TypeError("gradient needs a number of heads, got a program with heads=math.inf")
    depends = Depending.of([f], wanted, ())
    return _Reverse(reader, before or {}).through({f: scalars(1.0)}, depends)


def products(f: Scalars) -> list[tuple[Wide, Wide]]:
    """Every product with a matrix on which f depends, outside of loops, and its backward
    vector.
    """
    return came_back(f, is_product).products


def is_product(v: Value) -> bool:
    """Is it a product with a matrix?"""
    return isinstance(v.op, ops.MatMul)


@dataclasses.dataclass(frozen=True)
class Depending:
    """The values that depend on wanted ones, and those in the blocks of loops."""

    values: set[Value]
    inside: dict[Value, "Depending"]

    @classmethod
    def of(cls, results: Iterable[Value], wanted: Wanted, given: Iterable[Value]) -> "Depending":
        """Of all values that the results read, where some are given to depend."""
        found = cls(set(given), {})
        for v in after_inputs(results, outside):
            if isinstance(v.op, ops.Scan):
                found.inside[v] = found.in_block(v.op, wanted)
            elif wanted(v) or found._reaches(v):
                found.values.add(v)
        return found

    def in_block(self, op: ops.Scan, wanted: Wanted) -> "Depending":
        """Of the values in the block of a loop: what depends in one iteration does in the next."""
        given = (*op.starts, *op.sequences, *op.constants)
        known = {a for a, u in zip(op.arguments, given, strict=True) if u in self.values}
        while True:
            found = self.of(op.results, wanted, known)
            carries = zip(op.arguments, op.results[: len(op.starts)], strict=False)
            more = known | {a for a, y in carries if y in found.values}
            if more == known:
                return found
            known = more

    def _reaches(self, v: Value) -> bool:
        op = v.op
        if isinstance(op, ops.FromScan):
            return op.loop.results[op.place] in self.inside[op.scan].values
        return any(u in self.values for u in op.inputs)


@dataclasses.dataclass(frozen=True)
class _Reverse:
    """Writes the reverse of values, and of the iterations of loops."""

    reader: Reader
    before: Mapping[Value, Value]

    def through(self, given: Mapping[Value, Any], depends: Depending) -> CameBack:
        """What comes back from values whose backward is given."""
        came = CameBack(dict(given))
        ends: dict[Value, dict[int, Any]] = {}  # by loop, the backward of its results
        for v in reversed(after_inputs(given, outside)):
            if v in ends:
                added = self._through_loop(v, ends[v], depends.inside[v], came)
            elif v not in came.found or v not in depends.values:
                continue
            elif isinstance(v.op, ops.FromScan):
                places = ends.setdefault(v.op.scan, {})
                b = came.found[v]
                places[v.op.place] = places[v.op.place] + b if v.op.place in places else b
                continue
            elif not any(u in depends.values for u in v.op.inputs):
                continue
            else:
                added = list(pulled(v, came.found[v]))
            for u, b in added:
                if u in depends.values:
                    came.add(u, b)
        return came

    def _through_loop(
        self, loop: Value, ends: Mapping[int, Any], depends: Depending, came: CameBack
    ) -> list[tuple[Value, Any]]:
        """Write the reverse of a loop: what it adds to the backward of what the loop reads."""
        op = cast(ops.Scan, loop.op)
        first, last = len(op.starts), len(op.arguments) - len(op.constants)
        inside = CameBack({})
        carried = list(zip(op.arguments, op.results, op.starts, strict=False))
        carries = [argument(x, x.shape) for x, _, _ in carried]
        places = [i for i in ends if i >= first]
        outputs = [argument(op.results[i], op.results[i].shape) for i in places]
        for y, b in zip(
            (*op.results[:first], *(op.results[i] for i in places)),
            (*carries, *outputs),
            strict=True,
        ):
            if y in depends.values:
                inside.add(y, b)
        inside = self.through(inside.found, depends)
        shared = [k for k in op.arguments[last:] if k in depends.values]
        sums = [argument(k, k.shape) for k in shared]
        elements = [x for x in op.arguments[first:last] if x in depends.values]
        results = (
            *(_back(inside, x) for x, _, _ in carried),
            *(cast(Any, total) + _back(inside, k) for total, k in zip(sums, shared, strict=True)),
            *(_back(inside, x) for x in elements),
        )
        read = tuple(self.reader(loop, inside))
        outer = dict(zip(op.arguments, (*op.starts, *op.sequences, *op.constants), strict=True))
        starts = (
            *(ends.get(i, _zero(x)) for i, x in enumerate(op.starts)),
            *(_zero(outer[k]) for k in shared),
        )
        found = scanned_back(
            op,
            self.before.get(loop, loop),
            starts,
            tuple(ends[i] for i in places),
            (*carries, *sums, *outputs),
            (*results, *read),
        )
        came.loops.update({**inside.loops, loop: found[0].op.scan})
        came.iterations.update({**inside.iterations, loop: inside})
        came.read[loop] = tuple(found[len(results) :])
        reached = (*op.arguments[:first], *shared, *elements)
        return [(outer[x], b) for x, b in zip(reached, found, strict=False)]


def _back(came: CameBack, x: Value) -> Any:
    return came.found[x] if x in came.found else _zero(x)


def _zero(x: Any) -> Any:
    return 0.0 * x
