"""One iteration of a loop with the same matrices in each, and all earlier ones as a batch."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from limitlaw.core import instructions as core
from limitlaw.core.analysis import Analysis
from limitlaw.core.covariance import Covariance, Equal, pair
from limitlaw.core.instructions import Scan
from limitlaw.core.kinds import Coordinatewise, Number, Value
from limitlaw.core.labelled import Axes, Axis, Labelled, sizes
from limitlaw.core.linear_covariance import expanded
from limitlaw.core.program import Program, ancestors
from limitlaw.engines.limit.facts import LimitFacts, OfArgument, independent_factors
from limitlaw.engines.limit.forms import Place, gram_of
from limitlaw.engines.limit.moments import Moments
from limitlaw.engines.limit.nodes import BLUR, extension
from limitlaw.engines.limit.pairings import pairings
from limitlaw.engines.limit.products import in_two
from limitlaw.engines.limit.score_facts import scores

if TYPE_CHECKING:
    from limitlaw.engines.limit.draw import LimitDraw, Static

Name = tuple[str, int]
TurnState = dict[Name, Any]  # what passes from iteration to iteration
OWN = "own", 0  # Cov(x_t, x_t)


class History:
    """A block, and a copy of it for all iterations at once: `of` takes values to their copies
    along iterations, loop-invariant ones to themselves.
    """

    def __init__(self, op: Scan, turns: int):
        self.turns = Axis(turns)
        (self.argument,), (self.result,) = op.block.arguments, op.block.results
        self.program = Program(op.block.results)
        self.of: dict[Value, Value] = {}
        for v in ancestors(op.block.results):
            self.of[v] = self._copied(v)
        self.values = list(self.of)
        self.past = {past: v for v, past in self.of.items() if past is not v}

    def _copied(self, v: Value) -> Value:
        axes = (self.turns, *v.axes)
        if v is self.argument:
            return Value(core.Argument(), axes, v.dim)
        if all(self.of[u] is u for u in v.inputs):
            return v
        if not v.is_vector:
            return Value(core.Constant(Number(np.zeros(())), ()), axes, None)
        return Value(v.instruction.replaced({u: self.of[u] for u in v.inputs}), axes, v.dim)

    @property
    def numbers(self) -> list[Value]:
        """The numbers of an iteration that its vectors read."""
        read = (u for v in self.past.values() if v.is_vector for u in v.inputs)
        return [p for p in dict.fromkeys(read) if not p.is_vector and self.of[p] is not p]

    def room(self, name: Name) -> Any:
        """Zeros for what passes from iteration to iteration under a name."""
        kind, i = name
        x = self.argument.axes if kind == "product" else ()
        return jnp.zeros(sizes((self.turns, *x, *self.values[i].axes)))

    def facts(self, coarse: bool) -> LimitFacts:
        """The facts of the block and its copy; the argument may depend on all that is random."""
        vectors = [past for past in self.past if past.is_vector]
        analysis = Analysis(Program((*vectors, self.result)))
        roots = (1 << 2 * len(analysis.values)) - 1
        known = dict.fromkeys(
            (self.argument, self.of[self.argument]), OfArgument(True, roots=roots)
        )
        return LimitFacts(analysis, frozenset(), coarse, arguments=known)

    def static(self, outside: "Static") -> "Static":
        """The facts for draws, with all scores drawn jointly."""
        drawn = frozenset(scores(self.program.values))
        return type(outside)(self.facts(outside.facts.coarse), drawn, outside.inflated)


def why_not_tied(outside: LimitFacts, scan: Value) -> str:
    """Why the state of tied iterations of a loop cannot be carried; empty if it can."""
    op = scan.instruction
    assert isinstance(op, Scan)
    if not len(op.inputs) == len(op.block.results) == 1:
        return "one stream of vectors passes through tied iterations"
    if not all(map(_is_plain, ancestors(op.block.results))):
        return "only finite batches of wide vectors pass through tied iterations"
    if outside.loops[scan].known(0)[1]:
        return "means are not carried through tied iterations"
    if _made(ancestors(op.starts)) & _made(ancestors(op.block.results)):
        return "the first iteration is given what its matrices made"
    facts = History(op, 2).facts(outside.coarse)
    if not facts.gaussian[op.block.results[0]]:
        return "what passes through tied iterations is not Gaussian"
    if _needs_nodes(facts):
        return "vectors at nodes are not carried through tied iterations"
    found = pairings(facts, scores(ancestors(op.block.results))).values()
    if any(len(end.places) > 1 for pairing in found for end in (pairing.first, pairing.second)):
        return "one matrix of scores meets several vectors in an iteration"
    return ""


def _made(values: list[Value]) -> set[object]:
    """The matrices and initial vectors among these values."""
    initial = {v for v in values if isinstance(v.instruction, core.Initial)}
    return initial | {v.instruction.matrices for v in values} - {None}


def _needs_nodes(facts: LimitFacts) -> bool:
    """Is there a nonlinearity whose moments are neither integrals, nor those of a product of
    independent vectors with all that it may meet?
    """
    functions = [v for v in facts.roots if isinstance(v.instruction, Coordinatewise)]
    products = [v for v in facts.roots if v.instruction.matrices is not None]
    rough = [v for v in functions if v not in facts.integrable]
    return any(independent_factors(facts, v.instruction) is None for v in rough) or any(
        not facts.independent(v, w) and in_two(facts, v, w) is None
        for v in rough
        for w in functions + products
    )


def _is_plain(v: Value) -> bool:
    """Is it a batch of wide vectors or of numbers, without an axis of nodes or a loop inside?"""
    plain = all(type(axis) is Axis and isinstance(axis.size, int) for axis in v.axes)
    wide = v.dim is None or v.dim.wide
    read = all(u.dim is None or u.dim.wide for u in v.inputs)
    return plain and wide and read and not isinstance(v.instruction, core.Scan | core.FromScan)


class TurnMoments(Moments):
    """Moments in iteration `turn`, and with all earlier ones; what the `state` passed on lacks is
    noted in `asked`, and taken as zero.
    """

    def __init__(
        self, history: History, turn: Any, state: TurnState, facts: LimitFacts, given: "LimitDraw"
    ):
        super().__init__(facts, given, None, given.static.inflated)
        self._history, self._turn, self._state = history, turn, state
        self.asked: dict[Name, None] = {}
        self._chains: dict[Value, Any] = {}

    @property
    def nodes(self) -> Any:
        """Refused: there are no vectors at nodes."""
        raise AssertionError("vectors at nodes are not carried through tied iterations")

    def variance(self, v: Value) -> Labelled:
        """Var Z^v; for earlier iterations it is in the state."""
        if v not in self._history.past:
            return super().variance(v)
        return Labelled(self._known("variance", self._history.past[v]), v.axes)

    def _known(self, kind: str, v: Value) -> Any:
        """The entry of the state, iterations in front."""
        name = kind, self._history.values.index(v)
        self.asked[name] = None
        known = self._state.get(name)
        return self._history.room(name) if known is None else known

    def _expanded(self, v: Value, w: Value, equal: Equal) -> Covariance | None:
        if v in self._history.past and w in self._history.past:
            raise AssertionError("covariances of two earlier turns are not carried")
        return super()._expanded(v, w, equal)

    def _leaves(self, v: Value, w: Value, equal: Equal) -> Covariance | None:
        """Cov of matrix products, initial vectors and arguments."""
        x = self._history.argument
        arguments = (x, self._history.of[x])
        if v in arguments and w in arguments:
            return self._of_arguments(v, w)
        if w in arguments:
            return self._of_product(v, w)
        if v in arguments:
            found = self._of_product(w, v)
            return None if found is None else found.swapped
        return super()._leaves(v, w, equal)

    def _of_arguments(self, v: Value, w: Value) -> Covariance:
        """Cov(x_t, x_t), and Cov(x_t, x_s)."""
        x, turns = self._history.argument, self._history.turns
        left, right = _left(x.axes), _right(x.axes)
        if v is w:
            return Covariance(Labelled(self._state[OWN], (*left, *right)))
        found = Covariance(Labelled(self._known("product", x), (pair(None, turns), *left, *right)))
        return found if v is x else found.swapped

    def _of_product(self, g: Value, x: Value) -> Covariance | None:
        """Cov(g, x) of a matrix product and an argument, one of them of this iteration."""
        argument, turns = self._history.argument, self._history.turns
        if g in self._history.past:
            own = self._history.past[g]
            array = self._known("product", own)
            labels = (pair(None, turns), *_left(argument.axes), *_right(own.axes))
            return Covariance(Labelled(array, labels)).swapped
        chain = self._chain(g)  # Cov(x_s, g)
        left, right = _left(argument.axes), _right(g.axes)
        if x is argument:
            at = lax.dynamic_index_in_dim(chain, self._turn, keepdims=False)
            return Covariance(Labelled(at, (*left, *right))).swapped
        return Covariance(Labelled(chain[:-1], (pair(turns, None), *left, *right))).swapped

    # --- products of this iteration with the arguments of all iterations -------------------------

    def _chain(self, g: Value) -> Any:
        """Cov(x_s, g) for all iterations s, from x₀ on, which is independent of the matrices."""
        if g not in self._chains:
            self._chains[g] = self._followed(g)
        return self._chains[g]

    def _followed(self, g: Value) -> Any:
        result, argument, turns = self._history.result, self._history.argument, self._history.turns
        linear = _linear(result)
        leaves = [v for v in linear if not v.instruction.linear and v is not argument]
        met = {v: self.covariance(g, self._history.of[v]) for v in leaves}
        arrays = [(v, *_turns_in_front(c, turns)) for v, c in met.items() if c is not None]
        numbers = list(dict.fromkeys(p for v in linear for p in v.inputs if not p.is_vector))
        axes = argument.axes

        def step(c: Any, at: Any) -> tuple[Any, Any]:
            products, given = at
            known: dict[Value, Covariance | None] = dict.fromkeys(leaves)
            for (v, _, labels), array in zip(arrays, products, strict=True):
                known[v] = Covariance(Labelled(array, labels)).swapped
            known[argument] = Covariance(Labelled(c, (*_left(axes), *_right(g.axes))))
            at_turn = {p: Labelled(x, p.axes) for p, x in zip(numbers, given, strict=True)}
            of: Callable[[Value, Equal], Covariance | None] = lambda u, _: known[u]
            for v in linear:
                if v not in known:
                    known[v] = expanded(v, of, at_turn)
            return whole(known[result], axes, g.axes), c

        along = [array for _, array, _ in arrays], [self._number(p) for p in numbers]
        end, chain = lax.scan(step, jnp.zeros((*sizes(axes), *sizes(g.axes))), along)
        return jnp.concatenate([chain, end[None]])

    def _number(self, p: Value) -> Any:
        """The numbers p of all iterations, iterations in front."""
        count = int(self._history.turns.size)
        found = self.numbers[self._history.of[p]]
        if self._history.of[p] is p:
            return jnp.broadcast_to(found.whole(p.axes), (count, *sizes(p.axes)))
        return found.whole((self._history.turns, *p.axes))


def _linear(result: Value) -> list[Value]:
    """The values that a block's result is linear in, each after what it reads."""
    found: dict[Value, None] = {}

    def visit(v: Value) -> None:
        if v in found:
            return
        if v.instruction.linear:
            for u in v.vectors:
                visit(u)
        found[v] = None

    visit(result)
    return list(found)


