"""Images under functions that rise on every branch and jump down between them."""

import math

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import norm

import limitlaw as ll
from limitlaw.laws import Gaussian, GaussianMixture, Pushforward
from limitlaw.phi.branches import Branch, listed, same
from limitlaw.phi.nonlinearity import Kink, Nonlinearity

INF = math.inf
WINDOW = Nonlinearity(  # x where |x| < 1, and 0 elsewhere
    "window",
    lambda x: jnp.where(jnp.abs(x) < 1, x, 0.0),
    pseudo_lipschitz=False,
    bounded=True,
    kinks=(Kink(-1.0, jump=-1.0, slope_jump=1.0), Kink(1.0, jump=-1.0, slope_jump=-1.0)),
    branches=listed(
        Branch(-INF, -1.0, 0.0, 0.0),
        Branch(-1.0, 1.0, -1.0, 1.0, same),
        Branch(1.0, INF, 0.0, 0.0),
    ),
)
MEAN, SD = 0.2, 0.7**0.5
LEVELS = np.array([0.001, 0.1, 0.3, 0.5, 0.7, 0.9])


def cdf(y: float) -> float:
    """P(window(X) ≤ y)."""
    inside = norm.cdf(np.clip(y, -1, 1), MEAN, SD) - norm.cdf(-1, MEAN, SD)
    outside = norm.cdf(-1, MEAN, SD) + norm.sf(1, MEAN, SD)
    return inside + outside * (y >= 0)


def test_quantiles_and_the_atom() -> None:
    law = Pushforward(WINDOW, Gaussian(MEAN, SD**2))
    for level, y in zip(LEVELS, np.asarray(law.ppf(LEVELS)), strict=True):
        assert cdf(y + 1e-9) >= level - 1e-12
        assert cdf(y - 1e-9) <= level + 1e-12
    np.testing.assert_allclose(
        law.cdf([-0.5, -1e-9, 0.0, 0.5]), [*map(cdf, (-0.5, -1e-9, 0, 0.5))]
    )


def test_what_is_not_one_to_one() -> None:
    """x − sign x: a divergence is that of the densities and not of the arguments'."""
    saw = Nonlinearity(
        "saw",
        lambda x: x - jnp.sign(x),
        pseudo_lipschitz=False,
        bounded=False,
        kinks=(Kink(0.0, jump=-2.0, slope_jump=0.0),),
        branches=listed(
            Branch(-INF, 0.0, -INF, 1.0, lambda y: y - 1.0),
            Branch(0.0, INF, -1.0, INF, lambda y: y + 1.0),
        ),
    )
    law = Pushforward(saw, Gaussian(0.0, 1.0))
    y = np.linspace(-9, 9, 200_001)
    p = norm.pdf(y - 1) * (y < 1) + norm.pdf(y + 1) * (y > -1)
    entropy = -np.trapezoid(p * np.log(np.maximum(p, 1e-300)), y)
    assert law.entropy() == pytest.approx(entropy, abs=1e-4)


def test_levels_that_are_no_numbers() -> None:
    law = Pushforward(ll.phi.abs_, GaussianMixture([0.5, -0.3], [1.0, 0.0], [0.5, 0.5]))
    assert np.isnan(law.ppf(np.nan))
    assert np.isnan(law.isf(np.nan))
