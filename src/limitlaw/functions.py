"""Users' functions, compared by what they compute: by their code, and by all that it reads.

A function that is written where a program is, `apply(lambda p: c * p, p)`, is a new object each
time the program is. JAX and the caches of engines find what they compiled for it by comparing
functions, and objects would never be equal. Functions that are not certain to compute the same are
compared as objects.
"""

import builtins
import dis
import functools
import types
from collections.abc import Callable, Hashable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

# packages whose modules, and the functions defined in them, do not change
CONSTANT = {"cmath", "jax", "jaxlib", "limitlaw", "math", "numpy", "operator", "scipy"}
# builtins without memory or effect
PURE = {
    *("abs", "all", "any", "bool", "complex", "dict", "divmod", "enumerate", "float", "int"),
    *("isinstance", "len", "list", "max", "min", "pow", "range", "reversed", "round", "set"),
    *("slice", "sorted", "str", "sum", "tuple", "zip", "TypeError", "ValueError"),
}
# instructions that write elsewhere than to a local variable of the function
WRITES = ("STORE_GLOBAL", "STORE_SUBSCR", "STORE_SLICE", "STORE_ATTR", "DELETE_", "LOAD_BUILD")
IMPURE = {"fromfile", "genfromtxt", "load", "loadtxt", "memmap", "random"}  # functions of NumPy
LARGEST_COMPARED = 2**16  # bytes of an array that is compared entry by entry
MOST_READ = 64  # most values that a function reads

_Jitted = type(jax.jit(lambda: None))


class _Unsure(Exception):
    """Raised where it is not certain what a function computes."""


class FrozenFunction:
    """f as it was when this was made: a copy with the closure, defaults and global names of that
    time; equal to those of equal code that read equal values.
    """

    def __init__(self, original: types.FunctionType) -> None:
        self.original = original
        self.__name__, self.__doc__ = original.__name__, original.__doc__
        self._key, self._copy = _Reader().function(original)
        self._hash = hash(self._key)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._copy(*args, **kwargs)

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, FrozenFunction)
            and self._hash == other._hash
            and self._key == other._key
        )

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> Any:
        return by_value, (self.original,)


def by_value(f: Callable[..., Any]) -> Callable[..., Any]:
    """f as a function that equals those which are certain to compute the same; f itself where that
    is not known: where it reads objects that may change, or writes what others read.
    """
    if not isinstance(f, types.FunctionType) or _is_packaged(f):
        return f
    try:
        return FrozenFunction(f)
    except _Unsure:
        return f


