"""Kinks of functions, found by looking at them: where they are,
what jumps, and none where there are none.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from limitlaw.numerics.kinks import Kink
from limitlaw.numerics.pieces import pieces


def corner(at):
    """No jump, no bend: only f'' jumps."""
    return Kink(at)


KINKED = {
    "step": (lambda z: jnp.where(z > 0.3, 1.0, 0.0), [Kink(0.3, jump=1.0)]),
    "comparison": (lambda z: z >= 1 / 3, [Kink(1 / 3, jump=1.0)]),
    "shifted relu": (lambda z: jnp.maximum(z - 0.3, 0), [Kink(0.3, slope_jump=1.0)]),
    "abs and sign": (
        lambda z: jnp.abs(z - 2) + jnp.sign(z),
        [Kink(0.0, jump=2.0), Kink(2.0, slope_jump=2.0)],
    ),
    "stairs": (
        lambda z: jnp.round(jnp.clip(z, -20, 20)),
        [Kink(k + 0.5, jump=1.0) for k in range(-20, 20)],
    ),
    "hard sigmoid": (
        jax.nn.hard_sigmoid,
        [Kink(-3.0, slope_jump=1 / 6), Kink(3.0, slope_jump=-1 / 6)],
    ),
    "hard tanh": (jax.nn.hard_tanh, [Kink(-1.0, slope_jump=1.0), Kink(1.0, slope_jump=-1.0)]),
    "relu6": (jax.nn.relu6, [Kink(0.0, slope_jump=1.0), Kink(6.0, slope_jump=-1.0)]),
    "elu": (jax.nn.elu, [corner(0.0)]),
    "far": (lambda z: jax.nn.relu(z - 1e3), [Kink(1e3, slope_jump=1.0)]),
    "on a large constant": (
        lambda z: jnp.maximum(z - 7.77, 0) + 1e4,
        [Kink(7.77, slope_jump=1.0)],
    ),
    "weak": (lambda z: jnp.tanh(z) + 1e-6 * jnp.abs(z - 0.123), [Kink(0.123, slope_jump=2e-6)]),
    "box": (
        lambda z: jnp.where(jnp.abs(z - 1.3) < 0.025, 1.0, 0.0),
        [Kink(1.275, jump=1.0), Kink(1.325, jump=-1.0)],
    ),
    "narrow box": (
        lambda z: jnp.where(jnp.abs(z - 0.33) < 1e-3, 50.0, 0.0),
        [Kink(0.329, jump=50.0), Kink(0.331, jump=-50.0)],
    ),
    "narrow box on a line": (
        lambda z: jnp.where(jnp.abs(z - 7.33) < 5e-4, z + 1, z),
        [Kink(7.3295, jump=1.0), Kink(7.3305, jump=-1.0)],
    ),
}
SMOOTH = {
    "tanh": jnp.tanh,
    "bell": lambda z: jnp.exp(-(z**2)),
    "waves": lambda z: jnp.sin(10 * z),
    "square": jnp.square,
    "cube": lambda z: z**3,
    "bump": lambda z: jnp.exp(-(((z - 1.3) / 0.05) ** 2)),
    "large": lambda z: 1e6 * jnp.tanh(z),
    "steep": lambda z: jax.nn.softplus(50 * z),
    "very steep": lambda z: jnp.tanh(1e4 * z),
    # rounded to multiples of 2⁻⁵² where it is small
    "with cancellation": lambda z: jnp.log(1 + jnp.exp(z)),
    "exp, which overflows": jnp.exp,
    "constant": lambda z: jnp.full_like(z, 3.0),
    "zero": jnp.zeros_like,
    "identity": lambda z: z,
    "algebraic": lambda z: 1 / (1 + z * z),
}


@pytest.mark.parametrize("name", KINKED)
def test_kinks(name):
    """At the last bits, with what jumps there, and no others."""
    f, expected = KINKED[name]
    found = pieces(f)
    assert found.confident
    at = np.array([kink.at for kink in expected])
    np.testing.assert_allclose(
        [kink.at for kink in found.kinks], at, rtol=4 * np.finfo(float).eps, atol=0
    )
    for field in ("jump", "slope_jump"):
        measured, known = (
            [getattr(kink, field) for kink in kinks] for kinks in (found.kinks, expected)
        )
        np.testing.assert_allclose(measured, known, rtol=1e-9, atol=1e-14)
    assert {kink.at for kink in found.kinks} <= set(found.cuts)


@pytest.mark.parametrize("name", SMOOTH)
def test_no_kinks(name):
    found = pieces(SMOOTH[name])
    assert found.confident
    assert found.kinks == ()


@pytest.mark.parametrize("name", [*KINKED, *SMOOTH])
def test_polynomials_between_cuts(name):
    """Between neighbouring cuts f is a polynomial of degree 16 at other points than
    those where it was looked at.
    """
    f = KINKED[name][0] if name in KINKED else SMOOTH[name]
    found = pieces(f)
    edges = np.unique(np.clip([-15.0, *found.cuts, 15.0], -15, 15))
    if name in ("waves",):
        edges = edges[np.abs(edges) < 12]
    gap = 1e-12 * np.maximum(np.abs(edges), 1e-3)
    for lo, hi in zip(edges[:-1] + gap[:-1], edges[1:] - gap[1:], strict=True):
        if hi - lo < 1e-9:
            continue
        t = np.cos(np.pi * (np.arange(25) + 0.5) / 25)
        values = np.asarray(f(jnp.asarray(0.5 * (lo + hi) + 0.5 * (hi - lo) * t)), float)
        c = np.polynomial.chebyshev.chebfit(t, values, 24)
        nearer = np.abs(np.asarray(f(jnp.linspace(-abs(lo), abs(lo), 101)), float)).max()
        size = max(nearer, np.abs(values).max(), 1e-18)
        assert np.abs(c[17:]).max() <= 1e-12 * size


def test_random_kinks():
    """Jumps and bends of all sizes at random places on random smooth functions."""
    rng = np.random.default_rng(0)
    smooth = (
        jnp.tanh,
        jnp.sin,
        lambda z: z,
        lambda z: jnp.exp(-z * z),
        lambda z: jax.nn.softplus(3 * z),
    )
    for _ in range(25):
        count = rng.integers(1, 4)
        at = np.sort(rng.choice([1, 5, 20, 300], count) * rng.uniform(-1, 1, count))
        sizes, bends = 10.0 ** rng.uniform(-3, 3, count), rng.integers(0, 2, count).astype(bool)
        g = smooth[rng.integers(len(smooth))]

        def f(z, g=g, at=at, sizes=sizes, bends=bends):
            terms = [
                jnp.maximum(z - a, 0) if b else jnp.where(z > a, 1.0, 0.0)
                for a, b in zip(at, bends, strict=True)
            ]
            return g(z) + sum(s * term for s, term in zip(sizes, terms, strict=True))

        found = [kink for kink in pieces(f).kinks if kink.jump or kink.slope_jump]
        np.testing.assert_allclose([kink.at for kink in found], at, rtol=1e-14, atol=1e-20)
        np.testing.assert_allclose(
            [kink.jump for kink in found], np.where(bends, 0, sizes), rtol=1e-9
        )
        np.testing.assert_allclose(
            [kink.slope_jump for kink in found], np.where(bends, sizes, 0), rtol=1e-6, atol=1e-6
        )


@pytest.mark.parametrize(
    "f",
    [
        lambda z: 1 / z,
        jnp.log,
        lambda z: jnp.sqrt(jnp.abs(z)),
        jnp.tan,
        lambda z: z * jnp.nan,
        lambda z: 1 / z**2,
    ],
)
def test_singular(f):
    """Nothing is claimed of a function with a pole, a root or no values at all."""
    assert not pieces(f).confident


def test_many():
    """Of infinitely many jumps the nearest are known, and how far."""
    found = pieces(jnp.floor)
    assert found.confident
    assert [kink.at for kink in found.kinks] == list(range(-31, 33))
    assert 31 <= found.reach <= 33
    assert not pieces(lambda z: jnp.floor(10 * z)).confident


def test_derivatives_that_are_none():
    """A straight-through estimator: jax's derivative is another function's."""
    found = pieces(lambda z: z + jax.lax.stop_gradient(jnp.sign(z) - z))
    assert found.kinks[0].jump == 2
    assert not found.smooth
    assert not found.confident


def test_declared():
    """Declared kinks are the kinks, and what jumps there is measured."""
    f = lambda z: jnp.where(z > 0.3, 1.0, 0.0) + jnp.abs(z - 1)
    (kink,) = pieces(f, (0.3,)).kinks
    assert (kink.at, kink.slope_jump) == (0.3, 0.0)
    assert kink.jump == pytest.approx(1, rel=1e-15)
    assert pieces(f, ()).kinks == ()
    assert {0.3, 1.0} <= set(pieces(f, ()).cuts)


def test_cannot_be_looked_at():
    """Functions that close over traced values, fail,
    mix entries or are rounded to single precision.
    """

    def traced(a):
        assert pieces(lambda z: jnp.maximum(z - a, 0)) is None
        return a

    jax.jit(traced)(0.3)
    jax.grad(traced)(0.3)
    assert pieces(lambda z: z[:, None]) is None
    assert pieces(lambda z: z @ jnp.ones((3, 3))) is None
    assert pieces(lambda z: jnp.tanh(z.astype(np.float32))) is None
    assert pieces(lambda z: z + 1j) is None

    @jax.jit
    def inside(x):
        found = pieces(lambda z: jnp.maximum(z - 0.3, 0))  # closes over nothing
        assert found.kinks == (Kink(0.3, slope_jump=1.0),)
        return x

    inside(1.0)
