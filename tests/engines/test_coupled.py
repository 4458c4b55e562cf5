"""Width n and n = ∞ from the same normals: their laws, their difference of order 1/n, and what is refused."""

import functools
from concurrent.futures import ThreadPoolExecutor

import jax
import numpy as np
import pytest

import limitlaw as ll
from limitlaw.engines.coupled import Coupled

SIGMAS = 5.0
KERNEL = np.array([[1.0, 0.6, -0.3], [0.6, 2.0, 0.1], [-0.3, 0.1, 0.5]])


def mapped():
    """Three tokens as random matrices map three vectors of this covariance: K ≠ I."""
    return ll.Matrix() @ ll.initial((3,), cov=KERNEL)


@functools.cache
def output(name):
    """y^1 of a network; one object for each, so that programs are compiled once."""
    tokens = {
        "narrow heads": lambda: ll.attention(ll.initial((3,), cov=KERNEL), heads=2, head_dim=4),
        "mapped": lambda: ll.attention(mapped(), heads=1),
        "relu": lambda: ll.attention(ll.relu(ll.matrices(3) @ ll.initial()), heads=1),
        "many tokens": lambda: ll.attention(ll.matrices(6) @ ll.initial(), heads=1),
        "many narrow heads": lambda: ll.attention(ll.matrices(4) @ ll.initial(), heads=64, head_dim=8),
        "paper": lambda: ll.attention(ll.matrices(4) @ ll.initial(), heads=2),
    }
    return tokens[name]()[0]


@functools.cache
def coupled(name):
    return Coupled(output(name))


def assert_law(v, law):
    """E v, E v² and E exp(−2v) are those of a law of N(0, v), within five standard errors of both."""
    pairs = [
        (v, law.variance(), law.error.variance()),
        (3 * v**2, law.moment(4), law.error.moment(4)),
        (np.exp(-2 * v), np.real(law.cf(2.0)), law.error.cf(2.0)),
    ]
    for found, expected, error in pairs:
        sampled = found.std() / np.sqrt(len(found))
        assert abs(found.mean() - float(expected)) < SIGMAS * np.hypot(sampled, float(error)) + 1e-12


@functools.cache
def at_width(name, width, samples=2**14):
    return ll.finite(output(name), width, samples, jax.random.key(1))


@pytest.mark.parametrize(
    ("name", "width"), [("narrow heads", 16), ("mapped", 8), ("relu", 6), ("many tokens", 3), ("paper", 16)]
)
def test_finite(name, width):
    """Its variances have the law of `ll.finite`: K ≠ I, narrow heads, nonlinearities, fewer dimensions than tokens."""
    assert coupled(name).has_coordinates == (name == "relu")
    assert_law(coupled(name).finite(width, 2**14, seed=2), at_width(name, width))