class _Reader:
    """Finds a key and a copy for each value: equal keys, equal values. Identities are keys of
    objects that the copy keeps alive.
    """

    def __init__(self) -> None:
        self._left = MOST_READ
        self._open: set[int] = set()  # functions that are being read

    def function(self, f: types.FunctionType) -> tuple[Hashable, Callable[..., Any]]:
        """Key and copy of a function: its code, defaults, closure and globals that it reads."""
        if _is_packaged(f):
            return ("constant", id(f)), f
        if id(f) in self._open or f.__dict__:
            raise _Unsure
        self._open.add(id(f))
        code = f.__code__
        names = _global_names(code)
        cells = tuple(self._cell(cell) for cell in f.__closure__ or ())
        globals_ = {name: self._named(name, f) for name in names if not _is_builtin(name, f)}
        defaults = self.value(f.__defaults__)
        keywords = {name: self.value(v) for name, v in (f.__kwdefaults__ or {}).items()}
        self._open.remove(id(f))
        copies = {name: copy for name, (_, copy) in globals_.items()}
        closure = tuple(types.CellType(copy) for _, copy in cells)
        copies |= {"__name__": f.__module__, "__builtins__": builtins}
        copy = types.FunctionType(code, copies, f.__name__, defaults[1], closure)
        copy.__kwdefaults__ = {name: v for name, (_, v) in keywords.items()} or None
        copy.__qualname__ = f.__qualname__
        read = (_keys(globals_), _keys(keywords), defaults[0], tuple(key for key, _ in cells))
        return ("function", code, *read), copy

    def value(self, v: Any) -> tuple[Hashable, Any]:
        """Key and copy of anything that a function may read."""
        self._left -= 1
        if self._left < 0 or isinstance(v, jax.core.Tracer):
            raise _Unsure
        kind = type(v)
        if v is None or v is Ellipsis or kind in (bool, int, str, bytes):
            return (kind, v), v
        if kind in (float, complex):
            return (kind, repr(v)), v  # −0.0 is not 0.0, and nan is nan
        if kind is tuple:
            found = [self.value(item) for item in v]
            return (kind, *(key for key, _ in found)), tuple(copy for _, copy in found)
        if isinstance(v, np.ndarray | np.generic | jax.Array):
            return self._array(v)
        if kind is types.FunctionType:
            return self.function(v)
        if kind is functools.partial:
            return self._partial(v)
        if (
            kind in (FrozenFunction, _Jitted, jnp.ufunc, np.ufunc)
            or isinstance(v, np.dtype)
            or _stays(v)
        ):
            return ("the same", id(v)), v
        raise _Unsure

    def _array(self, v: Any) -> tuple[Hashable, Any]:
        """Key and copy of an array, by its entries; NumPy's arrays may change, and are copied."""
        ours = type(v) is np.ndarray or isinstance(v, np.generic | jax.Array)
        if not ours or v.dtype.kind not in "biufc" or v.nbytes > LARGEST_COMPARED:
            raise _Unsure
        if isinstance(v, jax.Array) and (v.is_deleted() or not v.is_fully_addressable):
            raise _Unsure
        entries = np.array(v)
        key = (isinstance(v, jax.Array), np.isscalar(v), v.dtype.str, v.shape, entries.tobytes())
        if type(v) is not np.ndarray:
            return (*key, getattr(v, "weak_type", False), getattr(v, "sharding", None)), v
        entries.flags.writeable = False
        return key, entries

    def _partial(self, v: Any) -> tuple[Hashable, Any]:
        if v.__dict__:
            raise _Unsure
        function, arguments = self.value(v.func), self.value(v.args)
        keywords = {name: self.value(item) for name, item in v.keywords.items()}
        copies = {name: copy for name, (_, copy) in keywords.items()}
        copy = functools.partial(function[1], *arguments[1], **copies)
        return ("partial", function[0], arguments[0], _keys(keywords)), copy

    def _cell(self, cell: types.CellType) -> tuple[Hashable, Any]:
        try:
            content = cell.cell_contents
        except ValueError:  # the cell is empty so far
            raise _Unsure from None
        return self.value(content)

    def _named(self, name: str, f: types.FunctionType) -> tuple[Hashable, Any]:
        if name not in f.__globals__:
            raise _Unsure
        return self.value(f.__globals__[name])


def _keys(found: dict[str, tuple[Hashable, Any]]) -> Hashable:
    return tuple((name, key) for name, (key, _) in found.items())


def _is_constant(module: object) -> bool:
    return isinstance(module, str) and module.partition(".")[0] in CONSTANT


def _is_packaged(f: types.FunctionType) -> bool:
    """Is f defined at the top of a module of a package in CONSTANT?"""
    return _is_constant(f.__globals__.get("__name__")) and f.__qualname__ == f.__name__


def _stays(v: Any) -> bool:
    """Is v a module, a class, a function or a nonlinearity of a package that stays as it is?"""
    if isinstance(v, types.ModuleType):
        return _is_constant(v.__name__)
    if isinstance(v, types.BuiltinFunctionType):
        return _is_constant(v.__module__)
    return _is_constant((v if isinstance(v, type) else type(v)).__module__) and (
        isinstance(v, type) or (callable(v) and _is_frozen(v))
    )


def _is_frozen(v: Any) -> bool:
    """Is v of a frozen dataclass, as a nonlinearity is?"""
    parameters = getattr(type(v), "__dataclass_params__", None)
    return parameters is not None and parameters.frozen


def _is_builtin(name: str, f: types.FunctionType) -> bool:
    """Is a global name that of a builtin function without memory or effect?"""
    return name not in f.__globals__ and name in PURE and hasattr(builtins, name)


@functools.lru_cache(maxsize=512)
def _global_names(code: types.CodeType) -> tuple[str, ...]:
    """The names that some code looks up outside; raises where the code may do more than read."""
    names: dict[str, None] = {}
    for part in _all_code(code):
        if IMPURE & set(part.co_names):
            raise _Unsure
        for step in dis.get_instructions(part):
            if step.opname.startswith(WRITES):
                raise _Unsure
            if step.opname == "STORE_DEREF" and step.argval in code.co_freevars:
                raise _Unsure
            if step.opname == "IMPORT_NAME" and not _is_constant(step.argval):
                raise _Unsure
            if step.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
                names[step.argval] = None
    return tuple(names)


def _all_code(code: types.CodeType) -> Iterator[types.CodeType]:
    """A code object, and those of the functions inside it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _all_code(constant)
