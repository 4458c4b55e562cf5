"""Transposes as n → ∞: where Wᵀ may be taken as a matrix that is independent of W.

Given the numbers of a program, Wᵀ δ is a Gaussian vector with the second moments that an
independent matrix would give it, plus Σ_j E[∂Z^δ/∂Z^{W x_j}] x_j over the vectors that W met (Yang
2020). The sum is zero where coordinates of δ are no functions of those of W x, or where they
change sign with vectors of mean zero that are independent of W x: those of a random readout
n^{-1/2} u·y, and what other transposes make. Inner products under 1/n, and functions of
coordinates, then see an independent matrix. Not so dot products under 1/√n of Wᵀ δ with forward
vectors, and vectors of fixed dimension: they see that it is Wᵀ, and need its components of order
n^{-1/2} (`engines/limit/in_frames.py`).

What is divided by √n is dropped, unless something reads it that makes it large again.
"""

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence

from limitlaw.core.instructions import DimensionRatio, Dot, Initial, MatMul, Scan
from limitlaw.core.kinds import Coordinatewise, Family, Value
from limitlaw.core.program import ancestors
from limitlaw.core.vanishing import (
    is_multilinear,
    is_product,
    is_sum,
    read,
    vanishing,
    without,
)

EVEN, ODD, NEITHER = 0, 1, None
Parity = int | None
LOOSE = "Wᵀ of a matrix W, of vectors that do not change sign with a readout"


@dataclasses.dataclass(frozen=True)
class WithoutTransposes:
    """Values as n → ∞ with independent matrices in place of transposes. `transposed`: the products
    with transposes that they read. `why`, `about`: why that is not possible, and of which values
    it is said; then components of order n^{-1/2} have to be followed, and `values` are those that
    depend on no transpose, no readout, and nothing that vanishes. `of_order_one`: may transposes
    add components of order one, are there dot products under 1/√n of two vectors that they made,
    or factors √n, so that all spaces need one n?
    """

    values: tuple[Value, ...]
    transposed: tuple[Value, ...] = ()
    why: str = ""
    about: tuple[Value, ...] = ()
    of_order_one: bool = False


def without_transposes(values: Sequence[Value]) -> WithoutTransposes:
    """The same values as n → ∞."""
    order = ancestors(values)
    back = tuple(v for v in order if _is_transposed(v))
    grows = any(map(_grows, order))
    zero = vanishing(values)
    if not back and not grows and not zero:
        return WithoutTransposes(tuple(values))
    left = read(values, zero)
    found = {why: about for why, about in _objections(order, left, zero) if about}
    if found and not back and not grows:
        return WithoutTransposes(tuple(values))  # nothing has to be dropped
    if found:
        why, about = next(iter(found.items()))
        behind = _behind(order, {*back, *zero, *_readouts(order, back)})
        forward = tuple(v for v in order if v not in behind)
        both = _behind(order, {*back})
        tied = any(_is_score(v) and all(u in both for u in v.vectors) for v in left)
        one_n = tied or grows or LOOSE in found
        return WithoutTransposes(forward, back, why, tuple(about), one_n)
    back = tuple(v for v in left if _is_transposed(v))
    return WithoutTransposes(_with_independent(without(values, zero)), back)


def _with_independent(values: Sequence[Value]) -> tuple[Value, ...]:
    """For each family W one that is independent of it, of the shape of Wᵀ."""
    new: dict[Value, Value] = {}
    families: dict[Family, Family] = {}
    for v in ancestors(values):
        op = v.instruction
        changed: dict[object, object] = {u: new[u] for u in op.inputs if new[u] is not u}
        op = op.replaced(changed) if changed else op
        if isinstance(op, MatMul) and op.transposed:
            W = op.family
            if W not in families:
                families[W] = Family(W.layout, W.std, W.cols, W.rows, W.source)
            op = MatMul(families[W], op.x)
        new[v] = v if op is v.instruction else dataclasses.replace(v, instruction=op)
    return tuple(new[v] for v in values)


def _is_transposed(v: Value) -> bool:
    return isinstance(v.instruction, MatMul) and v.instruction.transposed


def _objections(
    order: list[Value], left: list[Value], zero: frozenset[Value]
) -> Iterator[tuple[str, list[Value]]]:
    """Where Wᵀ may not be taken as independent of W: why, and the values of which that is so.
    `left`: what is read as n → ∞.
    """
    back = [v for v in left if _is_transposed(v)]
    kept, beside = set(left), [v for v in order if isinstance(v.instruction, Scan)]
    yield "Wᵀ of a matrix W beside a loop", back if beside else []
    narrow = [v for v in back if (W := v.instruction.matrices) and not W.is_wide]
    yield "Wᵀ of a matrix W with a side of fixed dimension", narrow
    wide = [v for v in back if v not in narrow]
    families = {v.instruction.matrices for v in wide}
    forth = [v for v in order if v.instruction.matrices in families and not _is_transposed(v)]
    parity = _parities(order, wide, zero)
    odd = {v for v in wide if all(parity[u] == ODD for u in v.vectors)}
    loose = [v for v in wide if v not in odd and _meets(v, forth, zero)]
    loose += [v for v in forth if _meets(v, wide, zero)]
    yield LOOSE, loose
    scores, behind = [v for v in order if _is_score(v)], _behind(order, {*back})
    read_back = [v for v in scores if v in behind and v in kept]
    yield "dot products under 1/√n with Wᵀ of a matrix W", read_back
    large = [v for v in scores if v not in kept and not _is_of_order_one(v, parity)]
    large += _made_large(order, kept, zero)
    yield "what vanishes with n times what may grow with it", large
    curved = [v for v in scores if v in kept and any(_is_odd_image(f, parity) for f in v.vectors)]
    yield "dot products under 1/√n of functions of a readout", curved


