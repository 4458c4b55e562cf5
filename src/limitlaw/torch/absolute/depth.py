"""Rules of depth: 1/√(2L) on what ends a branch, norms, residual sums, growth."""

import math
from collections.abc import Callable, Iterator, Sequence

from limitlaw.torch.absolute.weights import DEEP_BLOCKS, by_role, named
from limitlaw.torch.finding import AuditFinding, places
from limitlaw.torch.health import FEWEST_BLOCKS, GROWS
from limitlaw.torch.reading.anatomy import ModuleReading
from limitlaw.torch.reading.norms import NO_NORM, POST, PRE, ResidualBranch
from limitlaw.torch.reading.roles import RolePiece, straight
from limitlaw.torch.recipes.comparing import code, fits
from limitlaw.torch.recipes.recipe import Std

SCALES_APART = 0.25  # of a logarithm: scales that chance could confuse are not told apart
_PER_BLOCK = 3  # blocks from which 1/√(2(l+1)) is told from a constant


def depth_faults(reading: ModuleReading) -> Iterator[AuditFinding]:
    """The findings about depth."""
    yield from _placements(reading)
    yield from _loose(reading)
    yield from _straight(reading)


# --- 1/√(2L) -------------------------------------------------------------------------------------


_END = ("2L", "2(l+1)", "2(L+1)")


def scaled_with_depth(reading: ModuleReading) -> Iterator[AuditFinding]:
    """The scale of depth on one of the two ends of branches, on another matrix, twice, inverted;
    missing in what is otherwise GPT-2; or beside post-norm.
    """
    first = reading.of("q", "k") or reading.of("up", "gate")
    if reading.blocks < 2 or not first or not all(p.square for p in first):
        return
    second = reading.of("up", "gate") or first
    deep = by_role(p for p in reading.pieces if 2 <= p.blocks == first[0].blocks)
    inner = {k: _scales(own, [first]) for k, own in deep.items() if k[0] in ("v", "gate", "up")}
    ends = {k: _scales(own, [first, second]) for k, own in deep.items() if k[0] in ("out", "down")}
    depths = [d for s in ends.values() if "" not in s for d in _END if d in s]
    wrong = {k: d for k, s in inner.items() if "" not in s for d in _END[:2] if d in s}
    for key, depth in wrong.items():
        yield AuditFinding(
            named(deep[key]),
            f"{key[0]} has the scale of depth 1/√({depth})",
            "it belongs on what ends a branch, attention output and MLP output: here it shrinks "
            "what happens inside of a branch" + ("" if depths else "; what ends it has none"),
            code(deep[key], Std(float(f"{first[0].std:.2g}"))),
        )
    meant = (depths or list(wrong.values()) or [""])[0]
    if not meant and ends and all("" in s for s in ends.values()) and _is_gpt2(reading):
        meant = "2L"
    for key, found in ends.items():
        if meant and "" in found and meant not in found:
            yield _lacking(deep[key], meant, first[0].std)
        if found and found <= {"twice", "inverse"}:
            yield _overdone(deep[key], "twice" in found, first[0].std)
    post = [b for b in reading.branches if b.placement == POST]
    if depths and len(post) > len(reading.branches) / 2:
        yield AuditFinding(
            places([b.piece.name for b in post]),
            f"norms stand behind the sums (post-norm), and branches are scaled by 1/√({meant})",
            "each norm undoes the sum that the scale is for: blocks do hardly anything, and "
            "gradients shrink; the scale is that of pre-norm",
            "x = x + attention(norm1(x)); x = x + mlp(norm2(x))",
        )


def _lacking(own: Sequence[RolePiece], depth: str, std: float) -> AuditFinding:
    meant = Std(float(f"{std:.2g}"), depth=depth)
    return AuditFinding(
        named(own),
        f"{own[0].role} lacks 1/√({depth}), its standard deviation is {own[0].std:.3g}, expected "
        f"{meant.of(own[0]):.3g}",
        "what this matrix adds to the stream grows with the number of blocks, where GPT-2's "
        "recipe keeps it constant",
        code(own, meant),
    )


def _overdone(own: Sequence[RolePiece], twice: bool, std: float) -> AuditFinding:
    said = "twice, 1/(2L)" if twice else "as a factor, √(2L)"
    return AuditFinding(
        named(own),
        f"{own[0].role} has the scale of depth {said}, expected 1/√(2L)",
        "branches add hardly anything to the stream"
        if twice
        else "branches add far more to the stream than it has",
        code(own, Std(float(f"{std:.2g}"), depth="2L")),
    )


def _scales(own: Sequence[RolePiece], bases: Sequence[Sequence[RolePiece]]) -> set[str]:
    """How matrices may be scaled with depth, beside those that begin branches: with equal
    variances, or with equal variance × fan-in; "" for not at all.
    """
    L = own[0].blocks
    known: dict[str, Callable[[RolePiece], float]] = {
        "": lambda p: 1.0,
        "2L": lambda p: (2 * L) ** -0.5,
        "twice": lambda p: 1 / (2 * L),
        "inverse": lambda p: (2 * L) ** 0.5,
    }
    if L >= _PER_BLOCK:
        known["2(l+1)"] = lambda p: (2 * (p.block + 1)) ** -0.5
        known["2(L+1)"] = lambda p: (2 * (L + 1)) ** -0.5
    found = set()
    for base in bases:
        square = sum(p.square for p in base) / len(base)
        ratio = base[0].fan_in / own[0].fan_in
        for depth, factor in known.items():
            for size in (square, square * ratio):
                if all(fits(p, factor(p) * math.sqrt(size), 0.03) for p in own):
                    found.add(depth)
    return found if all(p.error < SCALES_APART for p in own) else {""}


