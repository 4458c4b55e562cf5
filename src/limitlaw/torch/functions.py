"""Functions of numbers: how torch's operations are written in JAX,
and which of them limitlaw knows.
"""

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
from limitlaw.torch.nodes import Tensor, pulled

Numbers = Callable[[Any], Any]

# Far out as well: relu6 is relu up to 6.
_GRID = np.concatenate(
    [np.linspace(-6, 6, 97), [-0.3137, 0.7713, 2.2361, -1e3, -37.5, -9.0, 9.0, 37.5, 1e3]]
)


def gelu_tanh(x: Any) -> Any:
    """x (1 + tanh(√(2/π) (x + 0.044715 x³))) / 2."""
    return jax.nn.gelu(x, approximate=True)


@functools.cache
def _smooth_gelu_tanh() -> Nonlinearity:
    return looked_at(gelu_tanh, ())


def square(w: Any) -> Any:
    """w²."""
    return w * w


# What limitlaw writes for a function of vectors, with the function of arrays that it is.
KNOWN: dict[str, tuple[Callable[[Any], Any], Numbers]] = {
    "relu": (ll.relu, lambda x: jnp.maximum(x, 0)),
    "gelu": (ll.gelu, lambda x: jax.nn.gelu(x, approximate=False)),
    "gelu_tanh": (lambda w: ll.map(_smooth_gelu_tanh(), w), gelu_tanh),
    "silu": (ll.silu, jax.nn.silu),
    "tanh": (ll.tanh, jnp.tanh),
    "sigmoid": (ll.sigmoid, jax.nn.sigmoid),
    "softplus": (ll.softplus, jax.nn.softplus),
    "erf": (ll.erf, lax.erf),
    "abs": (ll.abs, jnp.abs),
    "sin": (ll.sin, jnp.sin),
    "cos": (ll.cos, jnp.cos),
    "square": (square, square),
}


def power(x: Any, exponent: float) -> Any:
    """x to a given power, a whole one as a product."""
    return x ** int(exponent) if float(exponent).is_integer() else jnp.power(x, exponent)


def recognised(f: Numbers) -> str | None:
    """The name of the function of limitlaw that f is, by its values on a grid."""
    values = np.asarray(f(jnp.asarray(_GRID)))
    found = (
        name
        for name, known in _on_grid().items()
        if np.allclose(values, known, rtol=1e-12, atol=1e-14)
    )
    return next(found, None)


@functools.cache
def _on_grid() -> dict[str, np.ndarray]:
    return {name: np.asarray(known(jnp.asarray(_GRID))) for name, (_, known) in KNOWN.items()}


def affine(f: Numbers) -> bool:
    """Is f a straight line?"""
    values = np.asarray(f(jnp.asarray(_GRID)))
    slope = (values[96] - values[0]) / (_GRID[96] - _GRID[0])
    return bool(
        np.allclose(values, values[0] + slope * (_GRID - _GRID[0]), rtol=1e-12, atol=1e-12)
    )


def chain(tensor: Tensor) -> tuple[Tensor, Numbers]:
    """The tensor as a function of one other: the longest chain of entrywise nodes
    that reads one tensor only.
    """
    node = tensor.node
    if (
        not isinstance(node, nodes.Combination | nodes.Product | nodes.Function)
        or not node.operands
    ):
        return tensor, lambda x: x
    inner = [chain(pulled(tensor, t)) for t in node.operands]
    leaf = inner[0][0]
    if not all(other.same(leaf) for other, _ in inner):
        return tensor, lambda x: x
    return leaf, functools.partial(_entrywise, node, [f for _, f in inner])


def _entrywise(node: Any, inner: list[Numbers], x: Any) -> Any:
    """The node as a function of what its operands are functions of."""
    values = [f(x) for f in inner]
    if isinstance(node, nodes.Function):
        return node.f(values[0])
    if isinstance(node, nodes.Product):
        return values[0] * values[1]
    return sum(c * v for (c, _), v in zip(node.terms, values, strict=True)) + node.shift
