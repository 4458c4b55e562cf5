"""E ψ(Y) for a sum over heads: by its mixture's rule, or over panels if ψ is not smooth."""

import math
from collections.abc import Callable

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from limitlaw.laws import expectation
from limitlaw.laws.estimates import Estimate
from limitlaw.laws.head_mixture import HeadMixture
from limitlaw.laws.head_nodes import Nodes
from limitlaw.laws.tracing import Psi, psi_values
from limitlaw.numerics.meshes import NARROWEST, FineStructure, of_scales


def expected(
    psi: Psi,
    law: HeadMixture,
    estimated: Callable[[Callable[[HeadMixture], Array]], Estimate],
) -> Estimate:
    """E ψ(Y); `estimated` gives a quantity of the mixture the error that its nodes show."""
    at_zero = psi_values(psi, jnp.zeros(1), 1)[0]

    def quantity(law: HeadMixture) -> Array:
        if law.point_mass:
            return at_zero
        y, weight, _ = law.rule
        return jnp.tensordot(weight, psi_values(psi, y, len(y)), 1) + law.atom * at_zero

    estimate = estimated(quantity)
    if law.point_mass:
        return estimate
    y, weight, _ = law.rule
    between, size = expectation.disagreement(weight, psi_values(psi, y, len(y)))
    if expectation.is_enough(between, size, psi):
        return estimate.beside(between)
    core, at_core = _core(law)
    found = expectation.on_panels(
        psi,
        lambda x: np.where(np.abs(x) < core, 0.0, np.exp(law.log_density(x))),
        places(law.nodes),
        (-core, core) if core else (),
        float(1 - law.atom - at_core),
    )
    value = found.value + (law.atom + at_core) * at_zero
    within = psi_values(psi, jnp.asarray([-core, core]), 2) - at_zero
    moved = at_core * jnp.max(jnp.abs(within), axis=0)
    return Estimate(value, lambda: jnp.hypot(found.error + moved, estimate.error()))


def _core(law: HeadMixture) -> tuple[float, float]:
    """A |y| that is small on all scales that panels resolve, and the probability that Y is as
    small, atoms left out; 0 where no head is that narrow.
    """
    low, high = (math.sqrt(v) for v in law.nodes.ends())
    core = NARROWEST * high
    if low >= core:
        return 0.0, 0.0
    beyond = np.asarray(law.tail(np.array([core])))[0]
    return core, max(float(1 - 2 * beyond - law.atom), 0.0)


def places(nodes: Nodes) -> FineStructure:
    """Every scale between those of the narrowest and of the widest node."""
    low, high = (math.sqrt(v) for v in nodes.ends())
    return of_scales(low, high) if high > 0 else (np.zeros(0), np.zeros(0))
