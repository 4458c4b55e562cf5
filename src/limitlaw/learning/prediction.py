"""Predictions of infinitely wide networks with deterministic kernels: Bayesian, and after training
by gradient flow (Jacot et al. 2018; Lee et al. 2019; He, Lakshminarayanan and Teh 2020).
"""

import dataclasses
import math
from typing import Any

import numpy as np
import scipy.linalg
from jaxtyping import Float

from limitlaw.arguments import non_negative_number, real_array, shown
from limitlaw.laws import GaussianMixture
from limitlaw.learning.kernels import Kernel

SINGULAR = 1e-13  # eigenvalues of a kernel below this share of the largest one are rounding

Entries = Float[np.ndarray, "_ _"]  # a matrix


@dataclasses.dataclass(frozen=True)
class Prediction:
    """The Gaussian law of outputs f at m test inputs: mean (m,) or (m, outputs), and one
    covariance (m, m) for all outputs, which are independent.
    """

    mean: Float[np.ndarray, "m *outputs"]
    covariance: Float[np.ndarray, "m m"]

    @property
    def std(self) -> Float[np.ndarray, " m"]:
        """The standard deviation of each output's value at each test input."""
        return np.sqrt(np.maximum(np.diagonal(self.covariance), 0))

    def law(self, output: int | None = None) -> GaussianMixture:
        """The joint law over test inputs, of one output where there are several."""
        if (self.mean.ndim == 1) != (output is None):
            raise ValueError(f"output must say which of {self.mean.shape[1:]}, got {output!r}")
        mean = self.mean if output is None else self.mean[:, output]
        return GaussianMixture(mean[None], self.covariance[None], kind="exact")

    def classes(self) -> np.ndarray:
        """The output with the largest mean. Targets are one-hot rows: this is regression on them,
        not a likelihood of classes, and its variances are no probabilities.
        """
        if self.mean.ndim != 2:
            raise ValueError("classes needs targets of shape (m, classes), one-hot rows")
        return self.mean.argmax(axis=1)


def predict(
    kernel: Any,
    inputs: Any,
    targets: Any,
    test: Any,
    *,
    noise: float = 0.0,
    time: float | None = None,
    batch: int | None = None,
) -> Prediction:
    """The law of an infinitely wide network's outputs at test inputs, after it has seen targets t.

    Without `time` the Bayesian posterior, of targets with independent noise N(0, noise²):

        mean  k(X*, X) Λ⁻¹ t,   covariance  k(X*, X*) − k(X*, X) Λ⁻¹ k(X, X*),   Λ = K + noise²

    With `time` t, which may be math.inf, the law over initialisations of networks trained by
    gradient flow of ½ Σ (f(x_i) − t_i)² + ½ noise² |w − w₀|² over the weights w: all of them for
    a kernel of kind "ntk", those of the readout alone for "nngp". With Θ the kernel, K the one of
    kind "nngp", and B = Θ(X*, X) Λ⁻¹ (1 − e^{−tΛ}), Λ = Θ(X, X) + noise²,

        mean  B t,      covariance  K(X*, X*) − B K(X, X*) − K(X*, X) Bᵀ + B K(X, X) Bᵀ

    Parameters:
        kernel: a `Kernel`.
        inputs, targets: training inputs (m, …), and targets (m,) or (m, outputs).
        test: test inputs (m', …).
        noise: standard deviation of the targets' noise; the strength of weight decay towards the
            initial weights, where there is a time.
        batch: so many pairs of inputs at a time, where kernels of all inputs at once take too much
            memory.

    Examples:
        >>> import limitlaw as ll, math, numpy as np
        >>> X, t = np.eye(3), np.array([1.0, -1.0, 0.5])
        >>> k = ll.Kernel(lambda X: ll.mlp(ll.data(X), phi=ll.erf))
        >>> ll.predict(k, X, t, X, time=math.inf).mean.round(6)
        array([ 1. , -1. ,  0.5])
    """
    if not isinstance(kernel, Kernel):
        raise TypeError(f"kernel must be a Kernel of a network, got {shown(kernel)}")
    X, t, new = checked("inputs", inputs, "targets", targets, test)
    noise = float(non_negative_number("noise", noise))
    if time is None and kernel.kind == "ntk":
        raise ValueError(
            'time must be given for a kernel of kind "ntk", which describes training: '
            "time=math.inf, say; the Bayesian posterior has kind nngp"
        )
    theta = _blocks(kernel, X, new, batch)
    if time is None:
        weights = _solved(theta[0], noise, theta[1]).T
        return _prediction(weights, t, theta[2] - weights @ theta[1])
    if not time >= 0:
        raise ValueError(f"time must be a number ≥ 0, or math.inf, got {time!r}")
    K = theta
    if kernel.kind == "ntk":
        K = _blocks(dataclasses.replace(kernel, kind="nngp"), X, new, batch)
    B = _trained(theta[0], noise, theta[1], time).T
    mixed = B @ K[1]
    return _prediction(B, t, K[2] - mixed - mixed.T + B @ K[0] @ B.T)


