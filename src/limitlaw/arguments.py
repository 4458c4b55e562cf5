"""Checks of arguments. Every message names the argument, what was expected and what came."""

import numbers
import operator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key


def positive_int(name: str, value: object) -> int:
    """`value` as an int ≥ 1. NumPy and JAX integers pass; 4.0, True and "4" do not."""
    expected = f"{name} must be a positive integer"
    if isinstance(value, bool | np.bool_):
        raise TypeError(f"{expected}, got {value!r}")
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        error = ValueError if isinstance(value, numbers.Real) else TypeError
        raise error(f"{expected}, got {value!r}") from None
    if number < 1:
        raise ValueError(f"{expected}, got {number}")
    return number


def one_of(name: str, value: object, choices: tuple[str, ...]) -> str:
    """`value`, which must be one of `choices`."""
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, choices))}, got {value!r}")
    return value


def is_traced(value: object) -> bool:
    """Is `value` inside a JAX transformation, so that its numbers cannot be looked at?"""
    return isinstance(value, jax.core.Tracer)


def inside_jit() -> bool:
    """Is everything being traced, so that no number is computed here?"""
    return is_traced(jnp.zeros(()))


def real_array(name: str, value: object) -> Any:
    """`value` as an array of finite reals: NumPy float64, or the tracer itself under `jax.grad` and `jax.jit`."""
    if is_traced(value):
        return value
    try:
        array = np.asarray(value)
        if array.dtype.kind not in "biuf":
            raise TypeError(f"an array of dtype {array.dtype}")
        array = array.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{name} must be real numbers, got {type(value).__name__} ({error})") from None
    bad = int(np.size(array) - np.isfinite(array).sum())
    if bad:
        raise ValueError(f"{name} must be finite, got {bad} NaN or infinite of {array.size} entries")
    return array


def non_negative(name: str, value: object) -> Any:
    """`value` as an array of finite reals ≥ 0."""
    array = real_array(name, value)
    if not is_traced(array) and (array < 0).any():
        raise ValueError(f"{name} must be ≥ 0, got {array.min():g}")
    return array


def covariance(name: str, value: object, size: int) -> Any:
    """`value` as a symmetric positive semi-definite size × size matrix; a number c stands for c·I.

    Rounding is forgiven, also that of single precision: asymmetry and negative eigenvalues up to 1e-7 of the largest
    entry in modulus.
    """
    matrix = real_array(name, value)
    if matrix.ndim == 0:
        matrix = matrix * np.eye(size)
    if matrix.shape != (size, size):
        raise ValueError(f"{name} must be a number or have shape {(size, size)}, got shape {matrix.shape}")
    if not is_traced(matrix) and size:
        check_psd(name, matrix)
    return matrix


def check_psd(name: str, matrix: Float[np.ndarray, "m m"]) -> None:
    """Raise unless `matrix` is symmetric and positive semi-definite, saying how far it is from that."""
    tolerance = 1e-7 * np.abs(matrix).max()
    asymmetry = np.abs(matrix - matrix.T)
    if asymmetry.max() > tolerance:
        i, j = np.unravel_index(asymmetry.argmax(), matrix.shape)
        raise ValueError(
            f"{name} must be symmetric, got entries [{i}, {j}] = {matrix[i, j]:.6g} and [{j}, {i}] = {matrix[j, i]:.6g}"
        )
    eigenvalues = np.linalg.eigvalsh(matrix)
    smallest, largest = eigenvalues[0], eigenvalues[-1]
    if smallest < -tolerance:
        raise ValueError(
            f"{name} must be positive semi-definite, got smallest eigenvalue {smallest:.6g} (largest {largest:.6g})"
        )


def as_key(key: object) -> Key[Array, ""]:
    """A JAX key from jax.random.key(0), from the older jax.random.PRNGKey(0), or from an integer seed."""
    if isinstance(key, int | np.integer) and not isinstance(key, bool):
        return jax.random.key(int(key))
    if isinstance(key, np.ndarray):
        key = jnp.asarray(key)
    if isinstance(key, jax.Array) and key.shape == () and jnp.issubdtype(key.dtype, jax.dtypes.prng_key):
        return key
    words = jax.random.key_data(jax.random.key(0)).shape
    if isinstance(key, jax.Array) and key.dtype == jnp.uint32 and key.shape == words:
        return jax.random.wrap_key_data(key)
    raise TypeError(f"key must be one JAX key, jax.random.key(0), or an integer seed, got {key!r}")


def require_float64(name: str) -> None:
    """Raise while JAX is in 32-bit mode."""
    if jnp.result_type(float) != jnp.float64:
        raise RuntimeError(
            f"{name} computes in float64 and JAX is in 32-bit mode; "
            'write jax.config.update("jax_enable_x64", True) at the top of your program'
        )
