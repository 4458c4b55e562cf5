"""JAX functions evaluated by NumPy, instruction by instruction:
nothing is compiled, so a new program costs its trace.

XLA takes seconds for each program, and the tests compare hundreds. A function is traced once for
the whole batch and its jaxpr interpreted. Keys are 64-bit integers here: splitting them is a hash,
and the bits of a batch of keys are a stream of Philox that the first of them seeds. The numbers
are not JAX's, their law is.
"""

import functools
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import scipy.special
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal, Var


def by_numpy(function: Callable[..., Any]) -> Callable[..., list[np.ndarray]]:
    """`function` of arrays, vmapped over their first axis;
    arrays of type uint64 are keys. Traced once for a size.
    """
    batched = jax.vmap(function)
    traces: dict[int, ClosedJaxpr] = {}

    def called(*arguments: np.ndarray) -> list[np.ndarray]:
        size = len(arguments[0])
        if size not in traces:
            traces[size] = jax.make_jaxpr(batched)(*map(_abstract, arguments))
        with np.errstate(all="ignore"):
            return interpreted(traces[size], *arguments)

    return called


def _abstract(array: np.ndarray) -> Any:
    dtype = jax.random.key(0).dtype if array.dtype == np.uint64 else array.dtype
    return jax.ShapeDtypeStruct(array.shape, dtype)


def interpreted(closed: ClosedJaxpr, *arguments: Any) -> list[np.ndarray]:
    """The outputs of a jaxpr. Arrays are dropped after their last use."""
    jaxpr = closed.jaxpr
    environment: dict[Var, Any] = dict(
        zip(jaxpr.constvars, map(_constant, closed.consts), strict=True)
    )
    environment.update(zip(jaxpr.invars, arguments, strict=True))

    def read(atom: Any) -> Any:
        return (
            np.asarray(atom.val, atom.aval.dtype)
            if isinstance(atom, Literal)
            else environment[atom]
        )

    for equation, dead in zip(jaxpr.eqns, _dead_after(jaxpr), strict=True):
        results = _run(equation, [read(v) for v in equation.invars])
        environment.update(zip(equation.outvars, results, strict=True))
        for variable in dead:
            environment.pop(variable, None)
    return [read(v) for v in jaxpr.outvars]


def _constant(value: Any) -> np.ndarray:
    """A constant of a jaxpr; keys are numbers of 64 bits here."""
    if jax.dtypes.issubdtype(jax.numpy.result_type(value), jax.dtypes.prng_key):
        high, low = np.moveaxis(np.asarray(jax.random.key_data(value), np.uint64), -1, 0)
        return high << np.uint64(32) | low
    return np.asarray(value)


@functools.cache
def _dead_after(jaxpr: Jaxpr) -> list[list[Var]]:
    seen = {v for v in jaxpr.outvars if isinstance(v, Var)}
    dead = []
    for equation in reversed(jaxpr.eqns):
        mentioned = {v for v in (*equation.invars, *equation.outvars) if isinstance(v, Var)}
        dead.append(list(mentioned - seen))
        seen |= mentioned
    return dead[::-1]


def _run(equation: Any, arguments: list[Any]) -> list[Any]:
    name, parameters = equation.primitive.name, equation.params
    if name in SEVERAL:
        return SEVERAL[name](parameters, *arguments)
    if name in ONE:
        return [ONE[name](parameters, *arguments)]
    inner = [p for p in parameters.values() if isinstance(p, ClosedJaxpr)]
    if name in CALLS and len(inner) == 1:
        return interpreted(inner[0], *arguments)
    # by JAX itself
    results = equation.primitive.bind(*map(jax.numpy.asarray, arguments), **parameters)
    return list(map(np.asarray, results if equation.primitive.multiple_results else [results]))


CALLS = ("jit", "pjit", "closed_call", "custom_jvp_call", "custom_vjp_call")

# --- Keys ----------------------------------------------------------------------------------------


