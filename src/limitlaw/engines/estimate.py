"""The cost of a compiled function, before it runs.

Time is counted on the function as JAX has traced it: entries of elementwise operations, products
of matrices, factorisations, random bits, loops times their length, each at the nanoseconds that it
takes a core. Memory is what XLA says of the compiled function; before it is compiled, what its
largest operation holds at least.
"""

import math
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import jax

from limitlaw.engines.bounds import check_bytes, check_seconds
from limitlaw.engines.effort import cores

ELEMENTWISE = 0.08  # nanoseconds of a core for each entry that is made, in double precision
FREE = "broadcast_in_dim", "reshape", "squeeze", "iota", "stop_gradient", "slice"
NANOSECONDS = (
    dict.fromkeys(FREE, 0.0)
    | dict.fromkeys(("exp", "log", "log1p", "expm1", "logistic", "tanh"), 2.0)
    | dict.fromkeys(("erf", "erfc", "sin", "cos", "tan", "atan", "atan2", "pow", "cbrt"), 5.0)
    | dict.fromkeys(("lgamma", "digamma", "igamma", "igammac"), 30.0)
    | dict.fromkeys(("div", "sqrt", "rsqrt", "rem"), 0.4)
    | dict.fromkeys(("transpose", "concatenate", "pad", "rev", "dynamic_slice"), 0.5)
    | dict.fromkeys(("gather", "scatter", "scatter-add", "dynamic_update_slice"), 2.0)
    | {"random_bits": 3.0, "random_fold_in": 20.0, "random_split": 20.0, "random_gamma": 250.0}
    | {"erf_inv": 10.0, "sort": 80.0}
)
# which argument has the entries that are written
UPDATED = {"scatter": 2, "scatter-add": 2, "dynamic_update_slice": 1}
# nanoseconds for each multiplication with addition, in products of matrices of which all sides
# have LARGE_SIDE or more, and of smaller ones; and for each entry of a product
FAST, SLOW, ENTRY, LARGE_SIDE = 0.03, 0.3, 1.0, 32
REDUCED = 0.25  # nanoseconds for each entry of a sum, or a maximum
# multiplications that factorise an n × n matrix, over n³; they run at SLOW, from BLOCKED rows on
# as products of matrices do, and FACTORISED nanoseconds go by for each matrix
BLOCKED = 512
FACTORISATIONS = {
    "cholesky": 1 / 3,
    "triangular_solve": 1 / 2,
    "lu": 1 / 3,
    "qr": 4 / 3,
    "geqrf": 4 / 3,
    "householder_product": 4 / 3,
    "eigh": 12.0,
    "svd": 24.0,
}
FACTORISED = 300.0
STEP = 100.0  # nanoseconds that each operation takes, however small it is
TURNS = 2  # iterations of loops whose end is not known: rejections, and few of them
# operations whose results a compiler stores, rather than fusing them into what reads them
MATERIALISED = {"dot_general", "sort", "scan", "while", *FACTORISATIONS}


class Work(NamedTuple):
    """Seconds of one core, and bytes held, of which `kept` are what a call returns."""

    seconds: float
    bytes: int
    kept: int

    def check(self, calls: int) -> None:
        """Refuse so many calls if they take too long or too much memory."""
        check_bytes(self.bytes + (calls - 1) * self.kept)
        if jax.default_backend() == "cpu":
            check_seconds(calls * self.seconds / cores())

    def measured(self, compiled: Any) -> "Work":
        """The same work with the memory that XLA says the compiled function needs."""
        found = compiled.memory_analysis()
        if found is None:  # not on every platform
            return self
        kept = found.output_size_in_bytes
        return self._replace(
            bytes=found.temp_size_in_bytes + found.argument_size_in_bytes + kept, kept=kept
        )


def work_of(traced: Any) -> Work:
    """A lower bound of the work of a traced function, `jax.jit(f).trace(…)`."""
    jaxpr = traced.jaxpr.jaxpr
    seconds, held = _work(jaxpr)
    kept = _bytes(jaxpr.outvars)
    return Work(seconds, max(held, _bytes(jaxpr.invars) + kept), kept)


def _work(jaxpr: Any) -> tuple[float, int]:
    """Seconds of all equations whose results are read, and the most bytes that one makes."""
    seconds, held = 0.0, 0
    for equation in _read(jaxpr):
        name = equation.primitive.name
        inner = [_work(part) for part in _functions(equation)]
        if inner:
            seconds += _seconds_inside(name, equation, [part for part, _ in inner])
            held = max(held, *(most for _, most in inner))
        else:
            seconds += 1e-9 * _nanoseconds(name, equation)
        if name in MATERIALISED:
            held = max(held, _bytes(equation.outvars))
    return seconds, held


def _read(jaxpr: Any) -> list[Any]:
    """The equations that some result depends on."""
    needed, found = set(map(id, jaxpr.outvars)), []
    for equation in reversed(jaxpr.eqns):
        if not needed.isdisjoint(map(id, equation.outvars)) or equation.effects:
            needed.update(map(id, equation.invars))
            found.append(equation)
    return found


def _functions(equation: Any) -> Iterator[Any]:
    """The functions that an equation calls."""
    for parameter in equation.params.values():
        for item in parameter if isinstance(parameter, tuple) else (parameter,):
            function = getattr(item, "jaxpr", item)  # closed or not
            if hasattr(function, "eqns"):
                yield function


def _seconds_inside(name: str, equation: Any, parts: list[float]) -> float:
    """The seconds of an equation that calls functions; loops count several times, and of branches
    the cheapest that does something, as others are for what seldom happens.
    """
    if name == "cond":
        return min(filter(None, parts), default=0.0)
    turns = {"scan": equation.params.get("length", 1), "while": TURNS}.get(name, 1)
    return turns * sum(parts)


def _nanoseconds(name: str, equation: Any) -> float:
    """The nanoseconds of an equation that calls no function."""
    shapes = [v.aval.shape for v in equation.invars]
    made = _entries(equation.outvars)
    if name == "dot_general":
        (contracted, _), (batch, _) = equation.params["dimension_numbers"]
        summed = math.prod(shapes[0][axis] for axis in contracted)
        products = summed * math.prod(shapes[0][axis] for axis in batch)
        sides = [summed, *(math.prod(shape) // max(1, products) for shape in shapes)]
        return STEP + made * (ENTRY + summed * (FAST if min(sides) >= LARGE_SIDE else SLOW))
    if name in FACTORISATIONS:
        n = max(shapes[0][-2:])
        columns = shapes[1][-1] if name == "triangular_solve" else n
        rate = FAST if min(n, columns) >= BLOCKED else SLOW
        each = FACTORISED + rate * FACTORISATIONS[name] * n * n * columns
        return math.prod(shapes[0][:-2]) * each
    if name in UPDATED:
        made = math.prod(shapes[UPDATED[name]])
    if name.startswith(("reduce_", "arg", "cum")):
        return STEP + REDUCED * _entries(equation.invars)
    return STEP + made * NANOSECONDS.get(name, ELEMENTWISE)


def _entries(variables: Iterable[Any]) -> int:
    return sum(math.prod(getattr(v.aval, "shape", ())) for v in variables)


def _bytes(variables: Iterable[Any]) -> int:
    return sum(
        math.prod(v.aval.shape) * getattr(v.aval.dtype, "itemsize", 8)
        for v in variables
        if hasattr(v.aval, "shape")
    )
