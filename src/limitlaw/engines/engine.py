"""What all engines share: the outputs asked for, and whether they can be drawn; a draw, with a
table of one rule for each instruction; a softmax that is fast on CPUs; and the bounded cache of
compiled functions.
"""

import collections
import functools
import math
import threading
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any, ClassVar, Generic, TypeVar

import jax
import jax.numpy as jnp
from jax import Array, lax

from limitlaw.arguments import inside_jit, is_traced
from limitlaw.core.instructions import Dot
from limitlaw.core.kinds import Instruction, Number, Value, rule_for
from limitlaw.core.labelled import is_infinite, shape
from limitlaw.core.program import Output, Program, Written
from limitlaw.engines.effort import BUDGET

Kept = TypeVar("Kept")
TOKENS_IN_FRONT = 16  # most tokens with which softmax has them in front
LARGE_MATRIX = 2**18  # entries of a matrix of scores with which a core has enough to do

# (draw, value, its instruction) → what the engine knows of the value
Rule = Callable[[Any, Value, Any], Any]
Rules = Mapping[type[Instruction], Rule]
# (draw, the value that a layer gives, the values of the layer) → a tree of arrays
Reader = Callable[["Draw", Value, Iterable[Value]], Any]


# --- what was asked for --------------------------------------------------------------------------


def outputs(y: object) -> tuple[tuple[Output, ...], Any]:
    """The values asked for, and the structure (tuple, list, dict) that they came in."""
    leaves, structure = jax.tree.flatten(y)
    if not leaves:
        raise ValueError("y must hold at least one value of a program, got none")
    for value in leaves:
        if not isinstance(value, Written):
            kind = type(value).__name__
            raise TypeError(
                f"y must be a value of a program (Wide or Scalars) or a tuple of such, got {kind}"
            )
    leaves[0].check_with(*leaves[1:])
    return tuple(value.core for value in leaves), structure


def program_of(asked: tuple[Output, ...]) -> Program:
    """The program of all outputs."""
    return Program(tuple(output.value for output in asked))


def check_drawable(name: str, program: Program, key: object) -> None:
    """Raise inside jax.jit, jax.grad and the like, where numbers cannot be drawn into memory."""
    if inside_jit() or is_traced(key) or program.is_traced:
        raise untraceable(name)


def check_width(program: Program, width: int, coordinates: int | None) -> None:
    """Raise if the width has no meaning, or gives an output fewer coordinates than asked for."""
    for value in (v for part in (program, *program.every_block) for v in part.values):
        if is_infinite(value.axes):
            raise ValueError(
                "heads=math.inf has no meaning at finite width: give a number of heads, or take "
                "the limit"
            )
        D = 0 if value.dim is None else value.dim.at(width)
        if isinstance(value.instruction, Dot) and value.instruction.base is not None:
            D = value.instruction.dim.at(width)
            if D % 2:
                raise ValueError(
                    f"width={width}: rotary turns pairs of coordinates, got a space of odd "
                    f"dimension {D}"
                )
    for value in program.outputs:
        if value.dim is not None and coordinates is not None and coordinates > value.dim.at(width):
            raise ValueError(
                f"coordinates must be at most the {value.dim.at(width)} of the output's space at "
                f"width={width}, got {coordinates}"
            )


def entries(output: Output) -> int:
    """The number of entries of a batch."""
    return math.prod(int(size) for size in shape(output.layout))


def structure(program: Program, asked: tuple[Output, ...]) -> Hashable:
    """What a compiled function depends on: the program's structure and its outputs' layouts."""
    orders = []
    for output in asked:
        places = {axis: i for i, axis in enumerate(output.value.axes)}
        orders.append(tuple(-1 if axis is None else places[axis] for axis in output.layout))
    return program.structure, tuple(orders)


def untraceable(name: str) -> TypeError:
    """The error of a function that draws numbers, inside a transformation of JAX."""
    return TypeError(
        f"{name} draws numbers and cannot run inside jax.jit, jax.grad or jax.vmap: call it "
        "outside. limit, kernel and average_law can be differentiated"
    )


# --- draws ---------------------------------------------------------------------------------------