def _is_score(v: Value) -> bool:
    op = v.instruction
    return isinstance(op, Dot) and op.dim.wide and op.scaling == "sqrt"


def _is_odd_image(v: Value, parity: Mapping[Value, Parity]) -> bool:
    """Does v change sign, and is it made of images of nonlinearities, as u φ'(h) is?"""
    terms = [v]
    while parity[v] == ODD and terms:
        u = terms.pop()
        if isinstance(u.instruction, Coordinatewise):
            return True
        terms += u.vectors if u.instruction.linear else ()
    return False


def _is_of_order_one(v: Value, parity: Mapping[Value, Parity]) -> bool:
    """Is a dot product under 1/√n one of a vector that changes sign with one that does not?"""
    q, k = (parity[f] for f in v.vectors)
    return NEITHER not in (q, k) and q != k


def _made_large(order: list[Value], kept: set[Value], zero: frozenset[Value]) -> list[Value]:
    """What makes something of order one, or more, of what is of order n^{-1/2}."""
    touched: set[Value] = set()  # vectors with a part that was dropped
    found: list[Value] = []
    for v in order:
        op = v.instruction
        if v.is_vector and (v in zero or any(u in zero or u in touched for u in v.vectors)):
            touched.add(v)
        into_narrow = isinstance(op, MatMul) and op.contracted.wide and not v.dim.wide  # type: ignore[union-attr]
        reads = (
            v in kept and (_is_score(v) or into_narrow) and any(u in touched for u in v.vectors)
        )
        curved = v.inputs and not is_multilinear(v) and any(u in zero for u in v.inputs)
        if reads or curved or _grows(v):
            found.append(v)
    return found


def _grows(v: Value) -> bool:
    """Is it a factor √n?"""
    op = v.instruction
    return isinstance(op, DimensionRatio) and bool(
        op.over and op.over.wide and not (op.under and op.under.wide)
    )


def _meets(v: Value, products: list[Value], zero: frozenset[Value]) -> bool:
    """Are coordinates of the vector that a product with W reads functions of coordinates of some
    of these products with W?
    """
    family = v.instruction.matrices
    others = {w for w in products if w.instruction.matrices is family}
    seen: set[Value] = set()
    stack = list(v.vectors)
    while stack:
        u = stack.pop()
        if u in others:
            return True
        if u not in seen and u not in zero and u.instruction.matrices is None:
            seen.add(u)
            stack.extend(u.vectors)
    return False


def _behind(order: list[Value], sources: set[Value]) -> set[Value]:
    """What depends on some values, themselves included."""
    found: set[Value] = set()
    for v in order:
        if v in sources or any(u in found for u in v.inputs):
            found.add(v)
    return found


def _readouts(order: Sequence[Value], products: Iterable[Value]) -> set[Value]:
    """Initial vectors of mean zero that enter no nonlinearity, and no vector that a matrix of some
    products multiplies from its own side.
    """
    families = {v.instruction.matrices for v in products}
    met = [v for v in order if v.instruction.matrices in families and not _is_transposed(v)]
    read = [u for v in order if not is_multilinear(v) for u in v.inputs]
    fixed = set(ancestors([*read, *(u for v in met for u in v.vectors)]))
    return {v for v in order if _is_centred(v) and v not in fixed}


def _is_centred(v: Value) -> bool:
    return isinstance(v.instruction, Initial) and v.instruction.centred


def _parities(
    order: list[Value], products: list[Value], zero: frozenset[Value]
) -> dict[Value, Parity]:
    """What becomes of the coordinates of each vector, given the numbers, where all products with
    transposes change sign, and so do readouts: nothing, or they change sign, or neither is known.
    Given the numbers that leaves the law as it is, Wᵀ being a matrix of its own. Terms of sums
    that are zero say nothing.
    """
    readouts = _readouts(order, products)
    found: dict[Value, Parity] = {}
    for v in order:
        op = v.instruction
        if not v.is_vector:
            continue
        each = [found[u] for u in v.vectors if v in zero or u not in zero]
        if isinstance(op, Initial):
            found[v] = ODD if v in readouts else EVEN
        elif isinstance(op, MatMul):
            found[v] = ODD if op.transposed else EVEN
        elif all(p == EVEN for p in each):
            found[v] = EVEN
        elif is_sum(v):
            found[v] = each[0] if len(set(each)) == 1 else NEITHER
        elif is_product(v):
            found[v] = NEITHER if NEITHER in each else sum(p or 0 for p in each) % 2
        else:
            found[v] = NEITHER
    return found
