"""What is known of the limit of a program before any number is:
which vectors are Gaussian, and on what they depend.
"""

import functools
from collections.abc import Iterable

from limitlaw.core.analysis import Analysis
from limitlaw.core.instructions import (
    Argument,
    Contract,
    Dot,
    Initial,
    MatMul,
    Ones,
    Rename,
    Repeat,
    Take,
)
from limitlaw.core.kinds import Coordinatewise, Family, Instruction, Linear, Value, no_rule
from limitlaw.core.labelled import Axis, NodeAxis
from limitlaw.engines.limit.together import Together


class LimitFacts:
    """Facts about the vectors of wide spaces, given all numbers.

    `roots`: the matrices and initial vectors a vector is made from, as bits; with none in common
    two are independent. `gaussian`: is it a linear combination of Gaussian vectors and of **1**?
    `random`: depends on what is drawn. `undrawn`: scores of infinitely many heads that only weigh
    vectors of which a normalised sum is taken: their second moments are all that matters.
    `bilinear`: Σ p w with such scores p. `argument`: the u of φ(u), where φ acts on one Gaussian
    vector, and perhaps on numbers. `integrable`: φ(u) whose products are integrated, not averaged
    over nodes. `apart`: the axes of a vector along which, as far as can be seen, only second
    moments at equal indices are read.

    `coarse`: use quasi-Monte Carlo, not quadrature, for products of functions of which nothing is
    known, where they depend on what is drawn; there will be many draws. `argument_is_gaussian`: of
    a block, is what it is given in every turn? `argument_roots`: what it may have been made from.
    """

    def __init__(
        self,
        facts: Analysis,
        undrawn: frozenset[Value] = frozenset(),
        coarse: bool = False,
        argument_is_gaussian: bool = False,
        crosswise: bool = False,
        argument_roots: int = 0,
    ):
        self.analysis, self.undrawn, self.coarse = facts, undrawn, coarse
        self.crosswise = crosswise
        self._argument_is_gaussian, self._argument_roots = argument_is_gaussian, argument_roots
        self.position = dict(facts.position)
        self._bits: dict[Value | Family, int] = {}
        self.roots: dict[Value, int] = {}
        self.gaussian: dict[Value, bool] = {}
        self.random: set[Value] = set()
        self.bilinear: set[Value] = set()
        self.argument: dict[Value, Value] = {}
        self.integrable: set[Value] = set()
        self.terms: dict[Value, tuple[Value, ...]] = {}  # of stacks beside the program
        for v in facts.values:
            self._learn(v)

    @functools.cached_property
    def together(self) -> Together:
        """Stacks of vectors that a program has one by one."""
        return Together(self)

    def include(self, v: Value, position: int) -> None:
        """A value beside those of the program, which may be made of values up to `position`."""
        self.position[v] = position
        self._learn(v)

    def _learn(self, v: Value) -> None:
        if v.dim is not None and v.dim.wide:
            self._add(v)
        if v in self.analysis.stay_random or not self.random.isdisjoint(v.inputs):
            self.random.add(v)
        rough = self.coarse and v in self.random and _is_unknown(v.instruction)
        if v in self.argument and not rough:
            self.integrable.add(v)

    @functools.cached_property
    def apart(self) -> dict[Value, frozenset[Axis]]:
        """From the outputs back."""
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
        """The values on which more than the last linear combinations depends."""
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
        """The axes of v of which a reader of it needs equal indices only."""
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
            self.roots[v], self.gaussian[v] = (
                self._bit(op.family if isinstance(op, MatMul) else v),
                True,
            )
        elif isinstance(op, Ones):
            self.roots[v], self.gaussian[v] = 0, True
        elif isinstance(op, Argument):
            self.roots[v] = self._bit(v) | self._argument_roots
            self.gaussian[v] = self._argument_is_gaussian
        elif isinstance(op, Repeat):
            inside = facts_of_block(op, self.gaussian[op.x])
            passes = not inside.independent(op.block.argument, op.block.result)
            self.roots[v] = self._bit(v) | (self.roots[op.x] if passes else 0)
            self.gaussian[v] = inside.gaussian[op.block.result]
        elif not isinstance(op, Linear | Coordinatewise):
            raise no_rule(type(op), "the infinite-width limit")
        else:
            self.roots[v] = functools.reduce(int.__or__, (self.roots[u] for u in v.vectors), 0)
            self.gaussian[v] = op.linear and all(self.gaussian[u] for u in v.vectors)
            if isinstance(op, Contract) and op.a is not None and unnamed(op.a) in self.undrawn:
                self.bilinear.add(v)
                self.roots[v] |= self._bit(unnamed(op.a))
            vectors = set(v.vectors)
            if (
                isinstance(op, Coordinatewise)
                and len(vectors) == 1
                and all(self.gaussian[u] for u in vectors)
            ):
                (self.argument[v],) = vectors

    def _bit(self, source: Value | Family) -> int:
        return self._bits.setdefault(source, 1 << len(self._bits))

    def independent(self, v: Value, w: Value) -> bool:
        """Have the two no root in common?"""
        return not self.roots[v] & self.roots[w]

    def gaussian_parts(self, v: Value) -> list[Value]:
        """The largest Gaussian vectors from which v is made."""
        return [u for u in self.made_of([v]) if self.gaussian[u]]

    def made_of(self, vectors: Iterable[Value]) -> list[Value]:
        """The vectors themselves and all those from which they are made, back to Gaussian ones, in
        the order of the program.
        """
        found: set[Value] = set()
        stack = list(vectors)
        while stack:
            u = stack.pop()
            if u not in found:
                found.add(u)
                stack.extend(() if self.gaussian[u] else u.vectors)
        return sorted(found, key=self.position.__getitem__)


