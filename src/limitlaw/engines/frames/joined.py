"""The matrices of all heads as one matrix.

Heads of a fixed dimension d have a matrix each, W^a: n × d, and what comes out of them is added
up: Σ_a W^a v^a is one n × Hd matrix times the vector of R^{Hd} that joins all v^a, and W^aᵀ b of
all heads are parts of one product of b with its transpose. A program is rewritten so: a sum over
heads of s tokens then makes s vectors of R^n, where the images W^a v^a would be H s of them.
Matrices of several kinds that meet the same vectors, as those of queries, keys and values, are one
as well.

Products with W^a move forth to where heads are summed, through whatever is linear, or to an inner
product with a vector b, n^{-1/2} b·(W^a v^a) = d^{-1/2} (√(d/n) W^aᵀ b)·v^a; products that heads
have with vectors of their own move back to vectors that all heads share.
"""

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from limitlaw.core.analysis import Analysis
from limitlaw.core.instructions import Add, Constant, Contract, Dot, MatMul, Rename, Take
from limitlaw.core.kinds import Family, Number, Value
from limitlaw.core.labelled import Axes, Axis, sizes, union
from limitlaw.core.program import Program
from limitlaw.core.space import Dim, as_dim
from limitlaw.engines.frames.joining import Join, Split

# --- families that are one matrix ----------------------------------------------------------------


class Kept(Exception):
    """A family that stays as it is, since its products are read one by one."""

    def __init__(self, family: Family):
        self.family = family


@dataclasses.dataclass(frozen=True, eq=False)
class One:
    """Families as one matrix 𝐖 with T rows, i.i.d. N(0, 1/n): of each family those from its place
    in `starts` on.
    """

    matrix: Family
    starts: Mapping[Family, int]


@dataclasses.dataclass(frozen=True, eq=False)
class Moving:
    """Products W^a u^a, a along `heads`, that are not made yet."""

    family: Family
    u: Value
    heads: Axes


@dataclasses.dataclass(frozen=True, eq=False)
class HeadsAdded:
    """A sum over heads of such products, of one or of several families of `one` matrix."""

    one: One
    products: tuple[Moving, ...]


def joined(outputs: Sequence[Value]) -> tuple[Value, ...]:
    """The same outputs, by a program in which matrices of fixed dimension that heads have each are
    one, of those that also meet vectors as transposes, and whose products are added up.
    """
    facts = Analysis(Program(tuple(outputs)))
    families = [W for W in facts.products if W in facts.transposed and _is_narrow(W)]
    while families:
        try:
            return _Rewriter(facts, families).outputs()
        except Kept as kept:
            families.remove(kept.family)
    return tuple(outputs)


def _is_narrow(family: Family) -> bool:
    """Has it several matrices, one side of fixed dimension, and another that grows?"""
    count = math.prod(axis.size for axis in family.axes)
    return family.rows.wide != family.cols.wide and 1 < count < math.inf


def _side(family: Family) -> tuple[Dim, Dim]:
    """The fixed dimension, and the other one."""
    W = family
    return (W.rows, W.cols) if W.cols.wide else (W.cols, W.rows)


