"""What holds in the limit before numbers are known: Gaussian vectors, and dependence."""

import functools
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from limitlaw import phi as nonlinearities
from limitlaw.core.analysis import Analysis
from limitlaw.core.instructions import (
    Argument,
    Contract,
    FromScan,
    Initial,
    MatMul,
    Ones,
    Rename,
    Scan,
    Take,
)
from limitlaw.core.kinds import Coordinatewise, Instruction, Linear, Value, no_rule
from limitlaw.core.labelled import Axis
from limitlaw.core.program import after_inputs
from limitlaw.engines.limit.together import Together


class OfArgument(NamedTuple):
    """The facts of an argument of a block: of vectors, are they Gaussian, have they a mean, and
    from which sources of randomness may they be made (bits)? `random`: do they depend on latent
    variables?
    """

    gaussian: bool = False
    has_mean: bool = False
    random: bool = False
    roots: int = 0


PASSING = "what passes through a loop"  # the source that all arguments of a block have in common


class LimitFacts:
    """Facts about the vectors of wide spaces, given all numbers.

    `roots`: the sources of randomness of a vector, its matrices and initial vectors, as bits; two
    vectors with none in common are independent. `gaussian`: is it a linear combination of Gaussian
    vectors and of **1**? `has_mean`: may its mean be other than zero? `random`: does it depend on
    latent variables? `undrawn`: scores of infinitely many heads that only weight vectors of which
    a normalised sum is taken: their second moments are all that matters. `bilinear`: Σ p w with
    such scores p. `argument`: the u of φ(u), where φ acts on one Gaussian vector, and perhaps on
    numbers. `integrable`: φ(u) whose products are integrated, not averaged over nodes. `apart`:
    the axes of a vector along which, as far as can be seen, only second moments at equal indices
    are read.

    `coarse`: use quasi-Monte Carlo, not quadrature, for products of unknown functions that depend
    on latent variables; there will be many draws. `arguments`: the facts of the arguments of a
    block.
    """

    def __init__(
        self,
        facts: Analysis,
        undrawn: frozenset[Value] = frozenset(),
        coarse: bool = False,
        crosswise: bool = False,
        arguments: Mapping[Value, OfArgument] | None = None,
    ):
        self.analysis, self.undrawn, self.coarse = facts, undrawn, coarse
        self.crosswise, self._arguments = crosswise, arguments or {}
        self.position = dict(facts.position)
        self._bits: dict[object, int] = {}
        self.roots: dict[Value, int] = {}
        self.gaussian: dict[Value, bool] = {}
        self.has_mean: dict[Value, bool] = {}
        self.loops: dict[Value, LoopFacts] = {}
        self.random: set[Value] = set()
        self.bilinear: set[Value] = set()
        self.argument: dict[Value, Value] = {}
        self.integrable: set[Value] = set()
        self.terms: dict[Value, tuple[Value, ...]] = {}  # of stacks beside the program
        for v in facts.values:
            self._learn(v)

    @functools.cached_property
    def together(self) -> Together:
        """Stacks of vectors that the program has one by one."""
        return Together(self)

    def include(self, v: Value, position: int) -> None:
        """Add a value that is not in the program, which may be made of values up to `position`."""
        self.position[v] = position
        self._learn(v)

    def _learn(self, v: Value) -> None:
        if v.dim is not None and v.dim.wide:
            self._add(v)
        if isinstance(v.instruction, Scan):
            self.loops[v] = LoopFacts(v.instruction, self)
        given = self._arguments.get(v, OfArgument()).random
        if given or v in self.analysis.stay_random or not self.random.isdisjoint(v.inputs):
            self.random.add(v)
        rough = self.coarse and v in self.random and _is_unknown(v.instruction)
        if v in self.argument and not rough:
            self.integrable.add(v)

    @functools.cached_property
    def apart(self) -> dict[Value, frozenset[Axis]]:
        """For each vector the axes of which only equal indices are read, from the outputs back."""
        if self.crosswise:
            return {v: frozenset(v.axes) for v in self.roots}
        found: dict[Value, frozenset[Axis]] = {}
        for v in reversed(self.analysis.values):
            if v in self.roots:
                all_axes = frozenset(() if v in self.analysis.program.outputs else v.axes)
                readers = (
                    self._apart_for(reader, v, found) for reader in self.analysis.readers[v]
                )
                found[v] = functools.reduce(frozenset.intersection, readers, all_axes)
        return found

    @functools.cached_property
    def behind(self) -> frozenset[Value]:
        """The values behind all that is more than final linear combinations and products."""
        found: set[Value] = set()
        for v in reversed(self.analysis.values):
            op = v.instruction
            last = v.is_vector and (op.linear or isinstance(op, MatMul))
            if v in found or not last:
                found.update(v.inputs)
        return frozenset(found)

    def _apart_for(
        self, reader: Value, v: Value, found: dict[Value, frozenset[Axis]]
    ) -> frozenset[Axis]:
        """The axes of v along which `reader` needs only equal indices."""
        op, own = reader.instruction, found.get(reader, frozenset())
        if isinstance(op, MatMul):
            return own.union(op.family.axes) if reader in found else frozenset()
        if isinstance(op, Rename):
            named = zip(v.axes, op.names_of(v.axes), strict=True)
            return frozenset(axis for axis, name in named if name in own)
        if isinstance(op, Take):
            return own.union(op.axes) if own.issuperset(op.new) else own
        return (
            own
            if reader in self.integrable or (op.linear and reader not in self.bilinear)
            else frozenset()
        )

    def _add(self, v: Value) -> None:
        op = v.instruction
        if isinstance(op, MatMul | Initial):
            source = op.family if isinstance(op, MatMul) else v
            self.roots[v], self.gaussian[v] = self.root_of(source), True
            self.has_mean[v] = isinstance(op, Initial) and not op.centred
        elif isinstance(op, Ones):
            self.roots[v], self.gaussian[v], self.has_mean[v] = 0, True, True
        elif isinstance(op, Argument):
            known = self._arguments.get(v, OfArgument())
            self.roots[v] = self.root_of(v) | self.root_of(PASSING) | known.roots
            self.gaussian[v], self.has_mean[v] = known.gaussian, known.has_mean
        elif isinstance(op, FromScan):
            loop = self.loops[op.scan]
            given = (self.roots[u] for u in loop.made_from(op.place))
            self.roots[v] = functools.reduce(int.__or__, given, self.root_of(op.scan))
            self.gaussian[v], self.has_mean[v] = loop.known(op.place)
        elif not isinstance(op, Linear | Coordinatewise):
            raise no_rule(type(op), "the infinite-width limit")
        else:
            self._combine(v, op)

    def _combine(self, v: Value, op: Linear | Coordinatewise) -> None:
        """Add the facts of a linear combination, or of a nonlinearity."""
        vectors = dict.fromkeys(v.vectors)
        self.roots[v] = functools.reduce(int.__or__, (self.roots[u] for u in vectors), 0)
        all_gaussian = all(self.gaussian[u] for u in vectors)
        self.gaussian[v] = op.linear and all_gaussian
        self.has_mean[v] = any(self.has_mean[u] for u in vectors)
        if isinstance(op, Contract) and op.a is not None and unnamed(op.a) in self.undrawn:
            self.bilinear.add(v)
            self.roots[v] |= self.root_of(unnamed(op.a))
            self.has_mean[v] = False
        if isinstance(op, Coordinatewise):
            if len(vectors) == 1 and all_gaussian:
                (self.argument[v],) = vectors
            factors = None if v in self.argument else independent_factors(self, op)
            self.has_mean[v] = factors is None or all(self.has_mean[u] for u in factors)

    def root_of(self, source: object) -> int:
        """The bit of a source of randomness."""
        return self._bits.setdefault(source, 1 << len(self._bits))

    def reads(self, v: Value, source: object) -> bool:
        """Does v depend on a source of randomness: a family, a vector, or `PASSING`?"""
        return bool(self.roots[v] & self.root_of(source))

    def independent(self, v: Value, w: Value) -> bool:
        """Have the two vectors no source of randomness in common?"""
        return not self.roots[v] & self.roots[w]

    def gaussian_parts(self, v: Value) -> list[Value]:
        """The largest Gaussian vectors from which v is made."""
        return [u for u in self.made_of([v]) if self.gaussian[u]]

    def made_of(self, vectors: Iterable[Value]) -> list[Value]:
        """The vectors and all those that make them, back to Gaussian ones, in program order."""
        found = after_inputs(vectors, lambda u: () if self.gaussian[u] else u.vectors)
        return sorted(found, key=self.position.__getitem__)


