"""Functions compiled once for a structure, kept in a bounded cache, and in another thread: the one
that waits hears Ctrl-C, which a compiler does not.
"""

import collections
import concurrent.futures
import threading
from collections.abc import Callable, Hashable
from typing import Any, Generic, TypeVar

import jax
import numpy as np

from limitlaw.arguments import inside_jit

Kept = TypeVar("Kept")


class Compiled:
    """`jax.jit(function)`, which is `function`."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = jax.jit(function)
        self._known: set[Any] = set()

    def __call__(self, *arguments: Any) -> Any:
        shapes = tuple(np.shape(a) for a in jax.tree.leaves(arguments))
        if shapes not in self._known and not inside_jit():
            # What `lower` traced and `compile` made is found again by the call below.
            _waited_for(self.function.lower(*arguments).compile)
            self._known.add(shapes)
        return self.function(*arguments)


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