def _is_gpt2(reading: ModuleReading) -> bool:
    """Is this GPT-2's architecture: causal, pre-norm, positions in a table, a tied head, an MLP
    without a gate, and four blocks or more?
    """
    return (
        reading.blocks >= DEEP_BLOCKS
        and reading.tied
        and bool(reading.of("positions"))
        and not reading.of("gate")
        and bool(reading.masks)
        and all(mask == "causal" for mask in reading.masks.values())
        and all(b.placement == PRE for b in reading.branches)
        and not any(reading.rotary.values())
    )


# --- norms and sums ------------------------------------------------------------------------------


def _placements(reading: ModuleReading) -> Iterator[AuditFinding]:
    """Blocks without norms, blocks with norms elsewhere than the others, and no last norm."""
    stacks: dict[str, list[ResidualBranch]] = {}
    for branch in reading.branches:
        stacks.setdefault(branch.piece.template.partition("*")[0], []).append(branch)
    for own in stacks.values():
        later = own[1:]  # the first reads what may be normed already, or data
        kinds = [b.placement for b in later]
        usual = max(set(kinds), key=kinds.count) if kinds else ""
        odd = [b for b in later if b.placement != usual]
        if usual == NO_NORM and len(own) >= FEWEST_BLOCKS and reading.heads:
            yield AuditFinding(
                named([b.piece for b in own]),
                "blocks read the stream without a norm",
                "each block adds what is as large as the stream: its variance doubles with each, "
                "and scores grow with it",
                "x = x + attention(norm(x))",
            )
        elif odd and len(odd) < len(later) / 2:
            yield AuditFinding(
                named([b.piece for b in odd]),
                f"its norm is {odd[0].placement}, that of the other blocks {usual}",
                "one block reads or writes the stream at another scale than the others",
                "give all blocks one order: x = x + f(norm(x))",
                "fault",
            )
    tables = {p.event for p in reading.of("embedding")}
    heads = [
        p
        for p in reading.of("head")
        if reading.walk.degree(p.event.reads[0]) == 1 and reading.walk.read_by(p.event) & tables
    ]
    placements = {b.placement for b in reading.branches}
    if heads and placements == {PRE}:
        yield AuditFinding(
            named(heads),
            "it reads the stream without a last norm",
            "the stream of pre-norm blocks grows with their number, and logits with it",
            "logits = head(norm(x))",
        )


def _loose(reading: ModuleReading) -> Iterator[AuditFinding]:
    """Branches that replace the stream instead of being added to it."""
    for own in by_role(reading.of("out", "down")).values():
        loose = [p for p in own if not p.residual]
        if loose and len(own) >= 2:
            yield AuditFinding(
                named(loose),
                f"what {loose[0].role} gives is not added to the stream that its branch has read",
                "the residual sum is missing: what came before is lost, and gradients shrink from "
                "block to block",
                "x = x + f(norm(x))",
                "fault",
            )


def _straight(reading: ModuleReading) -> Iterator[AuditFinding]:
    """MLPs without a nonlinearity."""
    wrong = []
    for down in reading.of("down"):
        hidden = [p for p in reading.of("up") if p.event in reading.walk.read_by(down.event)]
        gates = [p for p in reading.of("gate") if p.event in reading.walk.read_by(down.event)]
        one = len(hidden) == 1 and not gates and hidden[0].fan_out >= down.fan_in
        if one and straight(reading.walk, down.event.reads[0], hidden[0].event):
            wrong.append(hidden[0])
    if wrong:
        yield AuditFinding(
            named(wrong),
            "no nonlinearity stands between it and the next matrix",
            "two matrices in a row are one: the MLP is linear",
            "down(F.gelu(up(x)))",
            "fault",
        )


def growth(reading: ModuleReading) -> Iterator[AuditFinding]:
    """A stream that grows faster than residual branches of equal size make it."""
    sums = [b for b in reading.branches if b.piece.role == "down"] or reading.branches
    sizes = [float(reading.run[b.sum.name].square().mean()) for b in sums if b.placement != POST]
    if len(sizes) < FEWEST_BLOCKS or not sizes[0] > 0:
        return
    if sizes[-1] / sizes[0] > GROWS * len(sizes):
        each = (sizes[-1] / sizes[0]) ** (1 / (len(sizes) - 1))
        yield AuditFinding(
            sums[-1].piece.name,
            f"the variance of the stream is {sizes[-1] / sizes[0]:.3g} times that behind "
            f"{sums[0].piece.name}, a factor of {each:.2g} a block, expected at most "
            f"{GROWS * len(sizes):g}",
            "it grows faster than residual branches of equal size make it",
            "norm what each branch reads, and scale what ends it by 1/√(2L)",
        )
