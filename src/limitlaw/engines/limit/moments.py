"""First and second moments of the limits Z^v of wide vectors, given all numbers:
Definition 3.1 as a recursion.

Cov(v, w) is found by expanding the later of the two by its instruction. Linear instructions act on
the covariance; what is left are pairs of MatMul outputs, initial vectors and Nonlin outputs, whose
Gaussian integrals are taken entry by entry (`Integrals`).
"""

import itertools
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp

from limitlaw.core import instructions as core
from limitlaw.core.covariance import (
    EVERYTHING,
    Covariance,
    Equal,
    between,
    outer,
    pair,
    sides,
    swapped,
    total,
)
from limitlaw.core.kinds import (
    Coordinatewise,
    Family,
    Instruction,
    Linear,
    Number,
    Value,
    no_rule,
    rule_for,
)
from limitlaw.core.labelled import (
    Labelled,
    finite_shape,
    labelled,
    multiply,
    sizes,
)
from limitlaw.core.linear_covariance import expanded
from limitlaw.engines.frames.fresh import inner
from limitlaw.engines.limit import together
from limitlaw.engines.limit.facts import LimitFacts, independent_factors
from limitlaw.engines.limit.integrals import Integrals
from limitlaw.engines.limit.nodes import AtNodes
from limitlaw.engines.limit.products import bilinear, factored

if TYPE_CHECKING:
    from limitlaw.engines.limit.draw import LimitDraw