class _Rewriter:
    """Writes the values of a program again, each after what it reads."""

    def __init__(self, facts: Analysis, families: Sequence[Family]):
        self.facts, self.families = facts, families
        self.new: dict[Value, Value | Moving | HeadsAdded] = {}
        self.products: dict[tuple[Family, Value], Value] = {}
        self.parts: dict[tuple[Family, Value, Axes], Value] = {}
        self.made: dict[HeadsAdded, Value] = {}
        self.ones = self._grouped()
        for v in facts.values:
            self.new[v] = self._written(v)

    def outputs(self) -> tuple[Value, ...]:
        """The outputs of the program."""
        return tuple(self.known(v) for v in self.facts.program.outputs)

    def known(self, v: Value) -> Value:
        """A value whose products are made."""
        found = self.new[v]
        if isinstance(found, Moving):
            raise Kept(found.family)
        if isinstance(found, HeadsAdded):
            if found not in self.made:
                self.made[found] = _product_of(found, v)
            return self.made[found]
        return found

    def _grouped(self) -> dict[Family, One]:
        """Families that meet the same vectors of one space are one matrix."""
        groups: dict[object, list[Family]] = {}
        for family in self.families:
            _, wide = _side(family)
            met = [v for v in self.facts.products[family] if _into_heads(v)]
            shared = frozenset(v.vectors[0] for v in met if not _axes_met(v))
            groups.setdefault((wide, shared) if shared else family, []).append(family)
        found: dict[Family, One] = {}
        for group in groups.values():
            total, starts = 0, {}
            for family in group:
                starts[family] = total
                total += _side(family)[0].at(1) * math.prod(sizes(family.axes))
            _, wide = _side(group[0])
            matrix = Family((), Number(np.ones(())), as_dim("rows", total), wide, group[0].source)
            found |= dict.fromkeys(group, One(matrix, starts))
        return found

    # --- one rule for each instruction -----------------------------------------------------------

    def _written(self, v: Value) -> Value | Moving | HeadsAdded:
        op = v.instruction
        if isinstance(op, MatMul) and op.family in self.ones:
            if _into_heads(v):
                return self._part(op.family, self.known(op.x), op.family.axes)
            return Moving(op.family, self._with_heads(op), op.family.axes)
        read = [self.new[u] for u in op.inputs]
        moving = next((x for x in read if isinstance(x, Moving)), None)
        if moving is not None:
            return self._moved(v, moving)
        if isinstance(op, Add) and sum(isinstance(x, HeadsAdded) for x in read) > 1:
            return self._added(v, op)
        if len(v.vectors) == 1 and self.facts.uses[v.vectors[0]] == 1:
            x = self.new[v.vectors[0]]
            through = (
                [self._through(v, p) for p in x.products] if isinstance(x, HeadsAdded) else []
            )
            if isinstance(x, HeadsAdded) and all(through):
                return HeadsAdded(x.one, tuple(p for p in through if p))
        return self._copied(v)

    def _copied(self, v: Value) -> Value:
        """The same instruction on what is new."""
        op = v.instruction
        new: dict[object, object] = {u: w for u in op.inputs if (w := self.known(u)) is not u}
        return dataclasses.replace(v, instruction=op.replaced(new)) if new else v

    def _with_heads(self, op: MatMul) -> Value:
        """What a product from the fixed dimension reads, with all axes of the family."""
        x = self.known(op.x)
        missing = tuple(a for a in op.family.axes if a not in x.axes)
        return x if not missing else _scaled(np.ones(sizes(missing)), missing, x)

    def _moved(self, v: Value, y: Moving) -> Value | Moving | HeadsAdded:
        """An instruction that reads products which are not made yet."""
        op = v.instruction
        if isinstance(op, Dot):
            return self._inner(v, op, y)
        if isinstance(op, Contract) and (over := frozenset(op.over) & frozenset(y.heads)):
            if over != frozenset(y.heads):
                raise Kept(y.family)
            return HeadsAdded(self.ones[y.family], (self._closed(v, op, y),))
        through = self._through(v, y)
        if through is None:
            raise Kept(y.family)
        return through

    def _closed(self, v: Value, op: Contract, y: Moving) -> Moving:
        """Σ a W^a u^a over heads, and what is summed besides."""
        rest = tuple(axis for axis in op.over if axis not in y.heads)
        heads = tuple(Axis(axis.size) for axis in y.heads)
        u, a = y.u, None if op.a is None else self.known(op.a)
        if rest or a is not None:
            axes = union(v.axes, y.heads)
            u = Value(Contract(a, u, rest), axes, u.dim)
        if op.normalised:
            u = _scaled(1 / math.sqrt(math.prod(sizes(op.over))), (), u)
        return Moving(y.family, _renamed(u, y.heads, heads), heads)

    def _through(self, v: Value, y: Moving) -> Moving | None:
        """W op(u) for op(W u), where op is linear and leaves heads alone; None otherwise."""
        op = v.instruction
        heads = frozenset(y.heads)
        if isinstance(op, Contract) and not heads & {*op.over}:
            a = None if op.a is None else self.known(op.a)
            axes = union(v.axes, y.heads)
            return Moving(
                y.family, Value(Contract(a, y.u, op.over, op.normalised), axes, y.u.dim), y.heads
            )
        if isinstance(op, Rename):
            u = _renamed(y.u, op.old, op.new)
            return Moving(y.family, u, op.names_of(y.heads))
        if isinstance(op, Take) and not heads & {*op.axes, *op.new}:
            u = Value(Take(y.u, op.axes, op.places, op.new), union(v.axes, y.heads), y.u.dim)
            return Moving(y.family, u, y.heads)
        return None

    def _inner(self, v: Value, op: Dot, y: Moving) -> Value:
        """n^{-1/2} b·(W u) = d^{-1/2} (√(d/n) Wᵀ b)·u."""
        others = [u for u in op.inputs if self.new[u] is not y]
        if len(others) != 1 or op.scaling != "sqrt" or op.base is not None:
            raise Kept(y.family)
        b = self._part(y.family, self.known(others[0]), y.heads)
        q, k = (b, y.u) if op.k is not others[0] else (y.u, b)
        assert y.u.dim is not None
        return Value(Dot(q, k, op.scaling, y.u.dim), v.axes, None, v.source)

    def _added(self, v: Value, op: Add) -> Value | HeadsAdded:
        """Sums over heads, added up: products with one matrix are one."""
        found: dict[Family, list[HeadsAdded]] = {}
        others = []
        for t in op.terms:
            x = self.new[t]
            if isinstance(x, HeadsAdded) and self.facts.uses[t] == 1 and {*t.axes} == {*v.axes}:
                found.setdefault(x.one.matrix, []).append(x)
            else:
                others.append(self.known(t))
        sums = [
            HeadsAdded(each[0].one, tuple(p for x in each for p in x.products))
            for each in found.values()
        ]
        if len(sums) == 1 and not others:
            return sums[0]
        terms = (*others, *(_product_of(x, v) for x in sums))
        return dataclasses.replace(v, instruction=Add(terms))

    # --- products that heads have with vectors ---------------------------------------------------

    def _part(self, family: Family, x: Value, heads: Axes) -> Value:
        """W^a x^a for a along `heads`, by products of the joined matrix with vectors that all
        heads share.
        """
        place = family, x, heads
        if place not in self.parts:
            self.parts[place] = self._part_of(family, x, heads)
        return self.parts[place]

    def _part_of(self, family: Family, x: Value, heads: Axes) -> Value:
        if not {*heads} & {*x.axes}:
            return self._split(family, x, heads)
        op = x.instruction
        if isinstance(op, Contract) and not {*heads} & {*op.over}:
            w = self._part(family, op.w, heads)
            op = dataclasses.replace(op, w=w)
        elif isinstance(op, Rename) and not {*heads} & {*op.old} - {*op.new}:
            before = tuple(op.old[op.new.index(a)] if a in op.new else a for a in heads)
            w = self._part(family, op.x, before)
            return _renamed(w, op.old, op.new)
        elif isinstance(op, Take) and not {*heads} & {*op.axes, *op.new}:
            op = dataclasses.replace(op, x=self._part(family, op.x, heads))
        elif isinstance(op, Add):
            op = Add(tuple(self._part(family, t, heads) for t in op.terms))
        else:
            raise Kept(family)
        return Value(op, union(x.axes, heads), _side(family)[0])

    def _split(self, family: Family, x: Value, heads: Axes) -> Value:
        """σ 𝐖x, of which each head has a part."""
        one = self.ones[family]
        if (one.matrix, x) not in self.products:
            product = Value(MatMul(one.matrix, x), x.axes, one.matrix.rows)
            self.products[one.matrix, x] = product
        y = self.products[one.matrix, x]
        d, _ = _side(family)
        part = Value(Split(y, one.starts[family], heads), (*x.axes, *heads), d)
        return _scaled(_std(family), heads, part)


