"""The limit: Definition 3.1, Theorem 3.1, Corollary 3.2 of Sakai, Karakida, Imaizumi (2025)."""

import dataclasses
import functools
import itertools
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from limitlaw.arguments import (
    inside_jit,
    is_traced,
    positive_int,
    relative_error,
)
from limitlaw.core.analysis import Analysis
from limitlaw.core.certain import settled
from limitlaw.core.demand import demanded
from limitlaw.core.labelled import finite_shape, is_infinite, present
from limitlaw.core.last_step import has_pole, last_step
from limitlaw.core.program import Output, Program
from limitlaw.engines import engine
from limitlaw.engines.asked import asked_for
from limitlaw.engines.bounds import bounded, later
from limitlaw.engines.effort import BUDGET, Drawn, Pace, default_draws
from limitlaw.engines.heads import laws as head_laws
from limitlaw.engines.heads.joint import MANY, diverges, pooled
from limitlaw.engines.heads.mixing import dimension, mixing_law
from limitlaw.engines.heads.structure import head_axis
from limitlaw.engines.law import Last, law_given
from limitlaw.engines.limit import statistics
from limitlaw.engines.limit.conditions import Limit, Outcomes, seed_of_law
from limitlaw.engines.limit.draw import variance
from limitlaw.engines.limit.facts import LimitFacts
from limitlaw.engines.limit.in_frames import InFrames
from limitlaw.engines.limit.pairs import Pairs
from limitlaw.engines.limit.score_facts import are_correlated, is_score
from limitlaw.engines.reading import Reading, numbers
from limitlaw.float64 import in_float64
from limitlaw.laws import Empirical, Law, RandomKernel, Tokens
from limitlaw.laws.averages import BLOCKS, error_of_blocks
from limitlaw.laws.estimates import no_less_than_rounding
from limitlaw.laws.kernel_matrix import KernelMatrix

ADVICE = "ask for fewer samples, or for fewer tokens, as in y[0]"


@in_float64
@bounded(ADVICE)
def limit(y: object, samples: int | None = None, key: object = None, force: bool = False) -> Law:
    """The law of one coordinate of y as n → ∞ (Corollary 3.2).

    Without random scores it is a Gaussian with closed-form or quadrature covariance, or the image
    of one. A sum of heads that are i.i.d. given the incoming kernel is a `HeadSum`, to many digits
    for few tokens; φ of a sum of few heads is as precise. Otherwise it is a Gaussian mixture over
    `samples` draws of the scores, which are the points of a scrambled Sobol sequence: the same at
    every call, or another scrambling for each `key`. Standard errors of mixtures come from 16
    blocks of the sequence. What `check` refuses is refused here, for the same reason.

    Without `samples` there are up to 2^16 draws: as many as take 20 seconds on this machine, which
    the law's repr says where it made a difference. The same `samples` give the same law on every
    machine. What takes more memory than there is, or more than ten minutes, is refused without
    `force`.
    """
    (output,), beyond, left = asked_for("limit", y)
    if samples is not None:
        positive_int("samples", samples)
    if left is not None:
        return InFrames((output,), left.of_order_one, key, beyond).law(samples)
    effort = Effort(samples, key, beyond)
    if not output.value.is_vector:
        return _law_of_numbers(output, effort)
    phi, parts = last_step(output)
    if phi is None and output.is_wide and not is_infinite(present(output.layout)):
        law = _law_of_heads(y, output, effort)
        if law is not None:
            return law
    if phi is not None and len(parts) == 1 and parts[0].is_wide and not output.layout:
        image = head_laws.image_of_one_number(phi, parts[0], samples, beyond)
        if image is not None:
            return image
    law = _law_of_draws(
        parts, statistics.conditions, Last(phi, len(parts), finite_shape(output.layout)), effort
    )
    narrow = phi is None and has_pole(demanded((parts[0].value,))[0], dimension)
    return law.with_pole() if narrow else law


