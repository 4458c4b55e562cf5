"""The normal generator: the transform itself, bit by bit, and the law of what it draws."""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from limitlaw.numerics import random
from limitlaw.numerics.random import normal, normal_pairs

# --- The transform on chosen bits ----------------------------------------------------------------


def pairs_of(monkeypatch, bits):
    """The pairs that these 64-bit words make."""
    words = jnp.asarray(bits, dtype=jnp.uint64)
    monkeypatch.setattr(jax.random, "bits", lambda key, shape, dtype: words)
    return tuple(map(np.asarray, normal_pairs(jax.random.key(0), words.shape)))


def test_every_angle_is_on_the_unit_circle():
    """All 2²⁴ angles, the first one an eighth of a turn and half a step before 0,
    against NumPy's cos and sin.
    """
    turns = jax.jit(random._cos_sin_turns)
    chunk = 2**20
    for start in range(0, 2**24, chunk):
        k = np.arange(start, start + chunk, dtype=np.uint32)
        cos, sin = map(np.asarray, turns(jnp.asarray(k)))
        angle = 2 * np.pi * ((k + 0.5) / 2.0**24 - 0.125)
        assert np.abs(cos**2 + sin**2 - 1).max() < 1e-15
        # Angles up to 2π round by 4e-16, and products and NumPy's functions by an ulp each.
        assert np.abs(cos - np.cos(angle)).max() < 2e-15
        assert np.abs(sin - np.sin(angle)).max() < 2e-15


