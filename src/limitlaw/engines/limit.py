"""The infinite-width engine: Definition 3.1, Theorem 3.1 and Corollary 3.2 of Sakai, Karakida and Imaizumi (2025)."""

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from limitlaw import phi as nonlinearities
from limitlaw.arguments import is_traced, positive_int, require_float64
from limitlaw.core.check import check
from limitlaw.engines import common, coordinate, head_laws, wide_scores
from limitlaw.engines.demand import demanded
from limitlaw.engines.effort import default_draws
from limitlaw.engines.evaluate import NODES, REPLICATES, Conditions, Figure, Limit, prepared
from limitlaw.engines.infinite import InfiniteDraw
from limitlaw.engines.joint_density import joint_density
from limitlaw.engines.observed import observed
from limitlaw.engines.plan import Plan
from limitlaw.engines.static import Facts
from limitlaw.language import ops
from limitlaw.language.functions import dot
from limitlaw.language.shapes import finite_shape, is_infinite
from limitlaw.language.values import Scalars, Wide, coordinatewise
from limitlaw.laws import Combination, Empirical, Gaussian, GaussianMixture, Law, Pushforward, RandomKernel, Tokens
from limitlaw.laws.averages import BLOCKS
from limitlaw.laws.kernel_matrix import KernelMatrix
from limitlaw.laws.psi import average_of
from limitlaw.laws.tracing import NEEDS_NUMBERS
from limitlaw.numerics.importance import JointDensity
from limitlaw.phi import Nonlinearity, looked_at
from limitlaw.progress import watching

JOINT_NUMBERS, JOINT_DRAWS = 2**24, 2**19  # normals and draws at most for the joint law of tokens
LEAST_JOINT = 2**10  # draws for it, unless time is short


@watching
def limit(y: Wide | Scalars, samples: int | None = None, key: Any = None) -> Law:
    """The law of one coordinate of y as n → ∞ (Corollary 3.2).

    Without random scores it is a Gaussian with closed-form or quadrature covariance, or the image of one. A sum of
    heads that are i.i.d. given the incoming kernel is a `HeadSum`, to many digits for few tokens. Otherwise it is a
    Gaussian mixture over `samples` draws of the scores, which are the points of a scrambled Sobol sequence: the same at
    every call, or another scrambling for each `key`. Standard errors of mixtures come from 16 blocks of the sequence.
    What `check` refuses is refused here, for the same reason.

    Without `samples` there are up to 2^16 draws: as many as take 20 seconds on this machine, which the law's repr
    says where it made a difference. The same `samples` give the same law on every machine.
    """
    value = _checked("limit", y)
    if samples is not None:
        positive_int("samples", samples)
    beyond = check(y).beyond
    if not isinstance(value, Wide):
        return _law_of_numbers(value, samples, key, beyond)
    phi, parts = common.last_step(value)
    if phi is None and value.dim.wide and not is_infinite(value.shape):
        law = _law_of_heads(value, samples, key, beyond)
        if law is not None:
            return law
    event = (len(parts),) * (len(parts) > 1) + finite_shape(value.shape)
    law = _law_of_draws(parts, _law_figure, samples, key, phi, event, beyond)
    narrow = phi is None and common.has_pole(demanded(parts)[0], lambda dim: math.inf if dim.wide else dim.at(1))
    return law.with_pole() if narrow else law


@watching
def kernel(y: Wide, samples: int | None = None, key: Any = None) -> Any:
    """K = E[Z^y (Z^y)ᵀ | scores] over the flattened entries of y: the limiting covariance, for outputs of mean zero.

    A matrix where it is deterministic, differentiable in everything it depends on: a plain array where it is a closed
    form, else a `KernelMatrix`, an array with an `error`. Where it is random, its law, a `RandomKernel`, of which
    `mean()` is the mean. `samples` and `key` are those of `limit`.
    """
    value = _checked("kernel", y)
    if not isinstance(value, Wide):
        raise TypeError("kernel needs vectors (Wide), got Scalars: ask limit for the law of numbers")
    program = prepared((value,), _kernel_figure)
    conditions = program.conditions(_samples((value,), samples), key, at_most=samples is None)
    shape = (math.prod(finite_shape(value.shape)),) * 2 if value.shape else ()
    arrays = conditions.arrays.reshape(-1, *shape)
    if program.random:
        return _with_effort(RandomKernel(arrays, beyond=check(y).beyond, blocks=BLOCKS), conditions)
    K = jnp.asarray(arrays).mean(axis=0)
    if conditions.kind == "exact":
        return K

    def error() -> Any:
        if conditions.kind == "sampled":
            unseen = jnp.max(jnp.abs(K)) / (REPLICATES * NODES)  # what is rarer than one node in all is in none
            return jnp.hypot(jnp.std(arrays, axis=0) / math.sqrt(len(arrays) - 1), unseen)
        return jax.lax.stop_gradient(jnp.abs(program.inflated().conditions(1, key).arrays.reshape(shape) - K))

    return KernelMatrix(K, error, conditions.kind, check(y).beyond)


