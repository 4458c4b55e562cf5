"""The rules of `check` about dot products: have the scores a limit, and is it the one of Theorem
3.1?

Each function is one assumption, from the program to findings. References: Sakai, Karakida and
Imaizumi (2025), Definition 3.1 and Assumption 3.1.
"""

from collections.abc import Iterator

import numpy as np

from limitlaw.arguments import is_traced
from limitlaw.core.findings import Facts, Finding, Verdict
from limitlaw.core.instructions import Dot, Initial, MatMul
from limitlaw.core.kinds import Family, Value
from limitlaw.core.members import Found

HAS_LIMIT = "scores have a limit"


def scores_have_a_limit(program: Facts) -> Iterator[Finding]:
    """Rule: in a wide space, every pair of terms of a dot product has a matrix, or a centred
    initial vector, that is independent of the other factor.
    """
    clean = True
    for dot, op in program.dots:
        if op.scaling == "linear" or not op.dim.wide:
            continue
        for left in program.terms(op.q):
            for right in program.terms(op.k):
                finding = _pair(program, dot, op, left, right)
                clean &= finding is None
                if finding is not None:
                    yield finding
    if clean:
        yield Finding(HAS_LIMIT, Verdict.HOLDS)


def _pair(program: Facts, dot: Value, op: Dot, left: Value, right: Value) -> Finding | None:
    """The finding about two terms: None where one is W x with W in no ancestor of x or of the
    other factor.

    A centred initial vector b that is independent of the other factor will do as well: given that
    factor g, a score n^{-1/2} bᵀg is N(0, σ_b² |g|²/n), as it is for W x. So biases of queries and
    keys have scores with a limit.
    """
    sides = [(op.q, left, op.k, right), (op.k, right, op.q, left)]
    # the later one is fresh to what came before it
    sides.sort(key=lambda side: -program.position[side[1]])
    if any(_fresh(program, op, *side, through_numbers=True) for side in sides):
        return None
    if any(_fresh(program, op, *side, through_numbers=False) for side in sides):
        why = "{}: its matrices met earlier scores on which {} depend; drawn given those scores"
        label = "tied weights across layers"
        return program.finding(HAS_LIMIT, Verdict.BEYOND, why, (dot,), (left, right), label=label)
    shared = [m for m in _own(left) if m in _own(right)]
    about: tuple[Value | Family, ...] = (left, right)
    if shared:
        about = tuple(shared)
        why = (
            "{}: both factors are made with {}, so that its mean grows like √n·E[Z Z']; use "
            "scaling='linear'"
        )
    elif not isinstance(left.instruction, MatMul) and not isinstance(right.instruction, MatMul):
        why = (
            "{}: {} are Nonlin outputs or initial vectors, neither of them an initial vector of "
            "mean 0 that is independent of the other; multiply one of them by a fresh Matrix"
        )
    else:
        why = (
            "{}: the matrices of {} also made the vectors that they meet; use a fresh Matrix or "
            "scaling='linear'"
        )
    return program.finding(
        HAS_LIMIT, Verdict.REFUSED, why, (dot,), about, label="scores without a limit"
    )


def _own(term: Value) -> list[Family]:
    return [term.instruction.family] if isinstance(term.instruction, MatMul) else []


def _fresh(
    program: Facts,
    dot: Dot,
    factor: Value,
    term: Value,
    other: Value,
    other_term: Value,
    through_numbers: bool,
) -> bool:
    """Is `term` W x, with no member of W that made it behind x or the other term; or a centred
    initial vector that is independent of the other factor?
    """
    op = term.instruction
    if isinstance(op, Initial):
        return op.centred and _independent_vector(program, dot, factor, term, other, other_term)
    if not isinstance(op, MatMul):
        return False
    before = program.position[other_term] < program.position[term]
    if before and op.family not in program.reused:
        return True  # the only product with W, which nothing before it depends on
    members = program.members
    below = members.on(op.x, op.family, through_numbers) if op.family in program.reused else None
    own = members.own(term)
    if own.meets(below):
        return False
    mine = members.spread(factor, {term: own})
    theirs = members.spread(
        other, {other_term: members.on(other_term, op.family, through_numbers)}
    )
    return not _meet(dot, mine, theirs)


