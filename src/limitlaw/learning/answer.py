"""What `posterior` gives: predictions, evidence, and laws of kernels, scores and attention given
data.
"""

import functools
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from limitlaw.digits import plus_minus
from limitlaw.engines.bounds import check_memory
from limitlaw.float64 import methods_in_float64
from limitlaw.laws import Empirical, Gaussian, GaussianMixture, Law, RandomKernel
from limitlaw.learning.problem import Latents, Problem, WithError
from limitlaw.learning.regression import log_likelihood, prediction
from limitlaw.learning.tempering import systematic

if TYPE_CHECKING:
    from matplotlib.figure import Figure

READ_TOGETHER = 2**23  # numbers of kernels that are held together
FEWER = "ask for fewer entries at a time, or for mean(test)"


@methods_in_float64
class Posterior:
    """A random network given data: what `posterior` returns.

    `predict(test)` is the law of the readout f elsewhere, a mixture of the predictions of Gaussian
    processes, one for each draw of what stays random in the network. `log_evidence()`,
    `kernel()`, `attention(layer)` and `scores(layer)` say what data tell of the network.
    `effective_samples` and `split_r_hat` say how good the draws are, `how` where they are from,
    and `stable` whether the evidence stayed the same with more moves.
    """

    def __init__(self, problem: Problem, latents: Latents) -> None:
        self._problem, self._latents = problem, latents
        self.noise, self.beyond = problem.noise, problem.beyond
        self.kind, self.how, self.stable = latents.kind, latents.how, latents.stable
        self.effective_samples = latents.effective_number()
        self.split_r_hat = latents.split_r_hat()
        self._kept: dict[Any, Any] = {}

    def __len__(self) -> int:
        return len(self._latents.x)

    def __repr__(self) -> str:
        value, error = self.log_evidence()
        m, outputs = self._problem.targets.shape
        said = [f"{m} targets" + (f" × {outputs}" if outputs > 1 else "")]
        said += [f"log evidence {plus_minus(value, error)}"]
        if self.kind == "sampled":
            said += [f"{len(self)} draws, worth {self.effective_samples:.0f}"]
        if math.isfinite(self.split_r_hat):
            said += [f"split R̂ {self.split_r_hat:.3f}"]
        said += [self.how, *([] if self.stable else ["not stable"])]
        return f"Posterior({', '.join(said)})"

    # --- evidence and predictions ----------------------------------------------------------------

    def log_evidence(self) -> WithError:
        """log p(t) = log E N(t; 0, K + noise² I) over the prior of the network, and its error."""
        if self._problem.known is None:
            return WithError(self._latents.log_evidence, self._latents.error)
        (K, error), rows, t = self._problem.known, self._problem.train, self._problem.targets

        def of(K: np.ndarray) -> float:
            given = None, jnp.asarray(K[rows][:, rows])
            return float(log_likelihood(given, None, jnp.asarray(t), self.noise))

        return WithError(of(K), 0.0 if error is None else abs(of(K + error) - of(K)))

    def predict(self, test: object = None) -> Law:
        """The law of f at some entries of y, jointly, given the targets: one number for one entry,
        predict(7); else of the shape of what is picked, with an axis of outputs at the end if
        targets have one. By default all entries that were not observed.

        f is the readout without noise.
        """
        rows, shape = self._tested(test)
        j, o = len(rows), self._problem.targets.shape[1]
        check_memory(len(self), 2 * (j * o) ** 2, FEWER)
        full = shape if self._problem.single else (*shape, o)
        if self._problem.known is not None:
            return self._closed_form(rows, full)
        mean, C = self._predictions(rows)
        C = np.kron(C, np.eye(o)) if o > 1 else C
        if not full:
            mean, C = mean.reshape(-1), C.reshape(-1)
        else:
            mean = mean.reshape(-1, *full)
        latents = self._latents
        return GaussianMixture(
            mean, C, latents.weights, "sampled", self._problem.beyond, latents.blocks
        )

    def _closed_form(self, rows: np.ndarray, shape: tuple[int, ...]) -> Law:
        assert self._problem.known is not None
        K, error = self._problem.known
        t, o = self._problem.targets, self._problem.targets.shape[1]

        def law(K: np.ndarray, kind: str) -> Gaussian:
            given = None, jnp.asarray(K)
            mean, C = prediction(given, self._problem.train, jnp.asarray(t), self.noise, rows)
            C = jnp.kron(C, jnp.eye(o))
            return Gaussian(
                np.asarray(mean).reshape(shape),
                np.asarray(C) if shape else float(C[0, 0]),
                kind,
                self._problem.beyond,
            )

        found = law(K, self.kind)
        return found if error is None else found.compared_with(lambda: law(K + error, self.kind))

    def mean(self, test: object = None) -> WithError:
        """E[f | t] at some entries of y, without their joint law: for many of them."""
        rows, shape = self._tested(test)
        full = shape if self._problem.single else (*shape, self._problem.targets.shape[1])
        if self._problem.known is not None:
            law = self._closed_form(rows, full)
            return WithError(law.mean(), law.error.mean())
        found = self._over_draws(("mean",), self._mean_at, rows).reshape(len(self), -1)
        w = self._latents.weights
        value = w @ found
        if self._latents.blocks:
            B = self._latents.blocks
            each = found.reshape(B, -1, found.shape[1]).mean(axis=1)
            error = np.sqrt(np.sum((each - value) ** 2, axis=0) / (B * (B - 1)))
        else:
            error = np.sqrt(w**2 @ (found - value) ** 2 / (1 - np.sum(w**2)))
        return WithError(value.reshape(full), error.reshape(full))

    def _tested(self, test: Any) -> tuple[np.ndarray, tuple[int, ...]]:
        """Flat places of entries, and the shape that they come in."""
        problem = self._problem
        places = np.arange(math.prod(problem.shape)).reshape(problem.shape)
        if test is None:
            rows = np.setdiff1d(places, problem.train)
            if not len(rows):
                raise ValueError(
                    "test is empty: all entries of y are training inputs, so say at which of them "
                    "to predict, or give y more inputs"
                )
            return rows, rows.shape
        try:
            picked = places[test if isinstance(test, slice | tuple | int) else np.asarray(test)]
        except (IndexError, TypeError) as error:
            raise IndexError(f"test must index y, of shape {problem.shape}: {error}") from None
        if not picked.size:
            raise ValueError(f"test must pick at least one entry of y, of shape {problem.shape}")
        return np.atleast_1d(picked).reshape(-1), np.shape(picked)

    # --- what is read off draws ------------------------------------------------------------------

    def _predictions(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return self._over_draws(("predict",), self._predicted_at, rows)

    def _predicted_at(self, arrays: Any, x: Array, data: Any) -> tuple[Array, Array]:
        train, t, noise, test = data
        given, _ = self._problem.map.plan.read(arrays, x)
        return prediction(given, train, t, noise, test)

    def _mean_at(self, arrays: Any, x: Array, data: Any) -> Array:
        return self._predicted_at(arrays, x, data)[0]

    def _over_draws(self, name: Any, function: Callable[..., Any], rows: np.ndarray) -> Any:
        """A function of (numbers, x, data) at each draw, in batches."""
        problem, x = self._problem, self._latents.x
        size = max(1, min(len(x), 256, READ_TOGETHER // math.prod(problem.shape) ** 2))
        compiled = problem.map.plan.compiled(
            (*name, size), lambda: jax.vmap(function, (None, 0, None))
        )
        data = (
            jnp.asarray(problem.train),
            jnp.asarray(problem.targets),
            jnp.asarray(problem.noise),
            jnp.asarray(rows),
        )
        found = []
        for start in range(0, len(x), size):
            part = x[start : start + size]
            padded = np.pad(part, ((0, size - len(part)), (0, 0)), mode="edge")
            made = compiled(problem.map.arrays, jnp.asarray(padded), data)
            found.append([np.asarray(a)[: len(part)] for a in jax.tree.leaves(made)])
            structure = jax.tree.structure(made)
        arrays = [np.concatenate(parts) for parts in zip(*found, strict=True)]
        return jax.tree.unflatten(structure, arrays)

    @functools.cached_property
    def _equal(self) -> np.ndarray:
        """Indices of draws of equal weight."""
        return systematic(self._latents.weights, len(self), 0.5)

    def kernel(self) -> RandomKernel:
        """The law of the kernel K of all entries of y given the targets."""
        m = math.prod(self._problem.shape)
        check_memory(len(self), m * m, "ask for fewer samples")
        if self._problem.known is not None:
            return RandomKernel(self._problem.known[0][None], self.kind, self._problem.beyond)
        found = self._over_draws(("kernel",), self._kernel_at, np.zeros(1, int))
        return RandomKernel(found[self._equal], "sampled", self._problem.beyond, self._blocks)

    def _kernel_at(self, arrays: Any, x: Array, data: Any) -> Array:
        (Phi, K), _ = self._problem.map.plan.read(arrays, x)
        return K if Phi is None else Phi @ Phi.T

    @property
    def _blocks(self) -> int:
        return self._latents.blocks or 16

    def attention(self, layer: int = 0) -> Empirical:
        """The law of the attention weights of a layer given the targets, (batch, heads, queries,
        keys) as the softmax of the program has them: of the queries that y is made of.

        Heads may be exchanged: the likelihood does not tell them apart, each has the same law.
        """
        return self._of_weights("attention", layer, lambda A: A)

    def scores(self, layer: int = 0) -> Empirical:
        """The law of the attention scores of a layer given the targets, up to a number that all
        keys of a query share: p_ij − mean_j p_ij = log A_ij − mean_j log A_ij over visible keys.
        """

        def centred(A: Array) -> Array:
            seen = A > 0
            log = jnp.log(jnp.where(seen, A, 1.0))
            mean = jnp.sum(log, -1, keepdims=True) / jnp.sum(seen, -1, keepdims=True)
            return jnp.where(seen, log - mean, 0.0)

        return self._of_weights("scores", layer, centred)

    def _of_weights(self, name: str, layer: int, f: Callable[[Array], Array]) -> Empirical:
        count = self._problem.map.readings
        if not -count <= layer < count:
            raise IndexError(
                f"layer must be one of the {count} layers of attention of y, got {layer}"
            )

        def at(arrays: Any, x: Array, data: Any) -> Array:
            _, weights = self._problem.map.plan.read(arrays, x)
            return f(weights[layer])

        found = self._over_draws((name, layer), at, np.zeros(1, int))
        if self._problem.known is not None:
            return Empirical(found, self.kind, self._problem.beyond)
        return Empirical(found[self._equal], "sampled", self._problem.beyond, self._blocks)

    # --- pictures --------------------------------------------------------------------------------

    def plot(self, layer: int = 0) -> "Figure":
        """Predictions of all entries with two standard deviations and targets, and beside it mean
        attention weights of a layer given the targets, if there are any.
        """
        from limitlaw.learning.figures import posterior_figure

        return posterior_figure(self, self._problem, layer)
