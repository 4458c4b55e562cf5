"""Laws inside jax.jit, jax.grad and jax.vmap, where numbers are not known; and checks of users'
functions ψ, whose averages are asked for.
"""

import functools
import math
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from limitlaw.arguments import first_line, shown
from limitlaw.functions import by_value

P = ParamSpec("P")
S = TypeVar("S")
T = TypeVar("T")
Psi = Callable[[Array], Array | np.ndarray]  # ψ, of arrays (…, *shape)

NEEDS_NUMBERS = (
    jax.errors.TracerArrayConversionError,
    jax.errors.TracerIntegerConversionError,
    jax.errors.ConcretizationTypeError,
)
PSI_MUST = "psi must map arrays (…, *shape) to arrays (…) by functions of jax.numpy"
HINT = "write jnp.tanh for np.tanh or math.tanh, and jnp.where for `if`"
TRIED = 7  # rows of the array on which ψ is tried


def kept(method: Callable[[S], T]) -> "functools.cached_property[T]":
    """A property computed once, outside of traces: what is kept must hold no tracers."""

    @functools.wraps(method)
    def computed(self: S) -> T:
        with jax.ensure_compile_time_eval():
            return method(self)

    return functools.cached_property(computed)


def quantity(method: Callable[P, T]) -> Callable[P, T]:
    """A quantity of a law, with a clear error if it looks at numbers that are not known."""

    @functools.wraps(method)
    def said(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return method(*args, **kwargs)
        except NEEDS_NUMBERS as error:
            raise TypeError(
                f"{type(args[0]).__name__}.{method.__name__} looks at numbers that are not known "
                "inside jax.jit, jax.grad or jax.vmap: call it outside"
            ) from error

    return said


def average_of(
    psi: Any, shape: tuple[int, ...], calculation: Callable[[Psi], T], real: bool = False
) -> T:
    """calculation(ψ), which averages ψ over arrays (…, *shape), mostly compiled, with a ψ of
    jax.numpy. `real`: ψ must not be complex.
    """
    traceable = _check(psi, (TRIED, *shape), real)
    try:
        return calculation(by_value(psi))
    except NEEDS_NUMBERS as error:
        if traceable:
            raise
        raise _needs_numbers() from error


def _check(psi: object, given: tuple[int, ...], real: bool) -> bool:
    """Raise unless ψ keeps the first axis of arrays of shape `given`; can it be compiled?"""
    if not callable(psi):
        raise TypeError(f"{PSI_MUST}, got {shown(psi)}")
    traceable = True
    try:
        result = jax.eval_shape(lambda y: psi(y), jax.ShapeDtypeStruct(given, jnp.float64))
    except NEEDS_NUMBERS as error:
        traceable, result = False, _of_numbers(psi, given, error)
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"{PSI_MUST}; given an array of shape {given} it fails ({first_line(error)}): {HINT}"
        ) from error
    if not hasattr(result, "shape"):
        raise TypeError(f"{PSI_MUST}; given an array of shape {given} it returns {shown(result)}")
    if result.shape[:1] != given[:1]:
        raise ValueError(
            f"{PSI_MUST}; given an array of shape {given} it returns one of shape {result.shape}"
        )
    if real and jnp.issubdtype(result.dtype, jnp.complexfloating):
        raise TypeError(
            "psi must return real numbers, got complex ones: take jnp.real and jnp.imag one by one"
        )
    return traceable


def _of_numbers(psi: Psi, given: tuple[int, ...], error: Exception) -> Array | np.ndarray:
    """ψ of an array of numbers, where it does not work on traced arrays."""
    try:
        return psi(jnp.asarray(np.cos(1.0 + np.arange(math.prod(given))).reshape(given)))
    except Exception:
        raise _needs_numbers() from error


def _needs_numbers() -> TypeError:
    return TypeError(f"{PSI_MUST}, got one that needs the numbers themselves: {HINT}")


def psi_values(psi: Psi, y: Array, count: int) -> Array:
    """ψ(y) for y with `count` draws in front, checked for its shape."""
    values = jnp.asarray(psi(y))
    if values.shape[:1] != (count,):
        raise ValueError(
            f"psi must map arrays (…, *shape) to arrays (…): it got {y.shape} and returned "
            f"{values.shape}"
        )
    return values.astype(jax.dtypes.canonicalize_dtype(jnp.result_type(values, jnp.float64)))
