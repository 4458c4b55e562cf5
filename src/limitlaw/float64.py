"""64-bit mode, which limitlaw enters by itself.

The first call into limitlaw computes in float64, whatever mode JAX is in, and gives arrays of
NumPy and numbers (np.float64, which is a Python float). Calls that it makes meanwhile, also those
of a user's functions, are part of it, and see arrays of JAX. Inside `jax.jit`, `jax.grad` and
`jax.vmap` a call is traced as it is, in the mode of that trace, which has to be 64-bit.
"""

import contextlib
import copy
import functools
import pickle
import threading
from collections.abc import Callable, Iterator
from types import FunctionType
from typing import Any, ParamSpec, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

P = ParamSpec("P")
T = TypeVar("T")
Class = TypeVar("Class", bound=type)

NARROW = (
    "limitlaw computes in float64, and this JAX transformation (jit, grad, vmap, …) traces in 32 "
    "bits: write `with jax.enable_x64(True):` around it, or jax.config.update("
    '"jax_enable_x64", True) at the top of your program'
)
# special methods that compute, or hand numbers on
SPECIAL = {"__init__", "__call__", "__str__", "__repr__", "_repr_html_", "__array__"}


class _Thread(threading.local):
    """The state of this thread. `inside`: it computes in a call of limitlaw; `switched`: that call
    has entered 64-bit mode by itself.
    """

    inside = False
    switched = False


_thread = _Thread()
_constant = jax.jit(lambda: np.int8(0))  # inside `jax.jit` this is traced, too


def in_float64(function: Callable[P, T]) -> Callable[P, T]:
    """`function`, computed in float64; arrays that it returns become NumPy arrays."""

    @functools.wraps(function)
    def computed(*args: P.args, **kwargs: P.kwargs) -> T:
        if _thread.inside:
            return function(*args, **kwargs)
        return _entered(function, args, kwargs)

    return computed


@contextlib.contextmanager
def own_transformation() -> Iterator[None]:
    """Transformations of JAX in here are the library's own, and trace in 64-bit mode."""
    before, _thread.switched = _thread.switched, False
    try:
        yield
    finally:
        _thread.switched = before


def _entered(function: Callable[..., T], args: Any, kwargs: Any) -> T:
    """Run the first call into limitlaw."""
    traced = isinstance(_constant(), jax.core.Tracer)
    switched = not is_64_bit()
    if switched and (traced or _are_traced(args) or _are_traced(kwargs.values())):
        raise RuntimeError(NARROW)
    _thread.inside, _thread.switched = True, switched
    try:
        if not switched:
            result = function(*args, **kwargs)
            return result if traced else to_numpy(result)
        with jax.enable_x64(True):
            return to_numpy(function(*args, **kwargs))
    finally:
        _thread.inside = _thread.switched = False


def _are_traced(values: Any) -> bool:
    for value in values:  # noqa: SIM110 (a generator takes three times as long)
        if isinstance(value, jax.core.Tracer):
            return True
    return False


def is_64_bit() -> bool:
    """Is JAX in 64-bit mode, in this thread?"""
    return bool(jax.config.jax_enable_x64)  # type: ignore[attr-defined]


def check_trace(value: jax.Array) -> None:
    """Raise where `value` is traced in 32 bits: by a transformation in 32-bit mode, or by one
    outside a call that has entered 64-bit mode by itself.
    """
    narrow = jnp.issubdtype(value.dtype, jnp.floating) and value.dtype.itemsize < 8
    if (narrow and _thread.switched) or not is_64_bit():
        raise RuntimeError(NARROW)


def to_numpy(result: Any) -> Any:
    """Arrays of JAX as writable arrays of NumPy, and those of a single number as numbers; also in
    tuples, lists and dicts. Keys, tracers, and everything else pass.
    """
    if isinstance(result, jax.Array):
        if isinstance(result, jax.core.Tracer):
            if _thread.switched:  # by a transformation that the arguments did not show
                raise RuntimeError(NARROW)
            return result
        if jnp.issubdtype(result.dtype, jax.dtypes.prng_key):
            return result
        array = np.array(result)
        return array if array.ndim else array[()]
    if isinstance(result, tuple):
        parts = map(to_numpy, result)
        return type(result)(*parts) if hasattr(result, "_fields") else tuple(parts)
    if type(result) is list:
        return [to_numpy(part) for part in result]
    if type(result) is dict:
        return {name: to_numpy(part) for name, part in result.items()}
    return result


def methods_in_float64(cls: Class) -> Class:
    """A class decorator: what is public, and special methods, compute in float64."""
    for name, member in list(vars(cls).items()):
        if name in SPECIAL or not name.startswith("_"):
            wrapped = _in_float64(member)
            if wrapped is not member:
                setattr(cls, name, wrapped)
                if isinstance(wrapped, functools.cached_property):
                    wrapped.__set_name__(cls, name)
    return cls


def _in_float64(member: Any) -> Any:
    """A method or property of a class, computed in float64; anything else unchanged."""
    if isinstance(member, FunctionType):
        return in_float64(member)
    if isinstance(member, classmethod | staticmethod):
        return type(member)(in_float64(member.__func__))
    if isinstance(member, functools.cached_property):
        return functools.cached_property(in_float64(member.func))
    if isinstance(member, property) and member.fget is not None:
        return property(in_float64(member.fget), member.fset, member.fdel, member.__doc__)
    return member


class PickledState(dict[str, Any]):
    """The attributes of an object with arrays of JAX; it is unpickled in 64-bit mode."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (pickle.dumps(dict(self)),)

    def __deepcopy__(self, memo: dict[int, Any]) -> dict[str, Any]:
        return copy.deepcopy(dict(self), memo)


def _restored(text: bytes) -> Any:
    # not `in_float64`, which would give arrays of NumPy
    with jax.enable_x64(True):
        return pickle.loads(text)
