"""`check`: which assumptions of Theorem 3.1 a program satisfies, what lies beyond it, what the limit refuses.

A table of rules, each a function from the program to findings. References: Sakai, Karakida and Imaizumi (2025),
Definition 3.1, Assumption 3.1, Theorem 3.1; Yang (2019) for 1/n scaling; Hron et al. (2020) for infinite heads.
"""

from collections.abc import Callable, Iterator

from limitlaw.language import ops, shapes
from limitlaw.language.dependence import LINEAR, terms
from limitlaw.language.facts import Program, is_drawn
from limitlaw.language.head_axis import with_few_heads
from limitlaw.language.ops import MatMul, Value
from limitlaw.language.report import Finding, Report, Verdict
from limitlaw.language.score_rules import assumption_a, assumption_b, scores_have_a_limit
from limitlaw.language.values import Indexable, Wide

MANY = 64  # heads beyond which two stand for them all: which members of a family meet takes memory of their square


def check(y: Value | tuple[Value, ...]) -> Report:
    """Which assumptions of Theorem 3.1 hold for the program of `y`, what lies beyond it, and what the limit refuses."""
    outputs = y if isinstance(y, tuple) else (y,)
    for value in outputs:
        if not isinstance(value, Indexable):
            raise TypeError(f"check needs a value of a program (Wide or Scalars), got {type(value).__name__}")
    program = Program(with_few_heads(outputs, MANY))
    return Report(tuple(finding for rule in RULES for finding in rule(program)))


def bounded_inputs(program: Program) -> Iterator[Finding]:
    """The inputs of the score matrices are bounded images of MatMul outputs."""
    rule = "bounded inputs of the scores"
    inputs = [t.op.x for _, op in program.scores for v in op.inputs for t in terms(v) if isinstance(t.op, MatMul)]
    last = list(dict.fromkeys(t for x in inputs for t in terms(x)))
    unbounded = [t for t in last if not isinstance(t.op, ops.Map) or t.op.phi.bounded is False]
    unknown = [t for t in last if isinstance(t.op, ops.Map) and t.op.phi.bounded is None]
    if unbounded:
        why = f"{program.name(*unbounded)} unbounded: a convenience of the proof, not essential (paper, after Thm 3.1)"
        yield Finding(rule, Verdict.NOT_NEEDED, why, tuple(unbounded))
    elif unknown:
        yield Finding(rule, Verdict.UNKNOWN, f"{program.name(*unknown)}: not a named nonlinearity", tuple(unknown))
    else:
        yield Finding(rule, Verdict.HOLDS)


def pseudo_lipschitz(program: Program) -> Iterator[Finding]:
    """All nonlinearities are pseudo-Lipschitz."""
    rule = "pseudo-Lipschitz nonlinearities"
    facts: dict[tuple[str, bool | None], None] = {}  # a name may stand for several functions
    for v in program.values:
        if isinstance(v.op, ops.Map):
            facts[v.op.phi.name, v.op.phi.pseudo_lipschitz] = None
        if isinstance(v.op, ops.Apply) and not all(isinstance(u.op, ops.Constant) for u in v.op.args):
            facts[v.op.name, v.op.pseudo_lipschitz] = None
    failing = [name for name, fact in facts if fact is False]
    unknown = [name for name, fact in facts if fact is None]
    if failing:
        why = f"{', '.join(failing)} is not pseudo-Lipschitz"
        yield Finding(rule, Verdict.BEYOND, why, (), "a nonlinearity that is not pseudo-Lipschitz")
    if unknown:
        yield Finding(rule, Verdict.UNKNOWN, f"{', '.join(unknown)}: not known for this function")
    if not failing and not unknown:
        yield Finding(rule, Verdict.HOLDS, ", ".join(name for name, _ in facts))


