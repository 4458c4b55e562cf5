"""Laws behind attention know the errors of the integrals that its tokens' kernel is made of.

Tokens are φ(h) with a threshold far out: E φ(h)² is an integral over the tail, of which a rule for
normal variables that does not go on behind thresholds sees the beginning only. Scores are so small
that attention is uniform: the variance of the output is Σ_j E φ(h_j)²/s².
"""

import math

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest

import limitlaw as ll
from limitlaw.numerics import gaussian_quadrature

SPREADS = (0.0173, 0.0191)


@pytest.fixture(autouse=True)
def a_poor_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    """Integrals that do not look behind thresholds, and say so."""
    monkeypatch.setattr(gaussian_quadrature, "OUT", math.inf)


def soft(z):
    """0 up to 1, then straight."""
    return jnp.sign(z) * jnp.maximum(jnp.abs(z) - 1, 0.0)


def second_moment(variance: float) -> float:
    """E φ(h)² for h ~ N(0, variance)."""
    with mpmath.workdps(30):
        sd = mpmath.sqrt(variance)
        inside = mpmath.linspace(1 / sd, 1 / sd + 20, 21)
        return float(2 * mpmath.quad(lambda z: (sd * z - 1) ** 2 * mpmath.npdf(z), inside))


def output(tokens: int, **options):
    """Token 0 behind one attention layer, and the variance it has."""
    spreads = np.array([SPREADS[i % 2] for i in range(tokens)])
    x = ll.map(soft, ll.initial((tokens,), cov=np.diag(spreads)))
    return ll.attention(x, **options), sum(map(second_moment, spreads)) / tokens**2


def assert_error_holds(law, value, error, truth):
    """Off by more than rounding, by what is stated, and labelled so."""
    assert law.kind != "exact"
    assert abs(value - truth) > 1e-10 * truth
    assert abs(value - truth) <= 5 * error


@pytest.mark.parametrize(
    "options", [{"heads": 2}, {"heads": math.inf}, {"heads": 3, "scaling": "linear"}]
)
def test_one_number(options):
    y, truth = output(2, **options)
    law = ll.limit(y[0])
    assert_error_holds(law, float(law.variance()), float(law.error.variance()), truth)


def test_sampled_scores():
    y, truth = output(6, heads=2)
    law = ll.limit(y[0], samples=256)
    assert_error_holds(law, float(law.variance()), float(law.error.variance()), truth)


@pytest.mark.parametrize("heads", [2, 100])
def test_all_tokens(heads):
    y, truth = output(2, heads=heads)
    law = ll.limit(y, samples=256)
    assert_error_holds(
        law, float(law.covariance()[0, 0]), float(law.error.covariance()[0, 0]), truth
    )


def test_inside_jit():
    def figures(q):
        y, _ = output(2, heads=2, q_std=q)
        law = ll.limit(y[0])
        return law.variance(), law.error.variance()

    _, truth = output(2, heads=2)
    value, error = jax.jit(figures)(1.0)
    assert abs(value - truth) <= 5 * error
