"""Kernels of infinitely wide networks as functions of inputs, for Gaussian-process libraries."""

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from limitlaw.arguments import one_of, positive_int, real_array, shown
from limitlaw.backward.tangent import ntk
from limitlaw.engines.infinite_width import kernel as kernel_of
from limitlaw.float64 import in_float64, own_transformation
from limitlaw.language.functions import dot, initial
from limitlaw.language.values import Wide
from limitlaw.laws import Law

MOST_PAIRS = 2**14  # pairs of inputs of which kernels are computed together


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Kernel:
    """The kernel of an infinitely wide network, as a function of two inputs.

        "nngp":  k(x, x') = E[Z^{y(x)} Z^{y(x')}]      the covariance of the network's output
        "ntk":   Θ(x, x') = Σ_w ∂f(x)/∂w ∂f(x')/∂w     of f = n^{-1/2} u·y, over all weights, u too

    Parameters:
        network: a function that writes y, a batch (m,) of wide vectors, for inputs of shape
            (m, …): `lambda X, std=1.5: ll.mlp(ll.data(X), phi=ll.relu, std=std)`.
        scales: keyword arguments of `network`, numbers or arrays. They are the leaves of the
            kernel, which is a pytree of JAX: `jax.grad` of a function of a kernel is a kernel of
            derivatives. `fit` finds them by maximal evidence.
        kind: "nngp" or "ntk".

    The kernel must be deterministic: behind attention with finitely many heads it is not, and a
    Gaussian process would be wrong (`posterior`).

    Examples:
        >>> import limitlaw as ll, numpy as np
        >>> k = ll.Kernel(lambda X, std: ll.mlp(ll.data(X), phi=ll.relu, std=std), {"std": 1.4})
        >>> k.gram(np.eye(3)).shape, float(k(np.ones(3), np.ones(3)).round(3))
        ((3, 3), 1.921)
    """

    network: Any = dataclasses.field(metadata={"static": True})
    scales: Any = dataclasses.field(default_factory=dict)
    kind: str = dataclasses.field(default="nngp", metadata={"static": True})

    def __post_init__(self) -> None:
        if not callable(self.network):
            raise TypeError(
                "network must be a function of inputs of shape (m, …) that writes a batch (m,) of "
                f"wide vectors, got {shown(self.network)}"
            )
        one_of("kind", self.kind, ("nngp", "ntk"))
        if not isinstance(self.scales, Mapping):
            raise TypeError(f"scales must be a dict of keyword arguments, got {self.scales!r}")

    def replace(self, **scales: Any) -> "Kernel":
        """This kernel with other scales."""
        unknown = set(scales) - set(self.scales)
        if unknown:
            raise ValueError(f"scales of this kernel are {sorted(self.scales)}, got {unknown}")
        return dataclasses.replace(self, scales={**self.scales, **scales})

    @in_float64
    def __call__(self, x: Any, x2: Any) -> Any:
        """k(x, x') of two inputs."""
        pair = jnp.stack([jnp.asarray(real_array("x", x)), jnp.asarray(real_array("x2", x2))])
        return self._gram(pair)[0, 1]

    @in_float64
    def gram(self, x: Any) -> Any:
        """k(x_i, x_j) of inputs (m, …), an m × m matrix."""
        return self._gram(_inputs("x", x))

    @in_float64
    def cross_covariance(self, x: Any, x2: Any, batch: int | None = None) -> Any:
        """k(x_i, x'_j) of inputs (m, …) and (m', …), m × m'; of `batch` pairs at a time, by
        default as many as a pair of small inputs allows.
        """
        x, x2 = _inputs("x", x), _inputs("x2", x2)
        if x.shape[1:] != x2.shape[1:]:
            raise ValueError(f"x2 must have inputs of shape {x.shape[1:]}, got {x2.shape[1:]}")
        with own_transformation():
            return _cross(self, x, x2, max(1, self._together(x, batch) // len(x2)))

    @in_float64
    def diagonal(self, x: Any, batch: int | None = None) -> Any:
        """k(x_i, x_i) of inputs (m, …), without the rest of their Gram matrix."""
        x = _inputs("x", x)
        with own_transformation():
            return _diagonal(self, x, self._together(x, batch))

    def _together(self, x: Array, batch: int | None) -> int:
        return max(1, MOST_PAIRS // x[0].size) if batch is None else positive_int("batch", batch)

    def _gram(self, x: Array) -> Array:
        """Of the network's outputs for all inputs."""
        y = self.network(x, **self.scales)
        if not isinstance(y, Wide) or y.shape != (len(x),):
            raise TypeError(
                f"network must write a batch ({len(x)},) of wide vectors for {len(x)} inputs, "
                f"got {shown(y)}"
            )
        K = _deterministic(kernel_of(y))
        if self.kind == "nngp":
            return K
        return K + _deterministic(kernel_of(ntk(dot(initial(), y))))


def _deterministic(found: Any) -> Any:
    """A kernel that is not random: an array, or a law whose draws are all the same."""
    if isinstance(found, Law):
        if found.kind == "sampled":
            raise ValueError(
                "network must have a deterministic kernel, and attention with finitely many heads "
                "or heads of a fixed dimension makes it random: take heads=math.inf, or ask "
                "`posterior`"
            )
        return found
    return jnp.asarray(found)


def _inputs(name: str, value: Any) -> Float[Array, "m ..."]:
    x = jnp.asarray(real_array(name, value))
    if x.ndim < 1 or not x.size:
        raise ValueError(f"{name} must be inputs of shape (m, …), got shape {x.shape}")
    return x


@functools.partial(jax.jit, static_argnums=3)
def _cross(k: Kernel, x: Array, x2: Array, rows: int) -> Array:
    """Row by row, `rows` of them together."""

    def row(a: Array) -> Array:
        return jax.vmap(lambda b: k._gram(jnp.stack([a, b]))[0, 1])(x2)

    return jax.lax.map(row, x, batch_size=min(rows, len(x)))


@functools.partial(jax.jit, static_argnums=2)
def _diagonal(k: Kernel, x: Array, rows: int) -> Array:
    return jax.lax.map(lambda a: k._gram(a[None])[0, 0], x, batch_size=min(rows, len(x)))