def _mixed(k: Any) -> Any:
    """The finaliser of splitmix64: every bit of the result depends on every bit of k."""
    k = np.asarray(k, np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    k = (k ^ (k >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    k = (k ^ (k >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return k ^ (k >> np.uint64(31))


def _fold_in(parameters: Any, keys: Any, data: Any) -> Any:
    return _mixed(_mixed(keys) + np.asarray(data).astype(np.uint64))


def _split(parameters: Any, keys: Any) -> Any:
    count = np.arange(np.prod(parameters["shape"], dtype=int), dtype=np.uint64).reshape(
        parameters["shape"]
    )
    ones = (1,) * count.ndim
    return _mixed(_mixed(_mixed(keys)).reshape(*np.shape(keys), *ones) + count)


def _bits(parameters: Any, keys: Any) -> Any:
    shape = (*np.shape(keys), *parameters["shape"])
    words = np.random.Philox(key=int(np.ravel(keys)[0])).random_raw(int(np.prod(shape, dtype=int)))
    return (
        (words >> np.uint64(64 - parameters["bit_width"]))
        .astype(f"uint{parameters['bit_width']}")
        .reshape(shape)
    )


def keys(seed: int, count: int) -> np.ndarray:
    """Keys for `count` draws."""
    with np.errstate(all="ignore"):
        return _mixed(_mixed(np.uint64(seed)) + np.arange(count, dtype=np.uint64))


# --- Gather and scatter: the index of each operand axis, as arrays that broadcast to the result --


def _places(
    window: Any, collapsed: Any, to_operand: Any, batching: Any, where: Any, sizes: Any
) -> Any:
    """Index arrays for the axes of the operand: starts from `where`,
    plus the offset inside the window.
    """
    ndim = where.ndim - 1 + len(window)
    outer = [axis for axis in range(ndim) if axis not in window]
    inside = iter(window)
    places = []
    for axis, size in enumerate(sizes):
        place = np.zeros((1,) * ndim, dtype=np.int64)
        if axis in to_operand:
            start = where[..., to_operand.index(axis)].astype(np.int64)
            shape = [1] * ndim
            for position, length in zip(outer, start.shape, strict=True):
                shape[position] = length
            place = place + start.reshape(shape)
        if axis in batching[0]:
            position = outer[batching[1][batching[0].index(axis)]]
            shape = [1] * ndim
            shape[position] = where.shape[batching[1][batching[0].index(axis)]]
            place = place + np.arange(shape[position]).reshape(shape)
        elif axis not in collapsed:
            position = next(inside)
            place = place + np.arange(size).reshape(
                [size if a == position else 1 for a in range(ndim)]
            )
        places.append(place)
    return tuple(places)


def _gather(parameters: Any, operand: Any, where: Any) -> Any:
    n = parameters["dimension_numbers"]
    batching = (n.operand_batching_dims, n.start_indices_batching_dims)
    sizes = parameters["slice_sizes"]
    return operand[
        _places(n.offset_dims, n.collapsed_slice_dims, n.start_index_map, batching, where, sizes)
    ]


def _scatter(parameters: Any, operand: Any, where: Any, updates: Any) -> Any:
    n = parameters["dimension_numbers"]
    batching = (n.operand_batching_dims, n.scatter_indices_batching_dims)
    window = iter(n.update_window_dims)
    kept = (*n.inserted_window_dims, *n.operand_batching_dims)
    sizes = [1 if axis in kept else updates.shape[next(window)] for axis in range(operand.ndim)]
    result = np.array(operand)
    to_operand = n.scatter_dims_to_operand_dims
    result[
        _places(n.update_window_dims, n.inserted_window_dims, to_operand, batching, where, sizes)
    ] = updates
    return result


def _dynamic_slice(parameters: Any, operand: Any, *starts: Any) -> Any:
    return operand[_window(operand, starts, parameters["slice_sizes"])]


def _dynamic_update_slice(parameters: Any, operand: Any, update: Any, *starts: Any) -> Any:
    result = np.array(operand)
    result[_window(operand, starts, update.shape)] = update
    return result


def _window(operand: Any, starts: Any, sizes: Any) -> Any:
    firsts = [
        min(max(int(s), 0), length - size)
        for s, length, size in zip(starts, operand.shape, sizes, strict=True)
    ]
    return tuple(slice(first, first + size) for first, size in zip(firsts, sizes, strict=True))


# --- Control, and shapes -------------------------------------------------------------------------


def _while(parameters: Any, *arguments: Any) -> Any:
    a, b = parameters["cond_nconsts"], parameters["body_nconsts"]
    test, body, state = arguments[:a], arguments[a : a + b], list(arguments[a + b :])
    while (going := np.asarray(interpreted(parameters["cond_jaxpr"], *test, *state)[0])).any():
        new = interpreted(parameters["body_jaxpr"], *body, *state)
        keep = [going.reshape(going.shape + (1,) * (np.ndim(v) - going.ndim)) for v in new]
        # draws that are done stay
        state = [np.where(*choice) for choice in zip(keep, new, state, strict=True)]
    return state


def _scan(parameters: Any, *arguments: Any) -> Any:
    if "ft_in" in parameters:  # from JAX 0.11 on
        a, b, _ = map(len, parameters["ft_in"].unpack())
    else:
        a, b = parameters["num_consts"], parameters["num_carry"]
    length = parameters["length"]
    constants, carry, inputs = arguments[:a], list(arguments[a : a + b]), arguments[a + b :]
    outputs = []
    for i in range(length)[:: -1 if parameters["reverse"] else 1]:
        results = interpreted(parameters["jaxpr"], *constants, *carry, *(x[i] for x in inputs))
        carry = results[:b]
        outputs.append(results[b:])
    ordered = outputs[:: -1 if parameters["reverse"] else 1]
    return [*carry, *(np.stack(column) for column in zip(*ordered, strict=True))]


def _cond(parameters: Any, index: Any, *arguments: Any) -> Any:
    return interpreted(parameters["branches"][int(index)], *arguments)


def _platform(parameters: Any) -> Any:
    return np.int32(
        next(
            i for i, names in enumerate(parameters["platforms"]) if names is None or "cpu" in names
        )
    )


def _broadcast(parameters: Any, x: Any) -> Any:
    place = parameters["broadcast_dimensions"]
    shape = [1] * len(parameters["shape"])
    for axis, size in zip(place, np.shape(x), strict=True):
        shape[axis] = size
    return np.broadcast_to(np.reshape(x, shape), parameters["shape"])


def _dot(parameters: Any, a: Any, b: Any) -> Any:
    (a_sum, b_sum), (a_batch, b_batch) = parameters["dimension_numbers"]
    a_free = [i for i in range(a.ndim) if i not in (*a_sum, *a_batch)]
    b_free = [i for i in range(b.ndim) if i not in (*b_sum, *b_batch)]
    lead = [a.shape[i] for i in a_batch]
    inner = int(np.prod([a.shape[i] for i in a_sum], dtype=int))
    left = a.transpose(*a_batch, *a_free, *a_sum).reshape(*lead, -1, inner)
    right = b.transpose(*b_batch, *b_sum, *b_free).reshape(*lead, inner, -1)
    return (left @ right).reshape(
        *lead, *(a.shape[i] for i in a_free), *(b.shape[i] for i in b_free)
    )


def _pad(parameters: Any, x: Any, fill: Any) -> Any:
    assert all(
        low >= 0 and high >= 0 and not between
        for low, high, between in parameters["padding_config"]
    )
    return np.pad(x, [p[:2] for p in parameters["padding_config"]], constant_values=fill)


def _iota(parameters: Any) -> Any:
    shape, axis = parameters["shape"], parameters["dimension"]
    line = np.arange(shape[axis], dtype=parameters["dtype"])
    return np.broadcast_to(
        line.reshape([-1 if a == axis else 1 for a in range(len(shape))]), shape
    )


def _slice(parameters: Any, x: Any) -> Any:
    strides = parameters["strides"] or (1,) * x.ndim
    return x[tuple(map(slice, parameters["start_indices"], parameters["limit_indices"], strides))]


def _divide(parameters: Any, x: Any, y: Any) -> Any:
    return (
        np.divide(x, y)
        if np.issubdtype(np.result_type(x), np.floating)
        else np.fix(np.divide(x, y)).astype(x.dtype)
    )


def _plain(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda parameters, *arguments: function(*arguments)


def _over_axes(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda parameters, x: function(x, axis=tuple(parameters["axes"]))


PLAIN = {
    **{
        "add": np.add,
        "sub": np.subtract,
        "mul": np.multiply,
        "max": np.maximum,
        "min": np.minimum,
        "pow": np.power,
    },
    **{
        "neg": np.negative,
        "sqrt": np.sqrt,
        "log": np.log,
        "log1p": np.log1p,
        "exp": np.exp,
        "expm1": np.expm1,
    },
    **{
        "tanh": np.tanh,
        "sin": np.sin,
        "cos": np.cos,
        "abs": np.abs,
        "sign": np.sign,
        "erf": scipy.special.erf,
    },
    **{
        "erfc": scipy.special.erfc,
        "logistic": scipy.special.expit,
        "rem": np.fmod,
        "square": np.square,
    },
    **{
        "lt": np.less,
        "le": np.less_equal,
        "gt": np.greater,
        "ge": np.greater_equal,
        "eq": np.equal,
    },
    **{
        "and": np.bitwise_and,
        "or": np.bitwise_or,
        "xor": np.bitwise_xor,
        "not": np.invert,
        "ne": np.not_equal,
    },
    **{
        "shift_left": np.left_shift,
        "shift_right_logical": np.right_shift,
        "rsqrt": lambda x: 1 / np.sqrt(x),
    },
    **{"stop_gradient": lambda x: x},
    **{
        "select_n": lambda which, *cases: (
            np.where(which, cases[1], cases[0]) if len(cases) > 1 else cases[0]
        )
    },
}
REDUCTIONS = {
    "sum": np.sum,
    "max": np.max,
    "min": np.min,
    "prod": np.prod,
    "or": np.any,
    "and": np.all,
}
ONE: dict[str, Callable[..., Any]] = {
    **{name: _plain(function) for name, function in PLAIN.items()},
    **{f"reduce_{name}": _over_axes(function) for name, function in REDUCTIONS.items()},
    "div": _divide,
    "random_seed": lambda parameters, seeds: _mixed(np.asarray(seeds).astype(np.uint64)),
    "random_fold_in": _fold_in,
    "random_split": _split,
    "random_bits": _bits,
    "gather": _gather,
    "scatter": _scatter,
    "dynamic_slice": _dynamic_slice,
    "dynamic_update_slice": _dynamic_update_slice,
    "broadcast_in_dim": _broadcast,
    "dot_general": _dot,
    "pad": _pad,
    "iota": _iota,
    "slice": _slice,
    "platform_index": _platform,
    "integer_pow": lambda p, x: x * x if p["y"] == 2 else np.power(x, p["y"]),
    "convert_element_type": lambda p, x: np.asarray(x).astype(p["new_dtype"], copy=False),
    "reshape": lambda p, x: np.reshape(x, p["new_sizes"]),
    "squeeze": lambda p, x: np.squeeze(x, tuple(p["dimensions"])),
    "transpose": lambda p, x: np.transpose(x, p["permutation"]),
    "concatenate": lambda p, *xs: np.concatenate(xs, axis=p["dimension"]),
    "rev": lambda p, x: np.flip(x, p["dimensions"]),
    "argmax": lambda p, x: np.argmax(x, axis=p["axes"][0]).astype(p["index_dtype"]),
}
SEVERAL: dict[str, Callable[..., Any]] = {
    "while": _while,
    "scan": _scan,
    "cond": _cond,
    "optimization_barrier": lambda p, *xs: list(xs),
}
