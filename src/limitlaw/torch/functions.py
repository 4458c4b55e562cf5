"""Functions of numbers: torch's operations in JAX, and those that limitlaw knows."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

import limitlaw as ll
from limitlaw.phi import Nonlinearity, looked_at
from limitlaw.torch import nodes
from limitlaw.torch.nodes import Entrywise, Tensor, pulled

# Far out as well: relu6 is relu up to 6.
_SAMPLED_AT = np.concatenate(
    [np.linspace(-6, 6, 97), [-0.3137, 0.7713, 2.2361, -1e3, -37.5, -9.0, 9.0, 37.5, 1e3]]
)


def gelu(x: jax.Array) -> jax.Array:
    """GELU, x Φ(x)."""
    return jax.nn.gelu(x, approximate=False)


def gelu_tanh(x: jax.Array) -> jax.Array:
    """The approximation of GELU by tanh, x (1 + tanh(√(2/π) (x + 0.044715 x³))) / 2."""
    return jax.nn.gelu(x, approximate=True)


@functools.cache
def _smooth_gelu_tanh() -> Nonlinearity:
    return looked_at(gelu_tanh, ())


# The functions of torch without other arguments.
FUNCTIONS: dict[str, Entrywise] = {
    "relu": lambda x: jnp.maximum(x, 0),
    "silu": jax.nn.silu,
    "tanh": jnp.tanh,
    "sigmoid": jax.nn.sigmoid,
    "softplus": jax.nn.softplus,
    "erf": lax.erf,
    "abs": jnp.abs,
    "sin": jnp.sin,
    "cos": jnp.cos,
    "exp": jnp.exp,
    "log": jnp.log,
    "sqrt": jnp.sqrt,
    "reciprocal": lambda x: 1 / x,
    "mish": lambda x: x * jnp.tanh(jax.nn.softplus(x)),
    "hardswish": lambda x: x * jnp.clip(x + 3, 0, 6) / 6,
    "square": lambda x: x * x,
    "sign": jnp.sign,
    "expm1": jnp.expm1,
    "log1p": jnp.log1p,
    "log2": jnp.log2,
    "exp2": jnp.exp2,
    "selu": jax.nn.selu,
    "atan": jnp.arctan,
    "acos": jnp.arccos,
    "asin": jnp.arcsin,
    "tan": jnp.tan,
    "sinh": jnp.sinh,
    "cosh": jnp.cosh,
    "erfc": lax.erfc,
    "log_sigmoid": jax.nn.log_sigmoid,
    "hardsigmoid": lambda x: jnp.clip(x + 3, 0, 6) / 6,
    "softsign": lambda x: x / (1 + jnp.abs(x)),
}

# The functions of limitlaw that are written for vectors.
KNOWN_FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "relu": ll.relu,
    "gelu": ll.gelu,
    "gelu_tanh": lambda w: ll.map(_smooth_gelu_tanh(), w),
    "silu": ll.silu,
    "tanh": ll.tanh,
    "sigmoid": ll.sigmoid,
    "softplus": ll.softplus,
    "erf": ll.erf,
    "abs": ll.abs,
    "sin": ll.sin,
    "cos": ll.cos,
    "square": lambda w: w * w,
}


def power(x: jax.Array, exponent: float) -> jax.Array:
    """x to a constant power; a whole power is a product."""
    return x ** int(exponent) if float(exponent).is_integer() else jnp.power(x, exponent)


def recognised(f: Entrywise) -> str | None:
    """The name of the function of limitlaw that f is, by its values on a grid."""
    values = np.asarray(f(jnp.asarray(_SAMPLED_AT)))
    found = (
        name
        for name, known in _on_grid().items()
        if np.allclose(values, known, rtol=1e-12, atol=1e-14)
    )
    return next(found, None)


@functools.cache
def _on_grid() -> dict[str, np.ndarray]:
    functions = {**FUNCTIONS, "gelu": gelu, "gelu_tanh": gelu_tanh}
    return {
        name: np.asarray(functions[name](jnp.asarray(_SAMPLED_AT))) for name in KNOWN_FUNCTIONS
    }


def affine(f: Entrywise) -> bool:
    """Is f a straight line?"""
    values = np.asarray(f(jnp.asarray(_SAMPLED_AT)))
    slope = (values[96] - values[0]) / (_SAMPLED_AT[96] - _SAMPLED_AT[0])
    return bool(
        np.allclose(
            values, values[0] + slope * (_SAMPLED_AT - _SAMPLED_AT[0]), rtol=1e-12, atol=1e-12
        )
    )


def chain(tensor: Tensor) -> tuple[Tensor, Entrywise]:
    """The tensor as a function of one other, by the longest chain of entrywise nodes."""
    node = tensor.node
    if (
        not isinstance(node, nodes.WeightedSum | nodes.Times | nodes.Elementwise)
        or not node.operands
    ):
        return tensor, lambda x: x
    inner = [chain(pulled(tensor, t)) for t in node.operands]
    leaf = inner[0][0]
    if not all(other.same(leaf) for other, _ in inner):
        return tensor, lambda x: x
    return leaf, functools.partial(_entrywise, node, [f for _, f in inner])


def _entrywise(
    node: nodes.WeightedSum | nodes.Times | nodes.Elementwise, inner: list[Entrywise], x: jax.Array
) -> jax.Array:
    """The node as a function of the tensor that its operands are functions of."""
    values = [f(x) for f in inner]
    if isinstance(node, nodes.Elementwise):
        return node.f(values[0])
    if isinstance(node, nodes.Times):
        return values[0] * values[1]
    terms = [c * v for (c, _), v in zip(node.terms, values, strict=True)]
    return jnp.asarray(sum(terms)) + node.shift