class Moments:
    """Means and covariances of the wide vectors of a program. None stands for zero."""

    def __init__(self, facts: LimitFacts, given: "LimitDraw", table: Any, inflated: bool = False):
        self.facts, self.given, self.integrals = facts, given, Integrals(inflated)
        self._means: dict[Value, Labelled | None] = {}
        # of stacks: what is known of each of their vectors
        self._grown: dict[str, dict[Value, Labelled]] = {}
        self._blocks: dict[tuple[Value, Value], dict[Equal, Covariance | None]] = {}
        self._products: dict[tuple[Value, Value, Equal], Covariance | None] = {}
        self._table = table
        self._nodes: AtNodes | None = None
        self._invariants = given.invariants

    @property
    def nodes(self) -> AtNodes:
        """The same vectors at nodes, where an integral needs them."""
        if self._nodes is None:
            self._nodes = AtNodes(self, self._table)
        return self._nodes

    @property
    def dimensions(self) -> int:
        """Of those nodes."""
        return 0 if self._nodes is None else self._nodes.dimensions

    @property
    def numbers(self) -> Mapping[Value, Any]:
        """What is known of the numbers of the program, and of stacks of them."""
        return _Numbers(self)

    # --- means -----------------------------------------------------------------------------------

    def mean(self, v: Value) -> Labelled | None:
        """E Z^v."""
        with self._invariants.asked_for(("mean", v), v) as before:
            if before:
                return before[0]
            if v not in self._means:
                terms = self.facts.terms.get(v)
                if not terms:
                    self._means[v] = self._mean(v, v.instruction)
                elif all(self.mean(u) is None for u in terms):
                    self._means[v] = None
                else:
                    self._means[v] = self.grown("mean", v, lambda u: self.mean(u) or zeros(u))
        return self._means[v]

    def grown(self, name: str, v: Value, of: Callable[[Value], Labelled]) -> Labelled:
        """What `of` says of each vector of a stack; what that is, under a name."""
        known = self._grown.setdefault(name, {})
        if v not in known:
            known[v] = self.facts.together.grown(v, known, of)
        return known[v]

    def _mean(self, v: Value, op: Any) -> Labelled | None:
        if v in self.facts.bilinear:
            return None
        return rule_for(type(op), MEANS, "the infinite-width limit")(self, v, op)

    def mean_of_sum(self, v: Value, op: Linear) -> Labelled | None:
        """E of a linear combination: that of the means."""
        if all(self.mean(u) is None for u in v.vectors):
            return None
        return op.applied(lambda u: self.mean(u) or zeros(u), self.numbers)

    def mean_of_initial(self, v: Value, op: core.Initial) -> Labelled | None:
        """As it is given."""
        return None if op.centred else self.given.given(op.mean, op.order)

    def mean_of_argument(self, v: Value, op: core.Argument) -> Labelled | None:
        """Of what passes through a loop."""
        return self.given.law.mean(v)

    def mean_of_result(self, v: Value, op: core.FromScan) -> Labelled | None:
        """Of what comes out of it."""
        return self.given.passed(op.scan).law.mean(op.place)

    def mean_of_map(self, v: Value, op: Coordinatewise) -> Labelled | None:
        """E φ(Z), a Gaussian integral."""
        u = self.facts.argument.get(v)
        if u is not None:
            numbers = self._numbers(op, lambda a: a)
            return self.integrals.moment("mean", [op], [numbers], [self.mean(u), self.variance(u)])
        factors = independent_factors(self.facts, op)
        if factors is None:
            return self.nodes.at(v).mapped(lambda z: z.mean(axis=-1))
        first, second = (self.mean(f) for f in factors)
        return None if first is None or second is None else multiply(first, second)

    def variance(self, v: Value) -> Labelled:
        """Var Z^v, entry by entry."""
        if v in self.facts.terms:
            return self.grown("variance", v, self.variance)
        block = self.own(v)
        return zeros(v) if block is None else block.diagonal(v.axes)

    def own(self, v: Value) -> Covariance | None:
        """Cov(Z^v, Z^v), of which as much as later vectors are likely to read."""
        return self.covariance(v, v, frozenset(pair(axis, axis) for axis in self.facts.apart[v]))

    # --- covariances -----------------------------------------------------------------------------

    def second(self, v: Value, w: Value, equal: Equal = EVERYTHING) -> Covariance | None:
        """E[Z^v Z^w]."""
        if isinstance(v.instruction, Coordinatewise) and isinstance(w.instruction, Coordinatewise):
            block = self.product(v, w, equal)
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
        name = "covariance", v, w, equal
        known = self._blocks.setdefault((v, w), {})
        with self._invariants.asked_for(name, v, w) as before:
            if before:
                return before[0]
            if equal not in known:
                enough = next((asked for asked in known if asked <= equal), None)
                block = self._expanded(v, w, equal) if enough is None else known[enough]
                known[equal] = block.at(equal) if block is not None and equal else block
        return known[equal]

    def _expanded(self, v: Value, w: Value, equal: Equal) -> Covariance | None:
        if isinstance(v.instruction, core.Stack):
            return together.covariance(self, v, w, equal)
        known = self.given.product(v, equal) if v is w else None
        if known is not None:
            return known
        if self._is_linear(v):
            first, second = v.instruction, w.instruction
            if (
                isinstance(first, core.Take)
                and isinstance(second, core.Take)
                and _are_alike(first, second, equal)
            ):
                return self._taken(first, second, equal)
            return expanded(v, lambda u, asked: self.covariance(u, w, asked), self.numbers, equal)
        if isinstance(w.instruction, core.Stack):
            return _swapped(together.covariance(self, w, v, swapped(equal)))
        if self._is_linear(w):
            of = lambda u, asked: self.covariance(u, v, asked)
            return _swapped(expanded(w, of, self.numbers, swapped(equal)))
        if isinstance(v.instruction, core.FromScan) or isinstance(w.instruction, core.FromScan):
            return self._of_results(v, w)
        if v in self.facts.bilinear or w in self.facts.bilinear:
            return bilinear(self, v, w)
        if isinstance(v.instruction, Coordinatewise):
            is_map = isinstance(w.instruction, Coordinatewise)
            return (
                self._map_with_map(v, w, equal) if is_map else self._map_with_gaussian(v, w, equal)
            )
        if isinstance(w.instruction, Coordinatewise):
            return _swapped(self._map_with_gaussian(w, v, swapped(equal)))
        return self._leaves(v, w, equal)

    def _leaves(self, v: Value, w: Value, equal: Equal) -> Covariance | None:
        """Cov of two matrix products; of an argument, or of initial vectors, with themselves."""
        if isinstance(v.instruction, core.Argument) and isinstance(w.instruction, core.Argument):
            return self.given.law.covariance(v, w)
        if isinstance(v.instruction, core.Initial):
            return self._initial(v)
        if v.instruction.matrices is None or w.instruction.matrices is None:
            raise no_rule(type(v.instruction), "the infinite-width limit")
        return self._matmuls(v, w, equal)

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

    def _of_results(self, v: Value, w: Value) -> Covariance | None:
        """Cov of what comes out of a loop with what else does, with what was met before it, and
        with functions of such vectors.
        """
        for first, second, turned in ((v, w, False), (w, v, True)):
            if not isinstance(op := first.instruction, core.FromScan):
                continue
            law, other = self.given.passed(op.scan).law, second.instruction
            same = isinstance(other, core.FromScan) and other.scan is op.scan
            key = other.place if isinstance(other, core.FromScan) and same else second
            if key in law:
                block = law.covariance(op.place, key)
            elif isinstance(other, Coordinatewise):
                block = _swapped(self._map_with_gaussian(second, first, EVERYTHING))
            else:
                continue
            return _swapped(block) if turned else block
        raise AssertionError(f"{v} and {w} meet behind a loop, and did not in it")

    def take_note_of(self, inside: "Moments") -> None:
        """Of the integrals of a turn of a loop: whether they are closed forms,
        and what nodes they need.
        """
        self.integrals.take_note_of(inside.integrals)
        if inside.dimensions > self.dimensions:
            self.nodes.dimensions = inside.dimensions

    def _is_linear(self, v: Value) -> bool:
        """Is v linear in the vectors it reads, with known coefficients?"""
        return v.instruction.linear and v not in self.facts.bilinear

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
        return self.given.numbers[slot]

    def _matmuls(self, v: Value, w: Value, equal: Equal) -> Covariance | None:
        """Cov(W x, W x') = std² E[x x'], for each matrix of the family."""
        op, other = v.instruction, w.instruction
        assert isinstance(op, core.MatMul)
        assert isinstance(other, core.MatMul)
        W = op.family
        apart = between(equal | {pair(a, a) for a in W.axes}, op.x.axes, other.x.axes)
        if W.cols.wide:
            self._in_order(w)
            block = self.second(op.x, other.x, apart)
            return None if block is None else self._of_family(block, W)
        x, y = self.given.units(op.x), self.given.units(other.x)
        left, right = sides(x.axes, y.axes, apart)
        return self._of_family(Covariance(inner(x.rename(left), y.rename(right))), W)

    def _in_order(self, w: Value) -> None:
        """The rows of covariances of W x₁, W x₂, …, up to a stack of them, one after the other,
        so that no recursion runs through all of them.
        """
        terms = self.facts.terms.get(w, ())
        rows = [
            (terms[i], self.facts.together.as_one(terms[:i])) for i in range(len(terms) - 1, 0, -1)
        ]
        unknown = list(itertools.takewhile(lambda row: row not in self._blocks, rows))
        for v, before in reversed(unknown):
            self.covariance(v, before)

    def _of_family(self, block: Covariance, W: Family) -> Covariance:
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
            return factored(self, v, w, equal)
        block = self.product(v, w, equal)
        if block is None:
            return None
        first, second = self.mean(v), self.mean(w)
        if first is None or second is None:
            return block
        return block.mapped(
            lambda p, m, k: p - m * k, block.on_left(first), block.on_right(second)
        )

    def product(self, v: Value, w: Value, equal: Equal) -> Covariance | None:
        """E[φ(u) ψ(t)] of functions of one Gaussian vector each;
        None where they are not, or are independent.
        """
        name = v, w, equal
        with self._invariants.asked_for(("product", *name), v, w) as before:
            if before:
                return before[0]
            if name not in self._products:
                self._products[name] = self._integrated(v, w, equal)
        return self._products[name]

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
            return factored(self, v, g, equal)
        block = self.covariance(u, g, between(equal, u.axes, g.axes))
        if block is None:
            return None
        numbers = self._numbers(v.instruction, lambda a: a)
        return block.scaled(
            self.integrals.moment(
                "slope", [v.instruction], [numbers], [self.mean(u), self.variance(u)]
            )
        )

    def _numbers(self, op: Any, place: Callable[[Labelled], Labelled]) -> dict[Value, Labelled]:
        """The numbers among the arguments of φ, put in their place."""
        return {p: place(self.numbers[p]) for p in op.args if not p.is_vector}


