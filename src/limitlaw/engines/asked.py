"""What is asked for as n → ∞: whether there is a limit, and which program has it."""

from typing import NamedTuple

import jax

from limitlaw.core.analysis import Analysis
from limitlaw.core.check import TURNS, check
from limitlaw.core.labelled import is_infinite, present
from limitlaw.core.program import Output, Program
from limitlaw.core.transposes import WithoutTransposes, without_transposes
from limitlaw.core.unrolling import unrolled
from limitlaw.engines import engine
from limitlaw.engines.bounds import check_covariance


class Asked(NamedTuple):
    """The values asked for, and what takes them beyond the theorem. They have no transposes, or
    those that are `left` to be followed in frames.
    """

    outputs: tuple[Output, ...]
    beyond: tuple[str, ...]
    left: WithoutTransposes | None


def all_asked_for(name: str, y: object) -> Asked:
    """What was asked for, one value or several; raises where there is no limit."""
    outputs, _ = engine.outputs(y)
    report = check(tuple(jax.tree.leaves(y)))
    if report.refused:
        reasons = "\n".join(f"- {finding.why}" for finding in report.refused)
        raise ValueError(
            f"{name}: the program has no infinite-width limit (finite widths are fine)\n{reasons}"
        )
    values = [output.value for output in outputs]
    if Analysis(Program(tuple(values))).has_reverse_loops:
        # two iterations show whether components of order 1/√n matter; moments need all of them
        left = without_transposes(unrolled(values, TURNS))
        left = left if left.why else without_transposes(unrolled(values))
    else:
        left = without_transposes(values)
    if left.why:
        return Asked(outputs, report.beyond, left)
    outputs = tuple(
        Output(value, output.layout) for value, output in zip(left.values, outputs, strict=True)
    )
    return Asked(outputs, report.beyond, None)


def asked_for(name: str, y: object) -> Asked:
    """The one value that was asked for; raises where there is no limit."""
    outputs, _ = engine.outputs(y)
    if len(outputs) > 1:
        raise TypeError(f"{name} takes one value, got {len(outputs)}: stack several")
    asked = all_asked_for(name, y)
    (output,) = asked.outputs
    if output.value.is_vector and output.layout and not is_infinite(present(output.layout)):
        check_covariance(engine.entries(output))
    return asked


def checked(name: str, y: object) -> tuple[Output, tuple[str, ...]]:
    """What was asked for, without transposes."""
    (output,), beyond, left = asked_for(name, y)
    if left is not None:
        raise ValueError(
            f"{name} has no rule for transposes whose components of order 1/√n matter: limit, "
            "kernel and finite widths have"
        )
    return output, beyond
