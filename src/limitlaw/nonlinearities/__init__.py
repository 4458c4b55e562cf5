"""The named nonlinearities φ, each with what Theorem 3.1 asks of it."""

from limitlaw.nonlinearities import moments
from limitlaw.nonlinearities.base import Kink, Nonlinearity, looked_at, user_function
from limitlaw.nonlinearities.named import (
    abs_,
    clip,
    cos,
    divide,
    erf,
    gelu,
    identity,
    leaky_relu,
    multiply,
    rebuild,
    relu,
    sigmoid,
    sign,
    silu,
    sin,
    softplus,
    tanh,
)

__all__ = [
    "Kink",
    "Nonlinearity",
    "abs_",
    "clip",
    "cos",
    "divide",
    "erf",
    "gelu",
    "identity",
    "leaky_relu",
    "looked_at",
    "moments",
    "multiply",
    "rebuild",
    "relu",
    "sigmoid",
    "sign",
    "silu",
    "sin",
    "softplus",
    "tanh",
    "user_function",
]
