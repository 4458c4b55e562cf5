"""Checks of arguments. Every message names the argument, what was expected and what was given."""

import numbers
import operator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from limitlaw.domain import check_variances
from limitlaw.float64 import check_trace


def integer(value: object) -> int | None:
    """`value` as an int (also one of NumPy or JAX); None for any other: 4.0, True, "4"."""
    if isinstance(value, bool | np.bool_):
        return None
    try:
        return operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        return None


def positive_int(name: str, value: object) -> int:
    """`value` as an int ≥ 1."""
    expected = f"{name} must be a positive integer"
    number = integer(value)
    if number is None:
        real = isinstance(value, numbers.Real) and not isinstance(value, bool)
        raise (ValueError if real else TypeError)(f"{expected}, got {value!r}")
    if number < 1:
        raise ValueError(f"{expected}, got {number}")
    return number


def one_of(name: str, value: object, choices: tuple[str, ...]) -> str:
    """`value`, which must be one of `choices`."""
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, choices))}, got {value!r}")
    return value


def is_traced(*values: object) -> bool:
    """Is any of `values` inside a JAX transformation, so that its numbers cannot be looked at?"""
    return any(isinstance(value, jax.core.Tracer) for value in values)


def frozen(value: object) -> Any:
    """`value` without its derivative: an array of numbers, but inside `jax.jit` or `jax.vmap`."""
    still = jax.lax.stop_gradient(value) if is_traced(value) else value
    return still if is_traced(still) else np.asarray(still)


def inside_jit() -> bool:
    """Is everything being traced, so that no number is computed here?"""
    return is_traced(jnp.zeros(()))


def shown(value: object) -> str:
    """`value` in a few words: "str 'a'", or "an array of complex128, shape (3, 2)"."""
    if isinstance(value, np.ndarray | jax.Array) and not is_traced(value):
        return f"an array of {value.dtype}, shape {value.shape}"
    name, text = type(value).__name__, repr(value)
    if value is None or isinstance(value, int):
        return text if len(text) <= 40 else f"an integer of {len(text)} digits"
    return name if len(text) > 40 else text if text.startswith(name) else f"{name} {text}"


def first_line(error: BaseException) -> str:
    """The first line of an error's message, without the pages that may follow."""
    return (str(error) or type(error).__name__).splitlines()[0]


def _reals(name: str, value: object) -> Float[np.ndarray, "..."]:
    """`value` as an array of reals: integers and fractions of any size that float64 holds."""
    try:
        array = np.asarray(value)
        if array.dtype == object and not all(
            isinstance(entry, numbers.Real) for entry in array.flat
        ):
            raise TypeError
        if array.dtype.kind not in "biufO":
            raise TypeError
        return array.astype(np.float64)
    except OverflowError:
        raise ValueError(
            f"{name} must lie within float64, below 1.8e308, got {shown(value)}"
        ) from None
    except (TypeError, ValueError):
        raise TypeError(f"{name} must be real numbers, got {shown(value)}") from None


def real_points(name: str, value: object) -> Float[Array, "..."]:
    """`value` as a JAX array of reals, which may include NaN and infinities."""
    if isinstance(value, jax.Array) and jnp.issubdtype(value.dtype, jnp.number):
        if jnp.issubdtype(value.dtype, jnp.complexfloating):
            raise TypeError(f"{name} must be real numbers, got {value.dtype}")
        if is_traced(value):
            check_trace(value)
        return value.astype(jnp.float64)
    return jnp.asarray(_reals(name, value))


def real_array(name: str, value: object) -> Any:
    """`value` as an array of finite reals: of NumPy, or a tracer under `jax.grad` or `jax.jit`."""
    if is_traced(value):
        real_points(name, value)
        return value
    array = _reals(name, value)
    bad = int(np.size(array) - np.isfinite(array).sum())
    if bad:
        raise ValueError(
            f"{name} must be finite, got {bad} NaN or infinite of {array.size} entries"
        )
    return array


def real_number(name: str, value: object) -> float:
    """`value` as one finite real number that is known: not inside `jax.jit` or `jax.grad`."""
    if is_traced(value):
        raise TypeError(
            f"{name} must be a number known in advance, got one inside jax.jit or jax.grad"
        )
    array = real_array(name, value)
    if array.ndim:
        raise ValueError(f"{name} must be one number, got shape {array.shape}")
    return float(array)


def positive_number(name: str, value: object) -> float:
    """`value` as one finite real number > 0 that is known."""
    number = real_number(name, value)
    if not number > 0:
        raise ValueError(f"{name} must be a positive number, got {number:g}")
    return number


