"""A nonlinearity that is added from outside: one object, and nothing else has to know of it."""

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest

import limitlaw as ll
from limitlaw.divergence import kl
from limitlaw.language.activations import activated
from limitlaw.laws import Gaussian, GaussianMixture, Pushforward, load
from limitlaw.phi import Nonlinearity, catalogue, moments, relu
from limitlaw.phi.branches import line

BASE = GaussianMixture([0.3, -0.5], [1.0, 0.2], [0.4, 0.6])


def cubic(x):
    """The same function, as a user of a layer has it."""
    return x**3


def cube_product(m_u, m_v, K_uu, K_uv, K_vv):
    """E u³v³ = 6 K_uv³ + 9 K_uu K_uv K_vv, for zero means."""
    return 6 * K_uv**3 + 9 * K_uu * K_uv * K_vv if m_u is None and m_v is None else None


CUBE = Nonlinearity(
    "cube",
    lambda x: x**3,
    pseudo_lipschitz=True,
    bounded=False,
    kinks=(),
    mean=lambda m, k: m**3 + 3 * m * k,
    product=cube_product,
    branches=line(-np.inf, np.inf, jnp.cbrt),
    log_slope=lambda x: jnp.log(3 * x**2),
)
BARE = Nonlinearity("bare", CUBE.function, pseudo_lipschitz=None, bounded=None)


@pytest.fixture
def added(monkeypatch):
    """Both in the catalogue, for the time of a test."""
    monkeypatch.setattr(catalogue, "_families", dict(catalogue._families))
    monkeypatch.setattr(catalogue, "_same", list(catalogue._same))
    return catalogue.add(CUBE, cubic), catalogue.add(BARE)


def test_moments(added):
    """Closed forms where they are given, and quadrature that says its error elsewhere:
    the same numbers.
    """
    for phi in added:
        value, error = moments.mean_with_error(phi, 0.4, 1.3)
        assert abs(value - (0.4**3 + 3 * 0.4 * 1.3)) <= 1e-12 + error < 1e-6
        value, error = moments.product_with_error(phi, phi, None, None, 1.0, 0.6, 2.0)
        assert abs(value - (6 * 0.6**3 + 9 * 0.6 * 2.0)) <= 1e-9 + error < 1e-6
    cube, bare = added
    assert (moments.mean_is_closed(cube), moments.mean_is_closed(bare)) == (True, False)
    assert moments.product_is_closed(cube, cube, None, None)
    assert not moments.product_is_closed(cube, cube, 1.0, None)
    assert not moments.product_is_closed(bare, bare, None, None)
    # with another φ, by quadrature: E u³ max(v, 0) = ½E u³v
    assert abs(moments.product(cube, relu, None, None, 1.0, 0.6, 2.0) - 1.5 * 0.6) < 1e-10


def test_law_of_its_image(added, tmp_path):
    """The density is that of the argument over |φ'|;
    without branches there is a clear error, and moments work.
    """
    law, bare = (Pushforward(phi, BASE) for phi in added)
    x = np.array([-1.1, 0.4, 2.0])
    np.testing.assert_allclose(law.pdf(x**3), BASE.pdf(x) / (3 * x**2), rtol=1e-12)
    np.testing.assert_allclose(law.cdf(x**3), BASE.cdf(x), rtol=1e-12)
    np.testing.assert_allclose(law.variance(), BASE.moment(6) - BASE.moment(3) ** 2, rtol=1e-9)
    assert float(kl(law, Pushforward(added[0], Gaussian(0.0, 1.0)))) == float(
        kl(BASE, Gaussian(0.0, 1.0))
    )
    np.testing.assert_allclose(bare.variance(), law.variance(), rtol=1e-9)
    with pytest.raises(ValueError, match="needs the monotone branches of bare"):
        bare.pdf(1.0)
    for image in (law, bare):
        image.save(tmp_path / "image.npz")
        again = load(tmp_path / "image.npz")
        assert again.phi is image.phi
        assert again.variance() == image.variance()


def test_in_a_program(added):
    """A layer takes the object, or a function that stands for it;
    kinds say where moments come from.
    """
    x = ll.initial(2, cov=np.array([[1.0, 0.6], [0.6, 2.0]]))
    cube, bare = added
    for phi in (cube, cubic):
        assert activated(phi, x).op.phi is cube
        kernel = np.asarray(ll.kernel(ll.Matrix() @ activated(phi, x)))
        np.testing.assert_allclose(kernel[0, 1], 6 * 0.6**3 + 9 * 0.6 * 2.0, rtol=1e-12)
    assert ll.limit(ll.Matrix() @ ll.map(cube, x)).kind == "exact"
    assert ll.limit(ll.Matrix() @ ll.map(bare, x)).kind == "quadrature"


def test_the_name_decides_nothing():
    """ReLU's forms under another name are closed; a function of relu's name that
    says nothing is a quadrature.
    """
    mine = dataclasses.replace(relu, name="mine", saved=None)
    other = Nonlinearity("relu", jnp.tanh, pseudo_lipschitz=None, bounded=None)
    x = ll.initial(2, cov=np.array([[1.0, 0.6], [0.6, 2.0]]))
    assert ll.limit(ll.Matrix() @ ll.map(mine, x)).kind == "exact"
    assert ll.limit(ll.Matrix() @ ll.map(other, x)).kind == "quadrature"
    np.testing.assert_allclose(
        moments.mean(other, 0.3, 1.0), moments.mean(ll.phi.tanh, 0.3, 1.0), rtol=1e-9
    )


def test_names_are_taken_once(added):
    """A second nonlinearity of one name would change what files mean."""
    with pytest.raises(ValueError, match="name relu already"):
        catalogue.add(Nonlinearity("relu", jnp.tanh, pseudo_lipschitz=None, bounded=None))
