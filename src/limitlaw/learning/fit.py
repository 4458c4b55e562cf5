"""Scales of a network by maximal evidence."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy.optimize
from jax.flatten_util import ravel_pytree
from jaxtyping import Array

from limitlaw.arguments import non_negative_number
from limitlaw.float64 import in_float64, own_transformation
from limitlaw.learning.kernels import Kernel
from limitlaw.learning.prediction import checked


@dataclasses.dataclass(frozen=True)
class Fitted:
    """The kernel and the noise of largest evidence, and its logarithm. `converged`: did the
    optimiser say that it ended?
    """

    kernel: Kernel
    noise: float
    log_evidence: float
    converged: bool


@in_float64
def fit(
    kernel: Any, inputs: Any, targets: Any, noise: float = 0.1, *, fixed_noise: bool = False
) -> Fitted:
    """The scales of a kernel, and the noise, that make the targets most likely:

        log p(t | X) = −½ tᵀ C⁻¹ t − ½ log det C − (m/2) log 2π,      C = k(X, X) + noise²

    summed over outputs, maximised over the logarithms of all scales from where they are
    (L-BFGS, derivatives through the kernel). Scales must be positive.

    Parameters:
        kernel: a `Kernel` of kind "nngp" with `scales`.
        inputs, targets: (m, …), and (m,) or (m, outputs).
        noise: where to start; `fixed_noise` keeps it.

    Examples:
        >>> import limitlaw as ll, numpy as np
        >>> X = np.random.default_rng(0).normal(size=(20, 3))
        >>> k = ll.Kernel(lambda X, std: ll.mlp(ll.data(X), phi=ll.erf, std=std), {"std": 1.0})
        >>> found = ll.fit(k, X, np.sin(X[:, 0]))
        >>> found.converged, found.log_evidence > -20
        (True, True)
    """
    if not isinstance(kernel, Kernel) or kernel.kind != "nngp":
        raise ValueError(f'kernel must be a Kernel of kind "nngp", got {kernel!r}')
    X, t, _ = (jnp.asarray(a) for a in checked("inputs", inputs, "targets", targets, inputs))
    noise = float(non_negative_number("noise", noise))
    start = {"scales": dict(kernel.scales), "noise": noise}
    if fixed_noise:
        del start["noise"]
    if not all(np.all(np.asarray(leaf) > 0) for leaf in jax.tree.leaves(start)):
        raise ValueError(f"scales and noise must be positive where `fit` starts, got {start}")
    flat, unravel = ravel_pytree(jax.tree.map(lambda a: jnp.log(jnp.asarray(a, float)), start))

    @jax.jit
    def loss(flat: Array) -> Array:
        now = jax.tree.map(jnp.exp, unravel(flat))
        return -_log_evidence(kernel.replace(**now["scales"]), X, t, now.get("noise", noise))

    with own_transformation():
        found = scipy.optimize.minimize(
            lambda a: jax.tree.map(np.asarray, jax.value_and_grad(loss)(jnp.asarray(a))),
            np.asarray(flat),
            jac=True,
            method="L-BFGS-B",
        )
    best = jax.tree.map(lambda a: np.exp(np.asarray(a))[()], unravel(jnp.asarray(found.x)))
    return Fitted(
        kernel.replace(**best["scales"]),
        float(best.get("noise", noise)),
        -float(found.fun),
        bool(found.success),
    )


def _log_evidence(kernel: Kernel, X: Array, t: Array, noise: Any) -> Array:
    """log p(t | X), summed over outputs."""
    C = kernel._gram(X) + noise**2 * jnp.eye(len(X))
    L = jnp.linalg.cholesky(C)
    whitened = jax.scipy.linalg.solve_triangular(L, t, lower=True)
    outputs = t.size // len(t)
    constant = outputs * (jnp.log(jnp.diagonal(L)).sum() + len(t) / 2 * jnp.log(2 * jnp.pi))
    return -(whitened**2).sum() / 2 - constant
