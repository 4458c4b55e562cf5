"""The functions that write a program: leaves, dot products, nonlinearities, softmax, rotary."""

import dataclasses
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from limitlaw.arguments import (
    integer,
    is_traced,
    one_of,
    positive_int,
    real_array,
    real_number,
    shown,
    variances,
)
from limitlaw.core.space import Dim, as_dim, n
from limitlaw.float64 import in_float64
from limitlaw.functions import by_value
from limitlaw.language import ops, shapes
from limitlaw.language.indexable import Indexable
from limitlaw.language.matrices import Matrix
from limitlaw.language.shapes import Shape
from limitlaw.language.tree import Value
from limitlaw.language.values import (
    Kind,
    Scalars,
    Wide,
    coordinatewise,
    same_dim,
    scalars,
    whole,
    wide,
)
from limitlaw.phi import Nonlinearity, looked_at, user_function

SCALINGS = ("sqrt", "linear")


def initial(
    shape: int | Shape = (), mean: object = 0.0, cov: object = 1.0, dim: Dim | int = n
) -> Wide:
    """Random initial vectors: for each coordinate α independently, (h_α) ~ N(mean, cov).

    `mean` broadcasts to `shape`; `cov` is the covariance over the flattened shape (a number c
    means c·I, the default I). Distinct calls are independent. A bias is `+ initial()`.
    """
    sizes = shape if isinstance(shape, tuple | list) else (shape,)
    batch: Shape = tuple(positive_int("shape", size) for size in sizes)
    means = real_array("mean", mean)
    if shapes.broadcast("initial(shape, mean)", means.shape, batch) != batch:
        raise ValueError(f"mean must broadcast to shape {batch}, got shape {means.shape}")
    count = math.prod(int(size) for size in batch)
    return Wide(ops.Initial(means, variances("cov", cov, count)), batch, as_dim("dim", dim))


def data(X: object) -> Wide:
    """Deterministic vectors of coordinates X[…, α], in the fixed space `X.shape[-1]`: a first
    `Matrix(cols=X.shape[-1])` embeds them in width n.
    """
    given = real_array("X", X)
    if given.ndim == 0 or 0 in given.shape:
        raise ValueError(
            f"X must have a coordinate axis and no empty axis, got shape {given.shape}"
        )
    return Wide(ops.Data(given), given.shape[:-1], as_dim("X.shape[-1]", given.shape[-1]))


def matrices(m: int, std: object = 1.0, rows: Dim | int = n, cols: Dim | int = n) -> Matrix:
    """m independent matrices, `Matrix(shape=(m,))`."""
    return Matrix(std, (positive_int("m", m),), rows, cols)


def dot(q: Wide, k: Wide, scaling: str = "sqrt") -> Scalars:
    """Dot products of all pairs: (…,s), (…,t) → (…,s,t).

    With D the dimension of the operands' space, `scaling` "sqrt" gives D^{-1/2} Σ_α q_α k_α, and
    "linear" D^{-1} Σ_α q_α k_α. An operand without batch axes adds no axis.
    """
    one_of("scaling", scaling, SCALINGS)
    for name, value in (("q", q), ("k", k)):
        if not (isinstance(value, Wide) and isinstance(value.op, ops.Rotated)):
            wide(name, value)
    bases = sorted({factor.op.base for factor in (q, k) if isinstance(factor.op, ops.Rotated)})
    if len(bases) > 1:
        raise ValueError(
            f"dot(q, k): q and k must be rotated with one base, got {bases[0]:g} and {bases[1]:g}"
        )
    dim = same_dim("dot(q, k)", q, k)
    shape = shapes.broadcast("dot(q, k)", q.shape[:-1], k.shape[:-1]) + q.shape[-1:] + k.shape[-1:]
    return Scalars(ops.Dot(q, k, scaling, dim), shape)


def average(w: Wide) -> Scalars:
    """The mean over coordinates, D^{-1} Σ_α w_α, for each vector of the batch."""
    w = wide("w", w)
    return Scalars(ops.Average(w, w.dim), w.shape)


@in_float64
def map(phi: Callable[..., Any], *args: object, kinks: object = None) -> Wide:
    """φ applied coordinate by coordinate to vectors and numbers, with broadcasting of batch axes.

    The kinks (jumps of φ or of φ') of a user's function of one vector are found numerically;
    `kinks=(0.3,)` declares them, and `kinks=()` declares that φ is smooth.
    """
    function = user_function(phi)
    if kinks is not None and (function is phi or len(args) != 1):
        raise ValueError("kinks are declared for a function of your own, of one vector")
    if len(args) == 1:
        function = looked_at(phi, None if kinks is None else np.ravel(real_array("kinks", kinks)))
    w = coordinatewise(function, *(a if isinstance(a, Value) else scalars(a) for a in args))
    if function is not phi:
        _check_coordinatewise(function, w)
    return w


def _check_coordinatewise(phi: Nonlinearity, w: Wide) -> None:
    """Raise if φ mixes coordinates or batch entries: φ of one entry must be that entry of φ."""
    op = w.op
    assert isinstance(op, ops.Map)
    shape = tuple(2 if size == math.inf else int(size) for size in w.shape)
    size = 3 * math.prod(shape)
    with jax.ensure_compile_time_eval():
        arrays = [
            jnp.cos(1.0 + i + jnp.arange(size)).reshape(*shape, 3) for i in range(len(op.args))
        ]
        whole = phi(*arrays)
        for corner in (slice(0, 1), slice(-1, None)):
            entry = (corner,) * (len(shape) + 1)
            part = phi(*(array[entry] for array in arrays))
            if is_traced(whole, part):
                return
            if part.shape != whole[entry].shape or not np.allclose(
                part, whole[entry], rtol=1e-4, equal_nan=True
            ):
                raise ValueError(
                    f"{phi.name} must act coordinate by coordinate: φ of one entry differs from "
                    "that entry of φ; hand arrays to map as arguments"
                )


