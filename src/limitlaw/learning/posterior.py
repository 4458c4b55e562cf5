"""`posterior`: what a random network, conditioned on data, computes elsewhere."""

import dataclasses
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from limitlaw.arguments import (
    as_key,
    is_traced,
    non_negative_number,
    one_of,
    positive_int,
    real_array,
)
from limitlaw.engines import engine
from limitlaw.engines.asked import asked_for
from limitlaw.engines.bounds import bounded, check_memory, refuse
from limitlaw.engines.latents import KernelFactor, LatentMap, with_softmaxes
from limitlaw.float64 import in_float64
from limitlaw.language.values import Wide
from limitlaw.learning.answer import Posterior
from limitlaw.learning.problem import Latents, Problem
from limitlaw.learning.sampling import importance_sampled, tempered

LESS = "ask for fewer samples, or give fewer inputs"
GOOD = 0.1  # effective share of draws of the prior with which they are the posterior's
MOST_LATENTS = 2**16
METHODS = ("smc", "importance")


@in_float64
@bounded(LESS)
def posterior(
    y: Wide,
    train: object,
    targets: object,
    noise: object,
    *,
    samples: int = 1024,
    key: object = 0,
    method: str | None = None,
    width: int | None = None,
    force: bool = False,
) -> Posterior:
    """The posterior of a random network given targets of some of its inputs: as n → ∞, or at
    width n.

    y is a batch of wide vectors over training and test inputs, and f_i = n^{-1/2} u·y_i a random
    readout of it, u ~ N(0, I). Given what stays random in y, its scores z, f is a Gaussian process
    with the kernel K(z)_ij = y_i·y_j/n, or its limit. So

        p(z | t) ∝ p(z) N(t; 0, K(z) + noise² I)        p(f | t) = E[N(f; mean(z), C(z)) | t]

    with mean and C of Gaussian-process regression. Where K is deterministic that is all; attention
    with finitely many heads learns: data choose its scores.

    Parameters:
        y: a batch of vectors, of any shape.
        train: which entries of y were observed: indices or a mask, as NumPy indexes an array of
            y's shape.
        targets: their values, (m,) or (m, outputs). All outputs share y, each has its own readout.
        noise: standard deviation of targets about f.
        samples: how many draws of the posterior; of the prior with method="importance".
        key: a JAX key, or an integer seed.
        method: "importance" weighs draws of the prior, which is good for few data. "smc" takes
            particles from the prior to the posterior through tempered laws, in islands that know
            nothing of each other. By default the first, if its effective number of draws is a
            tenth of `samples`, else the second.
        width: n, for the posterior of a network of that width.
        force: go on, whatever memory and time it takes.

    Examples:
        >>> import limitlaw as ll, numpy as np
        >>> X = np.random.default_rng(0).normal(size=(6, 3, 4))  # six inputs, three tokens in R⁴
        >>> y = ll.attention(ll.Matrix(cols=4) @ ll.data(X), heads=1)[..., 0]
        >>> post = ll.posterior(y, [0, 1, 2, 3], [1, -1, 0.5, 0], noise=0.3, key=0)
        >>> law = post.predict(5)  # a mixture of Gaussians: law.mean(), law.ppf(0.9), law.pdf(0.0)
        >>> value, error = post.log_evidence()
    """
    if method is not None:
        one_of("method", method, METHODS)
    positive_int("samples", samples)
    width = None if width is None else positive_int("width", width)
    problem = _problem(y, train, targets, noise, width)
    source = as_key(key)
    if not problem.map.size:
        return _deterministic(problem, y, source)
    _check_size(problem, samples)
    _check_noise(problem, source)
    if method != "smc":
        found = importance_sampled(problem, samples, source)
        if method == "importance" or found.effective_number() >= GOOD * samples:
            return Posterior(problem, found)
    return Posterior(problem, tempered(problem, samples, source))


# --- what is asked -------------------------------------------------------------------------------


def _problem(
    y: object, train: object, targets: object, noise: object, width: int | None
) -> Problem:
    if isinstance(y, tuple | list):
        raise TypeError("posterior takes one value, a batch of vectors: stack several")
    outputs, _ = engine.outputs(y)
    if not isinstance(y, Wide) or not y.ndim:
        raise TypeError(f"y must be a batch of wide vectors, one for each input, got {y!r}")
    beyond: tuple[str, ...] = ()
    if width is None:
        (output,), beyond, left = asked_for("posterior", y)
        if left is not None:
            raise ValueError(
                "posterior has no limit for programs whose transposes leave components of order "
                "1/√n: take width=n"
            )
        outputs = (output,)
    else:
        engine.check_width(engine.program_of(outputs), width, None)
    shape = tuple(int(size) for size in y.shape)
    places = np.arange(math.prod(shape)).reshape(shape)
    rows = _picked("train", train, places)
    t = real_array("targets", targets)
    if is_traced(t):
        raise engine.untraceable("posterior")
    if t.ndim not in (1, 2) or len(t) != len(rows):
        raise ValueError(
            f"targets must have shape ({len(rows)},) or ({len(rows)}, outputs), one for each "
            f"training entry, got shape {t.shape}"
        )
    tau = float(non_negative_number("noise", noise))
    whole = LatentMap(with_softmaxes(outputs[0]), KernelFactor(), width)
    return Problem(
        whole,
        _map_of_training(y, rows, whole, width),
        shape,
        rows,
        np.asarray(t, float).reshape(len(t), -1),
        t.ndim == 1,
        tau,
        width,
        beyond,
    )