def _prediction(weights: Entries, t: np.ndarray, covariance: Entries) -> Prediction:
    return Prediction(weights @ t, (covariance + covariance.T) / 2)


def _blocks(
    kernel: Kernel, X: np.ndarray, new: np.ndarray, batch: int | None
) -> tuple[Entries, Entries, Entries]:
    """k(X, X), k(X, X*), k(X*, X*): of all inputs at once, or of `batch` pairs at a time."""
    if batch is None:
        m, K = len(X), np.asarray(kernel.gram(np.concatenate([X, new])))
        return K[:m, :m], K[:m, m:], K[m:, m:]
    pairs = ((X, X), (X, new), (new, new))
    first, cross, last = (np.asarray(kernel.cross_covariance(*p, batch)) for p in pairs)
    return first, cross, last


def _solved(K: Entries, noise: float, right: Entries) -> Entries:
    """(K + noise²)⁻¹ times a matrix."""
    try:
        factor = scipy.linalg.cho_factor(K + noise**2 * np.eye(len(K)), lower=True)
    except np.linalg.LinAlgError:
        factor = None
    if factor is None or np.diagonal(factor[0]).min() ** 2 < SINGULAR * K.diagonal().max():
        raise ValueError(
            "noise must be positive where the kernel of the training inputs is singular, as it is "
            f"for repeated ones, got {noise!r}"
        )
    return scipy.linalg.cho_solve(factor, right)


def _trained(theta: Entries, noise: float, right: Entries, time: float) -> Entries:
    """Λ⁻¹ (1 − e^{−tΛ}) times a matrix, Λ = Θ + noise²: t where an eigenvalue is 0."""
    if time == math.inf:
        return _solved(theta, noise, right)
    values, vectors = np.linalg.eigh(theta + noise**2 * np.eye(len(theta)))
    moved = np.where(values > 0, values, 1)
    share = np.where(values > 0, -np.expm1(-time * moved) / moved, time)
    return vectors @ (share[:, None] * (vectors.T @ right))


def checked(
    first: str, inputs: Any, second: str, targets: Any, test: Any
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Training inputs, targets and test inputs as arrays of finite numbers that fit together."""
    X, t, new = (
        np.asarray(real_array(name, value))
        for name, value in ((first, inputs), (second, targets), ("test", test))
    )
    if X.ndim == 0 or not X.size:
        raise ValueError(f"{first} must be training inputs (m, …), got shape {X.shape}")
    if t.ndim not in (1, 2) or len(t) != len(X):
        raise ValueError(
            f"{second} must have shape ({len(X)},) or ({len(X)}, outputs), one for each of "
            f"{len(X)} training inputs, got {t.shape}"
        )
    if new.ndim == 0 or new.shape[1:] != X.shape[1:] or not len(new):
        raise ValueError(f"test must be inputs of shape (m, {X.shape[1:]}), got {new.shape}")
    return X, t, new
