"""Which scores are forms in the same normals, found before any number is known.

Vectors that may be correlated make a `FrameGroup`, which has one frame. Where every one of them is
W x with the same family W, the frame is that of the x. Scores of vectors of the same two groups
are a `Pairing`, which has one matrix of normals. Along axes with different matrices (heads) there
are independent copies of it.
"""

import dataclasses
import functools
from collections.abc import Iterable, Sequence

from limitlaw.core.instructions import Add, Contract, Dot, Initial, MatMul, Rename
from limitlaw.core.kinds import Family, Value
from limitlaw.core.labelled import Axis
from limitlaw.engines.limit.facts import LimitFacts

# why entries are independent along an axis: the matrices or vectors that differ there
Independence = tuple[Family | Value, Axis]


@dataclasses.dataclass(frozen=True, eq=False)
class Copies:
    """An axis along which a group's vectors have independent entries, and its names in them."""

    sources: frozenset[Independence]
    axis: dict[Value, Axis]


@dataclasses.dataclass(frozen=True, eq=False)
class FrameGroup:
    """Vectors that may be correlated, in the order in which they are met."""

    vectors: tuple[Value, ...]
    copies: tuple[Copies, ...]

    @functools.cached_property
    def family(self) -> Family | None:
        """W if every one of the vectors is W x under other names, W's one axis being `copies`."""
        products = [_product(v) for v in self.vectors]
        families = {None if product is None else product.family for product in products}
        W = families.pop()
        if families or W is None or not W.cols.wide:
            return None
        apart = {axis for copies in self.copies for family, axis in copies.sources if family is W}
        return W if apart.issuperset(W.axes) else None

    def placed(self, v: Value) -> Value:
        """The vector that is placed in the frame for v: v itself, or x if v is W x."""
        product = _product(v) if self.family else None
        return product.x if product else v

    def names(self, v: Value) -> dict[Axis, Axis]:
        """The names in v of the axes of what is placed, and of W."""
        if self.family is None:
            return {axis: axis for axis in v.axes}
        if isinstance(v.instruction, Rename):
            inside = self.names(v.instruction.x)
            return {axis: v.instruction.name_of(name) for axis, name in inside.items()}
        return {axis: axis for axis in v.axes}

    def within(self, copies: Copies, v: Value) -> Axis:
        """The name of the axis of copies in what is placed for v."""
        return next(a for a, name in self.names(v).items() if name is copies.axis[v])

    @functools.cached_property
    def apart(self) -> tuple[Copies, ...]:
        """The copies that differ in what is placed; the others have the same frame."""
        return tuple(
            copies
            for copies in self.copies
            if any(self.within(copies, v) in self.placed(v).axes for v in self.vectors)
        )

    def place(self, v: Value) -> tuple[Value, tuple[Axis, ...]]:
        """The vector that is placed for v, and its axes of independent copies."""
        return self.placed(v), tuple(self.within(copies, v) for copies in self.apart)

    @property
    def places(self) -> tuple[tuple[Value, tuple[Axis, ...]], ...]:
        """All that is placed; two groups for which it is the same have one frame."""
        return tuple(dict.fromkeys(map(self.place, self.vectors)))


def _product(v: Value) -> MatMul | None:
    while isinstance(v.instruction, Rename):
        v = v.instruction.x
    return v.instruction if isinstance(v.instruction, MatMul) else None


@dataclasses.dataclass(frozen=True, eq=False)
class Pairing:
    """Dot products of vectors of two groups, which may be one.

    `lead`: the copies along which matrices of normals are independent: of the first group, of the
    second, or of both at once.
    """

    first: FrameGroup
    second: FrameGroup
    lead: tuple[tuple[Copies | None, Copies | None], ...]
    dots: tuple[Dot, ...]

    def turned(self, dot: Dot) -> bool:
        """Is q of the second group, and k of the first?"""
        return dot.q not in self.first.vectors

    def factors(self, dot: Dot) -> tuple[Value, Value]:
        """The vector of the first group, and that of the second."""
        return (dot.k, dot.q) if self.turned(dot) else (dot.q, dot.k)

    def axes(self, dot: Dot) -> tuple[Axis, ...]:
        """The names of `lead` in the vectors of a dot product."""
        v, w = self.factors(dot)
        named = []
        for first, second in self.lead:
            if first is not None:
                named.append(first.axis[v])
            elif second is not None:
                named.append(second.axis[w])
        return tuple(named)