def relative_error(samples: object, rtol: object, default: float) -> float:
    """The relative error to reach where no number of draws is given: `rtol`, or a default."""
    if samples is not None and rtol is not None:
        raise ValueError("give samples or rtol, not both: a number of draws, or an error to reach")
    return default if rtol is None else positive_number("rtol", rtol)


def non_negative(name: str, value: object) -> Any:
    """`value` as an array of finite reals ≥ 0."""
    array = real_array(name, value)
    if not is_traced(array) and (array < 0).any():
        raise ValueError(f"{name} must be ≥ 0, got {array.min():g}")
    return array


def non_negative_number(name: str, value: object) -> Any:
    """`value` as one finite real ≥ 0, or a tracer."""
    number = non_negative(name, value)
    if number.ndim:
        raise ValueError(f"{name} must be one number, got shape {number.shape}")
    return number


def covariance(name: str, value: object, size: int) -> Any:
    """`value` as a symmetric positive semi-definite size × size matrix; c stands for c·I.

    Asymmetry and negative eigenvalues up to 1e-7 of the largest entry are rounding.
    """
    matrix = real_array(name, value)
    if matrix.ndim == 0:
        if 8 * size**2 > 2.0**34:
            room = f"{8 * size**2 / 2**30:,.0f} GiB"
            raise ValueError(
                f"{name} of {size} entries would take {room}: ask for fewer at a time"
            )
        matrix = matrix * np.eye(size)
    if matrix.shape != (size, size):
        raise ValueError(
            f"{name} must be a number or have shape {(size, size)}, got shape {matrix.shape}"
        )
    if not is_traced(matrix) and size:
        check_psd(name, matrix)
    return matrix


def variances(name: str, value: object, size: int) -> Any:
    """`value` as a covariance in the domain of accuracy; a number c, and a diagonal matrix, become
    the vector of their `size` diagonal entries.
    """
    array = real_array(name, value)
    if array.ndim == 0:
        if not is_traced(array):
            if not array >= 0:
                raise ValueError(
                    f"{name} must be positive semi-definite, got the number {array:g}"
                )
            check_variances(name, array)
        return array * np.ones(size)
    matrix = covariance(name, value, size)
    if not is_traced(matrix):
        check_variances(name, np.diagonal(matrix))
    diagonal = isinstance(matrix, np.ndarray) and np.count_nonzero(matrix) == np.count_nonzero(
        np.diagonal(matrix)
    )
    return np.diagonal(matrix).copy() if diagonal else matrix


def check_psd(name: str, matrix: Float[np.ndarray, "m m"]) -> None:
    """Raise unless `matrix` is symmetric and positive semi-definite, and say how far it is."""
    tolerance = 1e-7 * np.abs(matrix).max()
    asymmetry = np.abs(matrix - matrix.T)
    if asymmetry.max() > tolerance:
        i, j = np.unravel_index(asymmetry.argmax(), matrix.shape)
        raise ValueError(
            f"{name} must be symmetric, got entries [{i}, {j}] = {matrix[i, j]:.6g} and [{j}, "
            f"{i}] = {matrix[j, i]:.6g}"
        )
    if _has_factor(matrix + tolerance * np.eye(len(matrix))):
        return
    eigenvalues = np.linalg.eigvalsh(matrix)
    smallest, largest = eigenvalues[0], eigenvalues[-1]
    if smallest < -tolerance:
        raise ValueError(
            f"{name} must be positive semi-definite, got smallest eigenvalue {smallest:.6g} "
            f"(largest {largest:.6g})"
        )


def _has_factor(matrix: Float[np.ndarray, "m m"]) -> bool:
    """Is there a Cholesky factor? That is found faster than eigenvalues are."""
    try:
        np.linalg.cholesky(matrix)
    except np.linalg.LinAlgError:
        return False
    return True


def as_key(key: object) -> Key[Array, ""]:
    """A JAX key from a key, new (jax.random.key) or old (PRNGKey), or from an integer seed."""
    if isinstance(key, int | np.integer) and not isinstance(key, bool):
        if not -(2**63) <= key < 2**63:
            raise ValueError(f"key must be an integer seed of 64 bits at most, got {shown(key)}")
        return jax.random.key(int(key))
    if isinstance(key, np.ndarray):
        key = jnp.asarray(key)
    if (
        isinstance(key, jax.Array)
        and key.shape == ()
        and jnp.issubdtype(key.dtype, jax.dtypes.prng_key)
    ):
        return key
    words = jax.random.key_data(jax.random.key(0)).shape
    if isinstance(key, jax.Array) and key.dtype == jnp.uint32 and key.shape == words:
        return jax.random.wrap_key_data(key)
    raise TypeError(f"key must be one JAX key, jax.random.key(0), or an integer seed, got {key!r}")
