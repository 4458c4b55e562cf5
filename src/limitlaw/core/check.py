"""`check`: which assumptions of Theorem 3.1 a program satisfies,
what lies beyond it, what the limit refuses.

A table of rules, first those about dot products: have the scores a limit, and is it the one of
Theorem 3.1? Each is a function from the program to findings. References: Sakai, Karakida and
Imaizumi (2025), Definition 3.1, Assumption 3.1, Theorem 3.1; Yang (2019) for 1/n scaling; Hron et
al. (2020) for infinite heads.
"""

import math
from collections.abc import Callable, Iterator

import numpy as np

from limitlaw.arguments import is_traced
from limitlaw.core.analysis import Analysis
from limitlaw.core.findings import Facts, Finding, Report, Verdict
from limitlaw.core.instructions import Apply, Constant, Dot, Initial, MatMul
from limitlaw.core.kinds import Coordinatewise, Family, Value
from limitlaw.core.members import Found
from limitlaw.core.program import Program, Written
from limitlaw.core.unrolling import unrolled
from limitlaw.float64 import in_float64

TURNS = 2  # of a loop, which show what any turns have to do with each other

HAS_LIMIT = "scores have a limit"


@in_float64
def check(y: Written | tuple[Written, ...]) -> Report:
    """Which assumptions of Theorem 3.1 hold for the program of `y`,
    what lies beyond it, and what the limit refuses.
    """
    outputs = y if isinstance(y, tuple) else (y,)
    for value in outputs:
        if not isinstance(value, Written):
            raise TypeError(
                f"check needs a value of a program (Wide or Scalars), got {type(value).__name__}"
            )
    written = tuple(value.core.value for value in outputs)
    depth = max(Analysis(Program(written)).depth.values())
    program = Facts(Program(unrolled(written, TURNS)), outputs[0].names(*outputs[1:]), depth)
    found = tuple(finding for rule in CHECKS for finding in rule(program))
    return Report(found, tuple(value.notes for value in outputs))


# --- dot products --------------------------------------------------------------------------------


def scores_have_a_limit(program: Facts) -> Iterator[Finding]:
    """Every pair of terms of a dot product in a wide space needs a matrix, or a centred initial
    vector, that is fresh to the other factor."""
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
    """The verdict for two terms: None where one is W x with W in no ancestor of x or
    of the other factor.

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
    """Is `term` W x with no member of W that made it among the ancestors of x or of
    the other term?
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
    """Have two factors of a dot product a member in common, at entries that meet?"""
    apart = set(dot.q.axes) ^ set(dot.k.axes)  # a dot product pairs all tokens
    return mine is not None and mine.meets(theirs, apart)


def _independent_vector(
    program: Facts, dot: Dot, factor: Value, term: Value, other: Value, other_term: Value
) -> bool:
    """Are the initial vectors `term` that enter one factor uncorrelated with all
    that the other depends on?
    """
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
    """(a): the matrices of the dot products are used for nothing else."""
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
    """(b): the two factors of a dot product are MatMul outputs of different matrices."""
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


# --- the rest ------------------------------------------------------------------------------------


def bounded_inputs(program: Facts) -> Iterator[Finding]:
    """The inputs of the score matrices are bounded images of MatMul outputs."""
    rule = "bounded inputs of the scores"
    made = program.terms(*(f for _, op in program.scores for f in (op.q, op.k)))
    last = program.terms(*(t.instruction.x for t in made if isinstance(t.instruction, MatMul)))
    unbounded = [
        t
        for t in last
        if not isinstance(t.instruction, Coordinatewise) or t.instruction.phi.bounded is False
    ]
    unknown = [
        t
        for t in last
        if isinstance(t.instruction, Coordinatewise) and t.instruction.phi.bounded is None
    ]
    if unbounded:
        why = "{} unbounded: a convenience of the proof, not essential (paper, after Thm 3.1)"
        yield program.finding(rule, Verdict.NOT_NEEDED, why, unbounded)
    elif unknown:
        yield program.finding(rule, Verdict.UNKNOWN, "{}: not a named nonlinearity", unknown)
    else:
        yield Finding(rule, Verdict.HOLDS)


def pseudo_lipschitz(program: Facts) -> Iterator[Finding]:
    """All nonlinearities are pseudo-Lipschitz."""
    rule = "pseudo-Lipschitz nonlinearities"
    facts: dict[tuple[str, bool | None], None] = {}  # a name may stand for several functions
    for v in program.values:
        op = v.instruction
        if isinstance(op, Coordinatewise):
            facts[op.phi.name, op.phi.pseudo_lipschitz] = None
        if isinstance(op, Apply) and not all(isinstance(u.instruction, Constant) for u in op.args):
            facts[op.name, op.pseudo_lipschitz] = None
    failing = [name for name, fact in facts if fact is False]
    unknown = [name for name, fact in facts if fact is None]
    if failing:
        label = "a nonlinearity that is not pseudo-Lipschitz"
        yield Finding(
            rule, Verdict.BEYOND, f"{', '.join(failing)} is not pseudo-Lipschitz", label=label
        )
    if unknown:
        yield Finding(rule, Verdict.UNKNOWN, f"{', '.join(unknown)}: not known for this function")
    if not failing and not unknown:
        yield Finding(rule, Verdict.HOLDS, ", ".join(name for name, _ in facts))


