"""The χ generator: its law for few and many degrees of freedom, and what an entry depends on."""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from limitlaw.numerics import gaussian_vectors as module
from limitlaw.numerics.gaussian_vectors import chi
from limitlaw.numerics.random import normal_pairs

COUNT = 2**18
LAWS = [1, 2, 3, 8, 13, 64, 1024]


@functools.cache
def draws(df, direct=module.DIRECT):
    """COUNT draws, as one uses them: 64 keys under vmap."""
    keys = jax.random.split(jax.random.key(df), 64)
    before, module.DIRECT = module.DIRECT, direct
    values = jax.jit(jax.vmap(lambda key: chi(key, df, (COUNT // 64,))))(keys)
    module.DIRECT = before
    return np.asarray(values, np.float64).ravel()


def check_moments(values, df):
    """The mean of χ, χ² and (χ² − df)² within 5 standard errors;
    all moments of χ² are exact rationals.
    """
    error = 5 / math.sqrt(values.size)
    square = values**2
    mean = math.sqrt(2) * math.exp(math.lgamma((df + 1) / 2) - math.lgamma(df / 2))
    assert abs(values.mean() - mean) < error * values.std()
    assert abs(square.mean() - df) < error * math.sqrt(2 * df)
    fourth = 12 * df * (df + 4)  # E(χ² − df)⁴
    assert abs(((square - df) ** 2).mean() - 2 * df) < error * math.sqrt(fourth - 4 * df**2)


@pytest.mark.parametrize("df", LAWS)
def test_moments(df):
    check_moments(draws(df), df)


@pytest.mark.parametrize("df", LAWS)
def test_kolmogorov_smirnov(df):
    assert stats.kstest(draws(df), stats.chi(df).cdf).pvalue > 1e-4


def check_tails(values, df):
    """Counts below and above the quantiles 1e-1 … 1e-4 within 5 standard deviations."""
    for p in (1e-1, 1e-2, 1e-3, 1e-4):
        expected = values.size * p
        allowed = 5 * math.sqrt(expected)
        assert abs((values < stats.chi(df).ppf(p)).sum() - expected) < allowed
        assert abs((values > stats.chi(df).isf(p)).sum() - expected) < allowed


@pytest.mark.parametrize("df", LAWS)
def test_tails(df):
    check_tails(draws(df), df)


@pytest.mark.parametrize("df", [1, 2, 8])
def test_rejection_for_few_degrees(df):
    """Rejection meets few degrees of freedom beside many,
    where it accepts least: 1 and 2 are its worst cases.
    """
    values = draws(df, direct=0)
    check_moments(values, df)
    check_tails(values, df)
    assert stats.kstest(values, stats.chi(df).cdf).pvalue > 1e-4


@pytest.mark.parametrize(
    "degrees",
    [np.array([1, 2, 3, 12]), np.array([1, 2, 64, 1024]), np.array([200, 1024, 999, 300])],
)
def test_mixed_degrees(degrees):
    values = np.asarray(
        jax.jit(lambda key: chi(key, degrees[:, None], (4, 2**15)))(jax.random.key(0)),
        np.float64,
    )
    for row, df in zip(values, degrees.tolist(), strict=True):
        check_moments(row, df)
        assert stats.kstest(row, stats.chi(df).cdf).pvalue > 1e-4
    assert np.abs(np.corrcoef(values) - np.eye(4)).max() < 5 / math.sqrt(2**15)


@pytest.mark.parametrize("df", [1, 8, 64])
def test_entries_are_independent(df):
    values = draws(df).reshape(64, -1)
    for first, second in (
        (values[:, 1:], values[:, :-1]),
        (values[1:], values[:-1]),
        (values[:, ::2], values[:, 1::2]),
    ):
        for f in (lambda x: x, np.square, lambda x: x > stats.chi(df).ppf(0.99)):
            assert abs(np.corrcoef(f(first).ravel(), f(second).ravel())[0, 1]) < 5 / math.sqrt(
                first.size
            )


@pytest.mark.parametrize("df", [8, 17])
def test_a_draw_does_not_see_its_neighbours(df):
    """Among 1000 keys some need further rounds at df = 17: bitwise, that changes no other draw."""
    sample = jax.jit(jax.vmap(lambda key: chi(key, df, (256,))))
    ours, others = (
        jax.random.split(jax.random.key(1), 1000),
        jax.random.split(jax.random.key(2), 1000),
    )
    mixed = jnp.where(np.arange(1000) % 7 == 3, ours, others)
    values, beside = np.asarray(sample(ours)), np.asarray(sample(mixed))
    np.testing.assert_array_equal(beside[3::7], values[3::7])
    np.testing.assert_array_equal(np.asarray(sample(ours[::-1]))[::-1], values)
    np.testing.assert_allclose(np.asarray(sample(ours[:10])), values[:10], rtol=1e-14)


def test_a_later_round_is_taken(monkeypatch):
    """With both first candidates refused everywhere,
    the next round's are taken, and the law is the same.
    """
    calls = []
    acceptance = module._acceptance

    def refuse_first(t, d, terms):
        calls.append(terms)
        return jnp.zeros_like(t) if len(calls) <= 2 else acceptance(t, d, terms)

    monkeypatch.setattr(module, "_acceptance", refuse_first)
    values = np.asarray(jax.jit(lambda key: chi(key, 64, (2**16,)))(jax.random.key(0)))
    assert len(calls) == 4
    check_moments(values, 64)


@pytest.mark.parametrize("d", [4 + 2 / 3, 31.0, 51.7, 127.0, 511.7, 5e5])
def test_acceptance_by_series_and_by_logarithm(d):
    t = jnp.linspace(-1, 1, 2001) * min(1 - 1e-9, module.LARGEST_NORMAL / math.sqrt(9 * d))
    exact = module._acceptance(t, jnp.asarray(d), None)
    x = np.asarray(t) * math.sqrt(9 * d)
    v = (1 + np.asarray(t)) ** 3
    np.testing.assert_allclose(exact, np.exp(x**2 / 2 + d - d * v + d * np.log(v)), rtol=1e-9)
    terms = module._terms(d)
    assert (terms is None) == (d < 51)
    if terms is not None:
        np.testing.assert_allclose(
            module._acceptance(t, jnp.asarray(d), terms), exact, atol=2 * module.GRAIN
        )


@pytest.mark.parametrize("shape", [(), (2, 0), (2, 3, 4)])
@pytest.mark.parametrize("df", [2, 100])
def test_shapes(shape, df):
    values = jax.jit(lambda key: chi(key, df, shape))(jax.random.key(0))
    assert values.shape == shape
    assert len(np.unique(values)) == values.size


def test_refusals():
    with pytest.raises(ValueError, match="df must be a positive integer, got 0"):
        chi(jax.random.key(0), np.array([3, 0]), (2,))
    with pytest.raises(ValueError, match="broadcast"):
        chi(jax.random.key(0), np.array([3, 1, 1]), (2,))


def test_normals_at_the_ends_of_the_radius(monkeypatch):
    """R = 7.54 at U = 2⁻⁴¹; near U = 1, R = √(2V) for V = 1 − U = 2⁻⁴¹, 3·2⁻⁴¹, 5·2⁻⁴¹."""
    top = 2**40 - 1
    words = jnp.asarray(np.array([0, top, top - 1, top - 2], np.uint64) << np.uint64(24))
    monkeypatch.setattr(jax.random, "bits", lambda key, shape, kind: words)
    R = np.hypot(*normal_pairs(jax.random.key(0), words.shape))
    exact = [module.LARGEST_NORMAL, *(math.sqrt(2 * odd * 2.0**-41) for odd in (1, 3, 5))]
    np.testing.assert_allclose(R, exact, rtol=5e-7)
