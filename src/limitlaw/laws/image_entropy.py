"""The differential entropy of φ(Y), integrated over x:
there φ may saturate, where floats of φ(x) run out.
"""

import functools
import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from limitlaw.laws import one_gaussian
from limitlaw.laws.averages import Estimate
from limitlaw.laws.entropy import Entropy
from limitlaw.laws.one_image import density, log_density
from limitlaw.numerics.meshes import of_components
from limitlaw.phi import Nonlinearity
from limitlaw.phi.branches import Branch
from limitlaw.phi.preimages import Branched, log_slopes, padded_branches, preimages, slopes

FLAT = 1e-8  # |φ'| at an extremum, after rounding
NEAR = 0.1  # an extremum of φ, where φ(x') = φ(x) is solved by its slope

U, W = np.polynomial.legendre.leggauss(8)


def image_entropy(law: Any, known: Branched) -> Estimate:
    """Of a Pushforward without atoms, φ of which is `known`."""
    base = law.base
    places = of_components(*base._components.parameters)
    breaks = tuple(
        sorted({b.lo for b in known.branches} | {b.hi for b in known.branches} | set(known.kinks))
    )
    variance = lambda: law.variance()
    if known.injective:
        log = lambda x: _plus(base._logpdf(x), -log_slopes(law.phi, x))
        weight = lambda x, ρ: ρ + log_slopes(law.phi, x)
        share = one_gaussian.pdf
        return Entropy(
            base._components, log, weight, share, _same, places, breaks, variance
        ).estimate()
    if len({(b.bottom, b.top) for b in known.branches}) == 1 and np.isfinite(known.support).all():
        return _of_waves(law, known.branches, places, variance)
    log = lambda x: law._components.log_average(log_density, _all_preimages(law, known, x))
    weight = lambda x, _: base._logpdf(x).value
    share = one_gaussian.pdf
    return Entropy(
        base._components, log, weight, share, _same, places, breaks, variance
    ).estimate()


def _same(x: Array) -> Array:
    return x


def _plus(estimate: Estimate, shift: Array) -> Estimate:
    return Estimate(estimate.value + shift, estimate.error)


def _all_preimages(
    law: Any, known: Branched, x: Float[Array, " n"]
) -> tuple[Float[Array, "n b"], Float[Array, "n b"]]:
    """Every x' with φ(x') = φ(x), one a branch, and −log |φ'(x')|:
    found from x, since φ(x) may have rounded.
    """
    roots, jacobian = preimages(law.phi(x), known)
    there = jacobian > 0
    ends = np.full((roots.shape[1], 2), np.nan)
    ends[: len(known.branches)] = [(b.lo, b.hi) for b in known.branches]
    for i, (left, right) in enumerate(itertools.pairwise(known.branches)):
        if left.hi == right.lo and float(slopes(law.phi, jnp.asarray(left.hi))) < FLAT:
            near = jnp.abs(x - left.hi) < NEAR
            roots = roots.at[:, i : i + 2].set(
                jnp.where(
                    near[:, None], _other_side(law.phi, x, left.hi)[:, None], roots[:, i : i + 2]
                )
            )
            there = there.at[:, i : i + 2].set(there[:, i : i + 2] | near[:, None])
    own = (ends[:, 0] <= x[:, None]) & (x[:, None] < ends[:, 1])
    roots = jnp.where(own, x[:, None], roots)
    return roots, jnp.where(there | own, -log_slopes(law.phi, roots), -jnp.inf)


@functools.partial(jax.jit, static_argnames="phi")
def _other_side(phi: Nonlinearity, x: Float[Array, " n"], extremum: Any) -> Float[Array, " n"]:
    """x' beyond an extremum of φ with φ(x') = φ(x), for x near it:
    by Newton's method for ∫_x^{x'} φ' = 0.

    φ(x') − φ(x) itself would be known only to rounding, and x' to its square root.
    """
    slope = jax.vmap(jax.grad(lambda x: phi(x)))
    other = 2 * extremum - x
    for _ in range(4):
        step = other - x
        along = slope((x[:, None] + step[:, None] * (U + 1) / 2).reshape(-1)).reshape(-1, len(U))
        other = other - step * (along @ (W / 2)) / slope(other)
    return other


def _of_waves(law: Any, branches: tuple[Branch, ...], places: Any, variance: Any) -> Estimate:
    """Every branch has all values of φ, and the same slopes:
    Y folded into one of them, [lo, hi], then φ one to one.
    """
    middle = branches[len(branches) // 2]
    lo, hi = middle.lo, middle.hi
    count = padded_branches(len(branches))
    starts = np.array(
        [b.lo if b.rising == middle.rising else b.hi for b in branches]
        + [0.0] * (count - len(branches))
    )
    signs = np.array(
        [1.0 if b.rising == middle.rising else -1.0 for b in branches]
        + [1.0] * (count - len(branches))
    )
    there = np.arange(count) < len(branches)

    def unfolded(x: Array) -> tuple[Array, Array]:
        return starts + signs * (x[:, None] - lo), jnp.broadcast_to(
            jnp.asarray(there, float), (len(x), count)
        )

    def log(x: Array) -> Estimate:
        points, inside = unfolded(x)
        return _plus(
            law._components.log_average(log_density, (points, jnp.log(inside))),
            -log_slopes(law.phi, x),
        )

    x, scale = places
    turns = (x - lo) / (hi - lo)
    folded = lo + (hi - lo) * np.abs((turns + 1) % 2 - 1)
    places = np.concatenate([[lo, hi], folded]), np.concatenate([[0.0, 0.0], scale])
    weight = lambda x, ρ: ρ + log_slopes(law.phi, x)
    return Entropy(
        law._components, log, weight, density, unfolded, places, (lo, hi), variance
    ).estimate()
