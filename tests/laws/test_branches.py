"""What is known of a nonlinearity stands on the object:
its name decides nothing, and nothing can be half known.
"""

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest

from limitlaw import phi as nl
from limitlaw.laws import Gaussian, Pushforward, load

EVERY = [
    phi
    for phi in (
        *(getattr(nl, name) for name in nl.__all__),
        nl.leaky_relu(0.1),
        nl.leaky_relu(-0.3),
        nl.clip(0.7),
    )
    if isinstance(phi, nl.Nonlinearity) and phi.mean is not None
]


def mass(law):
    """All of the law: its density between its kinks,
    by Gauss–Legendre on panels, and its atoms.
    """
    ends = np.asarray(law.ppf(np.array([0.0, 1.0])))
    edges = np.unique(
        np.clip(np.concatenate([np.linspace(-12, 12, 481), ends]), *np.clip(ends, -12, 12))
    )
    # near the ends of (−1, 1) the density of sin has a root singularity
    x, w = np.polynomial.legendre.leggauss(20)
    t = (x + 1) / 2
    lo, hi = edges[:-1, None], edges[1:, None]
    nodes = lo + (hi - lo) * (t**2 * (3 - 2 * t))
    weights = (hi - lo) * (6 * t * (1 - t)) * w / 2
    return float((weights * np.asarray(law.pdf(nodes))).sum() + law.atoms()[1].sum())


@pytest.mark.parametrize("phi", EVERY, ids=lambda phi: phi.name)
def test_all_mass_is_there(phi):
    """For every named nonlinearity, and for the same under another name."""
    law = Pushforward(phi, Gaussian(0.2, 0.5))
    assert mass(law) == pytest.approx(1, abs=1e-4)
    renamed = Pushforward(dataclasses.replace(phi, name="mine"), Gaussian(0.2, 0.5))
    x = np.array([0.05, 0.3, 0.6])
    np.testing.assert_array_equal(renamed.pdf(x), law.pdf(x))
    np.testing.assert_array_equal(renamed.cdf(x), law.cdf(x))


@pytest.mark.parametrize("phi", [*EVERY, nl.multiply, nl.divide], ids=lambda phi: phi.name)
def test_found_again(phi):
    assert nl.rebuild(*phi.saved) is phi


def test_a_name_is_no_knowledge(tmp_path):
    """A function of one's own, named as a named one,
    has no branches and is not saved as the named one.
    """
    x = jnp.linspace(-1, 1, 5)
    for name in ("relu", "clip(2)", "leaky_relu(0.1)", "gelu"):
        phi = nl.Nonlinearity(name, lambda x: x + jnp.sin(x), True, False, kinks=())
        law = Pushforward(phi, Gaussian(0.0, 1.0))
        with pytest.raises(ValueError, match="needs the monotone branches"):
            law.pdf(x)
        with pytest.raises(ValueError, match="cannot be saved without pickle"):
            law.save(tmp_path / "law")


def test_saved_by_family_and_parameter(tmp_path):
    """Under any name the file says what the function is, with all digits of its parameter."""
    phi = dataclasses.replace(nl.leaky_relu(0.1234567890123), name="mine")
    Pushforward(phi, Gaussian(0.0, 1.0)).save(tmp_path / "law")
    assert load(tmp_path / "law").phi is nl.leaky_relu(0.1234567890123)


@pytest.mark.parametrize("phi", [nl.sin, nl.cos])
def test_many_waves(phi):
    """Thousands of branches: wrapped around the circle so often,
    Y is uniform there, and φ(Y) has the arcsine law.
    """
    law = Pushforward(phi, Gaussian(0.0, 4e4))
    y = np.array([-0.9, -0.2, 0.3, 0.8])
    np.testing.assert_allclose(law.cdf(y), 0.5 + np.arcsin(y) / np.pi, atol=1e-13)
    np.testing.assert_allclose(law.pdf(y), 1 / (np.pi * np.sqrt(1 - y**2)), rtol=1e-12)
    np.testing.assert_allclose(law.ppf(0.3), np.sin(np.pi * (0.3 - 0.5)), atol=1e-12)
