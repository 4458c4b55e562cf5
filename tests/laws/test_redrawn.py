"""What a law has to draw itself is drawn anew for each key of the calculation that made it:
averages over keys have no bias, and errors are those of the spread over keys.
"""

import jax.numpy as jnp
import numpy as np
import pytest
from numpy.polynomial.legendre import leggauss
from scipy.special import ndtr

import limitlaw as ll
from limitlaw.laws import Combination, Gaussian, GaussianMixture, load, mixture

KEYS, AT = 64, 0.3
FIGURES = (
    lambda law: law.mean(),
    lambda law: law.variance(),
    lambda law: law.cdf(AT),
)


@pytest.fixture(autouse=True)
def fewer_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that 64 keys take seconds."""
    monkeypatch.setattr(mixture, "DRAWS_OF_JOINT", 2**14)


def layer() -> ll.Wide:
    x = ll.initial((2,), cov=np.array([[1.0, 0.3], [0.3, 2.0]]))
    return ll.attention(x, 2)


def of_products(covariance: np.ndarray) -> np.ndarray:
    """Mean, variance and P(≤ AT) of the product of two normals, averaged over their covariances
    (N, 2, 2).
    """
    a, b, c = covariance[:, 0, 0], covariance[:, 0, 1], covariance[:, 1, 1]
    mean = b.mean()
    variance = (a * c + 2 * b**2).mean() - mean**2
    u, w = leggauss(60)
    x = np.concatenate([s * 4.5 * (u + 1) ** 3 / 4 for s in (1, -1)])  # dense at 0, where P jumps
    weights = np.concatenate([w * 4.5 * 3 * (u + 1) ** 2 / 4] * 2) * np.exp(-(x**2) / 2)
    sd, slope, left = (
        np.sqrt(a)[:, None],
        (b / np.sqrt(a))[:, None],
        np.sqrt(c - b**2 / a)[:, None],
    )
    above = np.sign(x) * (AT / (sd * x) - slope * x) / left
    cdf = (ndtr(above) @ weights / np.sqrt(2 * np.pi)).mean()
    return np.array([mean, variance, cdf])


def assert_redrawn(laws: list, truth: np.ndarray) -> None:
    values = np.array([[float(f(law)) for f in FIGURES] for law in laws])
    errors = np.array([[float(f(law.error)) for f in FIGURES] for law in laws])
    z = (values - truth) / errors
    joint = np.sqrt((errors**2).sum(axis=0)) / len(laws)
    assert (abs(values.mean(axis=0) - truth) < 4 * joint).all(), (
        values.mean(axis=0) - truth
    ) / joint
    assert ((z.std(axis=0) > 0.8) & (z.std(axis=0) < 1.25)).all(), z.std(axis=0)


def test_the_reference_of_products() -> None:
    """Against a million draws."""
    draws = np.random.default_rng(0).multivariate_normal([0, 0], [[1, 0.6], [0.6, 2]], 2**20)
    found = (draws.prod(axis=1) <= AT).mean()
    assert of_products(np.array([[[1, 0.6], [0.6, 2]]]))[2] == pytest.approx(found, abs=2.5e-3)


def test_products_of_tokens() -> None:
    """Given the scores they are products of two normals."""
    y = layer()
    joint = ll.limit(y, samples=2**14).joint
    truth = of_products(np.asarray(joint._given[1]))
    assert_redrawn([ll.limit(y[0] * y[1], samples=1024, key=k) for k in range(KEYS)], truth)


def test_products_of_gaussians() -> None:
    """Nothing else is random there."""
    C = np.array([[1.0, 0.6], [0.6, 2.0]])
    x = ll.initial((2,), cov=C)
    assert_redrawn([ll.limit(x[0] * x[1], key=k) for k in range(KEYS)], of_products(C[None]))


def test_joint_expectations() -> None:
    y = layer()
    joint = ll.limit(y, samples=2**14).joint
    psi = lambda v: v[..., 0] * v[..., 1]
    laws = [ll.limit(y, samples=1024, key=k) for k in range(KEYS)]
    z = [
        (float(law.expect(psi)) - np.asarray(joint._given[1])[:, 0, 1].mean())
        / float(law.error.expect(psi))
        for law in laws
    ]
    assert abs(np.mean(z)) < 4 / np.sqrt(KEYS)
    assert 0.8 < np.std(z) < 1.3


def test_what_keeps_its_draws(tmp_path) -> None:
    """The same key, a marginal of a marginal, a file; and no key is what it was."""
    law = ll.limit(layer()[0] * layer()[1], samples=64, key=3)
    assert law.mean() == ll.limit(layer()[0] * layer()[1], samples=64, key=3).mean()
    law.save(tmp_path / "law")
    np.testing.assert_array_equal(load(tmp_path / "law").cdf(AT), law.cdf(AT))
    C = np.array([[1.0, 0.6], [0.6, 2.0]])
    bases = [Gaussian([0.0, 0.0], C, seed=s) for s in (0, 5)]
    plain, other = (Combination(jnp.multiply, base) for base in bases)
    assert (
        plain.mean() == Combination(jnp.multiply, Gaussian([0.0, 0.0], C)).mean() != other.mean()
    )
    three = GaussianMixture(np.zeros((8, 3)), np.stack([np.eye(3)] * 8), kind="sampled", seed=5)
    assert np.asarray(three.marginal([0, 1])._content()[1]["seed"]) == 5