def one_layer_of_scores(program: Facts) -> Iterator[Finding]:
    """The theorem covers one layer of scores, with no score behind another."""
    rule = "no attention behind attention"
    depth = program.scores_in_a_row
    if depth > 1:
        deepest = max(program.values, key=lambda v: program.depth[v])
        layers = "1 layer" if depth == 2 else f"{depth - 1} layers"
        why = f"{{}} stands behind {layers} of random scores"
        yield program.finding(rule, Verdict.BEYOND, why, (deepest,), label=f"depth {depth}")
    else:
        yield Finding(
            rule, Verdict.HOLDS, "no random scores" if depth == 0 else "one layer of random scores"
        )


def no_matrix_behind_scores(program: Facts) -> Iterator[Finding]:
    """A matrix may meet A v (a linear combination with random weights), but not a Nonlin of it."""
    rule = "no MatMul behind attention"
    behind = [v for v in program.made_with(MatMul) if program.depth_of_terms[v.inputs[0]]]
    if behind:
        why = "{} multiply vectors that depend on scores"
        yield program.finding(rule, Verdict.BEYOND, why, behind, label="layers behind attention")
    else:
        yield Finding(rule, Verdict.HOLDS)


def no_narrow_vectors(program: Facts) -> Iterator[Finding]:
    """Random vectors of fixed dimension: heads of dimension d, bottlenecks."""
    rule = "no narrow heads"
    narrow: dict[Value, int] = {}
    for value in program.values:
        if not value.instruction.linear:
            for v in value.inputs:
                if v.dim is not None and not v.dim.wide and v in program.drawn:
                    narrow[v] = v.dim.at(1)
    if narrow:
        dims = ", ".join(map(str, sorted(set(narrow.values()))))
        why = f"{{}} in R^{dims} at every width: exact, with the dimension kept"
        yield program.finding(
            rule, Verdict.BEYOND, why, list(narrow), label=f"narrow heads of dimension {dims}"
        )
    else:
        yield Finding(rule, Verdict.HOLDS)


def _absent(
    rule: str, occurs: Callable[[Value], bool], why: str, label: str
) -> Callable[[Facts], Iterator[Finding]]:
    """A rule that values of this kind take the program beyond the theorem."""

    def finding(program: Facts) -> Iterator[Finding]:
        found = [v for v in program.values if occurs(v)]
        if found:
            yield program.finding(rule, Verdict.BEYOND, f"{{}}: {why}", found, label=label)
        else:
            yield Finding(rule, Verdict.HOLDS)

    return finding


def _rotates(v: Value) -> bool:
    return getattr(v.instruction, "base", None) is not None


def score_scaling(program: Facts) -> Iterator[Finding]:
    """1/√n as in the theorem, or 1/n, where scores are deterministic in the limit (Yang 2019)."""
    linear = [dot for dot, op in program.dots if op.scaling == "linear" and op.dim.wide]
    if linear:
        why = "{} under 1/n: deterministic in the limit (Yang 2019)"
        yield program.finding("score scaling", Verdict.HOLDS, why, linear)
    else:
        yield Finding(
            "score scaling", Verdict.HOLDS, "1/√n" if program.dots else "no dot products"
        )


def finitely_many_heads(program: Facts) -> Iterator[Finding]:
    """An infinite head axis is the limit of Hron et al. (2020), not of Theorem 3.1."""
    infinite = [v for v in program.values if any(axis.size == math.inf for axis in v.axes)]
    if infinite:
        why = "heads=math.inf: the Gaussian limit of Hron et al. (2020)"
        yield program.finding(
            "finitely many heads", Verdict.BEYOND, why, infinite[:1], label="infinitely many heads"
        )
    else:
        yield Finding("finitely many heads", Verdict.HOLDS)


def no_transposes(program: Facts) -> Iterator[Finding]:
    """A matrix that acts from both sides makes vectors that are no longer Gaussian."""
    rule = "no transposes"
    back = [v for v in program.made_with(MatMul) if v.instruction.transposed]  # type: ignore[attr-defined]
    if back:
        why = "{}: Wᵀ of a matrix W; simulate has every width"
        yield program.finding(rule, Verdict.REFUSED, why, back, label="transposes")
    else:
        yield Finding(rule, Verdict.HOLDS)


CHECKS: tuple[Callable[[Facts], Iterator[Finding]], ...] = (
    scores_have_a_limit,
    no_transposes,
    assumption_a,
    assumption_b,
    bounded_inputs,
    pseudo_lipschitz,
    one_layer_of_scores,
    no_matrix_behind_scores,
    no_narrow_vectors,
    _absent(
        "no norms",
        lambda v: v.is_average,
        "an average over coordinates, deterministic given the scores",
        "norms",
    ),
    _absent("no rotary", _rotates, "rotation inside the dot product", "rotary"),
    score_scaling,
    finitely_many_heads,
)
