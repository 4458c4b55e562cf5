"""`check`: which assumptions of Theorem 3.1 a program satisfies, what lies beyond it, and what the
limit refuses.

A table of rules, each a function from the program to findings. The first are about dot products:
have the scores a limit, and is it the one of Theorem 3.1? References: Sakai, Karakida and Imaizumi
(2025), Definition 3.1, Assumption 3.1, Theorem 3.1; Yang (2019) for 1/n scaling; Hron et al.
(2020) for infinite heads.
"""

import math
from collections.abc import Callable, Iterator

from limitlaw.core.analysis import Analysis
from limitlaw.core.findings import Facts, Finding, Report, Verdict
from limitlaw.core.instructions import Apply, Constant, MatMul
from limitlaw.core.kinds import Coordinatewise, Value
from limitlaw.core.program import Program, Written
from limitlaw.core.score_checks import assumption_a, assumption_b, scores_have_a_limit
from limitlaw.core.transposes import WithoutTransposes, without_transposes
from limitlaw.core.unrolling import unrolled
from limitlaw.float64 import in_float64

TURNS = 2  # iterations of each loop that are looked at: two show how any two are related


@in_float64
def check(y: Written | tuple[Written, ...]) -> Report:
    """Which assumptions of Theorem 3.1 hold for y, what is beyond it, and what `limit` refuses."""
    outputs = y if isinstance(y, tuple) else (y,)
    for value in outputs:
        if not isinstance(value, Written):
            raise TypeError(
                f"check needs a value of a program (Wide or Scalars), got {type(value).__name__}"
            )
    written = tuple(value.core.value for value in outputs)
    depth = max(Analysis(Program(written)).depth.values())
    left = without_transposes(unrolled(written, TURNS))
    program = Facts(Program(left.values), outputs[0].names(*outputs[1:]), depth)
    found = (transposes(program, left), *(f for rule in CHECKS for f in rule(program)))
    return Report(found, tuple(value.notes for value in outputs))


def bounded_inputs(program: Facts) -> Iterator[Finding]:
    """Rule: the inputs of the score matrices are bounded images of MatMul outputs."""
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
    """Rule: all nonlinearities are pseudo-Lipschitz."""
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
    """Rule: no score depends on another random score; the theorem covers one layer of scores."""
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
    """Rule: no matrix multiplies a vector that depends on scores through a Nonlin.

    It may multiply A v, a linear combination with random weights A.
    """
    rule = "no MatMul behind attention"
    behind = [v for v in program.made_with(MatMul) if program.depth_of_terms[v.inputs[0]]]
    if behind:
        why = "{} multiply vectors that depend on scores"
        yield program.finding(rule, Verdict.BEYOND, why, behind, label="layers behind attention")
    else:
        yield Finding(rule, Verdict.HOLDS)


def no_narrow_vectors(program: Facts) -> Iterator[Finding]:
    """Rule: no random vectors of fixed dimension, such as heads of dimension d or bottlenecks."""
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
    """A rule that takes a program beyond the theorem if `occurs` is true of one of its values."""

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
    """Rule: scores are scaled by 1/√n, or by 1/n, which makes them deterministic (Yang 2019)."""
    linear = [dot for dot, op in program.dots if op.scaling == "linear" and op.dim.wide]
    if linear:
        why = "{} under 1/n: deterministic in the limit (Yang 2019)"
        yield program.finding("score scaling", Verdict.HOLDS, why, linear)
    else:
        yield Finding(
            "score scaling", Verdict.HOLDS, "1/√n" if program.dots else "no dot products"
        )


def finitely_many_heads(program: Facts) -> Iterator[Finding]:
    """Rule: there are finitely many heads; infinitely many have Hron et al.'s limit (2020)."""
    infinite = [v for v in program.values if any(axis.size == math.inf for axis in v.axes)]
    if infinite:
        why = "heads=math.inf: the Gaussian limit of Hron et al. (2020)"
        yield program.finding(
            "finitely many heads", Verdict.BEYOND, why, infinite[:1], label="infinitely many heads"
        )
    else:
        yield Finding("finitely many heads", Verdict.HOLDS)


def transposes(program: Facts, left: WithoutTransposes) -> Finding:
    """Rule: no matrix acts from both sides.

    Vectors made by W and Wᵀ are no longer Gaussian, except for gradients of random readouts.
    """
    rule = "no transposes"
    if not (left.transposed or left.why):
        return Finding(rule, Verdict.HOLDS)
    if any(axis.size == math.inf for v in program.values for axis in v.axes):
        why = "{}: Wᵀ of a matrix W beside heads=math.inf; a number of heads has a limit"
        return program.finding(rule, Verdict.REFUSED, why, left.transposed, label="transposes")
    if left.why:
        why = f"{{}}: {left.why}; components of order 1/√n are followed"
        return program.finding(rule, Verdict.BEYOND, why, left.about, label="transposes")
    why = "{}: Wᵀ as independent of W, which it is for the gradients of a random readout"
    return program.finding(rule, Verdict.BEYOND, why, left.transposed, label="gradients")


CHECKS: tuple[Callable[[Facts], Iterator[Finding]], ...] = (
    scores_have_a_limit,
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
