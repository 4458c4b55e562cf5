"""First and second moments of the limits Z^v of wide vectors, given all numbers:
Definition 3.1 as a recursion.

Cov(v, w) is found by expanding the later of the two by its instruction. Linear instructions act on
the covariance; what is left are pairs of MatMul outputs, initial vectors and Nonlin outputs.
"""

from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

import jax.numpy as jnp

from limitlaw import phi as nonlinearities
from limitlaw.core import instructions as core
from limitlaw.core.covariance import (
    EVERYTHING,
    Covariance,
    Equal,
    applied,
    between,
    expanded,
    outer,
    pair,
    sides,
    swapped,
    total,
)
from limitlaw.core.instructions import Number, Value
from limitlaw.core.labelled import (
    Axis,
    Labelled,
    Layout,
    finite_shape,
    labelled,
    multiply,
    sizes,
    union,
)
from limitlaw.engines.frames.fresh import Fresh
from limitlaw.engines.frames.spaces import inner
from limitlaw.engines.limit.facts import LimitFacts, unnamed
from limitlaw.engines.limit.integrals import Integrals, Nodes
from limitlaw.engines.limit.loop import CannotCarry, Carried
from limitlaw.numerics.factors import gram


@runtime_checkable
class Given(Protocol):
    """What has been drawn: numbers, vectors of fixed dimension,
    and their products with matrices into wide spaces.
    """

    results: dict[Value, Any]

    def given(self, slot: Number, order: Layout, hidden: int = 0) -> Labelled:
        """The numbers in a slot."""

    def units(self, value: Value) -> Labelled:
        """A vector of fixed dimension, in coordinates whose products are Gram entries."""

    def carried(self, value: Value) -> Carried:
        """What is known of vectors that pass through a loop."""

    def product(self, value: Value) -> Fresh | None:
        """W x for x of fixed dimension, as a Gaussian vector on its own roots,
        where W meets nothing else.
        """