@watching
def average_law(y: Wide, psi: Callable[[Any], Any], samples: int | None = None, key: Any = None) -> Empirical:
    """The law of lim n^{-1} Σ_α ψ(y_α) = E[ψ(Z^y) | scores]: Theorem 3.1.

    `psi` is a jnp function of arrays (…, *shape) of coordinates of y; what it returns starts with the same … axes.
    """
    value = _checked("average_law", y)
    if not isinstance(value, Wide) or not value.dim.wide:
        raise TypeError("average_law needs vectors (Wide) in a space that grows with n: averages over it converge")

    def calculated() -> tuple[Limit, Conditions]:
        mapped = _mapped(value, psi)
        figure = _Average(psi) if mapped is None else _mean_figure
        program = prepared((value if mapped is None else mapped,), figure)
        return program, program.conditions(_samples((), samples), key, at_most=samples is None)

    program, conditions = average_of(psi, finite_shape(value.shape), calculated, real=True)
    averages, kind, beyond = jnp.asarray(conditions.arrays), conditions.kind, check(y).beyond
    _check_averages(averages)
    if program.random:
        return _with_effort(Empirical(averages, kind, beyond, BLOCKS), conditions)
    average = averages.mean(axis=0, keepdims=True)
    law = Empirical(average, "exact" if kind == "exact" else "quadrature", beyond)
    if kind == "exact" or program.traced:
        return law

    def other() -> Empirical:
        if kind == "quadrature":
            return Empirical(program.inflated().conditions(1, key).arrays, kind, beyond)
        error = jnp.std(averages, axis=0, keepdims=True) / math.sqrt(len(averages) - 1)
        return Empirical(average + error, "quadrature", beyond)

    return law.compared_with(other)


def _mapped(y: Wide, psi: Callable[[Any], Any]) -> Wide | None:
    """ψ(y) as a vector of a program, for a function ψ of one number: so its integrals are those of nonlinearities."""
    if y.shape:
        return None
    if isinstance(psi, Nonlinearity) and psi.mean and not isinstance(y.op, ops.Map):
        return coordinatewise(psi, y)
    argument: Any = y
    inner: Callable[[Any], Any] = nonlinearities.identity
    if isinstance(y.op, ops.Map) and len(y.op.args) == 1:
        inner, argument = y.op.phi, y.op.args[0]

    def real(x: Any) -> Any:
        return jnp.asarray(psi(inner(x))).astype(jnp.float64)

    try:
        shape = jax.eval_shape(real, jax.ShapeDtypeStruct((2,), jnp.float64)).shape
    except NEEDS_NUMBERS:
        return None
    return coordinatewise(looked_at(real), argument) if shape == (2,) else None


def _check_averages(averages: Any) -> None:
    bad = 0 if is_traced(averages) else int((~jnp.isfinite(averages)).sum())
    if bad:
        raise ValueError(f"psi must have finite averages, got {bad} NaN or infinite of {averages.size}")


def _law_of_heads(y: Wide, samples: int | None, key: Any, beyond: tuple[str, ...]) -> Law | None:
    """Where heads are i.i.d. given the kernel: of one number by inversion, of several a mixture with such marginals."""
    if not y.shape:
        return head_laws.law_of_one_number(y, samples, key, beyond)
    axis = head_laws.axis_of_heads(y)
    if axis is None or axis.kernel_is_random or not axis.is_random:
        return None

    def joint() -> Law:
        if axis.heads == math.inf:
            return _law_of_draws((y,), _law_figure, samples, key, None, shape, beyond)
        if axis.heads > head_laws.MANY:
            return head_laws.pooled(y, axis, samples, key, beyond)
        most = JOINT_NUMBERS // (int(axis.heads) * math.prod(shape) ** 2)
        default = min(JOINT_DRAWS, 2 ** int(math.log2(max(most, LEAST_JOINT))))
        program = prepared((y,), _law_figure)
        conditions = program.conditions(samples or default, key, at_most=samples is None)
        return _law(None, conditions, shape, beyond, False)

    def density() -> JointDensity | None:
        refined = samples is None and not diverges and axis.heads <= head_laws.MANY
        return joint_density(axis, key) if refined else None

    shape = finite_shape(y.shape)
    diverges = head_laws.diverges(axis, math.prod(shape))
    return Tokens(shape, joint, lambda i: limit(y[i], samples, key), beyond, diverges, density)


def _checked(name: str, y: Any) -> Any:
    require_float64(name)
    values, _ = common.outputs(y)
    if len(values) > 1:
        raise TypeError(f"{name} takes one value, got {len(values)}: stack several")
    refused = check(y).refused
    if refused:
        reasons = "\n".join(f"- {finding.why}" for finding in refused)
        raise ValueError(f"{name}: the program has no infinite-width limit (finite widths are fine)\n{reasons}")
    return values[0]


def _samples(parts: tuple[Any, ...], samples: int | None) -> int:
    """The number of draws asked for, or else the most that a joint law of these values gets."""
    if samples is not None:
        return positive_int("samples", samples)
    return default_draws(sum(math.prod(finite_shape(v.shape)) for v in parts))


def _with_effort(law: Any, conditions: Conditions) -> Any:
    """The law, which says what decided the number of its draws."""
    law.effort = conditions.effort
    return law