@in_float64
@bounded(ADVICE)
def kernel(
    y: object,
    samples: int | None = None,
    key: object = None,
    rtol: float | None = None,
    force: bool = False,
) -> Any:
    """K = E[Z^y (Z^y)ᵀ | scores] over the flattened entries of y:
    the limiting covariance, for outputs of mean zero. Of numbers, as `ntk(f)`: these themselves.

    A matrix where it is deterministic, differentiable in everything it depends on: a plain array
    where it is a closed form, else a `KernelMatrix`, an array with an `error`. Where it is random,
    its law, a `RandomKernel`, of which `mean()` is the mean. `samples`, `key` and `force` are
    those of `limit`. Without `samples` there are as many draws as an error of `rtol` (1e-4) of the
    mean takes, in units of √(E K_ii · E K_jj), up to those that `limit` would draw: long sequences
    average by themselves, and take few.
    """
    goal = relative_error(samples, rtol, BUDGET.rtol_of_kernel)
    (output,), beyond, left = asked_for("kernel", y)
    if left is not None:
        return InFrames((output,), left.of_order_one, key, beyond).kernel(samples)
    vectors = output.value.is_vector
    shape: tuple[int, ...]
    if vectors:
        (given,) = settled((output,))
        whole = Limit((given,), statistics.second_moment)
        program = Pairs.of(given, whole) or whole
        shape = (engine.entries(output),) * 2 if output.layout else ()
    else:
        whole = program = Limit((output,), statistics.numbers_asked_for)
        shape = finite_shape(output.layout)
    paced = vectors and samples is None and whole.random
    if not paced or whole.traced or inside_jit():
        conditions, blocks = Effort(samples, key, beyond).conditions(program, (output,)), BLOCKS
    else:
        pace = _pace_of_kernel(default_draws(engine.entries(output)), goal)
        conditions = whole.replicated(pace, key)
        blocks = -(-len(conditions.arrays) // conditions.replicates.size)
    arrays = conditions.arrays.reshape(-1, *shape)
    if whole.random:
        law = RandomKernel(arrays, beyond=beyond, blocks=blocks)
        law.effort = conditions.effort
        if not vectors:
            return law
        law.certain = later(functools.partial(_certain_entry, y)) if output.layout else None
        small = engine.entries(output) <= BUDGET.integrated_entries and not is_traced(arrays)
        return law.with_mean(later(lambda: _integrated_mean(y, shape))) if small else law
    K = jnp.asarray(arrays).mean(axis=0)
    if conditions.kind == "exact":
        return K

    def error() -> Any:
        if conditions.kind == "sampled":
            return error_of_blocks(arrays - K, K, BUDGET.replicates * BUDGET.nodes)
        apart = jnp.abs(program.inflated().conditions(1, key).arrays.reshape(shape) - K)
        return jax.lax.stop_gradient(no_less_than_rounding(apart, K))

    return KernelMatrix(K, later(error), conditions.kind, beyond)


def _pace_of_kernel(most: int, rtol: float) -> Pace:
    """As many draws as errors of E K_ij below `rtol` √(E K_ii · E K_jj) take."""

    def error(found: Drawn) -> float:
        arrays, replicates = found
        m = math.isqrt(math.prod(arrays.shape[1:]))
        draws = np.asarray(arrays).reshape(-1, m, m)
        roots = np.sqrt(np.diagonal(replicates.mean(draws)))
        scale = np.outer(roots, roots)
        return float(np.max(replicates.error(draws) / np.where(scale > 0, scale, 1.0)))

    return Pace(most, at_most=True, error=error, rtol=rtol)


def _integrated_mean(y: Any, shape: tuple[int, ...]) -> Any:
    """E K and its error, NaN where there is no quadrature: E K_ii is the variance of y_i, and
    E K_ij = (Var(y_i + y_j) − Var y_i − Var y_j)/2. None where there is none at all.
    """
    if not shape:
        return _integrated_variance(y)
    known, m = jnp.full((2, *shape), jnp.nan), shape[0]
    y = y.reshape(-1)
    own = [_integrated_variance(y[i]) for i in range(m)]
    for i, j in itertools.combinations_with_replacement(range(m), 2):
        if own[i] is None or own[j] is None:
            continue
        found = own[i]
        if i != j:
            total = _integrated_variance(y[[i, j]])
            if total is None:
                continue
            parts = jnp.stack([total, own[i], own[j]])
            found = jnp.stack([parts[:, 0] @ jnp.array([0.5, -0.5, -0.5]), parts[:, 1].sum() / 2])
        known = known.at[:, [i, j], [j, i]].set(found[:, None])
    return None if jnp.isnan(known).all() else known


def _integrated_variance(y: Any) -> Any:
    """Var Σ_i y_i and its error, where scores are integrated by a quadrature; else None."""
    reading = statistics.variance_of_sum if y.core.layout else variance
    mixing = mixing_law(y.core, None, None, by_quadrature=True, reading=reading)
    if mixing is None:
        return None
    v = jnp.asarray(mixing.weights) @ jnp.asarray(mixing.variances)
    if mixing.rough is None:
        return jnp.stack([v, jnp.zeros(())])
    other, weights = mixing.rough()
    return jnp.stack([v, jnp.abs(jnp.asarray(weights) @ jnp.asarray(other) - v)])


def _certain_entry(y: Any, i: int, j: int) -> Empirical | None:
    """K_ij as a law, where nothing that the two entries of y depend on stays random."""
    both = y.reshape(-1)[[i, j]]
    (output,) = settled((both.core,))
    if Analysis(Program(demanded((output.value,)))).stay_random:
        return None
    K = kernel(both)
    if not isinstance(K, KernelMatrix):
        return Empirical(K[:1, 1], "exact")
    return Empirical(K.value[:1, 1], "quadrature", K.beyond).compared_with(
        lambda: Empirical(K.value[:1, 1] + K.error[:1, 1], "quadrature", K.beyond)
    )


@dataclasses.dataclass(frozen=True)
class Effort:
    """How many draws, by which key, and what the law says of itself."""

    samples: int | None
    key: Any
    beyond: tuple[str, ...]

    def conditions(
        self, program: Limit | Pairs, outputs: tuple[Output, ...], default: int | None = None
    ) -> Outcomes:
        """As many conditions as asked for, or as a joint law of these values is worth."""
        most = default_draws(sum(map(engine.entries, outputs))) if default is None else default
        samples = most if self.samples is None else positive_int("samples", self.samples)
        return program.conditions(samples, self.key, at_most=self.samples is None)


# --- laws ----------------------------------------------------------------------------------------


def _law_of_heads(y: Any, output: Output, effort: Effort) -> Law | None:
    """Heads i.i.d. given the kernel: one number to many digits, several as a mixture of those."""
    samples, key, beyond = effort.samples, effort.key, effort.beyond
    if not output.layout:
        return head_laws.law_of_one_number(output, samples, key, beyond)
    axis = head_axis(output)
    if axis is None or axis.kernel_is_random or not axis.is_random:
        return None
    shape = finite_shape(output.layout)
    last = Last(None, 1, shape)
    infinite = diverges(axis, math.prod(shape))

    def joint() -> Law:
        if axis.heads == math.inf:
            return _law_of_draws((output,), statistics.conditions, last, effort)
        if axis.heads > MANY:
            return pooled(output, axis, samples, key, beyond)
        most = BUDGET.joint_numbers // (int(axis.heads) * math.prod(shape) ** 2)
        default = min(BUDGET.joint_draws, 2 ** int(math.log2(max(most, BUDGET.least_joint))))
        return _law_of_draws((output,), statistics.conditions, last, effort, default)

    one = later(lambda i: limit(y[i], samples, key))
    return Tokens(shape, later(joint), one, beyond, infinite)


def _law_of_draws(
    parts: tuple[Output, ...],
    reading: Reading,
    last: Last,
    effort: Effort,
    default: int | None = None,
) -> Any:
    """The law of what is read off draws, with the Gaussian integrals' error if it matters."""
    program = Limit(settled(parts), reading)
    conditions = effort.conditions(program, parts, default)
    law = _law(last, conditions, effort)
    if conditions.kind == "exact" or (conditions.kind == "sampled" and not program.is_unsure):
        return law
    draws = len(conditions.arrays[0])
    return law.compared_with(
        later(lambda: _law(last, program.inflated().conditions(draws, effort.key), effort))
    )


def _law(last: Last, conditions: Outcomes, effort: Effort) -> Any:
    mean, covariance = conditions.arrays
    kind, said, seed = conditions.kind, conditions.effort, seed_of_law(effort.key)
    return law_given(last, mean, covariance, kind, effort.beyond, BLOCKS, said, seed)


def _law_of_numbers(output: Output, effort: Effort) -> Law:
    """Scores correlated with no others are Gaussian given those before; the rest is drawn."""
    (p,) = demanded((output.value,))
    if is_score(p) and not is_infinite(p.axes) and _is_alone(p):
        last = Last(None, 1, finite_shape(output.layout))
        return _law_of_draws((output,), statistics.ScoreCovariance(), last, effort)
    conditions = effort.conditions(Limit((output,), numbers), ())
    law = Empirical(conditions.arrays[0], conditions.kind, effort.beyond, BLOCKS)
    law.effort = conditions.effort
    return law


def _is_alone(p: Any) -> bool:
    """Are scores uncorrelated with all others?"""
    facts = LimitFacts(Analysis(Program((p,))))
    return not any(are_correlated(p, v, facts) for v in facts.analysis.values if v is not p)
