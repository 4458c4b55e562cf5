"""One draw of the scores of a program at infinite width,
the moments of its wide vectors given them, and the variances that laws of heads read off it.

Vectors of fixed dimension follow the rules of frames. Of wide vectors only moments are ever
needed: a MatMul into a fixed dimension, a dot product and an average read them, and nothing of a
wide vector is drawn.
"""

import dataclasses
import functools
import itertools
import math
from collections.abc import Callable, Mapping
from typing import Any

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from limitlaw.core import instructions as core
from limitlaw.core.analysis import Analysis
from limitlaw.core.covariance import Covariance, Equal, pair, sides
from limitlaw.core.kinds import Number, Value
from limitlaw.core.labelled import Labelled, sizes, union
from limitlaw.core.program import Output
from limitlaw.core.space import Dim
from limitlaw.engines.frames.draw import FRAME_RULES, FramesDraw
from limitlaw.engines.frames.fresh import Form, Fresh, inner
from limitlaw.engines.limit import scores
from limitlaw.engines.limit.carrying import Passing, passing
from limitlaw.engines.limit.facts import LimitFacts
from limitlaw.engines.limit.forms import BilinearForms
from limitlaw.engines.limit.invariants import Invariant, Invariants
from limitlaw.engines.limit.joint_law import JointLaw, Passed
from limitlaw.engines.limit.loop import LimitLoop, Recipe
from limitlaw.engines.limit.means import zeros
from limitlaw.engines.limit.moments import Moments
from limitlaw.engines.limit.nodes import BLUR, Joint
from limitlaw.engines.limit.score_facts import correlated, undrawn_scores
from limitlaw.engines.limit.tied import TiedLoop
from limitlaw.engines.reading import ReadBy
from limitlaw.numerics.factors import gram, pivoted_factor
from limitlaw.numerics.random import Source

Outputs = tuple[Output, ...]


@dataclasses.dataclass(frozen=True)
class Static:
    """What is known of a program before its limit is taken."""

    facts: LimitFacts
    correlated: frozenset[Value]  # dot products that need a joint draw
    inflated: bool = False  # are Gaussian integrals taken to be larger by their errors?
    # of its loops, once known: what one iteration asks for, what passes through those whose
    # iterations are tied, how many numbers that is, and the facts of their blocks
    iterations: dict[Value, Recipe] = dataclasses.field(default_factory=dict, compare=False)
    tied: dict[Value, Any] = dataclasses.field(default_factory=dict, compare=False)
    held: dict[Value, int] = dataclasses.field(default_factory=dict, compare=False)
    blocks: dict[Value, Any] = dataclasses.field(default_factory=dict, compare=False)

    @classmethod
    def of(
        cls,
        analysis: Analysis,
        coarse: bool = False,
        inflated: bool = False,
        asked: frozenset[Value] = frozenset(),
        crosswise: bool = False,
    ) -> "Static":
        """The facts of a program; the scores `asked` for are not drawn."""
        jointly = correlated(LimitFacts(analysis)) - asked
        undrawn = undrawn_scores(analysis) - jointly | asked
        facts = LimitFacts(analysis, undrawn, coarse, crosswise=crosswise)
        return cls(facts, jointly, inflated)

    @property
    def in_order(self) -> list[Value]:
        """Those, as they are met."""
        return sorted(self.correlated, key=self.facts.position.__getitem__)

    def inside(self, scan: Value) -> tuple["Static", Passing]:
        """The same for the block of a loop, and what passes through that."""
        if scan not in self.blocks:
            through = passing(self.facts, scan)
            self.blocks[scan] = Static(through.facts, through.jointly, self.inflated), through
        return self.blocks[scan]


