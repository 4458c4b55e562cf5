"""Functions of arrays, compiled in another thread: the one that waits hears Ctrl-C, which a compiler does not."""

import concurrent.futures
import threading
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from limitlaw.arguments import inside_jit


class Compiled:
    """`jax.jit(function)`."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = jax.jit(function)
        self._known: set[Any] = set()

    def __call__(self, *arguments: Any) -> Any:
        shapes = tuple(np.shape(a) for a in jax.tree.leaves(arguments))
        if shapes not in self._known and not inside_jit():
            # What `lower` traced and `compile` made is found again by the call below.
            _waited_for(self._function.lower(*arguments).compile)
            self._known.add(shapes)
        return self._function(*arguments)


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