def apply(f: Callable[..., Any], *args: object) -> Scalars:
    """f of whole arrays of numbers, for any function f that jax.numpy can evaluate."""
    if isinstance(f, Nonlinearity):
        return whole(f.name, f, *args, pseudo_lipschitz=f.pseudo_lipschitz)
    if not callable(f):
        raise TypeError(f"f must be a function of arrays, as jnp.exp, got {shown(f)}")
    name = getattr(f, "__name__", "f")
    return whole("f" if name == "<lambda>" else name, by_value(f), *args)


def softmax(p: Scalars, mask: object = None) -> Scalars:
    """exp(p_j) / Σ_k exp(p_k) along the last axis, over the tokens that `mask` shows: None,
    "causal", or booleans that broadcast to p's shape, True where seen.
    """
    p = scalars(p, "p")
    if not p.ndim:
        raise ValueError("softmax needs a last axis to sum over, got numbers without batch axes")
    if mask is None:
        return _rows_of_weights(_softmax, p)
    return _rows_of_weights(_masked_softmax, p, scalars(visible(mask, p.shape)))


def _rows_of_weights(f: Callable[..., Any], p: Scalars, *mask: Scalars) -> Scalars:
    return Scalars(
        ops.Apply(f, (p, *mask), 1, "softmax", structure="softmax", pseudo_lipschitz=True), p.shape
    )


def _softmax(p: jax.Array) -> jax.Array:
    return jax.nn.softmax(p, axis=-1)


def _masked_softmax(p: jax.Array, visible: jax.Array) -> jax.Array:
    return _softmax(jnp.where(visible > 0, p, -jnp.inf))


def visible(mask: object, shape: Shape) -> Any:
    """The mask as an array of booleans that broadcasts to `shape`.

    A mask of another shape or type, or with a row that sees no token, is refused.
    """
    if isinstance(mask, str):
        if mask != "causal":
            raise ValueError(
                f"mask must be None, 'causal' or an array of booleans (True: seen), got {mask!r}"
            )
        if len(shape) < 2 or shape[-1] != shape[-2]:
            raise ValueError(f"mask='causal' needs scores of shape (…, s, s), got {shape}")
        return np.tri(int(shape[-1]), dtype=bool)
    array = np.asarray(mask)
    if array.dtype.kind != "b":
        raise TypeError(
            f"mask must be None, 'causal' or an array of booleans (True: seen), got {array.dtype} "
            "entries"
        )
    if shapes.broadcast("softmax(p, mask)", array.shape, shape) != shape:
        raise ValueError(f"mask must broadcast to the scores' shape {shape}, got {array.shape}")
    blind = np.argwhere(~array.any(axis=-1)) if array.ndim else np.argwhere(~array)
    if len(blind):
        raise ValueError(
            f"mask leaves no token to see in {len(blind)} rows, the first at "
            f"{tuple(blind[0].tolist())}"
        )
    return array


def normalised_sum(w: Wide, axis: int | tuple[int, ...]) -> Wide:
    """m^{-1/2} Σ over `axis`, which has m entries: how heads are summed.

    m = ∞ is allowed: the sum is then Gaussian.
    """
    w = wide("w", w)
    axes, shape = shapes.reduced("normalised_sum", w.shape, axis)
    return Wide(ops.Sum(w, axes, normalised=True), shape, w.dim)


def stack(values: Sequence[Kind], axis: int = 0) -> Kind:
    """Stack values of one kind along a new axis, as `numpy.stack`."""
    terms = tuple(values) if isinstance(values, Iterable) else (values,)
    if not terms or not all(isinstance(v, Indexable) and type(v) is type(terms[0]) for v in terms):
        kinds = ", ".join(sorted({type(v).__name__ for v in terms})) or "nothing"
        raise TypeError(f"stack needs one or more values, all Wide or all Scalars, got {kinds}")
    first: Any = terms[0]
    if isinstance(first, Wide):
        same_dim("stack", *(wide("an element of stack", v) for v in terms))
    if len({v.shape for v in terms}) > 1:
        raise ValueError(
            f"stack needs one batch shape, got {', '.join(str(v.shape) for v in terms)}"
        )
    if integer(axis) is None:
        raise TypeError(f"stack: axis must be an integer, got {shown(axis)}")
    if not -first.ndim - 1 <= axis <= first.ndim:
        raise ValueError(
            f"stack: axis must be between {-first.ndim - 1} and {first.ndim}, got {axis}"
        )
    axis %= first.ndim + 1
    shape = (*first.shape[:axis], len(terms), *first.shape[axis:])
    return dataclasses.replace(first, op=ops.Stack(terms, axis), shape=shape)


def rotary(w: Wide, positions: object, base: float = 10_000.0) -> Wide:
    """Rotary position embedding: coordinates (m, m + D/2) are rotated by positions·base^{-2m/D}.

    `positions` broadcasts to the batch shape of w. The result may only enter a `dot`.
    """
    w = wide("w", w)
    places = real_array("positions", positions)
    if shapes.broadcast("rotary(w, positions)", places.shape, w.shape) != w.shape:
        raise ValueError(
            f"positions must broadcast to w's batch shape {w.shape}, got {places.shape}"
        )
    if not w.dim.wide and w.dim.at(1) % 2:
        raise ValueError(
            f"rotary turns pairs of coordinates: w needs an even dimension, got {w.dim}"
        )
    base = real_number("base", base)
    if base <= 0:
        raise ValueError(f"base must be positive, got {base:g}")
    return Wide(ops.Rotated(w, places, base), w.shape, w.dim)
