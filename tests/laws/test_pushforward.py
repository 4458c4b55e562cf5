"""Images φ(Y) inside jax.jit."""

from typing import Any

import jax
import numpy as np
import pytest

import limitlaw as ll

PHIS = {"relu": ll.relu, "sign": ll.sign, "clip": lambda w: ll.clip(w, 0.8), "tanh": ll.tanh}


@pytest.mark.parametrize("phi", PHIS.values(), ids=PHIS)
def test_atoms_inside_jit(phi: Any) -> None:
    """Those of intervals on which φ is constant, as eagerly (found by the adversary: this raised)."""

    def atoms(k: Any) -> Any:
        law = ll.limit(phi(ll.initial(cov=k)))
        return *law.atoms(), law.error.atoms()

    for here, there in zip(jax.jit(atoms)(2.0), atoms(2.0), strict=True):
        np.testing.assert_allclose(here, there, rtol=1e-14)


@pytest.mark.parametrize("variance", [4e-21, 1e-17, 1e-9])
def test_clip_of_small_numbers_is_the_identity(variance: float) -> None:
    """Means of clip cancelled to 1e-16 in absolute terms: kernels of 1e-21 were off by 4e-7 (adversary)."""
    x = ll.clip(ll.dense(ll.clip(ll.initial(cov=variance), 0.8), std=0.7), 0.8)
    assert float(ll.kernel(x)) == pytest.approx(0.49 * variance, rel=1e-14)