class Moments:
    """Means and covariances of the wide vectors of a program. None stands for zero."""

    def __init__(self, facts: LimitFacts, given: Given, table: Any, inflated: bool = False):
        self.facts, self.given, self.integrals = facts, given, Integrals(inflated)
        self._means: dict[Value, Labelled | None] = {}
        self._blocks: dict[tuple[Value, Value], dict[Equal, Covariance | None]] = {}
        self._products: dict[tuple[Value, Value, Equal], Covariance | None] = {}
        self.nodes = Nodes(self, table)

    @property
    def numbers(self) -> dict[Value, Any]:
        """What is known of the numbers of the program."""
        return self.given.results

    # --- means -----------------------------------------------------------------------------------

    def mean(self, v: Value) -> Labelled | None:
        """E Z^v."""
        if v not in self._means:
            self._means[v] = self._mean(v, v.instruction)
        return self._means[v]

    def _mean(self, v: Value, op: Any) -> Labelled | None:
        if v in self.facts.bilinear:
            return None
        if op.linear:
            if all(self.mean(u) is None for u in v.vectors):
                return None
            return applied(v, lambda u: self.mean(u) or zeros(u), self.numbers)
        if isinstance(op, core.Ones):
            return Labelled(jnp.ones(()), ())
        if isinstance(op, core.Initial):
            return None if op.centred else self.given.given(op.mean, op.order)
        if isinstance(op, core.Map):
            return self._mean_of_map(v, op)
        if isinstance(op, core.Argument | core.Repeat):
            return self.given.carried(v).mean
        return None

    def _mean_of_map(self, v: Value, op: core.Map) -> Labelled | None:
        u = self.facts.argument.get(v)
        if u is not None:
            numbers = self._numbers(op, lambda a: a)
            return self.integrals.moment("mean", [op], [numbers], [self.mean(u), self.variance(u)])
        factors = self._independent_factors(op)
        if factors is None:
            return self.nodes.at(v).mapped(lambda z: z.mean(axis=-1))
        first, second = (self.mean(f) for f in factors)
        return None if first is None or second is None else multiply(first, second)

    def variance(self, v: Value) -> Labelled:
        """Var Z^v, entry by entry."""
        block = self.own(v)
        return zeros(v) if block is None else block.diagonal(v.axes)

    def own(self, v: Value) -> Covariance | None:
        """Cov(Z^v, Z^v), of which as much as later vectors are likely to read."""
        return self.covariance(v, v, frozenset(pair(axis, axis) for axis in self.facts.apart[v]))

    # --- covariances -----------------------------------------------------------------------------

    def second(self, v: Value, w: Value, equal: Equal = EVERYTHING) -> Covariance | None:
        """E[Z^v Z^w]."""
        if isinstance(v.instruction, core.Map) and isinstance(w.instruction, core.Map):
            block = self._product(v, w, equal)
            if block is not None and equal.issuperset(block.pairs):
                return block.at(equal)
        block = self.covariance(v, w, equal)
        first, second = self.mean(v), self.mean(w)
        if first is None or second is None:
            return block
        product = outer(first, second, equal)
        return product if block is None else total([block, product])

    def covariance(self, v: Value, w: Value, equal: Equal = EVERYTHING) -> Covariance | None:
        """Cov(Z^v, Z^w), at least where indices are equal on the pairs of axes in `equal`."""
        if not self.facts.roots[v] & self.facts.roots[w]:
            return None  # with no root in common they are independent
        if self.facts.position[v] < self.facts.position[w]:
            return _swapped(self.covariance(w, v, swapped(equal)))
        known = self._blocks.setdefault((v, w), {})
        if equal not in known:
            enough = next((asked for asked in known if asked <= equal), None)
            block = self._expanded(v, w, equal) if enough is None else known[enough]
            known[equal] = block.at(equal) if block is not None and equal else block
        return known[equal]

    def _expanded(self, v: Value, w: Value, equal: Equal) -> Covariance | None:
        if self._is_linear(v):
            first, second = v.instruction, w.instruction
            if (
                isinstance(first, core.Take)
                and isinstance(second, core.Take)
                and _are_alike(first, second, equal)
            ):
                return self._taken(first, second, equal)
            return expanded(v, lambda u, asked: self.covariance(u, w, asked), self.numbers, equal)
        if self._is_linear(w):
            of = lambda u, asked: self.covariance(u, v, asked)
            return _swapped(expanded(w, of, self.numbers, swapped(equal)))
        if v in self.facts.bilinear or w in self.facts.bilinear:
            return self._bilinear(v, w)
        if isinstance(v.instruction, core.Repeat) or isinstance(w.instruction, core.Repeat):
            return self._of_loop(v, w)
        if isinstance(v.instruction, core.Map):
            is_map = isinstance(w.instruction, core.Map)
            return (
                self._map_with_map(v, w, equal) if is_map else self._map_with_gaussian(v, w, equal)
            )
        if isinstance(w.instruction, core.Map):
            return _swapped(self._map_with_gaussian(w, v, swapped(equal)))
        if isinstance(v.instruction, core.Argument):
            return self.given.carried(v).covariance
        return (
            self._initial(v)
            if isinstance(v.instruction, core.Initial)
            else self._matmuls(v, w, equal)
        )

    def _taken(self, first: core.Take, second: core.Take, equal: Equal) -> Covariance | None:
        """Cov(x[places], x'[places]) = Cov(x, x')[places], where only equal indices are read."""
        old, new = (
            tuple(map(pair, *axes))
            for axes in ((first.axes, second.axes), (first.new, second.new))
        )
        rest = between(equal - set(new), first.x.axes, second.x.axes)
        block = self.covariance(first.x, second.x, rest | set(old))
        return (
            None
            if block is None
            else Covariance(block.c.take(old, [p.array for p in first.places], new))
        )

    def _of_loop(self, v: Value, w: Value) -> Covariance | None:
        """What comes out of a loop is known by itself only:
        what it has in common with x is not carried through it.
        """
        if v is not w:
            raise CannotCarry("what comes out of a loop meets what went in")
        return self.given.carried(v).covariance

    def take_note_of(self, inside: "Moments") -> None:
        """Of the integrals of a turn of a loop: whether they are closed forms,
        and what nodes they need.
        """
        self.integrals.take_note_of(inside.integrals)
        self.nodes.dimensions = max(self.nodes.dimensions, inside.nodes.dimensions)

    def _is_linear(self, v: Value) -> bool:
        """Is v linear in the vectors it reads, with known coefficients?"""
        return v.instruction.linear and v not in self.facts.bilinear

    def _bilinear(self, v: Any, w: Any) -> Covariance | None:
        """Cov(Σ_j p_ij v_j, Σ_l p_kl w_l) = E[q_i q_k] Σ_jl E[k_j k_l] E[v_j w_l],
        for scores p = n^{-1/2} qᵀk.
        """
        both = v in self.facts.bilinear and w in self.facts.bilinear
        if not both or unnamed(v.instruction.a) is not unnamed(w.instruction.a):
            return None  # E p = 0
        q, k = unnamed(v.instruction.a).inputs
        sides = [names_of(x.instruction.a) for x in (v, w)]
        queries, keys = (self._renamed(self.second(f, f), *sides) for f in (q, k))
        vectors = self.second(v.instruction.w, w.instruction.w)
        if queries is None or keys is None or vectors is None:
            return None
        product = queries.times(keys).times(vectors)
        return (
            product.contract(None, v.instruction.over)
            .swapped.contract(None, w.instruction.over)
            .swapped
        )

    def _renamed(self, block: Covariance | None, left: Any, right: Any) -> Covariance | None:
        return None if block is None else block.rename(left).swapped.rename(right).swapped

    def _initial(self, v: Value) -> Covariance:
        op: Any = v.instruction
        cov = jnp.asarray(self._slot(op.cov))
        shape = finite_shape(op.order)
        if op.diagonal:
            variances = labelled(cov.reshape(shape), op.order)
            return Covariance(variances.rename({a: pair(a, a) for a in variances.axes}))
        layout = (
            *(a and pair(a, None) for a in op.order),
            *(a and pair(None, a) for a in op.order),
        )
        return Covariance(labelled(cov.reshape(*shape, *shape), layout))

    def _slot(self, slot: Number) -> Any:
        return self.given.numbers[slot]  # type: ignore[attr-defined]

    def _matmuls(self, v: Value, w: Value, equal: Equal) -> Covariance | None:
        """Cov(W x, W x') = std² E[x x'], for each matrix of the family."""
        op, other = v.instruction, w.instruction
        assert isinstance(op, core.MatMul)
        assert isinstance(other, core.MatMul)
        W = op.family
        apart = between(equal | {pair(a, a) for a in W.axes}, op.x.axes, other.x.axes)
        if W.cols.wide:
            block = self.second(op.x, other.x, apart)
            return None if block is None else self._of_family(block, W)
        fresh = self.given.product(v) if v is w else None
        if fresh is not None:
            return covariance_of(fresh, equal)
        x, y = self.given.units(op.x), self.given.units(other.x)
        left, right = sides(x.axes, y.axes, apart)
        return self._of_family(Covariance(inner(x.rename(left), y.rename(right))), W)

    def _of_family(self, block: Covariance, W: core.Family) -> Covariance:
        """std² E[x x'] for each matrix of a family:
        entries made by different matrices are independent.
        """
        for axis in W.axes:
            block = block.restricted(axis, axis)
        return block.scaled(self.given.given(W.std, W.layout).mapped(jnp.square))

    # --- Nonlin ----------------------------------------------------------------------------------

    def _map_with_map(self, v: Value, w: Value, equal: Equal) -> Covariance | None:
        """Cov(φ(u), ψ(u')) = E[φ(u) ψ(u')] − E φ(u) E ψ(u')."""
        if not {v, w} <= self.facts.integrable:
            return self._factored(v, w, equal)
        block = self._product(v, w, equal)
        if block is None:
            return None
        first, second = self.mean(v), self.mean(w)
        if first is None or second is None:
            return block
        return block.mapped(
            lambda p, m, k: p - m * k, block.on_left(first), block.on_right(second)
        )

    def _product(self, v: Value, w: Value, equal: Equal) -> Covariance | None:
        """E[φ(u) ψ(t)] of functions of one Gaussian vector each;
        None where they are not, or are independent.
        """
        if (v, w, equal) not in self._products:
            self._products[v, w, equal] = self._integrated(v, w, equal)
        return self._products[v, w, equal]

    def _integrated(self, v: Value, w: Value, equal: Equal) -> Covariance | None:
        u, t = self.facts.argument.get(v), self.facts.argument.get(w)
        if u is None or t is None or not {v, w} <= self.facts.integrable:
            return None
        block = self.covariance(u, t, between(equal, u.axes, t.axes))
        if block is None:
            return None
        numbers = [
            self._numbers(v.instruction, block.on_left),
            self._numbers(w.instruction, block.on_right),
        ]
        means = self.mean(u), self.mean(t)
        m_u = None if means[0] is None else block.on_left(means[0])
        m_t = None if means[1] is None else block.on_right(means[1])
        K_uu, K_tt = block.on_left(self.variance(u)), block.on_right(self.variance(t))
        functions = [v.instruction, w.instruction]
        return Covariance(
            self.integrals.moment("product", functions, numbers, [m_u, m_t, K_uu, block.c, K_tt])
        )

    def _map_with_gaussian(self, v: Value, g: Value, equal: Equal) -> Covariance | None:
        """Cov(φ(u), g) = E φ'(u) Cov(u, g) (Stein), or E[b] Cov(a,
        g) for φ = a b with b independent of a and g.
        """
        u = self.facts.argument.get(v)
        if u is None:
            return self._factored(v, g, equal)
        block = self.covariance(u, g, between(equal, u.axes, g.axes))
        if block is None:
            return None
        numbers = self._numbers(v.instruction, lambda a: a)
        return block.scaled(
            self.integrals.moment(
                "slope", [v.instruction], [numbers], [self.mean(u), self.variance(u)]
            )
        )

    def _factored(self, v: Value, w: Value, equal: Equal) -> Covariance | None:
        """Cov(a b, c d) of products whose factors are independent;
        by quasi-Monte Carlo where that does not apply.
        """
        factors, others = (self._independent_factors(x.instruction) or (x, None) for x in (v, w))
        for (a, b), (c, d) in ((factors, others), (factors, others[::-1])):
            apart = all(
                x is None or y is None or self.facts.independent(x, y) for x, y in ((a, d), (b, c))
            )
            if apart and (b is not None or d is not None):
                return self._product_of_independent((a, c), (b, d), equal)
        return self.nodes.covariance(v, w)

    def _product_of_independent(self, ac: Any, bd: Any, equal: Equal) -> Covariance | None:
        """E[ac] E[bd] − E a E b E c E d = Cov(a,c) Cov(b,d) + E a E c Cov(b,d) + Cov(a,c) E b E d.

        A factor that is absent is 1.
        """
        covariances: list[Covariance | None] = []
        products: list[Covariance | None] = []
        for x, y in (ac, bd):
            known = x is not None and y is not None
            covariances.append(
                self.covariance(x, y, between(equal, x.axes, y.axes)) if known else None
            )
            m, k = (Labelled(jnp.ones(()), ()) if z is None else self.mean(z) for z in (x, y))
            products.append(None if m is None or k is None else outer(m, k))
        (A, B), (M, N) = covariances, products
        terms = [
            x.times(y) for x, y in ((A, B), (M, B), (A, N)) if x is not None and y is not None
        ]
        return total(terms) if terms else None

    def _independent_factors(self, op: object) -> tuple[Value, Value] | None:
        """a and b of a product a b of two independent vectors."""
        if (
            not isinstance(op, core.Map)
            or op.phi is not nonlinearities.multiply
            or len(op.args) != 2
        ):
            return None
        a, b = op.args
        return (a, b) if a.is_vector and b.is_vector and self.facts.independent(a, b) else None

    def _numbers(self, op: Any, place: Callable[[Labelled], Labelled]) -> dict[Value, Labelled]:
        """The numbers among the arguments of φ, put in their place."""
        return {p: place(self.numbers[p]) for p in op.args if not p.is_vector}