class Draw:
    """A draw in progress: constants in the program's slots, and what is known of its values."""

    rules: ClassVar[Rules]

    def __init__(self, numbers: Mapping[Number, Any]):
        self.numbers = numbers
        self.results: dict[Value, Any] = {}
        self.reader: Reader | None = None
        self.turns: dict[Value, Any] = {}  # what was read off every iteration of a loop
        self.kept: dict[Value, Any] = {}  # by loop, what its iterations keep for those that follow

    def run(self, program: Program) -> None:
        """Evaluate the values of a program, one after the other."""
        self.evaluate_all(program.values)

    def evaluate_all(self, values: Iterable[Value]) -> None:
        """Evaluate values, each after what it reads."""
        for value in values:
            if value not in self.results:
                self.evaluate(value)

    def evaluate(self, value: Value) -> None:
        """Evaluate one value by the rule of its instruction; everything that it reads is known."""
        rule = rule_for(type(value.instruction), self.rules, type(self).__name__)
        self.results[value] = rule(self, value, value.instruction)

    def __getitem__(self, value: Value) -> Any:
        return self.results[value]


def slots(program: Program, arrays: list[Any]) -> dict[Number, Any]:
    """A program's constants by slot: arguments of the function compiled for its structure."""
    return dict(zip(program.numbers, arrays, strict=True))


def draws_together(cost: int, elsewhere: int) -> int:
    """The number of draws, of `cost` numbers each, that are computed together: the numbers held at
    a time stay near the budget, which on a GPU is `elsewhere`.
    """
    cpu = jax.default_backend() == "cpu"
    most, held = (BUDGET.together, BUDGET.held) if cpu else (BUDGET.together_elsewhere, elsewhere)
    return max(1, min(most, held // cost))


def softmax(p: Array, visible: Array | None = None) -> Array:
    """jax.nn.softmax over the scores that are visible.

    For few tokens it is computed with the tokens in front, which on a CPU is several times faster.
    """
    p = p if visible is None else jnp.where(visible > 0, p, -jnp.inf)
    if p.shape[-1] > TOKENS_IN_FRONT:
        return matrix_by_matrix(functools.partial(jax.nn.softmax, axis=-1), p)
    tokens = lax.optimization_barrier(jnp.moveaxis(p, -1, 0))
    largest = functools.reduce(jnp.maximum, list(tokens))
    e = lax.optimization_barrier(jnp.exp(tokens - lax.stop_gradient(largest)))
    return jnp.moveaxis(e / functools.reduce(jnp.add, list(e)), 0, -1)


def matrix_by_matrix(f: Callable[[Array], Array], p: Array) -> Array:
    """f(p), for an f of the last two axes: large matrices one after the other, so that f needs the
    memory for one.
    """
    lead, matrix = p.shape[:-2], p.shape[-2:]
    if math.prod(matrix) < LARGE_MATRIX or math.prod(lead) == 1:
        return f(p)
    found = lax.map(f, p.reshape(-1, *matrix))
    return found.reshape(*lead, *found.shape[1:])


# --- compiled once -------------------------------------------------------------------------------


class Cache(Generic[Kept]):
    """At most `most` results, with at most `largest` compiled equations in all; the least recently
    used is dropped first. Threads may share it.
    """

    def __init__(self, most: int, largest: int | float = math.inf) -> None:
        self.most, self.largest = most, largest
        self._kept: collections.OrderedDict[Hashable, Kept] = collections.OrderedDict()
        self._lock = threading.RLock()

    def get(self, key: Hashable, make: Callable[[], Kept]) -> Kept:
        """The result kept under `key`, made if it is not there."""
        with self._lock:
            if key not in self._kept:
                self._kept[key] = make()
                while len(self._kept) > max(1, self.most) or self._is_too_large():
                    _release(self._kept.popitem(last=False)[1])
            self._kept.move_to_end(key)
            return self._kept[key]

    def clear(self) -> None:
        """Forget all results, and what JAX has compiled for them."""
        with self._lock:
            for kept in self._kept.values():
                _release(kept)
            self._kept.clear()

    def _is_too_large(self) -> bool:
        sizes = [getattr(kept, "size", 0) for kept in self._kept.values()]
        return len(sizes) > 1 and sum(sizes) > self.largest

    def __len__(self) -> int:
        return len(self._kept)


def _release(kept: Any) -> None:
    """Free the memory of a result now, rather than when Python collects cycles."""
    if hasattr(kept, "release"):
        kept.release()


# compiled programs, by engine, structure and what is read off them
PROGRAMS: Cache[Any] = Cache(BUDGET.programs, BUDGET.equations)


def clear_cache() -> None:
    """Forget all compiled programs; the memory they take is free again."""
    PROGRAMS.clear()