def _meet(dot: Dot, mine: Found, theirs: Found) -> bool:
    """Have the two factors of a dot product a member in common, at entries that meet?"""
    apart = set(dot.q.axes) ^ set(dot.k.axes)  # a dot product pairs all tokens
    return mine is not None and mine.meets(theirs, apart)


def _independent_vector(
    program: Facts, dot: Dot, factor: Value, term: Value, other: Value, other_term: Value
) -> bool:
    """Are initial vectors, `term` of a factor, uncorrelated with all behind the other factor?"""
    members = program.members
    depends = members.on(other_term, term, through_numbers=True)
    if depends is None:
        return True
    op = term.instruction
    assert isinstance(op, Initial)
    mine = members.spread(factor, {term: members.own(term)})
    if mine is not None and not op.diagonal:
        cov = op.cov.array
        correlated = np.ones(np.shape(cov), bool) if is_traced(cov) else cov != 0
        mine = mine._replace(array=mine.array.astype(int) @ correlated > 0)
    return not _meet(dot, mine, members.spread(other, {other_term: depends}))


def assumption_a(program: Facts) -> Iterator[Finding]:
    """Rule (a) of Assumption 3.1: the matrices of the dot products are used for nothing else."""
    rule = "Assumption 3.1 (a)"
    factors = [f for _, op in program.scores for f in (op.q, op.k)]
    both = [W for W in _families(program, factors) if _used_elsewhere(program, W)]
    if both:
        why = (
            "{} is also used outside dot products; the n × n limit is unchanged, other widths "
            "need a joint draw"
        )
        yield program.finding(
            rule, Verdict.BEYOND, why, both, label="score matrices used elsewhere"
        )
    else:
        yield Finding(
            rule, Verdict.HOLDS, "the matrices of dot products are used for nothing else"
        )


def _families(program: Facts, factors: list[Value]) -> list[Family]:
    return list(dict.fromkeys(m for t in program.terms(*factors) for m in _own(t)))


def _used_elsewhere(program: Facts, W: Family) -> bool:
    """Does a member of W reach both a dot product and something else, by linear operations?"""
    met: dict[bool, Found] = {True: None, False: None}  # scores, and anything else
    for term in program.products[W]:
        if not program.reaches_outside[term] and len(program.products[W]) == 1:
            return False
        for sink, is_score in program.sinks(term):
            reached = program.members.spread(sink, {term: program.members.own(term)})
            if reached is None:
                continue
            reached, before = reached.any_over(reached.axes), met[is_score]
            if before is not None:
                reached = reached._replace(array=reached.array | before.array)
            met[is_score] = reached
    inside = met[True]
    return inside is not None and inside.meets(met[False])


def assumption_b(program: Facts) -> Iterator[Finding]:
    """Rule (b) of Assumption 3.1: a dot product's factors are outputs of different matrices."""
    rule = "Assumption 3.1 (b)"
    clean = True
    for dot, op in program.scores:
        for left in program.terms(op.q):
            for right in program.terms(op.k):
                W = _own(left)
                if not (W and _own(right)):
                    clean = False
                    why, label = (
                        "{}: {} are not both MatMul outputs",
                        "scores of vectors that no matrix made",
                    )
                    yield program.finding(
                        rule, Verdict.BEYOND, why, (dot,), (left, right), label=label
                    )
                elif _own(right) == W and _same_member(program, op, left, right):
                    clean = False
                    why, label = "{}: both factors are made with {}", "tied query and key matrices"
                    yield program.finding(rule, Verdict.BEYOND, why, (dot,), W, label=label)
    if clean:
        yield Finding(rule, Verdict.HOLDS, "the two matrices of each dot product differ")


def _same_member(program: Facts, op: Dot, left: Value, right: Value) -> bool:
    members = program.members
    mine, theirs = (
        members.spread(f, {t: members.own(t)}) for f, t in ((op.q, left), (op.k, right))
    )
    return _meet(op, mine, theirs)