def one_layer_of_scores(program: Program) -> Iterator[Finding]:
    """The theorem covers one layer of scores, with no score behind another."""
    rule = "no attention behind attention"
    depth = max(program.depth.values(), default=0)
    if depth > 1:
        deepest = next(v for v in program.values if program.depth[v] == depth)
        why = f"{program.name(deepest)} stands behind {depth - 1} layer{'s' if depth > 2 else ''} of random scores"
        yield Finding(rule, Verdict.BEYOND, why, (deepest,), f"depth {depth}")
    else:
        yield Finding(rule, Verdict.HOLDS, "no random scores" if depth == 0 else "one layer of random scores")


def no_matrix_behind_scores(program: Program) -> Iterator[Finding]:
    """A matrix may meet A v (a linear combination with random weights), but not a Nonlin of it."""
    rule = "no MatMul behind attention"
    behind = [v for v in program.made_with(MatMul) if any(program.depth[t] for t in terms(v.op.inputs[0]))]
    if behind:
        why = f"{program.name(*behind[:3])}{' …' if len(behind) > 3 else ''} multiply vectors that depend on scores"
        yield Finding(rule, Verdict.BEYOND, why, tuple(behind), "layers behind attention")
    else:
        yield Finding(rule, Verdict.HOLDS)


def no_narrow_vectors(program: Program) -> Iterator[Finding]:
    """Random vectors of fixed dimension: heads of dimension d, bottlenecks."""
    rule = "no narrow heads"
    narrow: dict[Value, int] = {}
    for value in program.values:
        if not isinstance(value.op, LINEAR):
            for v in value.op.inputs:
                if isinstance(v, Wide) and not v.dim.wide and is_drawn(v):
                    narrow[v] = v.dim.at(1)
    if narrow:
        dims = ", ".join(map(str, sorted(set(narrow.values()))))
        why = f"{program.name(*list(narrow)[:3])} in R^{dims} at every width: exact, with the dimension kept"
        yield Finding(rule, Verdict.BEYOND, why, tuple(narrow), f"narrow heads of dimension {dims}")
    else:
        yield Finding(rule, Verdict.HOLDS)


def _absent(rule: str, kind: type[ops.Op], why: str, label: str) -> Callable[[Program], Iterator[Finding]]:
    """A rule that an instruction of this kind takes the program beyond the theorem."""

    def finding(program: Program) -> Iterator[Finding]:
        found = program.made_with(kind)
        if found:
            yield Finding(rule, Verdict.BEYOND, f"{program.name(*found[:3])}: {why}", tuple(found), label)
        else:
            yield Finding(rule, Verdict.HOLDS)

    return finding


def score_scaling(program: Program) -> Iterator[Finding]:
    """1/√n as in the theorem, or 1/n, where scores are deterministic in the limit (Yang 2019)."""
    linear = [dot for dot, op in program.dots if op.scaling == "linear" and op.dim.wide]
    if linear:
        why = f"{program.name(*linear[:3])} under 1/n: deterministic in the limit (Yang 2019)"
        yield Finding("score scaling", Verdict.HOLDS, why, tuple(linear))
    else:
        yield Finding("score scaling", Verdict.HOLDS, "1/√n" if program.dots else "no dot products")


def finitely_many_heads(program: Program) -> Iterator[Finding]:
    """An infinite head axis is the limit of Hron et al. (2020), not of Theorem 3.1."""
    infinite = tuple(v for v in program.values if shapes.is_infinite(v.shape))
    if infinite:
        why = "heads=math.inf: the Gaussian limit of Hron et al. (2020)"
        yield Finding("finitely many heads", Verdict.BEYOND, why, infinite[:1], "infinitely many heads")
    else:
        yield Finding("finitely many heads", Verdict.HOLDS)


RULES: tuple[Callable[[Program], Iterator[Finding]], ...] = (
    scores_have_a_limit,
    assumption_a,
    assumption_b,
    bounded_inputs,
    pseudo_lipschitz,
    one_layer_of_scores,
    no_matrix_behind_scores,
    no_narrow_vectors,
    _absent("no norms", ops.Average, "an average over coordinates, deterministic given the scores", "norms"),
    _absent("no rotary", ops.Rotary, "rotation inside the dot product", "rotary"),
    score_scaling,
    finitely_many_heads,
)
