"""`check` and `assert_initialised`: what is wrong with how a module starts, without a law.

Found are the absolute rules' findings, weights unlike those of the same role in other blocks, and
deviations from a recipe or from standard deviations that the user expects.
"""

import dataclasses
import json
from collections.abc import Sequence
from typing import Any

from limitlaw.arguments import shown
from limitlaw.float64 import in_float64
from limitlaw.torch.absolute.every import absolute_faults
from limitlaw.torch.absolute.weights import BRANCH_ROLES
from limitlaw.torch.converting import Module
from limitlaw.torch.finding import LEVELS, AuditFinding, said
from limitlaw.torch.reading.anatomy import ModuleReading, read
from limitlaw.torch.recipes.comparing import nearest, unlike
from limitlaw.torch.recipes.recipe import recipe_of
from limitlaw.torch.references import Expected, copies, misfits, unexpected
from limitlaw.torch.scales import Parameters


@in_float64
def check(
    module: Module,
    *inputs: Any,
    recipe: object = None,
    expected: Expected | None = None,
    **kwargs: Any,
) -> tuple[AuditFinding, ...]:
    """Findings of what is wrong with how a module starts, in words, without drawing anything: the
    quick part of `audit`.

    The module is exported and read (`read`), and run once; it need not have a program. Found are
    masks, scales of scores, rotary embeddings, norms and sums that cannot be meant; matrices that
    are zero, equal, too large or too small; layers that are copies, or not as large as those of
    the same role in other blocks; a first loss far above ln V; and deviations from a `recipe`, as
    in `assert_initialised`, and from `expected`: `{"blocks.*.mlp.*": 0.02}` for a standard
    deviation, "2/fan_in" for a variance.
    """
    return quick_audit(module, *inputs, recipe=recipe, expected=expected, **kwargs).findings


@in_float64
def assert_initialised(
    module: Module,
    *inputs: Any,
    recipe: object = None,
    expected: Expected | None = None,
    level: str = "warning",
    accept: Sequence[str] = (),
    **kwargs: Any,
) -> None:
    """Raise an AssertionError with the findings of `check`, for tests.

        def test_initialisation():
            assert_initialised(make_model, tokens, recipe="gpt2")

    `recipe`: the name of one ("gpt2", "torchtitan", "lingua", "llama", …), a `Recipe`, a mapping
    from roles to standard deviations, or a configuration of transformers (an object, or the path
    of its JSON file). Without it, the error says which named one is closest. `level`: "fault"
    raises for what cannot be meant only. `accept`: findings that contain one of these texts are
    meant.
    """
    if level not in LEVELS:
        raise ValueError(f"level must be one of {LEVELS}, got {shown(level)}")
    table = quick_audit(module, *inputs, recipe=recipe, expected=expected, **kwargs)
    found = [
        finding
        for finding in table.findings
        if LEVELS.index(finding.level) <= LEVELS.index(level)
        and not any(text in finding for text in accept)
    ]
    if found:
        near = "" if recipe is not None else f"\n{nearest(table.reading)}"
        raise AssertionError("\n".join(["initialisation", *said(found)]) + near)


def findings_of(
    reading: ModuleReading,
    recipe: object = None,
    expected: Expected | None = None,
    measured: bool = True,
) -> tuple[AuditFinding, ...]:
    """The findings of `check` for a module that was read; those of one run of it if `measured`."""
    given = {n: d for n, d in reading.drawn.items() if d.law == "given"}
    arrays = {name: array.numpy() for name, array in reading.exported.arrays.items()}
    parameters = Parameters(arrays, given)
    found = [*absolute_faults(reading, scales=recipe is None, measured=measured)]
    if recipe is not None:
        found += unlike(reading, recipe_of(recipe))
    found += [
        *copies(parameters),
        *misfits(arrays, parameters, reading.exported.kinds, _roles(reading)),
        *unexpected(reading.exported, expected or {}),
    ]
    return tuple(dict.fromkeys(sorted(found, key=lambda f: LEVELS.index(f.level))))


@dataclasses.dataclass(frozen=True)
class QuickAudit:
    """What a module was read as, and the findings of `check`; `str()` shows both."""

    reading: ModuleReading
    findings: tuple[AuditFinding, ...]

    def __str__(self) -> str:
        return "\n".join([str(self.reading), nearest(self.reading), "", *said(self.findings)])

    def to_json(self) -> str:
        """Findings with their parts, and what was read, as JSON."""
        box = f"{self.reading}\n{nearest(self.reading)}"
        found = {"findings": [finding.record for finding in self.findings], "read": box}
        return json.dumps(found, indent=2, ensure_ascii=False)


@in_float64
def quick_audit(
    module: Module,
    *inputs: Any,
    recipe: object = None,
    expected: Expected | None = None,
    **kwargs: Any,
) -> QuickAudit:
    """The findings of `check`, and what the module was read as."""
    reading = read(module, *inputs, **kwargs)
    return QuickAudit(reading, findings_of(reading, recipe, expected))


def _roles(reading: ModuleReading) -> dict[str, str]:
    """What each parameter of a branch does, a bias what its matrix does."""
    inside = reading.of(*BRANCH_ROLES)
    return {name: p.role for p in inside for name in (p.event.parameter, p.event.bias)}
