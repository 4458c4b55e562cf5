"""Rules of `check` about dot products: have the scores a limit, and is it the one of Theorem 3.1?"""

from collections.abc import Iterator

import numpy as np

from limitlaw.arguments import is_traced
from limitlaw.language import ops
from limitlaw.language.dependence import LINEAR, Members, depends, entries, made_by, spread, terms
from limitlaw.language.facts import Program
from limitlaw.language.graph import ancestors
from limitlaw.language.ops import MatMul, Matrix, Value
from limitlaw.language.report import Finding, Verdict
from limitlaw.language.values import Wide

LIMIT = "scores have a limit"


def scores_have_a_limit(program: Program) -> Iterator[Finding]:
    """Every pair of terms of a dot product in a wide space needs a matrix, or a centred initial vector, that is fresh
    to the other factor."""
    clean = True
    for dot, op in program.dots:
        if op.scaling == "linear" or not op.dim.wide:
            continue
        for left in terms(op.q):
            for right in terms(op.k):
                finding = _pair(program, dot, op, left, right)
                clean &= finding is None
                if finding is not None:
                    yield finding
    if clean:
        yield Finding(LIMIT, Verdict.HOLDS)


def _pair(program: Program, dot: Value, op: ops.Dot, left: Value, right: Value) -> Finding | None:
    """The verdict for two terms: None where one is W x with W in no ancestor of x or of the other factor.

    A centred initial vector b that is independent of the other factor will do as well: given that factor g, a score
    n^{-1/2} bᵀg is N(0, σ_b² |g|²/n), as it is for W x. So biases of queries and keys have scores with a limit.
    """
    sides = [(op.q, left, op.k, right), (op.k, right, op.q, left)]
    if any(_fresh(*side, through_numbers=True) for side in sides):
        return None
    p, pair = program.name(dot), program.name(left, right)
    if any(_fresh(*side, through_numbers=False) for side in sides):
        why = f"{p}: its matrices met earlier scores on which {pair} depend; drawn given those scores"
        return Finding(LIMIT, Verdict.BEYOND, why, (dot,), "tied weights across layers")
    shared = [m for m in _own(left) if m in _own(right)]
    if shared:
        W = program.name(*shared)
        why = f"{p}: both factors are made with {W}, so that its mean grows like √n·E[Z Z']; use scaling='linear'"
    elif not isinstance(left.op, MatMul) and not isinstance(right.op, MatMul):
        why = (
            f"{p}: {pair} are Nonlin outputs or initial vectors, neither of them an initial vector of mean 0 that is "
            "independent of the other; multiply one of them by a fresh Matrix"
        )
    else:
        why = (
            f"{p}: the matrices of {pair} also made the vectors that they meet; use a fresh Matrix or scaling='linear'"
        )
    return Finding(LIMIT, Verdict.REFUSED, why, (dot,), "scores without a limit")


def _own(term: Value) -> list[Matrix]:
    return [term.op.matrix] if isinstance(term.op, MatMul) else []


def _fresh(factor: Value, term: Value, other: Value, other_term: Value, through_numbers: bool) -> bool:
    """Is `term` W x with no member of W that made it among the ancestors of x or of the other term?"""
    if isinstance(term.op, ops.Initial):
        return _is_centred(term.op) and _independent_vector(factor, term, other, other_term)
    if not isinstance(term.op, MatMul):
        return False
    W, x = term.op.matrix, term.op.x
    everything = [v.op.matrix for v in ancestors([x, other_term]) if isinstance(v.op, MatMul)]
    if not any(m is W for m in everything):
        return True
    own = made_by(W, term.shape)
    below = np.broadcast_to(depends(x, W, through_numbers), own.shape)
    if (own & below).any():
        return False
    mine = spread(factor, {term: own})
    theirs = spread(other, {other_term: depends(other_term, W, through_numbers)})
    return not bool((_over_tokens(mine) & _over_tokens(theirs)).any())


def _is_centred(op: ops.Initial) -> bool:
    return not is_traced(op.mean) and not np.any(op.mean)


def _independent_vector(factor: Value, term: Value, other: Value, other_term: Value) -> bool:
    """Are the initial vectors `term` that enter one factor uncorrelated with all that the other depends on?"""
    if term not in ancestors([other_term]):
        return True
    cov = term.op.cov  # type: ignore[attr-defined]
    correlated = np.ones(cov.shape, bool) if is_traced(cov) else cov != 0
    mine = spread(factor, {term: entries(term)})
    theirs = spread(other, {other_term: depends(other_term, term, through_numbers=True)})
    return not bool(((_over_tokens(mine).astype(int) @ correlated > 0) & _over_tokens(theirs)).any())


def _over_tokens(array: Members) -> Members:
    """Any over the last batch axis, since a dot product pairs all tokens."""
    return np.asarray(array.any(axis=-2)) if array.ndim > 1 else array


def assumption_a(program: Program) -> Iterator[Finding]:
    """(a): the matrices of the dot products are used for nothing else."""
    rule = "Assumption 3.1 (a)"
    inside = [v for _, op in program.scores for v in op.inputs]
    outside: list[Value] = [v for v in program.outputs if isinstance(v, Wide)]
    for value in program.values:
        if not isinstance(value.op, (*LINEAR, ops.Dot)):
            outside += [v for v in value.op.inputs if isinstance(v, Wide)]
    met = {m for v in inside for t in terms(v) for m in _own(t)}
    both = [W for W in met if (_reaching(W, inside) & _reaching(W, outside)).any()]
    if both:
        W = program.name(*sorted(both, key=lambda m: program.name(m)))
        why = f"{W} is also used outside dot products; the n × n limit is unchanged, other widths need a joint draw"
        yield Finding(rule, Verdict.BEYOND, why, (), "score matrices used elsewhere")
    else:
        yield Finding(rule, Verdict.HOLDS, "the matrices of dot products are used for nothing else")


def _reaching(W: Matrix, sinks: list[Value]) -> Members:
    """The members of W whose outputs reach one of `sinks` by linear operations."""
    reached = np.zeros(made_by(W, W.shape).shape[-1], dtype=bool)
    for sink in dict.fromkeys(sinks):
        mine = {t: made_by(W, t.shape) for t in terms(sink) if W in _own(t)}
        if mine:
            reached |= spread(sink, mine).reshape(-1, len(reached)).any(axis=0)
    return reached


def assumption_b(program: Program) -> Iterator[Finding]:
    """(b): the two factors of a dot product are MatMul outputs of different matrices."""
    rule = "Assumption 3.1 (b)"
    clean = True
    for dot, op in program.scores:
        for left in terms(op.q):
            for right in terms(op.k):
                W = _own(left)
                if not (W and _own(right)):
                    clean = False
                    why = f"{program.name(dot)}: {program.name(left, right)} are not both MatMul outputs"
                    yield Finding(rule, Verdict.BEYOND, why, (dot,), "scores of vectors that no matrix made")
                elif _own(right) == W and _same_member(op, left, right):
                    clean = False
                    why = f"{program.name(dot)}: both factors are made with {program.name(*W)}"
                    yield Finding(rule, Verdict.BEYOND, why, (dot,), "tied query and key matrices")
    if clean:
        yield Finding(rule, Verdict.HOLDS, "the two matrices of each dot product differ")


def _same_member(op: ops.Dot, left: Value, right: Value) -> bool:
    W = _own(left)[0]
    mine, theirs = (spread(f, {t: made_by(W, t.shape)}) for f, t in ((op.q, left), (op.k, right)))
    return bool((_over_tokens(mine) & _over_tokens(theirs)).any())