def test_radius_reaches_seven_and_a_half(monkeypatch):
    radius_of = [2.0**-41, 1.5 * 2.0**-40, 0.5, 1 - 2.0**-41]  # the midpoints (j + ½)/2⁴⁰ of U
    words = [0, 1 << 24, (2**40 - 1) // 2 << 24, (2**40 - 1) << 24]
    z1, z2 = pairs_of(monkeypatch, np.array(words, dtype=np.uint64))
    expected = [math.sqrt(-2 * math.log(u)) for u in radius_of[:2]] + [
        math.sqrt(2 * math.log(2)),
        2.0**-20,
    ]
    np.testing.assert_allclose(np.hypot(z1, z2), expected, rtol=1e-11)
    assert 7.5 < np.hypot(z1, z2)[0] < 7.55


def test_all_bits_give_finite_numbers(monkeypatch):
    words = [sum(1 << b for b in range(64) if pattern(b)) for pattern in PATTERNS]
    words += [1 << b for b in range(64)] + [2**64 - 1 - (1 << b) for b in range(64)]
    z1, z2 = pairs_of(monkeypatch, np.array(words, dtype=np.uint64))
    assert np.isfinite(z1).all()
    assert np.isfinite(z2).all()
    assert np.hypot(z1, z2).max() < 7.55


PATTERNS = [
    lambda b: False,
    lambda b: True,
    lambda b: b % 2 == 0,
    lambda b: b % 2 == 1,
    lambda b: b < 24,
    lambda b: b >= 24,
    lambda b: b < 22,
]


def test_the_pair_is_the_transform_of_its_word(monkeypatch):
    """R = √(−2 log U) from the top 40 bits, Θ from the low 24."""
    words = np.random.default_rng(0).integers(0, 2**64, 10_000, dtype=np.uint64)
    z1, z2 = pairs_of(monkeypatch, words)
    U = np.array([((int(w) >> 24) + 0.5) / 2**40 for w in words])
    angle = np.array([2 * math.pi * ((int(w) % 2**24) + 0.5) / 2**24 for w in words])
    R = np.sqrt(-2 * np.log(U))
    turned = angle - math.pi / 4
    np.testing.assert_allclose(z1, R * np.cos(turned), atol=2e-14)
    np.testing.assert_allclose(z2, R * np.sin(turned), atol=2e-14)


# --- The law of what is drawn --------------------------------------------------------------------


@functools.cache
def four_million():
    """2²² draws, as the two halves of pairs, and as `normal`."""
    z1, z2 = normal_pairs(jax.random.key(1), (2**21,))
    return np.asarray(z1), np.asarray(z2), np.asarray(normal(jax.random.key(2), (2**22,)))


def test_moments():
    """Mean 0 ± 1, variance 1 ± √2, skewness 0 ± √6, kurtosis 3 ± √24, per √count."""
    z1, z2, z = four_million()
    for draws in (z1, z2, z, np.concatenate([z1, z2])):
        unit = 5 / math.sqrt(len(draws))
        assert abs(draws.mean()) < unit
        assert abs((draws**2).mean() - 1) < unit * math.sqrt(2)
        assert abs((draws**3).mean()) < unit * math.sqrt(15)
        assert abs((draws**4).mean() - 3) < unit * math.sqrt(96)


def test_kolmogorov_smirnov():
    z1, z2, z = four_million()
    for draws in (z1, z2, z):
        assert stats.kstest(draws[: 2**20], "norm").pvalue > 1e-4


@functools.cache
def tail_counts():
    """How many of 2²⁷ pairs have |z| beyond 3, 4, 5, 6 and 7.55, for each half."""
    levels = jnp.array([3.0, 4.0, 5.0, 6.0, 7.55])

    def chunk(key):
        return jnp.stack(
            [(jnp.abs(z)[:, None] > levels).sum(axis=0) for z in normal_pairs(key, (2**17,))]
        )

    keys = jax.random.split(jax.random.key(3), 2**10)
    return 2**27, np.asarray(jax.jit(lambda keys: jax.lax.map(chunk, keys).sum(axis=0))(keys))


@pytest.mark.parametrize("half", [0, 1])
def test_tails(half):
    """Counts beyond 3, 4, 5 within 5 standard deviations of the binomial;
    beyond 6 as Poisson(0.26) allows.
    """
    total, counts = tail_counts()
    for level, count in zip((3, 4, 5), counts[half], strict=False):
        expected = total * 2 * stats.norm.sf(level)
        assert abs(count - expected) < 5 * math.sqrt(expected), (
            f"beyond {level}: {count} against {expected:.1f}"
        )
    beyond = total * 2 * stats.norm.sf(6)
    assert stats.poisson.sf(counts[half][3] - 1, beyond) > 1e-6
    assert counts[half][4] == 0  # the radius ends at 7.54


def test_halves_of_pairs_are_independent():
    z1, z2, z = four_million()
    first, second = z[0::2], z[1::2]
    functions = [lambda x: x, lambda x: x**2, np.abs, np.sign, np.cos, lambda x: x > 2.5]
    for u, v in (
        (z1, z2),
        (first, second),
        (z[: len(z) // 2], z[len(z) // 2 :]),
        (z1[1:], z1[:-1]),
    ):
        for f in functions:
            for g in functions:
                assert abs(np.corrcoef(f(u), g(v))[0, 1]) < 5 / math.sqrt(len(u))


def test_keys_are_independent():
    """Different keys, and keys folded from one, give uncorrelated draws;
    the same key the same draws.
    """
    key = jax.random.key(5)
    keys = [key, jax.random.key(6), *(jax.random.fold_in(key, i) for i in range(4))]
    draws = np.stack([np.asarray(normal(k, (2**17,))) for k in keys])
    np.testing.assert_array_equal(draws[0], np.asarray(normal(key, (2**17,))))
    for function in (lambda x: x, np.square):
        correlation = np.corrcoef(function(draws)) - np.eye(len(keys))
        assert np.abs(correlation).max() < 5 / math.sqrt(2**17)


@pytest.mark.parametrize("shape", [(), (3,), (3, 1, 5), (2, 0, 3)])
def test_shapes(shape):
    z = normal(jax.random.key(0), shape)
    assert z.shape == shape
    assert z.dtype == jnp.float64
    assert len(np.unique(z)) == z.size
    z1, z2 = normal_pairs(jax.random.key(0), shape)
    assert z1.shape == z2.shape == shape


def test_draws_are_the_same_inside_jit_and_vmap():
    """Same bits; the last digit may differ by how the compiler fuses."""
    keys = jax.random.split(jax.random.key(0), 3)
    together = jax.jit(jax.vmap(lambda key: normal(key, (5,))))(keys)
    apart = jnp.stack([normal(key, (5,)) for key in keys])
    np.testing.assert_allclose(together, apart, rtol=1e-13)