def _into_heads(v: Value) -> bool:
    """Is it a product into the space of fixed dimension?"""
    return v.dim is not None and not v.dim.wide


def _axes_met(v: Value) -> frozenset[Axis]:
    """The axes of the family that the vectors which it meets have."""
    family = v.instruction.matrices
    assert family is not None
    return frozenset(family.axes) & frozenset(v.vectors[0].axes)


def _product_of(x: HeadsAdded, v: Value) -> Value:
    """𝐖ᵀ of all vectors of a sum as one: T^{-1/2} Gᵀ, where each was d^{-1/2} σ Gᵀ."""
    matrix = x.one.matrix
    T = matrix.rows.at(1)
    terms = []
    for family in x.one.starts:
        own = [p for p in x.products if p.family is family]
        if own:
            heads = own[0].heads
            each = [own[0].u, *(_renamed(p.u, p.heads, heads) for p in own[1:])]
            u = each[0]
            if len(each) > 1:
                u = Value(Add(tuple(each)), union(*(w.axes for w in each)), u.dim)
            scale = _std(family) * math.sqrt(T / _side(family)[0].at(1))
            terms.append((_scaled(scale, heads, u), heads, x.one.starts[family]))
    values, over, starts = zip(*terms, strict=True)
    vector = Value(Join(values, over, starts), v.axes, matrix.rows)
    return Value(MatMul(matrix, vector, transposed=True), v.axes, matrix.cols, v.source)


def _std(family: Family) -> np.ndarray:
    """σ of each matrix, over the axes of the family."""
    layout = [1 if axis is None else int(axis.size) for axis in family.layout]
    std = np.broadcast_to(np.asarray(family.std.array, float), layout)
    return std.reshape(sizes(family.axes))


def _scaled(a: float | np.ndarray, axes: Axes, u: Value) -> Value:
    """a·u, for constants a over some axes."""
    constants = Value(Constant(Number(np.asarray(a)), axes), axes, None)
    return Value(Contract(constants, u, ()), union(u.axes, axes), u.dim)


def _renamed(x: Value, old: Iterable[Axis], new: Iterable[Axis]) -> Value:
    """x with axes renamed, as far as it has them."""
    pairs = [(a, b) for a, b in zip(old, new, strict=True) if a in x.axes and a is not b]
    if not pairs:
        return x
    op = Rename(x, tuple(a for a, _ in pairs), tuple(b for _, b in pairs))
    return Value(op, op.names_of(x.axes), x.dim, x.source)
