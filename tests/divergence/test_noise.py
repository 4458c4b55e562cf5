"""Sampled laws: no bias, and errors that hold."""

import numpy as np
import pytest

from limitlaw import phi as nl
from limitlaw.divergence import kl, kolmogorov, total_variation, wasserstein1
from limitlaw.divergence.in_blocks import in_blocks as blocks
from limitlaw.laws import Gaussian, GaussianMixture, HeadSum, Law, Pushforward
from limitlaw.laws.averages import BLOCKS

VARIANCES = np.array([0.5, 0.8, 1.2, 2.0])
EXACT = GaussianMixture(np.zeros(4), VARIANCES, np.full(4, 0.25))
OTHER = Gaussian(0.0, 1.5)
N, SEEDS = 384, 16
RANDOM = np.random.default_rng(0)
DRAWS = RANDOM.choice(VARIANCES, (SEEDS, N))


def sampled(v) -> GaussianMixture:
    return GaussianMixture(np.zeros(N), v)


def plain(v) -> GaussianMixture:
    """The same law, with its noise ignored."""
    return GaussianMixture(np.zeros(N), v, np.full(N, 1 / N))


DIRECTIONS = {
    "kl(sampled, exact)": lambda p, q: kl(p, q),
    "kl(exact, sampled)": lambda p, q: kl(q, p),
}


def test_kl_is_unbiased_at_zero():
    """A sampled mixture against its own law: zero within errors,
    while the plain value is significantly positive.
    """
    found = [kl(sampled(v), EXACT) for v in DRAWS]
    naive = np.array([kl(plain(v), EXACT).value for v in DRAWS])
    values, errors = np.array([(d.value, d.error) for d in found]).T
    assert (np.abs(values) < 5 * errors).all()
    assert abs(values.mean()) < 4 * values.std() / SEEDS**0.5
    assert naive.mean() > 3 * naive.std() / SEEDS**0.5
    assert abs(values.mean()) < naive.mean() / 2
    assert 0.5 < np.sqrt(np.mean(errors**2)) / values.std() < 3


def test_the_other_direction_at_zero():
    """The noise of q enters as that of p does: what is subtracted is the same to leading order."""
    for v in DRAWS[:3]:
        there, back = kl(sampled(v), EXACT), kl(EXACT, sampled(v))
        assert abs(back.value) < 5 * back.error
        subtracted = (
            kl(plain(v), EXACT).value - there.value,
            kl(EXACT, plain(v)).value - back.value,
        )
        assert subtracted[0] > 0
        assert subtracted[1] == pytest.approx(subtracted[0], rel=0.3)


@pytest.mark.parametrize("f", DIRECTIONS.values(), ids=DIRECTIONS)
def test_kl_away_from_zero(f):
    """Where the linear part of the noise dominates."""
    exact = f(EXACT, OTHER).value
    z = np.array([(d.value - exact) / d.error for d in (f(sampled(v), OTHER) for v in DRAWS[:8])])
    assert abs(z.mean()) < 4 / 8**0.5
    assert 0.4 < z.std() < 2


def test_both_sampled():
    """The two noises add."""
    pairs = zip(DRAWS[:12:2], DRAWS[1:12:2], strict=True)
    found = [kl(sampled(v), sampled(u)) for v, u in pairs]
    values, errors = np.array([(d.value, d.error) for d in found]).T
    assert (np.abs(values) < 5 * errors).all()
    assert abs(values.mean()) < 4 * values.std() / len(values) ** 0.5


@pytest.mark.parametrize("f", [total_variation, wasserstein1, kolmogorov])
def test_distances(f):
    """Within 5 errors of the truth, at zero and away from it;
    the error is of the size of the spread.
    """
    exact = f(EXACT, OTHER).value
    near = [f(sampled(v), EXACT) for v in DRAWS[:4]]
    far = [f(sampled(v), OTHER) for v in DRAWS[:4]]
    assert all(d.value < 5 * d.error for d in near)
    assert all(abs(d.value - exact) < 5 * d.error for d in far)
    assert np.mean([d.error for d in far]) < 4 * np.std([d.value for d in far])