class LimitDraw(FramesDraw):
    """One draw at infinite width. `table`: normal nodes for nonlinearities that need
    quasi-Monte Carlo. `known`: what all draws share, as far as it was computed before.
    """

    def __init__(
        self,
        static: Static,
        numbers: Mapping[Number, Any],
        source: Source,
        table: object,
        observed: int = 1,
        known: Mapping[Invariant, Any] | None = None,
    ):
        super().__init__(static.facts.analysis, numbers, _dimension, source, observed)
        self.static, self._table = static, table
        self.invariants = Invariants(static.facts.random, known)
        self.law = JointLaw({}, {})  # of what the block of a loop is given
        self._frames: dict[Dim, Joint] = {}
        self._factored: dict[Value, Fresh] = {}

    @functools.cached_property
    def moments(self) -> Moments:
        """Of the wide vectors, given what is drawn."""
        return Moments(self.static.facts, self, self._table, self.static.inflated)

    @functools.cached_property
    def forms(self) -> BilinearForms:
        """The scores that are drawn jointly."""
        return BilinearForms(self.moments, self.static.in_order)

    def evaluate(self, value: Value) -> None:
        """Numbers and vectors of fixed dimension; of wide ones, products that met narrow ones."""
        op = value.instruction
        if isinstance(op, core.Scan) and self._is_known(value):
            return
        if value.dim is not None and value.dim.wide:
            if isinstance(op, core.MatMul):
                self._product(value, op)
            elif isinstance(op, core.Add | core.Contract | core.Rename | core.Take):
                self._mix(value, op)
        elif not self._is_undrawn(value):
            super().evaluate(value)

    def inside(self, static: Static, source: Source) -> "LimitDraw":
        """A draw of the block of a loop."""
        return LimitDraw(static, self.numbers, source, self._table, self.observed)

    def _is_known(self, loop: Value) -> bool:
        """Is all that comes out of a loop known before the draw?"""
        random = loop in self.static.facts.random
        return self.invariants.are_known and not random and self.reader is None

    def passed(self, loop: Value) -> Passed:
        """What comes out of a loop."""
        if loop not in self.results:
            op = loop.instruction
            assert isinstance(op, core.Scan)
            self.results[loop] = _scan(self, loop, op)
        return self.results[loop]

    def _is_undrawn(self, value: Value) -> bool:
        op = value.instruction
        renamed = isinstance(op, core.Rename) and not value.is_vector and op.x not in self.results
        return value in self.static.facts.undrawn or renamed

    def _product(self, value: Value, op: core.MatMul) -> None:
        if op.family.cols.wide and value in self.static.facts.behind:
            self.moments.own(value)  # now, so that no recursion runs through the whole program
        if op.family in self.facts.reused:
            return
        if not op.family.cols.wide or self.low_rank(op.x) is not None:
            self.results[value] = FRAME_RULES[core.MatMul](self, value, op)

    def _mix(self, value: Value, op: core.Add | core.Contract | core.Rename | core.Take) -> None:
        """Sums of such products stay coefficients on roots: that of all heads is one matrix, and
        no head has a covariance of its own.
        """
        known = all(isinstance(self.results.get(x), Form) for x in value.vectors)
        apart = all(
            self.static.facts.independent(v, w)
            for v, w in itertools.combinations(value.vectors, 2)
        )
        if known and apart and all(u in self.results for u in value.inputs):
            self.results[value] = FRAME_RULES[type(op)](self, value, op)

    def low_rank(self, value: Value) -> Fresh | None:
        """A wide vector as coefficients on fewer roots than it has entries: what is made of data
        of few dimensions by matrices and scores.
        """
        form = self.results.get(value)
        if not isinstance(form, Form) or form.fresh is None or form.drawn is not None:
            return None
        fresh = form.fresh
        entries = math.prod(int(axis.size) for axis in value.axes if axis not in fresh.own)
        return fresh if fresh.roots < entries else None

    def product(self, value: Value, equal: Equal) -> Covariance | None:
        """Cov(W x) for x of fixed dimension, where W meets nothing else; that of their sums."""
        form = self.results.get(value)
        fresh = form.fresh if isinstance(form, Form) else None
        return None if fresh is None else covariance_of(fresh, equal)

    def only_fresh(self, value: Value) -> Fresh | None:
        """A wide vector as coefficients on Gaussian roots with the same inner products."""
        assert value.dim is not None
        if not value.dim.wide:
            return super().only_fresh(value)
        if (fresh := self.low_rank(value)) is not None:
            return fresh
        with self.invariants.asked_for(("factor", value), value) as before:
            if before:
                return before[0]
            if value not in self._factored:  # queries, keys and values are made of one factor
                block = self.moments.second(value, value)
                self._factored[value] = (
                    Fresh(Labelled(jnp.zeros(1), ()), value.axes, frozenset())
                    if block is None
                    else fresh_of(block, value)
                )
        return self._factored[value]

    def invariant(self, name: Invariant) -> Any:
        """The quantity of a name that was asked for."""
        kind, *values = name
        ways: Mapping[str, Callable[..., Any]] = {
            "number": self.results.__getitem__,
            "factor": self.only_fresh,
            "mean": self.moments.mean,
            "covariance": self.moments.covariance,
            "product": self.moments.product,
        }
        return ways[kind](*values)

    def units(self, value: Value) -> Labelled:
        """Coordinates of a wide vector in a frame of those met so far."""
        assert value.dim is not None
        if not value.dim.wide:
            return super().units(value)
        joint = self._frames.setdefault(value.dim, Joint(self._flat, blur=BLUR))
        return Labelled(joint.rows(value).reshape(*sizes(value.axes), -1), value.axes)

    def second_moment(self, value: Value) -> Float[Array, "m m"]:
        """E[Z^v (Z^v)ᵀ] over the flattened entries, given what is drawn."""
        wide = value.dim is not None and value.dim.wide
        return self._flat(value, value) if wide else super().second_moment(value)

    def _flat(self, v: Value, w: Value) -> Any:
        block = self.moments.second(v, w)
        if block is None:
            return None if v is not w else jnp.zeros((math.prod(sizes(v.axes)),) * 2)
        return block.flat(v.axes, w.axes)