def _are_alike(first: core.Take, second: core.Take, equal: Equal) -> bool:
    """Are both taken at the same places, of which only equal ones are read:
    windows of a convolution?
    """
    return first.places == second.places and equal.issuperset(map(pair, first.new, second.new))


def _swapped(block: Covariance | None) -> Covariance | None:
    return None if block is None else block.swapped


def zeros(v: Value) -> Labelled:
    """Zero for each entry."""
    return Labelled(jnp.zeros(()), ())


def names_of(p: Value) -> dict[Axis, Axis]:
    """What the axes of numbers, as they were made, are called in the end."""
    renames = []
    while isinstance(p.instruction, core.Rename):
        renames.append(p.instruction)
        p = p.instruction.x
    called = {axis: axis for axis in p.axes}
    for rename in reversed(renames):
        called = {axis: rename.name_of(name) for axis, name in called.items()}
    return called


def covariance_of(fresh: Fresh, equal: Equal = EVERYTHING) -> Covariance:
    """The covariance of Gaussian vectors on roots."""
    if equal:
        c = fresh.c.with_axes(union(fresh.c.axes, fresh.own_axes))
        both = sides(c.axes, c.axes, equal | {pair(a, a) for a in fresh.own_axes})
        return Covariance(inner(*(c.rename(names) for names in both)))
    owns = tuple(axis for axis in fresh.own_axes)
    others = tuple(axis for axis in fresh.c.axes if axis not in fresh.own)
    c = fresh.c.whole((*owns, *others)).reshape(*sizes(owns), -1, fresh.roots)
    K = gram(c).reshape(*sizes(owns), *sizes(others), *sizes(others))
    labels = (
        *(pair(a, a) for a in owns),
        *(pair(a, None) for a in others),
        *(pair(None, a) for a in others),
    )
    return Covariance(Labelled(K, labels))