def pairings(facts: LimitFacts, dots: Iterable[Value]) -> dict[Value, Pairing]:
    """The pairing of each array of scores."""
    met = {p: p.instruction for p in dots if isinstance(p.instruction, Dot)}
    components = _components(facts, tuple(met.values()))
    grouped: dict[tuple[int, int], list[Dot]] = {}
    for dot in met.values():
        grouped.setdefault(_ends(components, dot), []).append(dot)
    refused = {c for ends, group in grouped.items() for c in _refused(components, ends, group)}
    if refused:
        components = [
            FrameGroup(c.vectors, tuple(x for x in c.copies if x not in refused))
            for c in components
        ]
    made = {
        ends: Pairing(
            components[ends[0]],
            components[ends[1]],
            _lead(components, ends, group[0]),
            tuple(group),
        )
        for ends, group in grouped.items()
    }
    return {p: made[_ends(components, dot)] for p, dot in met.items()}


def _components(facts: LimitFacts, dots: Sequence[Dot]) -> list[FrameGroup]:
    """The groups of vectors that share a source of randomness, perhaps by way of others."""
    groups: list[tuple[int, list[Value]]] = []
    for v in dict.fromkeys(v for dot in dots for v in (dot.q, dot.k)):
        near = [group for group in groups if group[0] & facts.roots[v]]
        roots = functools.reduce(int.__or__, (group[0] for group in near), facts.roots[v])
        groups = [group for group in groups if group not in near]
        groups.append((roots, [u for group in near for u in group[1]] + [v]))
    order = {v: i for i, v in enumerate(v for dot in dots for v in (dot.q, dot.k))}
    sorted_groups = [sorted(group, key=order.__getitem__) for _, group in groups]
    return [FrameGroup(tuple(group), _copies(group)) for group in sorted_groups]


def _ends(components: Sequence[FrameGroup], dot: Dot) -> tuple[int, int]:
    first, second = sorted(
        next(i for i, c in enumerate(components) if v in c.vectors) for v in (dot.q, dot.k)
    )
    return first, second


def _lead(
    components: Sequence[FrameGroup], ends: tuple[int, int], dot: Dot
) -> tuple[tuple[Copies | None, Copies | None], ...]:
    """The copies of both groups that are one axis of a dot product, and each one's others."""
    first, second = (components[i] for i in ends)
    v, w = (dot.q, dot.k) if dot.q in first.vectors else (dot.k, dot.q)
    both = [(a, b) for a in first.copies for b in second.copies if a.axis[v] is b.axis[w]]
    alone = [a for a in first.copies if all(a is not x for x, _ in both)]
    others = [b for b in second.copies if all(b is not x for _, x in both)]
    return (*both, *((a, None) for a in alone), *((None, b) for b in others))


def _refused(
    components: Sequence[FrameGroup], ends: tuple[int, int], dots: Sequence[Dot]
) -> set[Copies]:
    """Copies that do not meet in the same way in all dot products of a pairing, or that meet other
    copies of their own group: their entries are vectors like others.
    """
    leads = [set(_lead(components, ends, dot)) for dot in dots]
    odd = {pair for lead in leads for pair in lead if any(pair not in other for other in leads)}
    if ends[0] == ends[1]:
        odd |= {(a, b) for lead in leads for a, b in lead if a is not b}
    return {copies for pair in odd for copies in pair if copies is not None}


def _copies(vectors: Sequence[Value]) -> tuple[Copies, ...]:
    """The axes along which vectors, and any two of them, are independent."""
    found = [_drawn_apart(v) for v in vectors]
    groups: list[frozenset[Independence]] = []
    for sources in (s for apart in found for s in apart.values()):
        near = [group for group in groups if group & sources]
        groups = [group for group in groups if group not in near]
        groups.append(sources.union(*near))
    made = []
    for group in groups:
        called = [[a for a, sources in apart.items() if sources & group] for apart in found]
        if all(len(axes) == 1 for axes in called):
            named = {v: axis for v, (axis,) in zip(vectors, called, strict=True)}
            made.append(Copies(group, named))
    return tuple(made)


def _drawn_apart(v: Value) -> dict[Axis, frozenset[Independence]]:
    """The axes along which entries of a vector have matrices, or initial vectors, of their own."""
    op = v.instruction
    match op:
        case MatMul():
            return {axis: frozenset([(op.family, axis)]) for axis in op.family.axes}
        case Initial() if op.diagonal:
            return {axis: frozenset([(v, axis)]) for axis in v.axes}
        case Rename():
            return {op.name_of(axis): sources for axis, sources in _drawn_apart(op.x).items()}
        case Contract():
            inside = _drawn_apart(op.w)
            return {axis: sources for axis, sources in inside.items() if axis not in op.over}
        case Add():
            first, *rest = (_drawn_apart(t) for t in op.terms)
            common = [axis for axis in first if all(axis in apart for apart in rest)]
            return {axis: first[axis].union(*(apart[axis] for apart in rest)) for axis in common}
    return {}