def test_image_of_sampled():
    """A one-to-one image has the divergence of its base, bias and error included."""
    p, q = (Pushforward(nl.sigmoid, law) for law in (sampled(DRAWS[0]), OTHER))
    image, base = kl(p, q), kl(sampled(DRAWS[0]), OTHER)
    assert image.value == pytest.approx(base.value, rel=1e-6)
    assert image.error == pytest.approx(base.error, rel=1e-5)


def test_unknown_sampled_law(monkeypatch):
    """Standard errors point by point take the place of blocks:
    the bias goes, the error is a bound.
    """
    monkeypatch.setattr(GaussianMixture, "blocks", Law.blocks)  # which cuts nothing
    found = [kl(sampled(v), EXACT) for v in DRAWS[:10]]
    assert len(blocks(sampled(DRAWS[0])).parts) == 1
    values = np.array([d.value for d in found])
    assert abs(values.mean()) < 4 * values.std() / 10**0.5
    assert all(abs(d.value) < 5 * d.error for d in found)
    far = kl(OTHER, sampled(DRAWS[0]))
    monkeypatch.undo()
    same = kl(OTHER, sampled(DRAWS[0]))
    assert abs(far.value - same.value) < same.error
    assert same.error < far.error < 10 * same.error
    assert total_variation(sampled(DRAWS[0]), OTHER).value > 0


def test_blocks_average_to_the_law():
    """Also with weights, and with fewer components than blocks."""
    x = np.linspace(-2, 2, 5)
    laws: list[Law] = [
        sampled(DRAWS[0]),
        GaussianMixture(np.arange(5.0), np.ones(5), [0.1, 0.2, 0.3, 0.3, 0.1], "sampled"),
    ]
    for law, count in zip(laws, (BLOCKS, 5), strict=True):
        cut = blocks(law)
        assert len(cut.parts) == count
        np.testing.assert_allclose(
            cut.weights @ cut.rows(lambda part: part.pdf(x)), law.pdf(x), rtol=1e-12
        )
        if law is laws[0]:
            spread = cut.spread(cut.rows(lambda part: part.pdf(x)))
            np.testing.assert_allclose(spread, law.error.pdf(x), rtol=0.6)


@pytest.mark.parametrize("f", [kl, total_variation, wasserstein1, kolmogorov])
def test_the_same_nodes_err_by_as_much(f):
    """One head's mixing law as a sum over heads and as a mixture:
    the same draws have the same error.
    """
    v = np.random.default_rng(0).gamma(2.0, 0.5, size=4096)
    heads, mixture = f(HeadSum(v, 1), EXACT), f(GaussianMixture(0 * v, v), EXACT)
    assert heads.value == pytest.approx(mixture.value, rel=1e-5)
    # The sign of p − q enters errors of distances, and panels see its changes as coarsely as they
    # are themselves.
    assert heads.error == pytest.approx(mixture.error, rel=1e-6 if f is kl else 0.05)


def test_error_of_many_heads():
    """Where the law is no average over its nodes: the stated error is that over
    independent draws of them.
    """
    draws = [np.random.default_rng(seed).gamma(2.0, 0.5, size=256) for seed in range(12)]
    exact = kl(
        HeadSum(np.random.default_rng(99).gamma(2.0, 0.5, size=2**16), 3, kind="quadrature"), OTHER
    ).value
    found = [kl(HeadSum(v, 3), OTHER) for v in draws]
    spread, stated = np.std([d.value for d in found]), np.mean([d.error for d in found])
    assert 0.5 * spread < stated < 2 * spread
    assert sum(abs(d.value - exact) < 3 * d.error for d in found) >= 11