def _is_unknown(op: Instruction) -> bool:
    """Is it a function without closed forms, or one of numbers as well?"""
    return isinstance(op, Coordinatewise) and (op.phi.mean is None or len(op.args) > 1)


class LoopFacts:
    """Facts about what passes through a loop of a program whose facts are `outside`."""

    def __init__(self, op: Scan, outside: LimitFacts):
        self.op, self._analysis = op, Analysis.of_block(op.block)
        given = zip(op.block.arguments, op.inputs, strict=True)
        self.arguments = {v: _known(u, outside) for v, u in given}
        self.outside = dict(zip(op.block.arguments, op.inputs, strict=True))
        while True:
            facts = LimitFacts(self._analysis, coarse=outside.coarse, arguments=self.arguments)
            after = {
                v: _either(self.arguments[v], _known(y, facts))
                for v, y in zip(op.carried, op.following, strict=True)
            }
            if all(self.arguments[v] == known for v, known in after.items()):
                break
            self.arguments |= after
        self.block = facts

    def known(self, place: int) -> tuple[bool, bool]:
        """Is the result at `place` Gaussian, and may its mean be other than zero?"""
        if place < len(self.op.starts):
            known = self.arguments[self.op.carried[place]]
            return known.gaussian, known.has_mean
        y = self.op.block.results[place]
        return self.block.gaussian[y], self.block.has_mean[y]

    def made_from(self, place: int) -> list[Value]:
        """The vectors outside the loop from which a result is made."""
        following = dict(zip(self.op.carried, self.op.following, strict=True))
        found: set[Value] = set()
        stack = [self.op.block.results[place]]
        while stack:
            y = stack.pop()
            new = {v for v in self.arguments if v in self.block.roots and self.block.reads(y, v)}
            stack += [following[v] for v in new - found if v in following]
            found |= new
        return [self.outside[v] for v in self.op.block.arguments if v in found]


def _known(u: Value, facts: LimitFacts) -> OfArgument:
    """The facts of a value u as an argument of a block."""
    return OfArgument(
        facts.gaussian.get(u, False), facts.has_mean.get(u, False), u in facts.random
    )


def _either(first: OfArgument, second: OfArgument) -> OfArgument:
    """What holds of an argument that may be the one or the other."""
    return OfArgument(
        first.gaussian and second.gaussian,
        first.has_mean or second.has_mean,
        first.random or second.random,
    )


def independent_factors(facts: LimitFacts, op: object) -> tuple[Value, Value] | None:
    """The factors a and b, if `op` is a product a b of two independent vectors; else None."""
    if (
        not isinstance(op, Coordinatewise)
        or op.phi is not nonlinearities.multiply
        or len(op.args) != 2
    ):
        return None
    a, b = op.args
    return (a, b) if a.is_vector and b.is_vector and facts.independent(a, b) else None


def unnamed(p: Value) -> Value:
    """The numbers p without the renamings of their axes."""
    while isinstance(p.instruction, Rename):
        p = p.instruction.x
    return p
