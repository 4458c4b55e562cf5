"""Functions compiled once for a structure, kept in a bounded cache, and in another thread: the one
that waits hears Ctrl-C, which a compiler does not. And functions in two stages: what does not
depend on what is drawn is computed once, not with every batch of draws.
"""

import collections
import concurrent.futures
import math
import threading
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Any, Generic, TypeVar

import jax
import numpy as np
from jax.extend.core import ClosedJaxpr, JaxprEqn, Literal, jaxpr_as_fun

from limitlaw.arguments import inside_jit

Kept = TypeVar("Kept")
LOOPS, SMALL = ("scan", "while"), 2**10  # loops, and arrays of more numbers, take time


class Compiled:
    """`jax.jit(function)`, which is `function`."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = jax.jit(function)
        self._known: set[Any] = set()

    def __call__(self, *arguments: Any) -> Any:
        return self.compiled_for(*arguments)(*arguments)

    def compiled_for(self, *arguments: Any) -> Callable[..., Any]:
        """`function`, compiled for arguments of these shapes."""
        shapes = tuple(np.shape(a) for a in jax.tree.leaves(arguments))
        if shapes not in self._known and not inside_jit():
            # What `lower` traced and `compile` made is found again by the next call.
            _waited_for(self.function.lower(*arguments).compile)
            self._known.add(shapes)
        return self.function


def _waited_for(function: Callable[[], Any]) -> Any:
    """function(), computed by another thread."""
    outcome: concurrent.futures.Future[Any] = concurrent.futures.Future()

    def work() -> None:
        try:
            outcome.set_result(function())
        except BaseException as error:
            outcome.set_exception(error)

    threading.Thread(target=work).start()
    return outcome.result()


class Staged:
    """f(given, drawn) = second(first(given), drawn), f being followed once, with arguments of
    which the shapes are known: `first` computes all that does not depend on what is drawn.
    """

    def __init__(self, f: Callable[[Any, Any], Any], given: Any, drawn: Any) -> None:
        seen, self.result = jax.make_jaxpr(f, return_shape=True)(given, drawn)
        whole, count = seen.jaxpr, len(jax.tree.leaves(given))
        later = _made_of(whole.invars[count:], whole.eqns)
        earlier = _made_of(whole.invars[:count], whole.eqns) - later
        # what is made of neither is a constant, and cheaper made again than handed over
        before = [eqn for eqn in whole.eqns if later.isdisjoint(eqn.outvars)]
        after = [eqn for eqn in whole.eqns if earlier.isdisjoint(eqn.outvars)]
        read = (v for eqn in after for v in eqn.invars)
        between = [v for v in dict.fromkeys(_variables((*read, *whole.outvars))) if v in earlier]
        first = whole.replace(eqns=before, invars=whole.invars[:count], outvars=between)
        second = whole.replace(eqns=after, invars=[*between, *whole.invars[count:]])
        self._first, self._second = (
            jaxpr_as_fun(ClosedJaxpr(part, seen.consts)) for part in (first, second)
        )
        self.pays = _takes_time(before)  # is `first` worth a call of its own?

    def first(self, given: Any) -> list[Any]:
        """What the second stage needs of the first."""
        return self._first(*jax.tree.leaves(given))

    def second(self, between: list[Any], drawn: Any) -> Any:
        """What f gives."""
        leaves = self._second(*between, *jax.tree.leaves(drawn))
        return jax.tree.unflatten(jax.tree.structure(self.result), leaves)


def _variables(read: Iterable[Any]) -> list[Any]:
    """Of what equations read, all but numbers."""
    return [v for v in read if not isinstance(v, Literal)]


def _takes_time(equations: Iterable[JaxprEqn]) -> bool:
    """Is there a loop among equations, or an array that is not small?"""
    return any(
        eqn.primitive.name in LOOPS
        or any(math.prod(getattr(v.aval, "shape", ())) > SMALL for v in eqn.outvars)
        or any(map(_takes_time, _inside(eqn)))
        for eqn in equations
    )


def _inside(eqn: JaxprEqn) -> Iterator[list[JaxprEqn]]:
    """The equations of functions that an equation calls."""
    for parameter in eqn.params.values():
        for item in parameter if isinstance(parameter, tuple) else (parameter,):
            equations = getattr(getattr(item, "jaxpr", item), "eqns", None)  # closed or not
            if equations is not None:
                yield equations


def _made_of(variables: Iterable[Any], equations: Iterable[JaxprEqn]) -> set[Any]:
    """The variables themselves, and all that depend on them."""
    found = set(variables)
    for eqn in equations:
        if not found.isdisjoint(_variables(eqn.invars)):
            found.update(eqn.outvars)
    return found


class Cache(Generic[Kept]):
    """At most `most` results; the one that was not asked for the longest goes first.
    Safe to use from threads.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self._kept: collections.OrderedDict[Hashable, Kept] = collections.OrderedDict()
        self._lock = threading.RLock()

    def get(self, key: Hashable, make: Callable[[], Kept]) -> Kept:
        """What is kept under `key`, made if it is not there."""
        with self._lock:
            if key not in self._kept:
                self._kept[key] = make()
                while len(self._kept) > self.most:
                    self._kept.popitem(last=False)
            self._kept.move_to_end(key)
            return self._kept[key]

    def clear(self) -> None:
        """Forget everything, and what JAX has compiled for it."""
        with self._lock:
            self._kept.clear()

    def __len__(self) -> int:
        return len(self._kept)


# compiled programs, by engine, structure and what is read off them
PROGRAMS: Cache[Any] = Cache(64)


def clear_cache() -> None:
    """Forget all compiled programs; the memory they take is free again."""
    PROGRAMS.clear()