def _left(axes: Axes) -> Any:
    return tuple(pair(axis, None) for axis in axes)


def _right(axes: Axes) -> Any:
    return tuple(pair(None, axis) for axis in axes)


def _turns_in_front(block: Covariance, turns: Axis) -> tuple[Any, Any]:
    """The array of Cov(g, v_s), s in front, and the labels of its other axes."""
    label: Any = pair(None, turns)
    rest = tuple(p for p in block.labels if p is not label)
    return block.c.whole((label, *rest)), rest


def whole(block: Covariance | None, left: Axes, right: Axes, *front: Axis) -> Any:
    """Cov(v, w) over all entries, with some axes of w in front."""
    if block is None:
        return jnp.zeros(sizes((*front, *left, *right)))
    dense = block.dense([p.left for p in block.pairs if p.left is not None])
    return dense.c.whole((*_right(front), *_left(left), *_right(right)))


class TurnFrame:
    """The rows L of a frame of scores, as many in each iteration; `L` has its full size."""

    def __init__(self, moments: TurnMoments, history: History, turn: Any, L: Any):
        self._moments, self._history, self._turn, self.L = moments, history, turn, L
        self._rows: Any = None

    def rows(self, place: Place) -> Any:
        """The rows of this iteration's vectors, which are placed when first asked for."""
        if self._rows is None:
            self._rows = self._placed(place)
        return self._rows

    def _placed(self, place: Place) -> Any:
        x, copies = place
        own = gram_of(self._moments, place, place)
        past = gram_of(self._moments, place, (self._history.of[x], copies), self._history.turns)
        assert own is not None
        m = own.shape[-1]
        own = own * (1 + BLUR * jnp.eye(m))
        here = self._turn * m
        met = jnp.zeros((m, self.L.shape[-1])) if past is None else past
        met = jnp.where(jnp.arange(self.L.shape[-1]) < here, met, 0.0)
        B, new = extension(self.L, own, met)
        B = jnp.broadcast_to(B, (*self.L.shape[:-2], *B.shape[-2:]))
        new = jnp.broadcast_to(new, (*self.L.shape[:-2], *new.shape[-2:]))
        zero = (0,) * (self.L.ndim - 2)
        rows = lax.dynamic_update_slice(B, new, (*zero, 0, here))
        self.L = lax.dynamic_update_slice(self.L, rows, (*zero, here, 0))
        return rows
