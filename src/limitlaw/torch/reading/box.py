"""A reading as a box of text, in a practitioner's terms."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator

import torch

from limitlaw.notebook import aligned
from limitlaw.torch.finding import places
from limitlaw.torch.reading.anatomy import ModuleReading
from limitlaw.torch.reading.heads import Head
from limitlaw.torch.reading.norms import NO_NORM
from limitlaw.torch.reading.roles import ROLES, RolePiece

NOTHING = 8.0  # standard deviations beyond which no number lies
ALMOST = 1e-6  # relative difference of a factor from a known one


def box(reading: ModuleReading) -> str:
    """Lines on blocks, attention, norms, ties, and a table of standard deviations by role."""
    facts = [*_sizes(reading), *_attention(reading), *_norms(reading), *_parameters(reading)]
    text = aligned([("  " + name, what) for name, what in facts], str.ljust)
    return "\n".join(["What I read", text, "", aligned(table(reading), str.ljust)])


def _sizes(reading: ModuleReading) -> Iterator[tuple[str, str]]:
    streams = reading.of("q", "up", "linear", "head")
    width = Counter(p.fan_in for p in streams).most_common(1)
    said = [f"{reading.blocks} blocks"] if reading.blocks else []
    said += [f"width {width[0][0]}"] if width else []
    sizes = {_heads_of(reading, head) for head in reading.heads}
    said += [f"{n} heads of {d}" if n else f"heads of {d}" for n, d in sorted(sizes)]
    hidden = sorted({p.fan_in for p in reading.of("down")})
    said += [f"MLP {', '.join(map(str, hidden))}{' gated' * bool(reading.of('gate'))}"] * bool(
        hidden
    )
    said += [f"vocabulary {reading.vocabulary}"] * bool(reading.vocabulary)
    yield "sizes", ", ".join(said) or "no blocks"


def _heads_of(reading: ModuleReading, head: Head) -> tuple[int, int]:
    """How many heads of queries an attention has, and their dimension."""
    d = int(torch.as_tensor(reading.walk.numbers[head.queries]).shape[-1])
    rows = sum(len(p.weight) for p in reading.matrices_of(head, "q"))
    return rows // d, d


def _attention(reading: ModuleReading) -> Iterator[tuple[str, str]]:
    kinds: dict[str, list[str]] = {}
    for head in reading.heads:
        mask = reading.masks.get(head, "none (cross)" if head.seen.shape[-2] > 1 else "one token")
        parts = [f"mask {mask}", f"q·k × {factor_of(head, reading)}"]
        parts += [f"rotary {r}" for (h, role), r in reading.rotary.items() if h is head and r][:1]
        kinds.setdefault(", ".join(parts), []).append(head.module)
    for kind, modules in kinds.items():
        yield "attention", f"{kind}   ({places(modules, len(modules))})"


def factor_of(head: Head, reading: ModuleReading) -> str:
    """The factor of q·k in words."""
    d = int(torch.as_tensor(reading.walk.numbers[head.queries]).shape[-1])
    factor = abs(scale_of(reading, head) or head.factor)
    for name, known in (("1/√d", d**-0.5), ("1/d", 1 / d), ("1", 1.0), ("√d", d**0.5)):
        if abs(factor - known) < ALMOST * known:
            return name
    return f"{factor:.4g}"


def scale_of(reading: ModuleReading, head: Head) -> float | None:
    """What multiplies q·k of the matrices' own outputs; None behind norms of q or k."""
    found = head.factor
    for role, node in (("q", head.queries), ("k", head.keys)):
        walk = reading.walk
        made_by = [p.event for p in reading.matrices_of(head, role)]
        if not made_by or walk.degree(node) != 1:
            return None
        leaf = torch.as_tensor(walk.numbers[made_by[0].node]).detach()
        moved = walk.again(node, {made_by[0]: leaf + 1})
        change = moved - torch.as_tensor(walk.numbers[node]).detach()
        found *= float(change.square().mean().sqrt())
    return found


def _norms(reading: ModuleReading) -> Iterator[tuple[str, str]]:
    count = Counter(b.placement for b in reading.branches)
    if count:
        said = ", ".join(f"{name} ({n} branches)" for name, n in count.most_common())
        final = [p for p in reading.of("head") if reading.walk.degree(p.event.reads[0]) == 0]
        yield "norms", said + (", and before the head" if final and NO_NORM not in count else "")


def _parameters(reading: ModuleReading) -> Iterator[tuple[str, str]]:
    if reading.tied:
        yield "tied", f"the head is the embedding ({reading.of('embedding')[0].name})"
    given = [name for name, d in reading.drawn.items() if d.law == "given"]
    if given:
        yield "given", f"{places(given)}: the same at every call"
    zero = [p for p in reading.pieces if p.event.kind == "matrix" and not p.square]
    if zero:
        roles = ", ".join(dict.fromkeys(p.role for p in zero))
        yield "zero", f"{roles} ({places([p.name for p in zero])})"
    cuts = [d.cut for d in reading.drawn.values() if d.cut]
    near = Counter(f"±{cut:.3g} std" for cut in cuts if cut <= NOTHING)
    said = [f"{cut} ({n} parameters)" for cut, n in near.items()]
    far = [cut for cut in cuts if cut > NOTHING]
    if far:
        said.append(f"±{min(far):.3g} std and more ({len(far)} parameters): it cuts nothing")
    if said:
        yield "cut", ", ".join(said)


def table(reading: ModuleReading) -> list[tuple[str, ...]]:
    """Standard deviations by role, beside their fan-in: a head, and a line for each."""
    lines: list[tuple[str, ...]] = [("  role", "std", "std·√fan-in", "fan-in", "like", "where")]
    for role in ROLES:
        own = reading.of(role)
        for template in dict.fromkeys(p.template for p in own):
            lines.append(_line(role, [p for p in own if p.template == template]))
    return lines


def _line(role: str, own: list[RolePiece]) -> tuple[str, ...]:
    fans = sorted({p.fan_in for p in own})
    matrix = own[0].event.kind == "matrix"
    return (
        f"  {role}",
        _range(p.std for p in own),
        _range(math.sqrt(p.gain) for p in own) if matrix else "",
        ", ".join(map(str, fans)) if matrix else "",
        law_of(own[0]) if matrix else "",
        places([p.name for p in own], own[0].blocks),
    )


def _range(numbers: Iterable[float]) -> str:
    found = list(numbers)
    low, high = min(found), max(found)
    return f"{high:.3g}" if high - low <= 0.1 * high else f"{low:.3g} … {high:.3g}"


def law_of(piece: RolePiece) -> str:
    """The well-known scale that a matrix has within chance, in words."""
    fan_in, fan_out = piece.fan_in, piece.fan_out
    known = (
        ("nn.Linear default", 1 / (3 * fan_in)),
        ("1/√fan-in", 1 / fan_in),
        ("√(2/fan-in)", 2 / fan_in),
        ("Xavier", 2 / (fan_in + fan_out)),
    )
    for name, square in known:
        if piece.square and abs(math.log(piece.square / square)) < 3 * piece.error:
            return name
    return ""
