"""Functions of the user's own in programs: kinks are found or declared,
and errors of integrals are carried on.
"""

import warnings

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
from scipy import integrate, stats

import limitlaw as ll
from limitlaw import phi as nl
from limitlaw.engines.limit.conditions import Limit
from limitlaw.engines.limit.statistics import second_moment

K = np.array([[1.0, 0.6], [0.6, 1.5]])


def step(x):
    return jnp.where(x > 0.3, 1.0, 0.0)


def ramp(x):
    return jnp.maximum(x - 0.3, 0)


def prepared(y):
    return Limit((y.core,), second_moment)


def expected(f, g, i, j):
    """E f(u_i)g(u_j) above the kinks at 0.3, (u_i, u_j) ~ N(0, K)."""
    if i == j:
        s = np.sqrt(K[i, i])
        return integrate.quad(
            lambda x: f(x) * g(x) * stats.norm.pdf(x, 0, s), 0.3, 12, epsabs=1e-14, epsrel=1e-13
        )[0]
    beta, s = K[i, j] / K[i, i], np.sqrt(K[j, j] - K[i, j] ** 2 / K[i, i])

    def inner(x):
        z = (beta * x - 0.3) / s
        chance, mean = (
            stats.norm.cdf(z),
            (beta * x - 0.3) * stats.norm.cdf(z) + s * stats.norm.pdf(z),
        )
        return f(x) * (chance if g is one else mean) * stats.norm.pdf(x, 0, np.sqrt(K[i, i]))

    return integrate.quad(inner, 0.3, 12, epsabs=1e-14, epsrel=1e-13)[0]


def one(x):
    return 1.0


def above(x):
    return x - 0.3


@pytest.mark.parametrize(("phi", "f"), [(step, one), (ramp, above)])
def test_kernel(phi, f):
    """Off by 0.02 and 5e-5 without the kink."""
    truth = [[expected(f, f, i, j) for j in (0, 1)] for i in (0, 1)]
    x = ll.initial((2,), cov=K)
    for y in (ll.map(phi, x), ll.map(phi, x, kinks=(0.3,)), ll.map(phi, x, kinks=0.3)):
        np.testing.assert_allclose(ll.kernel(y), truth, rtol=1e-12)
    np.testing.assert_allclose(
        jax.jit(lambda c: ll.kernel(ll.map(phi, ll.initial((2,), cov=c))))(K), truth, rtol=1e-12
    )


def test_stein():
    """E[step(u) u] = K p(0.3), from the jump alone."""
    x = ll.initial()
    y = ll.map(step, x) + 2.0 * x
    cross = stats.norm.pdf(0.3)
    assert float(ll.kernel(y)) == pytest.approx(stats.norm.sf(0.3) + 4 + 4 * cross, rel=1e-13)


def test_last_nonlinearity():
    """Moments of φ(Y) are cut at the kinks of φ."""
    law = ll.limit(ll.map(step, ll.Matrix() @ ll.initial()))
    assert float(law.mean()) == pytest.approx(stats.norm.sf(0.3), rel=1e-14)
    assert float(law.expect(lambda y: y**2)) == pytest.approx(stats.norm.sf(0.3), rel=1e-14)
    stairs = ll.limit(ll.map(jnp.floor, ll.Matrix() @ ll.initial()))
    assert float(stairs.mean()) == pytest.approx(-0.5, abs=1e-12)


def test_declarations():
    x = ll.initial()
    with pytest.raises(
        ValueError, match="kinks are declared for a function of your own, of one vector"
    ):
        ll.map(nl.relu, x, kinks=(0.0,))
    with pytest.raises(
        ValueError, match="kinks are declared for a function of your own, of one vector"
    ):
        ll.map(jnp.maximum, x, x, kinks=(0.0,))
    with pytest.raises(TypeError, match="kinks"):
        ll.map(ramp, x, kinks="0.3")
    assert ll.map(ramp, x, kinks=()).op.phi.kinks == ()


def test_pseudo_lipschitz():
    """A jump that is found takes a program beyond the theorem, as that of sign does."""
    x = ll.Matrix() @ ll.initial()
    assert "a nonlinearity that is not pseudo-Lipschitz" in ll.check(ll.map(step, x)).beyond
    assert "a nonlinearity that is not pseudo-Lipschitz" not in ll.check(ll.map(ramp, x)).beyond


@pytest.mark.long
def test_inflated():
    """A layer behind a function whose kink depends on a number,
    so that it is not found: the error holds.
    """
    x = ll.initial((2,), cov=K)
    truth = np.asarray(ll.kernel(ll.relu(ll.Matrix() @ ll.map(ramp, x))))
    zero = ll.average(x)[0]  # a number that is 0
    program = prepared(ll.relu(ll.Matrix() @ ll.map(lambda z, a: ramp(z + a), x, zero)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        value, inflated = (
            np.asarray(p.conditions(1, None).arrays[0]) for p in (program, program.inflated())
        )
    off = np.abs(value - truth)
    assert off.max() > 1e-7
    assert (off <= 5 * np.abs(inflated - value)).all()
    assert (np.abs(inflated - value) <= 1000 * off.max()).all()


def test_inflated_closed_forms():
    """Nothing moves; with a quadrature that is known to be good, almost nothing."""
    x = ll.initial((2,), cov=K)
    program = prepared(ll.Matrix() @ ll.relu(ll.Matrix() @ ll.relu(x)))
    np.testing.assert_array_equal(
        program.inflated().conditions(1, None).arrays, program.conditions(1, None).arrays
    )
    program = prepared(ll.Matrix() @ ll.tanh(x))
    value, inflated = (
        np.asarray(p.conditions(1, None).arrays) for p in (program, program.inflated())
    )
    assert 0 < np.abs(inflated - value).max() < 1e-12


@pytest.mark.parametrize("deviations", [6.0, 8.5, 10.0, 12.0])
def test_all_of_it_far_out(deviations: float) -> None:
    """E 1(u > c) and E max(u − c, 0)², where c is many deviations away: rare, but all there is.

    The variances of 1(u > c) and max(u − c, 0) are the same to 1e-9 of themselves.
    """
    c = mpmath.mpf(deviations)
    with mpmath.workdps(60):
        tail = mpmath.ncdf(-c)
        square = ((1 + c**2) * tail - c * mpmath.npdf(c)) / c**2
    step = ll.map(lambda z: jnp.where(z > 1.0, 1.0, 0.0), ll.initial(cov=deviations**-2))
    ramp = ll.map(lambda z: jnp.maximum(z - 1.0, 0.0), ll.initial(cov=deviations**-2))
    for y, expected in ((step, float(tail)), (ramp, float(square))):
        K = ll.kernel(y)
        np.testing.assert_allclose(float(K), expected, rtol=1e-10)
        assert abs(float(K) - expected) <= 5 * K.error + 1e-14 * expected
        np.testing.assert_allclose(float(ll.limit(y).variance()), expected, rtol=2e-9)
