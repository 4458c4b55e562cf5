"""Functions that are compiled when they are first called for arguments of some shapes, and refused
before that if they would take too much time or memory.

They are compiled in another thread, so that the thread that waits can hear Ctrl-C, which a
compiler does not.
"""

import concurrent.futures
import functools
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import jax
import numpy as np

from limitlaw.arguments import inside_jit
from limitlaw.engines.effort import BUDGET
from limitlaw.engines.estimate import Work, work_of
from limitlaw.float64 import in_float64

# of XLA, for programs that take longer to optimise than to run: the kernel of a GRU of 24 steps
# takes 17 s and 0.72 GB in all, and 25 s and 1.35 GB without
LITTLE_EFFORT: tuple[dict[str, int | bool], ...] = (
    {
        "xla_backend_optimization_level": 0,
        "xla_llvm_disable_expensive_passes": True,
        "xla_cpu_use_fusion_emitters": False,  # an option that JAX 0.11 has no more
    },
    {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True},
    {},
)


class Compiled:
    """`jax.jit(function)`, refused where it takes too much (`bounds`); `called_rarely`: it is
    called a few times once compiled.
    """

    def __init__(self, function: Callable[..., Any], called_rarely: bool = False) -> None:
        self.function, self._called_rarely = jax.jit(function), called_rarely
        self._known: dict[Any, Ready] = {}
        self.size = 0  # the number of equations that were compiled, for all shapes together

    def __call__(self, *arguments: Any) -> Any:
        return self.compiled_for(*arguments)(*arguments)

    def compiled_for(self, *arguments: Any) -> Callable[..., Any]:
        """`function`, compiled for arguments of these shapes."""
        kinds = _kinds(arguments)
        if kinds not in self._known:
            self.check(1, *arguments)
        return self._known[kinds].run if kinds in self._known else self.function

    def check(self, calls: int, *arguments: Any) -> None:
        """Compile `function`; refuse so many calls if they take too much time or memory."""
        if inside_jit():
            return
        kinds = _kinds(arguments)
        if kinds not in self._known:
            traced = self.function.trace(*arguments)
            work = work_of(traced)
            work.check(calls)
            self._known[kinds] = self._compiled(traced, work)
            self.size += _count(traced.jaxpr.jaxpr.eqns)
        self._known[kinds].work.check(calls)

    def _compiled(self, traced: Any, work: Work) -> "Ready":
        lowered, many = traced.lower(), len(traced.jaxpr.eqns) > BUDGET.optimised
        if many and self._called_rarely and jax.default_backend() == "cpu":
            # so many operations take longer to optimise than to run
            compiled = _waited_for(in_float64(functools.partial(_with_little_effort, lowered)))
            return Ready(compiled, work.measured(compiled))
        compiled = _waited_for(in_float64(lowered.compile))  # found again by the next call
        return Ready(self.function, work.measured(compiled))

    def release(self) -> None:
        """Give back the memory of everything that was compiled."""
        self.function.clear_cache()  # type: ignore[attr-defined]
        self._known.clear()
        self.size = 0


def _with_little_effort(lowered: Any) -> Any:
    """A lowered function, compiled with as many options for little effort as this XLA knows."""
    for options in LITTLE_EFFORT:
        try:
            return lowered.compile(options)
        except jax.errors.JaxRuntimeError as error:
            if "No such compile option" not in str(error) or not options:
                raise
    raise AssertionError("there is a way without options")


class Ready(NamedTuple):
    """What to call for arguments of some shapes, and the work of a call."""

    run: Callable[..., Any]
    work: Work


def _kinds(arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    """The shapes and types of arguments, for which a function is compiled."""
    leaves = jax.tree.leaves(arguments)
    return tuple((np.shape(a), getattr(a, "dtype", type(a))) for a in leaves)


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


def _inside(eqn: Any) -> Iterator[list[Any]]:
    """The equations of each function that an equation calls."""
    for parameter in eqn.params.values():
        for item in parameter if isinstance(parameter, tuple) else (parameter,):
            equations = getattr(getattr(item, "jaxpr", item), "eqns", None)  # closed or not
            if equations is not None:
                yield equations


def _count(equations: Iterable[Any]) -> int:
    """The number of equations, with those of functions that are called."""
    return sum(1 + sum(map(_count, _inside(eqn))) for eqn in equations)