# E of a vector by the instruction that made it; None is zero
MEANS: Mapping[type[Instruction], Callable[[Moments, Value, Any], Labelled | None]] = {
    core.Ones: lambda moments, v, op: Labelled(jnp.ones(()), ()),
    core.Initial: Moments.mean_of_initial,
    core.MatMul: lambda moments, v, op: None,
    Coordinatewise: Moments.mean_of_map,
    Linear: Moments.mean_of_sum,
    core.Argument: Moments.mean_of_argument,
    core.FromScan: Moments.mean_of_result,
}


class _Numbers(Mapping[Value, Any]):
    def __init__(self, moments: Moments):
        self._moments, self._known = moments, moments.given.results

    def __getitem__(self, p: Value) -> Any:
        if p in self._moments.facts.terms:
            return self._moments.grown("numbers", p, self.__getitem__)
        return self._known[p]

    def __iter__(self) -> Iterator[Value]:
        return iter(self._known)

    def __len__(self) -> int:
        return len(self._known)


def _are_alike(first: core.Take, second: core.Take, equal: Equal) -> bool:
    """Are both taken at the same places, of which only equal ones are read: windows of a
    convolution? Their axes are the same, or have nothing to do with each other.
    """
    apart = set(first.axes).isdisjoint(second.x.axes) and set(second.axes).isdisjoint(first.x.axes)
    related = first.axes == second.axes or (apart and sizes(first.axes) == sizes(second.axes))
    equal_places = first.places == second.places
    return related and equal_places and equal.issuperset(map(pair, first.new, second.new))


def _swapped(block: Covariance | None) -> Covariance | None:
    return None if block is None else block.swapped


def zeros(v: Value) -> Labelled:
    """Zero for each entry."""
    return Labelled(jnp.zeros(()), ())
