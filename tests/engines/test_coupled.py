"""Width n and n = ∞ from the same normals: their laws,
their difference of order 1/n, and what is refused.
"""

import functools
from concurrent.futures import ThreadPoolExecutor

import jax
import numpy as np
import pytest

import limitlaw as ll
from limitlaw.engines.coupled import Coupled

SIGMAS = 5.0
KERNEL = np.array([[1.0, 0.6, -0.3], [0.6, 2.0, 0.1], [-0.3, 0.1, 0.5]])
DRAWS = 2**13


@functools.cache
def output(name):
    """y^1 of a network."""
    networks = {
        "narrow heads": lambda: ll.attention(ll.initial((3,), cov=KERNEL), heads=2, head_dim=4),
        "relu": lambda: ll.attention(ll.relu(ll.matrices(3) @ ll.initial()), heads=1),
        "many tokens": lambda: ll.attention(ll.matrices(6) @ ll.initial(), heads=1),
        "many narrow heads": lambda: ll.attention(
            ll.matrices(4) @ ll.initial(), heads=64, head_dim=8
        ),
        "two heads": lambda: ll.attention(ll.matrices(4) @ ll.initial(), heads=2),
    }
    return networks[name]()[0]


@functools.cache
def coupled(name):
    """One object for each network, so that it is compiled once."""
    return Coupled(output(name))


@functools.cache
def at_width(name, width):
    """The law at this width by the other engine."""
    return ll.finite(output(name), width, DRAWS, jax.random.key(1))


def assert_law(v, law):
    """E v, E v², Var v and E exp(−2v) are those of a law of N(0,
    v), within five standard errors of both.
    """
    variance, error = float(law.variance()), law.error
    comparisons = [
        (v, variance, error.variance()),
        (3 * v**2, law.moment(4), error.moment(4)),
        (3 * (v - v.mean()) ** 2, variance**2 * law.kurtosis(), variance**2 * error.kurtosis()),
        (np.exp(-2 * v), np.real(law.cf(2.0)), error.cf(2.0)),
    ]
    for found, expected, uncertain in comparisons:
        sampled = found.std() / np.sqrt(len(found))
        assert (
            abs(found.mean() - float(expected))
            < SIGMAS * np.hypot(sampled, float(uncertain)) + 1e-12
        )


@pytest.mark.parametrize(
    ("name", "width"), [("narrow heads", 16), ("relu", 6), ("many tokens", 3)]
)
def test_finite(name, width):
    """Variances have the law of `ll.finite`: K ≠ I, narrow heads,
    nonlinearities, fewer dimensions than tokens.
    """
    assert coupled(name).has_coordinates == (name == "relu")
    assert_law(coupled(name).finite(width, DRAWS, 2), at_width(name, width))


def test_mirror_image():
    """v_n(z, ζ) and v_n(z, −ζ) both have the law at width n, and they are not the same."""
    plus, minus, _ = coupled("narrow heads").variances(16, DRAWS, 3)
    assert_law(plus, at_width("narrow heads", 16))
    assert_law(minus, at_width("narrow heads", 16))
    assert (plus != minus).all()


@pytest.mark.parametrize("name", ["two heads", "many narrow heads"])
def test_limit(name):
    """v_∞ has the law of `ll.limit`, whatever the width;
    what is random in a fixed dimension stays random.
    """
    found = coupled(name).variances(256, 2**10 if "many" in name else DRAWS, 4)
    assert_law(found.limit, ll.limit(output(name)))
    np.testing.assert_allclose(
        found.limit, coupled(name).variances(1024, len(found.limit), 4).limit, rtol=1e-6
    )


def test_order():
    """From n = 256 to 1024 the noise falls by 4 with the mirror image, by 2 without it;
    the mean by 4 in both.
    """
    spread, single, mean = [], [], []
    for width in (256, 1024):
        plus, minus, limit = (np.exp(-v) for v in coupled("two heads").variances(width, DRAWS, 5))
        difference = (plus + minus) / 2 - limit
        spread.append(difference.std())
        single.append((plus - limit).std())
        mean.append(difference.mean())
    assert spread[0] / spread[1] == pytest.approx(4, rel=0.15)
    assert single[0] / single[1] == pytest.approx(2, rel=0.1)
    assert mean[0] / mean[1] == pytest.approx(4, rel=0.25)
    assert spread[1] < single[1] / 5


def test_seeds_and_counts():
    """A seed gives the same draws, of which fewer are the first; another one gives others."""
    one = coupled("narrow heads")
    np.testing.assert_array_equal(one.finite(16, 5000, 7)[:100], one.finite(16, 100, 7))
    np.testing.assert_array_equal(
        one.variances(16, 5000, 7).plus[:100], one.variances(16, 100, 7).plus
    )
    assert (one.finite(16, 100, 8) != one.finite(16, 100, 7)).all()
    assert (one.variances(16, 100, 8).limit != one.variances(16, 100, 7).limit).all()


def test_threads():
    """Two threads that start together, before anything is compiled, get what one gets."""
    fresh = Coupled(output("narrow heads"))
    with ThreadPoolExecutor(2) as threads:
        found = list(threads.map(lambda width: fresh.variances(width, 1000, 9), [16, 64] * 2))
    for width, parts in zip([16, 64] * 2, found, strict=True):
        np.testing.assert_array_equal(parts, coupled("narrow heads").variances(width, 1000, 9))


@pytest.mark.usefixtures("as_user")
def test_errors():
    """Several outputs, numbers, a width of 0 and a mirror image of coordinates are
    refused with the reason.
    """
    x = ll.matrices(2) @ ll.initial()
    for wrong in (x, ll.dot(ll.Matrix() @ x[0], x[1]), 1.0):
        with pytest.raises(TypeError, match="Coupled needs one output number"):
            Coupled(wrong)
    with pytest.raises(ValueError, match="without nonlinearities"):
        Coupled(output("relu")).variances(16, 8, 0)
    for method in (coupled("two heads").finite, coupled("two heads").variances):
        with pytest.raises(ValueError, match="width must be a positive integer"):
            method(0, 8, 0)
