"""First and second moments of the limits Z^v of wide vectors, given all numbers: Definition 3.1 as
a recursion.

Means have a rule for each instruction (`means.py`). Cov(v, w) is found by expanding the later of
the two by its instruction. Linear instructions act on the covariance; what is left are pairs of
MatMul outputs and initial vectors (`matrix_products.py`), and Nonlin outputs (`nonlin.py`), whose
Gaussian integrals are taken entry by entry (`Integrals`).
"""

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from limitlaw.core import instructions as core
from limitlaw.core.covariance import (
    EVERYTHING,
    Covariance,
    Equal,
    between,
    outer,
    pair,
    swapped,
    total,
)
from limitlaw.core.kinds import Coordinatewise, Value, no_rule, rule_for
from limitlaw.core.labelled import Axis, Labelled, sizes
from limitlaw.core.linear_covariance import expanded
from limitlaw.engines.limit import nonlin, together
from limitlaw.engines.limit.facts import LimitFacts
from limitlaw.engines.limit.integrals import Integrals
from limitlaw.engines.limit.matrix_products import initial_vectors, matrix_products
from limitlaw.engines.limit.means import MEANS, zeros
from limitlaw.engines.limit.nodes import AtNodes
from limitlaw.engines.limit.products import bilinear

if TYPE_CHECKING:
    from limitlaw.engines.limit.draw import LimitDraw