# --- figures: what is read from one draw ------------------------------------------------------------------------------


def _law_figure(draw: InfiniteDraw) -> tuple[Float[Array, " m"], Float[Array, "m m"]]:
    """Mean and covariance of the outputs given what is drawn."""
    outputs = draw.plan.outputs
    if not outputs[0].dim.wide:  # type: ignore[attr-defined]
        return observed(draw, outputs, 1)
    if all(draw.static.facts.gaussian[v] for v in outputs):
        return coordinate.gaussian(draw, outputs)
    return coordinate.mixed(draw, outputs)


def _kernel_figure(draw: InfiniteDraw) -> Float[Array, "m m"]:
    (y,) = draw.plan.outputs
    m = math.prod(finite_shape(y.shape))
    if not y.dim.wide:  # type: ignore[attr-defined]
        mean, covariance = observed(draw, (y,), 1)
        return covariance + mean[:, None] * mean
    block = draw.moments.second(y, y)
    return jnp.zeros((m, m)) if block is None else block.flat()


@dataclasses.dataclass(frozen=True)
class _Average:
    """E ψ(Z^y), by quasi-Monte Carlo."""

    psi: Callable[[Any], Any]
    at_nodes = True  # for `Limit`, which cannot see it in the program

    def __call__(self, draw: InfiniteDraw) -> Float[Array, "..."]:
        (y,) = draw.plan.outputs
        z = jnp.moveaxis(draw.moments.nodes.at(y), -1, 0)
        return jnp.asarray(self.psi(z)).mean(axis=0)


def _mean_figure(draw: InfiniteDraw) -> Float[Array, "..."]:
    (y,) = draw.plan.outputs
    mean = draw.moments.mean(y)
    return jnp.zeros(finite_shape(y.shape)) if mean is None else mean


def _numbers_figure(draw: InfiniteDraw) -> Float[Array, "..."]:
    (p,) = draw.plan.outputs
    return draw.numbers[p]


def _scores_figure(draw: InfiniteDraw) -> tuple[Float[Array, " m"], Float[Array, "m m"]]:
    """Mean and covariance of the scores of two vectors, given everything before them."""
    q, k = draw.plan.outputs
    p = dot(q, k)  # type: ignore[arg-type]
    covariance = wide_scores.covariance(draw.moments, p, p)
    return jnp.zeros(len(covariance)), covariance


# --- laws -------------------------------------------------------------------------------------------------------------


def _law_of_draws(
    parts: tuple[Any, ...],
    figure: Figure,
    samples: int | None,
    key: Any,
    phi: Any,
    event: tuple[int, ...],
    beyond: tuple[str, ...],
) -> Law:
    """The law of what `figure` reads from draws; where nothing is drawn, with the error of Gaussian integrals."""
    program = prepared(parts, figure)

    def law(conditions: Conditions) -> Any:
        return _law(phi, conditions, event, beyond, several=phi is not None and len(parts) > 1)

    conditions = program.conditions(_samples(parts, samples), key, at_most=samples is None)
    if conditions.kind != "quadrature":
        return law(conditions)
    return law(conditions).compared_with(lambda: law(program.inflated().conditions(1, key)))


def _law(phi: Any, conditions: Conditions, event: tuple[int, ...], beyond: tuple[str, ...], several: bool) -> Law:
    """The law with these means and covariances, or its image under φ."""
    mean, covariance = conditions.arrays
    count = len(mean)
    points = jnp.asarray(mean).reshape(count, *event)
    if not is_traced(covariance) and not covariance.any():
        parted = jnp.moveaxis(points, 1, 0) if several else points[None]
        values = parted[0] if phi is None else phi(*parted)
        return _with_effort(Empirical(values, conditions.kind, beyond, BLOCKS), conditions)
    law: Law
    if count == 1:
        law = Gaussian(points[0], covariance[0] if event else covariance.reshape(()), conditions.kind, beyond)
    else:
        second = jnp.asarray(covariance) if event else jnp.asarray(covariance).reshape(count)
        law = GaussianMixture(points, second, kind=conditions.kind, beyond=beyond, blocks=BLOCKS)
    law.effort = conditions.effort
    if phi is None:
        return law
    return Combination(phi, law) if several else Pushforward(phi, law)


def _law_of_numbers(p: Scalars, samples: int | None, key: Any, beyond: tuple[str, ...]) -> Law:
    """Scores that no others are correlated with are Gaussian given what comes before them; the rest is drawn."""
    (score,) = demanded((p,))
    op = score.op
    if isinstance(op, ops.Dot) and op.dim.wide and op.scaling == "sqrt" and not is_infinite(p.shape):
        values = Plan((score,)).values
        if not any(wide_scores.are_correlated(score, v, Facts(values)) for v in values if v is not score):
            return _law_of_draws((op.q, op.k), _scores_figure, samples, key, None, finite_shape(p.shape), beyond)
    conditions = prepared((p,), _numbers_figure).conditions(_samples((), samples), key, at_most=samples is None)
    return _with_effort(Empirical(conditions.arrays, conditions.kind, beyond, BLOCKS), conditions)
