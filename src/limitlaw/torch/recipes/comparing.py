"""A module held against a recipe, and the named recipe that is closest to it."""

import dataclasses
import math
from collections.abc import Iterator, Sequence

from limitlaw.torch.finding import AuditFinding, places
from limitlaw.torch.health import SURE
from limitlaw.torch.reading.anatomy import ModuleReading
from limitlaw.torch.reading.roles import RolePiece
from limitlaw.torch.recipes.recipe import NAMED, InitRecipe, Std

TOLERATED_STD = 0.02  # relative difference of a standard deviation that does not matter
_DOES = {
    "embedding": "the stream starts at another size, beside which blocks are small or large",
    "positions": "positions are beside the tokens at another size",
    "q": "scores are as much larger or smaller, and attention as much sharper or flatter",
    "k": "scores are as much larger or smaller, and attention as much sharper or flatter",
    "out": "what each attention adds to the stream is so much larger or smaller",
    "down": "what each MLP adds to the stream is so much larger or smaller",
    "head": "logits, and with them the first loss, are so much larger or smaller",
}


@dataclasses.dataclass(frozen=True)
class Misfit:
    """Matrices of one role that are not as a recipe has them: by what factor they are larger."""

    pieces: tuple[RolePiece, ...]
    expected: Std
    ratio: float
    of: int

    @property
    def role(self) -> str:
        """The role of the matrices."""
        return self.pieces[0].role


def misfits(reading: ModuleReading, recipe: InitRecipe) -> list[Misfit]:
    """The roles in which a module is not as a recipe has it; a tied head is the embedding."""
    groups: dict[tuple[str, str], list[RolePiece]] = {}
    tables = {p.event.parameter for p in reading.of("embedding")}
    given = {name for name, d in reading.drawn.items() if d.law == "given"}
    for piece in reading.pieces:
        tied = piece.role == "head" and piece.event.parameter in tables
        if piece.role != "bias" and not tied and piece.event.parameter not in given:
            groups.setdefault((piece.role, piece.template), []).append(piece)
    found = []
    for (role, _), own in groups.items():
        std = recipe.std(role)
        if std is not None:
            wrong = [p for p in own if not fits(p, std.of(p))]
            if wrong:
                found.append(Misfit(tuple(wrong), std, _ratio(wrong, std), len(own)))
    return found


def fits(piece: RolePiece, std: float, tolerated: float = TOLERATED_STD) -> bool:
    """Has a matrix this standard deviation, but for chance?"""
    if not piece.square or not std:
        return piece.square == std
    return abs(math.log(piece.std / std)) <= max(tolerated, SURE * piece.error / 2)


def _ratio(pieces: Sequence[RolePiece], std: Std) -> float:
    """The geometric mean of how many times as large as expected the matrices are."""
    if not all(p.std for p in pieces):
        return 0.0
    if not all(std.of(p) for p in pieces):
        return math.inf
    return math.exp(sum(math.log(p.std / std.of(p)) for p in pieces) / len(pieces))


def unlike(reading: ModuleReading, recipe: InitRecipe) -> Iterator[AuditFinding]:
    """A finding for each role in which a module is not as a recipe has it."""
    for misfit in misfits(reading, recipe):
        first, std = misfit.pieces[0], misfit.expected
        yield AuditFinding(
            places([p.name for p in misfit.pieces], misfit.of),
            f"{first.role} has standard deviation {first.std:.3g}, expected {std} = "
            f"{std.of(first):.3g} ({recipe.name}), {misfit.ratio:.2g} times as large",
            _DOES.get(first.role, "what it gives is so much larger or smaller"),
            code(misfit.pieces, std),
            "fault",
        )
    if recipe.bias is not None:
        yield from _biases(reading, recipe.bias, recipe.name)


def _biases(reading: ModuleReading, expected: float, name: str) -> Iterator[AuditFinding]:
    arrays = reading.exported.arrays
    biases = list(dict.fromkeys(p.event.bias for p in reading.pieces if p.event.bias))
    sizes = {b: math.sqrt(float(arrays[b].square().mean())) for b in biases}
    wrong = [b for b, s in sizes.items() if abs(s - expected) > 0.3 * expected + 1e-12]
    if wrong:
        yield AuditFinding(
            places(wrong, len(biases)),
            f"biases have standard deviation {sizes[wrong[0]]:.3g}, expected {expected:g} "
            f"({name})",
            "they add numbers that are the same for every token",
            set_all(
                wrong, "torch.nn.init.zeros_(p)" if not expected else f"p.normal_(0, {expected})"
            ),
            "fault",
        )


def set_all(names: Sequence[str], statement: str) -> str:
    """Python that does something to the parameters p of a model that have these names."""
    pattern = places(names, len(names)).partition(" ")[0]
    if len(names) == 1 or "*" not in pattern:
        return f"for p in map(model.get_parameter, {list(names)}): {statement}"
    return (
        f"for p in [p for n, p in model.named_parameters() if fnmatch.fnmatch(n, {pattern!r})]: "
        f"{statement}"
    )


def code(pieces: Sequence[RolePiece], std: Std) -> str:
    """Python that gives matrices a standard deviation."""
    names = list(dict.fromkeys(p.event.parameter for p in pieces))
    rows = "" if pieces[0].weight.shape == pieces[0].event.weight_shape else "[rows]"
    statement = f"torch.nn.init.normal_(p{rows}, std={std.code})"
    comment = f"  # L = {pieces[0].blocks}" if std.depth in ("2L", "2(L+1)") else ""
    comment = f"  # l: the number of the block, from 0{comment}" if "l" in std.depth else comment
    return set_all(names, statement) + comment


# --- the closest one -----------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Closest:
    """The named recipe that is closest to a module, and where the module differs from it."""

    recipe: InitRecipe
    misfits: tuple[Misfit, ...]

    def __str__(self) -> str:
        differ = ", ".join(f"{m.role} is {m.ratio:.2g} times {m.expected}" for m in self.misfits)
        return self.recipe.name + (f", but {differ}" if differ else "")


def closest(reading: ModuleReading) -> Closest | None:
    """The named recipe from which the fewest roles differ; None where hardly any agrees."""
    found = []
    roles = {p.role for p in reading.pieces} - {"bias"}
    for recipe in NAMED.values():
        for candidate in _fitted(reading, recipe):
            wrong = [m for m in misfits(reading, candidate) if m.ratio > 0]  # zeros may be meant
            away = sum(abs(math.log(m.ratio)) if m.ratio < math.inf else 9.0 for m in wrong)
            few = len({m.role for m in wrong})
            deep = {r for r, std in candidate.roles.items() if std.depth} & roles
            agree = len(deep - {m.role for m in wrong})  # a scale of depth is no coincidence
            found.append((few, -agree, away, Closest(candidate, tuple(wrong))))
    few, _, _, best = min(found, key=lambda item: item[:3])
    return best if roles and few <= len(roles) / 2 else None


def _fitted(reading: ModuleReading, recipe: InitRecipe) -> Iterator[InitRecipe]:
    """A recipe, and with its standard deviation as the module suggests, of one digit or two."""
    yield recipe
    std = recipe.std("linear")
    base = sorted(p.std for p in reading.of("q", "k", "v", "gate", "up") if p.std)
    if std is not None and not std.fan and base:
        for digits in (1, 2):
            found = float(f"{base[len(base) // 2]:.{digits}g}")
            if found != std.std:
                yield recipe.scaled(found / std.std)


def nearest(reading: ModuleReading) -> str:
    """A line that names the closest recipe."""
    found = closest(reading)
    return f"closest recipe: {found or 'none of those that are known'}"