class Moments:
    """Means and covariances of the wide vectors of a program. None stands for zero."""

    def __init__(self, facts: LimitFacts, given: "LimitDraw", table: Any, inflated: bool = False):
        self.facts, self.given, self.integrals = facts, given, Integrals(inflated)
        self._means: dict[Value, Labelled | None] = {}
        # what is known of the vectors of each stack, by name
        self._grown: dict[str, dict[Value, Labelled]] = {}
        self._blocks: dict[tuple[Value, Value], dict[Equal, Covariance | None]] = {}
        self._products: dict[tuple[Value, Value, Equal], Covariance | None] = {}
        self._table = table
        self._nodes: AtNodes | None = None
        self._invariants = given.invariants

    @property
    def nodes(self) -> AtNodes:
        """The vectors at nodes, where an integral needs them."""
        if self._nodes is None:
            self._nodes = AtNodes(self, self._table)
        return self._nodes

    @property
    def dimensions(self) -> int:
        """The dimension of the nodes that were needed; 0 without any."""
        return 0 if self._nodes is None else self._nodes.dimensions

    @property
    def numbers(self) -> Mapping[Value, Any]:
        """The numbers of the program that are known, and stacks of them."""
        return _Numbers(self)

    # --- means -----------------------------------------------------------------------------------

    def mean(self, v: Value) -> Labelled | None:
        """E Z^v; None stands for zero."""
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
        """The arrays of(u) for each vector u of a stack v, along its axis; kept under a name."""
        known = self._grown.setdefault(name, {})
        if v not in known:
            known[v] = self.facts.together.grown(v, known, of)
        return known[v]

    def _mean(self, v: Value, op: Any) -> Labelled | None:
        if v in self.facts.bilinear:
            return None
        return rule_for(type(op), MEANS, "the infinite-width limit")(self, v, op)

    def variance(self, v: Value) -> Labelled:
        """Var Z^v, entry by entry."""
        if v in self.facts.terms:
            return self.grown("variance", v, self.variance)
        block = self.own(v)
        return zeros(v) if block is None else block.diagonal(v.axes)

    def own(self, v: Value) -> Covariance | None:
        """Cov(Z^v, Z^v), as much of it as later vectors are likely to read."""
        return self.covariance(v, v, frozenset(pair(axis, axis) for axis in self.facts.apart[v]))

    # --- covariances -----------------------------------------------------------------------------

    def second(self, v: Value, w: Value, equal: Equal = EVERYTHING) -> Covariance | None:
        """E[Z^v Z^w], at least where indices are equal on the pairs of axes in `equal`."""
        if isinstance(v.instruction, core.Rename):
            block = self.second(v.instruction.x, w, _by_old_names(v.instruction, equal))
            return block and block.rename(v.instruction.names)
        if isinstance(w.instruction, core.Rename):
            asked = swapped(_by_old_names(w.instruction, swapped(equal)))
            block = self.second(v, w.instruction.x, asked)
            return block and block.swapped.rename(w.instruction.names).swapped
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
            return None  # with no source of randomness in common
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

    def knows(self, v: Value, w: Value) -> bool:
        """Has Cov(v, w) been asked for?"""
        return (v, w) in self._blocks

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
            if isinstance(w.instruction, Coordinatewise):
                return nonlin.map_with_map(self, v, w, equal)
            return nonlin.map_with_gaussian(self, v, w, equal)
        if isinstance(w.instruction, Coordinatewise):
            return _swapped(nonlin.map_with_gaussian(self, w, v, swapped(equal)))
        return self._leaves(v, w, equal)

    def _leaves(self, v: Value, w: Value, equal: Equal) -> Covariance | None:
        """Cov of two matrix products; of an argument, or of initial vectors, with themselves."""
        if isinstance(v.instruction, core.Argument) and isinstance(w.instruction, core.Argument):
            return self.given.law.covariance(v, w)
        if isinstance(v.instruction, core.Initial):
            return initial_vectors(self, v)
        if v.instruction.matrices is None or w.instruction.matrices is None:
            raise no_rule(type(v.instruction), "the infinite-width limit")
        return matrix_products(self, v, w, equal)

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
        """Cov of a loop's result with another, with a vector from before it, or its functions."""
        for first, second, turned in ((v, w, False), (w, v, True)):
            if not isinstance(op := first.instruction, core.FromScan):
                continue
            law, other = self.given.passed(op.scan).law, second.instruction
            same = isinstance(other, core.FromScan) and other.scan is op.scan
            key = other.place if isinstance(other, core.FromScan) and same else second
            if key in law:
                block = law.covariance(op.place, key)
            elif isinstance(other, Coordinatewise):
                block = _swapped(nonlin.map_with_gaussian(self, second, first, EVERYTHING))
            else:
                continue
            return _swapped(block) if turned else block
        raise AssertionError(f"{v} and {w} meet behind a loop, and did not in it")

    def take_note_of(self, inside: "Moments") -> None:
        """Take over an iteration's flags: are its integrals closed forms; what nodes it needs."""
        self.integrals.take_note_of(inside.integrals)
        if inside.dimensions > self.dimensions:
            self.nodes.dimensions = inside.dimensions

    def _is_linear(self, v: Value) -> bool:
        """Is v linear in the vectors it reads, with known coefficients?"""
        return v.instruction.linear and v not in self.facts.bilinear

    def product(self, v: Value, w: Value, equal: Equal) -> Covariance | None:
        """E[φ(u) ψ(t)] of functions of one Gaussian vector each; else, or if independent, None."""
        name = v, w, equal
        with self._invariants.asked_for(("product", *name), v, w) as before:
            if before:
                return before[0]
            if name not in self._products:
                self._products[name] = nonlin.product(self, v, w, equal)
        return self._products[name]


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


def _by_old_names(op: core.Rename, equal: Equal) -> Equal:
    """Pairs of axes of a renamed batch and another one, by the names from before."""
    old: dict[Axis, Axis] = dict(zip(op.new, op.old, strict=True))
    return frozenset(pair(old.get(p.left, p.left), p.right) for p in equal if p.left)


def _are_alike(first: core.Take, second: core.Take, equal: Equal) -> bool:
    """Are both taken at the same places, of which equal ones are read, as windows of a
    convolution, with the same axes or unrelated ones?
    """
    apart = set(first.axes).isdisjoint(second.x.axes) and set(second.axes).isdisjoint(first.x.axes)
    related = first.axes == second.axes or (apart and sizes(first.axes) == sizes(second.axes))
    equal_places = first.places == second.places
    return related and equal_places and equal.issuperset(map(pair, first.new, second.new))


def _swapped(block: Covariance | None) -> Covariance | None:
    return None if block is None else block.swapped