def _picked(name: str, index: Any, places: np.ndarray) -> np.ndarray:
    """The flat places of the entries that an index picks: at least one, and none twice."""
    try:
        index = index if isinstance(index, slice | tuple | int) else np.asarray(index)
        rows = np.atleast_1d(places[index]).reshape(-1)
    except (IndexError, TypeError) as error:
        raise IndexError(f"{name} must index y, of shape {places.shape}: {error}") from None
    if not len(rows):
        raise ValueError(f"{name} must pick at least one entry of y, of shape {places.shape}")
    if len(np.unique(rows)) < len(rows):
        raise ValueError(f"{name} must pick entries of y once each, got some of them twice")
    return rows


def _map_of_training(
    y: Wide, rows: np.ndarray, whole: LatentMap, width: int | None
) -> LatentMap | None:
    """The kernel of the training entries alone, where it is the same function of the same normals
    as that of all: the latent variables then follow the rank of the inputs, and not their number.
    """
    if len(rows) == math.prod(y.shape) or not whole.size:
        return None
    part = LatentMap(with_softmaxes(y.reshape(-1)[rows].core), KernelFactor(), width)
    if part.size != whole.size or not np.array_equal(part.plan.df, whole.plan.df):
        return None
    x = jax.random.normal(jax.random.key(0), (part.size,))
    (Phi, K), _ = part.read(x)
    (Phi_all, K_all), _ = whole.read(x)
    if (Phi is None) != (Phi_all is None):
        return None
    if Phi is not None and Phi_all is not None:
        K, K_all = Phi @ Phi.T, Phi_all[rows] @ Phi_all[rows].T
    else:
        K_all = K_all[rows][:, rows]
    scale = float(jnp.max(jnp.abs(K_all)))
    return part if float(jnp.max(jnp.abs(K - K_all))) <= 1e-9 * scale else None


def _check_size(problem: Problem, samples: int) -> None:
    d = problem.map.size
    if d > MOST_LATENTS:
        refuse(
            f"posterior over {d} latent normals would not end in a useful time: give inputs as "
            "data of few dimensions (latents then follow that dimension), or fewer of them"
        )
    check_memory(samples, 8 * d, LESS)


def _check_noise(problem: Problem, key: Key[Array, ""]) -> None:
    """Refuse noise=0 where K cannot be inverted: repeated inputs, or a rank below their number."""
    if problem.noise > 0:
        return
    K = problem.kernel_at(jax.random.normal(key, (problem.map.size,)))[problem.train][
        :, problem.train
    ]
    check_invertible(np.asarray(K))


def check_invertible(K: Float[np.ndarray, "m m"]) -> None:
    """Raise where a kernel is singular, with the inputs that are the same if there are any."""
    sd = np.sqrt(np.diagonal(K))
    scaled = K / np.where(sd > 0, sd, 1)[:, None] / np.where(sd > 0, sd, 1)
    same = np.argwhere(np.triu(scaled > 1 - 1e-10, 1))
    if len(same):
        i, j = same[0]
        raise ValueError(
            f"noise must be positive where training inputs are repeated: entries {i} and {j} of "
            "train have the same output in every network"
        )
    rank = int(np.linalg.matrix_rank(scaled, tol=1e-10 * len(K), hermitian=True))
    if rank < len(K):
        raise ValueError(
            f"noise must be positive: the kernel of {len(K)} training inputs has rank {rank}, so "
            "that no network passes through all targets"
        )


# --- deterministic kernels -----------------------------------------------------------------------


def _deterministic(problem: Problem, y: Wide, key: Key[Array, ""]) -> Posterior:
    from limitlaw.engines.infinite_width import kernel

    if problem.width is None:
        K = kernel(y.reshape(-1))
        K, error, kind = (
            (np.asarray(K.value), np.asarray(K.error), K.kind)
            if hasattr(K, "kind")
            else (np.asarray(K), None, "exact")
        )
    else:
        K, error, kind = np.asarray(problem.kernel_at(jnp.zeros(0))), None, "exact"
    if problem.noise == 0:
        check_invertible(K[problem.train][:, problem.train])
    known = dataclasses.replace(problem, known=(K, error))
    return Posterior(known, Latents(np.zeros((1, 0)), np.ones(1), 1, kind=kind))
