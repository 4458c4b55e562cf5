"""Errors that hold where little happens: jumps far out, events that no draw has seen, heads that
are next to nothing, functions much narrower than the law, entries of kernels that are certain.
All were found by the adversary.
"""

import math

import jax.numpy as jnp
import mpmath as mp
import numpy as np
import pytest
from scipy import integrate
from scipy.special import ndtr

import limitlaw as ll
from limitlaw.laws import one_image
from limitlaw.laws.empirical import Empirical


def test_jumps_at_six_deviations() -> None:
    """Even and odd points of a rule agree there by accident: the error must not believe them."""
    law = ll.laws.Gaussian(0.0, 1.0)
    for c in np.linspace(5.5, 7.0, 16):
        inside = lambda z, c=c: jnp.where(jnp.abs(z) < c, 1.0, 0.0)
        truth = float(1 - 2 * mp.ncdf(-mp.mpf(float(c))))
        assert abs(law.expect(inside) - truth) <= 5 * law.error.expect(inside) + 1e-15


@pytest.mark.parametrize("k", [1, 50])
def test_smooth_functions_are_not_suspected(k: int) -> None:
    law = ll.laws.Gaussian(0.0, 1.0)
    f = lambda z: jnp.cos(k * z) + z**2
    assert law.expect(f) == pytest.approx(1 + math.exp(-(k**2) / 2), rel=1e-14)
    assert law.error.expect(f) < 1e-13


def test_what_no_draw_has_seen() -> None:
    """A thousand draws, none of which lies below: P may be a thousandth all the same."""
    for law in (Empirical(np.linspace(0, 1, 1000)), Empirical(np.linspace(0, 1, 1024), blocks=16)):
        for error in (law.error.cdf([-1.0, 2.0]), law.error.sf([-1.0, 2.0])):
            assert (error >= 1 / law.samples).all()
            assert (error < 1.5 / law.samples).all()
        np.testing.assert_array_equal(law.error.cdf([-math.inf, math.inf]), 0.0)
    np.testing.assert_array_equal(Empirical([1.0], kind="exact").error.cdf([0.0, 2.0]), 0.0)


def test_heads_that_are_next_to_nothing() -> None:
    """v = 10⁻⁴⁰ is no atom, but all of its mass lies within any panel."""
    law = ll.laws.HeadSum([1e-40, 1.0], heads=2, weights=[0.1, 0.9])
    for c in (0.3, 1.0, 2.5):
        inside = lambda y, c=c: jnp.where(jnp.abs(y) < c, 1.0, 0.0)
        truth = 0.01 + sum(
            p * (1 - 2 * ndtr(-c / math.sqrt(v))) for p, v in ((0.18, 0.5), (0.81, 1.0))
        )
        assert law.expect(inside) == pytest.approx(truth, abs=1e-12)
        assert law.error.expect(inside) < 1e-10
    cos = (0.1 + 0.9 * math.exp(-0.25)) ** 2
    assert abs(law.expect(jnp.cos) - cos) <= 5 * law.error.expect(jnp.cos) + 1e-13


def test_waves_of_a_function_that_is_narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    """E e^{itφ} of e^{−z²} where Y is a thousand times wider, and nodes are too few to see all of
    it: what is missing is in the error.
    """
    monkeypatch.setattr(one_image, "MOST_AT_ALL", 2**20)
    sd = np.geomspace(500.0, 2000.0, 2048)
    rng = np.random.default_rng(0)
    base = ll.laws.GaussianMixture(np.zeros(2048), rng.permutation(sd) ** 2, kind="sampled")
    law = ll.laws.Pushforward(lambda z: jnp.exp(-(z**2)), base)
    t = 3.0
    wave = lambda part: integrate.quad(
        lambda z: getattr(np.exp(1j * t * np.exp(-(z**2))) - 1, part), -7, 7, epsabs=1e-13
    )[0]
    density = np.mean(1 / (sd * math.sqrt(2 * math.pi)))
    truth = 1 + density * (wave("real") + 1j * wave("imag"))
    away, error = abs(complex(law.cf(t)) - truth), float(law.error.cf(t))
    assert away <= 5 * error
    assert error < 1e-3


def test_entries_of_kernels_that_are_certain() -> None:
    """The second token sees itself alone: its entry is known, whatever the first one sees."""
    x = ll.relu(ll.initial((2,), cov=np.array([[1.0, 0.3], [0.3, 2.0]])))
    K = ll.kernel(ll.attention(x, 1, mask=np.array([[True, True], [False, True]])), samples=256)
    certain, random = K.marginal((1, 1)), K.marginal((0, 0))
    assert (certain.kind, random.kind) == ("exact", "sampled")
    assert certain.mean() == pytest.approx(1.0, rel=1e-14)  # E relu(u)², Var u = 2
    assert certain.error.mean() == 0
    assert certain.mean() == pytest.approx(float(K.mean()[1, 1]), rel=1e-13)
    assert random.error.mean() > 0
    assert K.marginal((0, 1)).kind == "sampled"