def _dimension(dim: Dim) -> int | float:
    return math.inf if dim.wide else dim.at(1)


def _dot(draw: LimitDraw, value: Value, op: core.Dot) -> Labelled:
    if not op.dim.wide:
        return FRAME_RULES[core.Dot](draw, value, op)
    if value.is_average:
        return draw.moments.mean(op.q) or zeros(value)
    if op.scaling == "linear":
        return scores.deterministic(draw.moments, value)
    if value in draw.static.correlated:
        return draw.forms.draw(draw.key(value), value)
    return FRAME_RULES[core.Dot](draw, value, op)


def _scan(draw: LimitDraw, value: Value, op: core.Scan) -> Passed:
    return (TiedLoop if op.shared else LimitLoop)(draw, value, op).passed()


def _from_scan(draw: LimitDraw, value: Value, op: core.FromScan) -> Labelled:
    """Numbers; of wide vectors moments are read."""
    with draw.invariants.asked_for(("number", value), value) as before:
        return before[0] if before else draw.passed(op.scan).numbers[op.place]


LimitDraw.rules = {**FRAME_RULES, core.Dot: _dot, core.Scan: _scan, core.FromScan: _from_scan}


def fresh_of(block: Covariance, value: Value) -> Fresh:
    """Vectors with these inner products, as coefficients on roots; paired axes have their own."""
    apart = [p.left for p in block.pairs if p.left is not p.right and p.left is not None]
    block = block.dense(apart) if apart else block
    own = tuple(p.left for p in block.pairs if p.left is not None)
    found = {a for p in block.labels for a in (p.left, p.right) if a is not None}
    others = tuple(axis for axis in value.axes if axis in found and axis not in own)
    labels = (
        *(pair(a, a) for a in own),
        *(pair(a, None) for a in others),
        *(pair(None, a) for a in others),
    )
    heads, tokens = sizes(own), sizes(others)
    m = math.prod(tokens)
    K = block.c.whole(labels).reshape(*heads, m, m)
    # read by every head: computed once, not inside their loops
    L = lax.optimization_barrier(pivoted_factor(K))
    c = Labelled(L.reshape(*heads, *tokens, m), (*own, *others))
    return Fresh(c, value.axes, frozenset(own))


def covariance_of(fresh: Fresh, equal: Equal) -> Covariance:
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


# --- what laws of heads read ---------------------------------------------------------------------


@ReadBy
def variance(draw: LimitDraw, outputs: Outputs) -> Float[Array, ""]:
    """Var Z^y of one number, given what is drawn."""
    return variances(draw, outputs).reshape(())


@ReadBy
def variances(draw: LimitDraw, outputs: Outputs) -> Float[Array, " m"]:
    """Var Z^y of each entry, given what is drawn."""
    ((y, layout),) = outputs
    return unsigned(draw.moments.variance(y).whole(layout).reshape(-1))


def unsigned(v: Float[Array, "..."]) -> Float[Array, "..."]:
    """|v|: where tokens cancel, a rounding of either sign is left of a variance."""
    return jnp.where(v < 0, -v, v)