def _is_unknown(op: Instruction) -> bool:
    """Is a function one of which nothing is known, or of numbers as well?"""
    return isinstance(op, Coordinatewise) and (op.phi.mean is None or len(op.args) > 1)


def facts_of_block(op: Repeat, gaussian: bool) -> LimitFacts:
    """The facts of the block of a loop, to which Gaussian vectors are given if they
    are so in every turn.
    """
    analysis = Analysis.of_block(op.block)
    facts = LimitFacts(analysis, argument_is_gaussian=gaussian)
    return facts if not gaussian or facts.gaussian[op.block.result] else LimitFacts(analysis)


def unnamed(p: Value) -> Value:
    """Numbers under the names with which they were made."""
    while isinstance(p.instruction, Rename):
        p = p.instruction.x
    return p


def undrawn_scores(facts: Analysis) -> frozenset[Value]:
    """Scores on an axis of nodes that only weigh vectors,
    of which only a normalised sum over that axis is read.
    """

    def summed(v: Value, axis: Axis) -> bool:
        """Is v read only by the sum over `axis`, perhaps behind matrices and under other names?"""
        if len(facts.readers[v]) != 1 or v in facts.program.outputs:
            return False
        (reader,) = facts.readers[v]
        op = reader.instruction
        if isinstance(op, MatMul):
            return axis in op.family.axes and summed(reader, axis)
        if isinstance(op, Rename):
            return summed(reader, op.name_of(axis))
        return isinstance(op, Contract) and op.a is None and op.normalised and axis in op.over

    def only_weighs(p: Value, axis: Axis) -> bool:
        for reader in facts.readers[p]:
            op = reader.instruction
            if isinstance(op, Rename):
                if not only_weighs(reader, op.name_of(axis)):
                    return False
            elif not (
                isinstance(op, Contract)
                and op.a is p
                and reader.is_vector
                and summed(reader, axis)
            ):
                return False
        return bool(facts.readers[p]) and p not in facts.program.outputs

    def qualifies(p: Value) -> bool:
        op = p.instruction
        if not (isinstance(op, Dot) and op.dim.wide and op.scaling == "sqrt" and op.base is None):
            return False
        return any(only_weighs(p, axis) for axis in p.axes if isinstance(axis, NodeAxis))

    return frozenset(p for p in facts.values if qualifies(p))


def scores(values: Iterable[Value]) -> list[Value]:
    """Dot products of wide vectors that stay random."""
    return [v for v in values if is_score(v)]


def is_score(v: Value) -> bool:
    """Is v a dot product of wide vectors under 1/√n?"""
    op = v.instruction
    return isinstance(op, Dot) and op.dim.wide and op.scaling == "sqrt"


def correlated(facts: LimitFacts) -> frozenset[Value]:
    """The random scores that are not known to be independent of all others,
    and those with rotary factors.
    """
    met = scores(facts.analysis.values)
    found = {v for v in met if v.instruction.base is not None}  # type: ignore[attr-defined]
    by_root: dict[int, list[Value]] = {}
    for p in met:  # two arrays of scores that have no factor's root in common are independent
        for other in _near(p, facts, by_root):
            if are_correlated(p, other, facts):
                found |= {p, other}
    return frozenset(found)


def _near(p: Value, facts: LimitFacts, by_root: dict[int, list[Value]]) -> list[Value]:
    """Earlier scores of which a factor shares a root with a factor of p;
    p is written down for later ones.
    """
    near: dict[Value, None] = {}
    mask = facts.roots[p.inputs[0]] | facts.roots[p.inputs[1]]
    while mask:
        bit = mask & -mask
        mask ^= bit
        near |= dict.fromkeys(by_root.setdefault(bit, []))
        by_root[bit].append(p)
    return list(near)


def are_correlated(p: Value, other: Value, facts: LimitFacts) -> bool:
    """May two arrays of scores be correlated: do their factors have matrices in common,
    pair by pair?
    """
    if not (is_score(p) and is_score(other)):
        return False
    (q, k), (r, t) = p.inputs, other.inputs
    straight, crossed = ((q, r), (k, t)), ((q, t), (k, r))
    return any(
        not any(facts.independent(*pair) for pair in pairs) for pairs in (straight, crossed)
    )
