"""Rules of weights: zeros, constants, equal numbers, and scales that no recipe has."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence

import torch

from limitlaw.torch.finding import AuditFinding, places
from limitlaw.torch.reading.anatomy import ModuleReading
from limitlaw.torch.reading.roles import RolePiece
from limitlaw.torch.recipes.comparing import fits, set_all
from limitlaw.torch.recipes.recipe import Std

BRANCH_ROLES = ("q", "k", "v", "out", "gate", "up", "down")
HIDDEN_ROLES = (*BRANCH_ROLES, "linear")
HUGE, TINY = 25.0, 1e-4  # variance × fan-in of a matrix, times 2L where branches end
SMALLEST = 2.0**-14  # the smallest normal number in 16 bits
LARGEST = 65504.0  # the largest number in 16 bits
DEEP_BLOCKS = 4  # blocks from which a missing initialisation matters
BIAS_OF_LINEAR = 3**-0.5  # times fan-in^{-1/2}: the standard deviation of biases of nn.Linear


def weight_faults(reading: ModuleReading) -> Iterator[AuditFinding]:
    """The findings about weights."""
    yield from _not_finite(reading)
    yield from _zeros(reading)
    yield from _constants(reading)
    yield from _equal_rows(reading)
    yield from _equal_pieces(reading)


def size_faults(reading: ModuleReading) -> Iterator[AuditFinding]:
    """The findings about scales, which a recipe may say otherwise."""
    yield from _sizes(reading)
    yield from _defaults(reading)
    yield from _fans(reading)
    yield from _biases(reading)


def named(pieces: Sequence[RolePiece]) -> str:
    """The places of pieces of one role."""
    return places([p.name for p in pieces], min((p.blocks for p in pieces), default=0))


def by_role(pieces: Iterable[RolePiece]) -> dict[tuple[str, str], list[RolePiece]]:
    """Pieces by role and by name without numbers."""
    found: dict[tuple[str, str], list[RolePiece]] = {}
    for piece in pieces:
        found.setdefault((piece.role, piece.template), []).append(piece)
    return found


def _normal(pieces: Sequence[RolePiece], std: str) -> str:
    """Python that draws the matrices again."""
    names = list(dict.fromkeys(p.event.parameter for p in pieces))
    return set_all(names, f"torch.nn.init.normal_(p, std={std})")


def _not_finite(reading: ModuleReading) -> Iterator[AuditFinding]:
    wrong = list(reading.broken)
    if wrong:
        yield AuditFinding(
            places(wrong),
            "it holds NaN or infinite numbers",
            "everything that follows is NaN; 1/√(2l) of block l = 0 is infinite",
            set_all(wrong, "torch.nn.init.normal_(p, std=0.02)"),
            "fault",
        )
    grown = [
        (name, float(x.abs().max()))
        for name, x in reading.run.items()
        if x.is_floating_point() and x.numel() and reading.walk.leaves.get(reading.nodes[name])
        if not any(h.node == name for h in reading.heads)
        if float(x.amax()) > LARGEST
    ]
    if grown and not wrong:
        name, most = grown[0]
        event = reading.walk.of.get(reading.nodes[name])
        yield AuditFinding(
            event.parameter if event is not None and event.parameter else name,
            f"what it gives reaches {most:.3g}, more than {LARGEST:g}",
            "in 16 bits (float16) this is infinite, and the loss NaN",
            "initialise the matrices before it smaller, or norm what they read",
        )


# --- zeros, constants, equal numbers -------------------------------------------------------------


_ZERO = {
    "q": "scores are 0, attention is uniform, and keys get no gradient",
    "k": "scores are 0, attention is uniform, and queries get no gradient",
    "v": "attention gives 0, and its output matrix gets no gradient",
    "up": "the hidden layer is constant, and the next matrix gets hardly any gradient",
    "gate": "the gate is shut, and the matrix beside it gets no gradient",
    "embedding": "all tokens are the same",
    "linear": "nothing passes it",
    "input": "nothing of the input passes it",
}
_DEAD = (("q", "k"), ("v", "out"), ("up", "down"), ("gate", "up"), ("lora A", "lora B"))


def _zeros(reading: ModuleReading) -> Iterator[AuditFinding]:
    """Matrices of zeros that stop gradients; ends of branches, heads and adapters may be zero."""
    zero = [p for p in reading.pieces if not p.square and p.event.kind != "vector"]
    dead: set[RolePiece] = set()
    for first, second in _DEAD:
        pairs = _beside(zero, first, second)
        if pairs:
            dead |= {p for pair in pairs for p in pair}
            yield AuditFinding(
                places([p.name for pair in pairs for p in pair]),
                f"{first} and {second} are both 0",
                "each gets its gradient through the other: they stay 0 and never train",
                _normal([a for a, _ in pairs], "0.02"),
                "fault",
            )
    for (role, _), own in by_role(p for p in zero if p not in dead).items():
        if role in _ZERO:
            yield AuditFinding(named(own), f"{role} is 0", _ZERO[role], _normal(own, "0.02"))
    adapters = [p for p in reading.of("lora B") if p.square]
    if adapters and not [p for p in reading.of("lora A") if not p.square]:
        yield AuditFinding(
            named(adapters),
            "neither matrix of its adapter is 0",
            "the adapter changes the model before it is trained",
            set_all([p.event.parameter for p in adapters], "torch.nn.init.zeros_(p)"),
        )


def _beside(
    zero: Sequence[RolePiece], first: str, second: str
) -> list[tuple[RolePiece, RolePiece]]:
    """Pairs of pieces of zeros of one block, or of one path for adapters."""
    ones, others = ([p for p in zero if p.role == role] for role in (first, second))
    return [
        (a, b)
        for a in ones
        for b in others
        if a.block == b.block and a.name.split(".")[:-1][:2] == b.name.split(".")[:-1][:2]
    ]


def _constants(reading: ModuleReading) -> Iterator[AuditFinding]:
    wrong = [
        p
        for p in reading.pieces
        if p.event.kind == "matrix"
        and p.weight.numel() > 1
        and p.square
        and bool((p.weight == p.weight.flatten()[0]).all())
    ]
    for (role, _), own in by_role(wrong).items():
        yield AuditFinding(
            named(own),
            f"all entries of {role} are {float(own[0].weight.flatten()[0]):.3g}",
            "every neuron computes the same, gets the same gradient, and stays the same",
            _normal(own, "0.02"),
            "fault",
        )


def _equal_rows(reading: ModuleReading) -> Iterator[AuditFinding]:
    wrong = {}
    for piece in reading.pieces:
        if piece.event.kind in ("matrix", "table") and piece.square:
            whole = piece.event.weight
            if piece.weight.shape == getattr(whole, "shape", None) or piece.role in ("q", "v"):
                rows = _repeated(piece.weight)
                if rows > 1:
                    wrong[piece] = rows
    given = {name for name, d in reading.drawn.items() if d.law == "given"}
    for (role, _), own in by_role(p for p in wrong if p.event.parameter not in given).items():
        yield AuditFinding(
            named(own),
            f"{wrong[own[0]]} of the {len(own[0].weight)} rows of {role} equal others",
            "equal neurons (heads, tokens) compute the same and get the same gradients",
            _normal(own, f"{own[0].std:.3g}"),
            "fault",
        )


def _repeated(weight: torch.Tensor) -> int:
    """How many rows, other than zeros and constants, equal another one."""
    if weight.ndim != 2 or weight.shape[1] < 2:
        return 0
    rows = weight[(weight != weight[:, :1]).any(1)]
    _, inverse, counts = rows[:, :2].unique(dim=0, return_inverse=True, return_counts=True)
    candidates = rows[counts[inverse] > 1]
    return len(candidates) - len(candidates.unique(dim=0)) if len(candidates) else 0


def _equal_pieces(reading: ModuleReading) -> Iterator[AuditFinding]:
    """Matrices of one block that have the same numbers: q = k."""
    known: dict[tuple[tuple[int, ...], bytes], list[RolePiece]] = {}
    pairs: dict[tuple[str, str], list[RolePiece]] = {}
    for piece in reading.of(*BRANCH_ROLES):
        start = piece.weight.flatten()[:64].numpy().tobytes()
        group = known.setdefault((tuple(piece.weight.shape), start), [])
        for other in group:
            if other.role != piece.role and torch.equal(other.weight, piece.weight):
                pairs.setdefault((other.role, piece.role), []).append(piece)
        if piece.square and not bool((piece.weight == piece.weight.flatten()[0]).all()):
            group.append(piece)
    for (first, second), own in pairs.items():
        yield AuditFinding(
            named(own),
            f"{first} = {second}: they start with the same numbers",
            "each token attends to itself most"
            if (first, second) == ("q", "k")
            else "they are not independent: what they give is correlated",
            _normal(own, f"{own[0].std:.3g}"),
            "fault",
        )


# --- scales --------------------------------------------------------------------------------------


def _sizes(reading: ModuleReading) -> Iterator[AuditFinding]:
    """Matrices so large or so small that no recipe has them."""
    sizes = {p: p.gain * (2 * p.blocks if p.role in ("out", "down") else 1)
             for p in reading.of(*HIDDEN_ROLES) if p.square < math.inf}  # fmt: skip
    for own in (
        [p for p in sizes if p.gain > HUGE],
        [p for p, gain in sizes.items() if 0 < gain < TINY],
    ):
        if own:
            roles = ", ".join(dict.fromkeys(p.role for p in own))
            yield AuditFinding(
                places([p.name for p in own], min(p.blocks for p in own)),
                f"{roles}: standard deviation {own[0].std:.3g}, variance × fan-in "
                f"{own[0].gain:.3g}, expected {TINY:g} to {HUGE:g}",
                f"what it gives is {math.sqrt(own[0].gain):.2g} times as large as what it reads"
                + _meant(own[0]),
                _normal(own, f"{own[0].fan_in ** -0.5:.3g}"),
            )
    tiny = [p for p in reading.pieces if 0 < p.std < SMALLEST and p.event.kind != "vector"]
    for (role, _), own in by_role(tiny).items():
        yield AuditFinding(
            named(own),
            f"{role} has standard deviation {own[0].std:.3g}, below the smallest normal number of "
            f"float16, {SMALLEST:.2g}",
            "in 16 bits its entries underflow" + _meant(own[0]),
            _normal(own, "0.02"),
        )
    whole = reading.of(*BRANCH_ROLES)
    if len({p.fan_in for p in whole}) > 1 and all(fits(p, math.sqrt(0.02)) for p in whole):
        yield AuditFinding(
            places([p.name for p in whole]),
            f"all matrices have standard deviation {whole[0].std:.3g} = √0.02",
            "a variance was taken for a standard deviation: everything is 7 times as large",
            _normal(whole, "0.02"),
        )


def _meant(piece: RolePiece) -> str:
    """What may have been meant."""
    n = piece.fan_in
    if piece.event.kind == "matrix" and fits(piece, 1 / n):
        return f"; 1/fan-in = {1 / n:.3g} is a variance, its standard deviation is {n**-0.5:.3g}"
    return "; 0.02² is a variance, its standard deviation is 0.02" if fits(piece, 4e-4) else ""


def _defaults(reading: ModuleReading) -> Iterator[AuditFinding]:
    """nn.Linear as PyTorch leaves it, in a language model of several blocks."""
    whole = reading.of(*BRANCH_ROLES)
    linear, packed = Std(3**-0.5, "in"), Std(2**-0.5, "in")
    if reading.blocks < DEEP_BLOCKS or not reading.of("embedding") or not reading.heads:
        return
    if all(fits(p, linear.of(p)) or (p.role in "qkv" and fits(p, packed.of(p))) for p in whole):
        yield AuditFinding(
            places([p.name for p in whole]),
            "all matrices have the default initialisation of nn.Linear, uniform of variance "
            "1/(3 fan-in)",
            f"no initialisation was applied: {reading.blocks} blocks have neither the scale of a "
            "recipe nor 1/√(2L) where they end",
            "model.apply(init_weights); then, where branches end, p *= (2 * L) ** -0.5",
        )


def _fans(reading: ModuleReading) -> Iterator[AuditFinding]:
    """Variances over fan-out where fan-in is meant, or over fan-in²."""
    whole = [p for p in reading.of(*HIDDEN_ROLES) if p.square]
    inside = [p for p in whole if p.role not in ("out", "down")]  # without a scale of depth
    if len({p.fan_out for p in inside}) < 2 or not reading.of("down"):
        return
    if _share(inside, lambda p: 1) and not _share(whole, lambda p: p.fan_in**2):
        return
    if _share(whole, lambda p: p.fan_in):
        return
    ends = [p for p in whole if p.role in ("up", "gate", "down")]
    for what, own, fan, does in (
        (
            "fan-out",
            inside,
            lambda p: p.fan_out,
            "a matrix that widens makes its output smaller, one that narrows larger",
        ),
        (
            "fan-in²",
            whole,
            lambda p: p.fan_in**2,
            "1/fan-in is a variance, no standard deviation: all shrinks with the width",
        ),
    ):
        if _share(own, fan):
            yield AuditFinding(
                places([p.name for p in ends]),
                f"variances are {ends[0].square * fan(ends[0]):.3g}/{what}, expected a multiple "
                "of 1/fan-in",
                does,
                _normal(ends, "p.shape[1] ** -0.5"),
            )


def _share(pieces: Sequence[RolePiece], fan: Callable[[RolePiece], int]) -> bool:
    """Have all matrices one variance × fan?"""
    middle = sorted(p.square * fan(p) for p in pieces)[len(pieces) // 2]
    return all(fits(p, math.sqrt(middle / fan(p))) for p in pieces)


def _biases(reading: ModuleReading) -> Iterator[AuditFinding]:
    """Biases as nn.Linear leaves them, where the weights are not."""
    wrong, total, squares = [], 0, 0.0
    arrays = reading.exported.arrays
    biased = {p.event.bias: p for p in reading.of(*BRANCH_ROLES) if p.event.bias}
    for piece in biased.values():
        bias = arrays[piece.event.bias]
        most = piece.fan_in**-0.5
        left = (Std(3**-0.5, "in"), Std(1.0, "both"))  # of nn.Linear, and of nn.Transformer
        default = any(fits(piece, std.of(piece), 0.1) for std in left)
        if bool(bias.any()) and not default and float(bias.abs().max()) <= most * 1.001:
            wrong.append(piece)
            total += bias.numel()
            squares += float((bias / (most * BIAS_OF_LINEAR)).square().sum())
    if (
        total >= 32
        and 2 * len(wrong) > len(biased)
        and abs(squares / total - 1) < 5 * math.sqrt(0.8 / total)
    ):
        yield AuditFinding(
            places([p.event.bias for p in wrong], len(wrong)),
            "its biases are uniform, as nn.Linear leaves them, while its weights are not",
            "the initialisation forgot the biases: they add the same numbers to every token",
            set_all([p.event.bias for p in wrong], "torch.nn.init.zeros_(p)"),
        )
