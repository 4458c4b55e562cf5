"""The exact finite-width engine against the definition: same program, same width, two engines."""

import jax
import numpy as np
import pytest
from networks import NETWORKS
from statistics_of_samples import disagreement

import limitlaw as ll

DRAWS = {1: 40_000, 4: 40_000, 8: 30_000, 16: 20_000, 64: 4_000}


@pytest.mark.parametrize("width", DRAWS)
@pytest.mark.parametrize("name", NETWORKS)
def test_finite_agrees_with_simulate(name: str, width: int) -> None:
    """Bounded statistics within 5 standard errors and two-sample KS, one coordinate per draw."""
    y = NETWORKS[name]()
    defined = np.asarray(ll.simulate(y, width, DRAWS[width], jax.random.key(width)))
    exact = np.asarray(ll.finite_samples(y, width, 4 * DRAWS[width], jax.random.key(1000 + width)))
    assert disagreement(defined, exact) < 1
