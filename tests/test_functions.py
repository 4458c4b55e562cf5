"""A function of a user's own is equal to others that are certain to compute the same,
and to no other.
"""

import copy
import dataclasses
import functools
import pickle
import types
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from limitlaw.functions import by_value

X = np.array([-1.0, 0.5, 2.0])
scale: Any = 1.0


def _global(z: Any) -> Any:
    return scale * z


def _through_another(z: Any) -> Any:
    return _global(z) + 1.0


def closure(c: Any) -> Callable[[Any], Any]:
    return lambda z: z * c


def default(c: Any) -> Callable[[Any], Any]:
    return lambda z, c=c: z * c


def keyword(c: Any) -> Callable[[Any], Any]:
    def f(z: Any, *, c: Any = c) -> Any:
        return z * c

    return f


def nested(c: Any) -> Callable[[Any], Any]:
    inner = closure(c)
    return lambda z: inner(z) + sum(v * c for v in (3, 2))


def partial(c: Any) -> Callable[[Any], Any]:
    product = functools.partial(jnp.multiply, c)
    return lambda z: product(z)


def imported(c: Any) -> Callable[[Any], Any]:
    def f(z: Any) -> Any:
        import jax.numpy as other

        return other.asarray(z) * c

    return f


def of_global(c: Any) -> Callable[[Any], Any]:
    global scale
    scale = c
    return types.FunctionType(_global.__code__, globals())


def of_global_of_another(c: Any) -> Callable[[Any], Any]:
    global scale
    scale = c
    return types.FunctionType(_through_another.__code__, globals())


MAKERS = (
    *(closure, default, keyword, nested, partial, imported),
    *(of_global, of_global_of_another),
)
NUMBERS = (
    *(0, 0.0, -0.0, False, 0j, 1, 1.0, True, float("nan"), float("inf")),
    *(np.float64(1.0), np.float32(1.0), np.int64(1), np.ones(1), np.ones((1, 1))),
    *(np.ones(1, np.float32), np.array([2.0]), jnp.ones(1), jnp.array([2.0]), jnp.asarray(1.0)),
)


@pytest.mark.parametrize("make", MAKERS)
def test_equal_code_that_reads_equal_values(make: Any) -> None:
    """What is read: numbers of all types, arrays, by closures, defaults and global names."""
    functions = [by_value(make(c)) for c in NUMBERS]
    again = [by_value(make(copy.copy(c))) for c in NUMBERS]
    assert [functions.index(f) for f in again] == list(range(len(NUMBERS)))
    assert len(set(functions + again)) == len(NUMBERS)
    with np.errstate(invalid="ignore"):
        for f, c in zip(functions, NUMBERS, strict=True):
            np.testing.assert_array_equal(f(X), make(c)(X))


def test_other_code() -> None:
    """Two functions of the same shape; and constants, of which −0.0 is not 0.0."""
    pairs: list[tuple[Any, Any]] = [
        (lambda z: jnp.tanh(z), lambda z: jnp.sinh(z)),
        (lambda z: z + 1, lambda z: z + 1.0),
        (lambda z: z * 0.0, lambda z: z * -0.0),
        (lambda z: (lambda w: w + 1)(z), lambda z: (lambda w: w + 2)(z)),
    ]
    for f, g in pairs:
        assert by_value(f) != by_value(g)


def test_late_binding() -> None:
    """A cell that changes: each function has the number that it had when it was asked for."""
    functions = []
    for c in (1.0, 2.0, 3.0):
        functions.append(by_value(lambda z: c * z))  # noqa: B023
    assert [float(f(1.0)) for f in functions] == [1.0, 2.0, 3.0]
    assert len(set(functions)) == 3


def test_arrays_that_change() -> None:
    """In place, after the function was asked for."""
    w = np.ones(3)
    f = by_value(closure(w))
    w[0] = 5.0
    g = by_value(closure(w))
    assert f != g
    np.testing.assert_array_equal(f(1.0), np.ones(3))
    np.testing.assert_array_equal(g(1.0), w)


@dataclasses.dataclass
class Factor:
    c: float

    def __call__(self, z: Any) -> Any:
        return self.c * z

    def times(self, z: Any) -> Any:
        return self.c * z


settings = types.ModuleType("settings")
settings.c = 1.0  # type: ignore[attr-defined]
counted = 0


def _counts(z: Any) -> Any:
    global counted
    counted += 1
    return z


def _recursive(z: Any, k: int = 2) -> Any:
    return z if k == 0 else _recursive(z, k - 1)


def _remembers(z: Any) -> Any:
    return z * _remembers.c  # type: ignore[attr-defined]


_remembers.c = 1.0  # type: ignore[attr-defined]


def _nonlocal() -> Callable[[Any], Any]:
    count = 0

    def f(z: Any) -> Any:
        nonlocal count
        count += 1
        return z * count

    return f


def _writes(w: Any) -> Callable[[Any], Any]:
    def f(z: Any) -> Any:
        w[0] = 1
        return z

    return f


def _of_what_may_change() -> dict[str, Callable[[Any], Any]]:
    numbers, factor, generator = [1.0], Factor(1.0), np.random.default_rng(0)
    return {
        "list": lambda z: z * numbers[0],
        "object": lambda z: factor(z),
        "method": factor.times,
        "class": lambda z: Factor(1.0)(z),
        "callable": factor,
        "module": lambda z: z * settings.c,  # type: ignore[attr-defined]
        "generator": lambda z: z * generator.normal(),
        "random": lambda z: z * np.random.normal(),  # noqa: NPY002
        "iterator": closure(iter([1.0])),
        "counter": _nonlocal(),
        "counts": lambda z: _counts(z),
        "recursive": _recursive,
        "attribute": lambda z: _remembers(z),
        "writes": _writes(np.zeros(1)),
        "file": lambda z: z * float(open("number.txt").read()),
        "undefined": lambda z: z * not_yet_known,  # type: ignore[name-defined]
        "large": closure(np.zeros(2**17)),
        "wrapped": functools.wraps(jnp.tanh)(lambda z: z * 1.0),
        "subclass": closure(type("Array", (np.ndarray,), {})(3)),
        "mapped": jax.vmap(closure(1.0)),
    }


@pytest.mark.parametrize("name", _of_what_may_change())
def test_what_is_not_certain_stays_an_object(name: str) -> None:
    """State that functions read or write, as lists, objects, files and random numbers."""
    f = _of_what_may_change()[name]
    assert by_value(f) is f


def test_inside_a_transformation() -> None:
    """A traced number is no value: the function is itself, and can be differentiated in it."""

    def of(c: Any) -> Any:
        f = closure(c)
        assert by_value(f) is f
        return by_value(f)(2.0)

    assert jax.grad(of)(3.0) == 2.0


def test_functions_of_packages_are_themselves() -> None:
    """And equal functions of JAX that a function reads are the same."""
    for f in (jnp.tanh, np.tanh, jax.nn.gelu, jnp.linalg.norm):
        assert by_value(f) is f
        assert by_value(closure_of(f)) == by_value(closure_of(f))
    assert by_value(closure_of(jnp.tanh)) != by_value(closure_of(jnp.sinh))


def closure_of(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda z: f(z)


def test_pickled() -> None:
    """By the name of the function that was given, as itself."""
    f = by_value(_through_another)
    assert pickle.loads(pickle.dumps(f)) == f
