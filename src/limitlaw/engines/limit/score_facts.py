"""Scores before any number is known: which are not drawn, and which may be correlated."""

from collections.abc import Iterable

from limitlaw.core.analysis import Analysis
from limitlaw.core.instructions import Contract, Dot, MatMul, Rename
from limitlaw.core.kinds import Value
from limitlaw.core.labelled import Axis, NodeAxis
from limitlaw.engines.limit.facts import LimitFacts


def undrawn_scores(facts: Analysis) -> frozenset[Value]:
    """Scores on an axis of nodes that only weight vectors, which only a normalised sum reads."""

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
    """The dot products of wide vectors that stay random."""
    return [v for v in values if is_score(v)]


def is_score(v: Value) -> bool:
    """Is v a dot product of wide vectors under 1/√n?"""
    op = v.instruction
    return isinstance(op, Dot) and op.dim.wide and op.scaling == "sqrt"


def correlated(facts: LimitFacts) -> frozenset[Value]:
    """Random scores that may not be independent of all others, and those with rotary factors."""
    met = scores(facts.analysis.values)
    found = {v for v in met if v.instruction.base is not None}  # type: ignore[attr-defined]
    by_root: dict[int, list[Value]] = {}
    for p in met:  # two arrays of scores whose factors have no source in common are independent
        for other in _near(p, facts, by_root):
            if are_correlated(p, other, facts):
                found |= {p, other}
    return frozenset(found)


def _near(p: Value, facts: LimitFacts, by_root: dict[int, list[Value]]) -> list[Value]:
    """Earlier scores of which a factor has a source of randomness in common with a factor of p,
    which is added for later ones.
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
    """May scores be correlated: have their factors, pair by pair, common sources of randomness?"""
    if not (is_score(p) and is_score(other)):
        return False
    (q, k), (r, t) = p.inputs, other.inputs
    straight, crossed = ((q, r), (k, t)), ((q, t), (k, r))
    return any(
        not any(facts.independent(*pair) for pair in pairs) for pairs in (straight, crossed)
    )
