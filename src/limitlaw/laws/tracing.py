"""Laws inside jax.jit, jax.grad and jax.vmap, where some numbers are not known."""

import functools
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import jax

P = ParamSpec("P")
T = TypeVar("T")

NEEDS_NUMBERS = (
    jax.errors.TracerArrayConversionError,
    jax.errors.TracerIntegerConversionError,
    jax.errors.ConcretizationTypeError,
)


def kept(method: Callable[[Any], T]) -> "functools.cached_property[T]":
    """A property computed once, with numbers also inside jax.jit:
    what is kept must not hold what is traced there.
    """

    @functools.wraps(method)
    def computed(self: Any) -> T:
        with jax.ensure_compile_time_eval():
            return method(self)

    return functools.cached_property(computed)


def quantity(method: Callable[P, T]) -> Callable[P, T]:
    """A quantity of a law, which says so where it has to look at numbers that are not known."""

    @functools.wraps(method)
    def said(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return method(*args, **kwargs)
        except NEEDS_NUMBERS as error:
            raise TypeError(
                f"{type(args[0]).__name__}.{method.__name__} looks at numbers that are not known "
                "inside jax.jit, "
                "jax.grad or jax.vmap: call it outside"
            ) from error

    return said
