"""Posteriors: closed forms, draws of the prior weighed in NumPy, and what is refused."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import priors
import pytest

import limitlaw as ll
from limitlaw.learning import sampling
from limitlaw.learning.posterior import _problem
from limitlaw.numerics.special_functions import chi_of_normals, chi_quantile


@pytest.fixture(autouse=True)
def no_clock(monkeypatch):
    """Moves are doubled until the evidence is stable, however slow the machine is."""
    monkeypatch.setattr(sampling, "SECONDS", math.inf)


def regression(K, train, test, t, noise):
    """Mean, covariance and log evidence of Gaussian-process regression, by the textbook."""
    C = K[np.ix_(train, train)] + noise**2 * np.eye(len(train))
    across = K[np.ix_(test, train)] @ np.linalg.inv(C)
    logs = -0.5 * np.sum(t * np.linalg.solve(C, t)) - 0.5 * t.shape[1] * (
        np.linalg.slogdet(C)[1] + len(train) * math.log(2 * math.pi)
    )
    return across @ t, K[np.ix_(test, test)] - across @ K[np.ix_(train, test)], logs


def test_deterministic_kernels_are_regression():
    """A multilayer perceptron, with two outputs and a mask of training inputs, to 1e-10."""
    rng = np.random.default_rng(0)
    X, t = rng.normal(size=(7, 3)), rng.normal(size=(4, 2))
    y = ll.mlp(ll.data(X), hidden=(ll.n,), phi=ll.relu)
    observed = np.array([True, False, True, True, False, True, False])
    found = ll.posterior(y, observed, t, 0.2, key=0)
    train, test = np.flatnonzero(observed), np.flatnonzero(~observed)
    mean, C, log_evidence = regression(np.asarray(ll.kernel(y)), train, test, t, 0.2)
    law = found.predict()
    np.testing.assert_allclose(law.mean(), mean, rtol=1e-10)
    np.testing.assert_allclose(law.covariance(), np.kron(C, np.eye(2)), atol=1e-10)
    np.testing.assert_allclose(found.log_evidence().value, log_evidence, rtol=1e-10)
    assert (law.kind, found.log_evidence().error) == ("exact", 0.0)
    one = ll.posterior(y, observed, t[:, 0], 0.2, key=0).predict(4)
    np.testing.assert_allclose([one.mean(), one.variance()], [mean[1, 0], C[1, 1]], rtol=1e-10)


CASES = [
    (name, method, 2**15 if method == "importance" else 4096)
    for name in priors.NETWORKS
    for method in ("importance", "smc")
]


@pytest.mark.parametrize(("name", "method", "samples"), CASES)
def test_agrees_with_draws_of_the_prior(name, method, samples):
    """Evidence, means and second moments, with targets drawn from the prior."""
    network, X = priors.NETWORKS[name], priors.inputs(1)
    t = priors.targets_of(network, X, 5)
    expected = priors.reference(network, X, t, 2**16, 7)
    assert expected.effective > 1000
    found = ll.posterior(
        network.program(X),
        np.arange(priors.TRAIN),
        t,
        priors.NOISE,
        samples=samples,
        key=3,
        method=method,
        width=network.width,
    )
    z = priors.z_scores(found, expected)
    assert np.abs(z).max() < 5, z


def test_latents_follow_the_dimension_of_inputs():
    """D × D normals a head, however many inputs there are, and Φ of rank H D."""
    rng = np.random.default_rng(0)
    for m in (6, 20):
        y = ll.attention(ll.Matrix(cols=3) @ ll.data(rng.normal(size=(m, 5, 3))), heads=2)[..., 0]
        problem = _problem(y, np.arange(m // 2), np.zeros(m // 2), 0.1, None)
        assert problem.map.size == 2 * 9
        assert (problem.part is not None) == (m > 12)  # below, three entries have rank below 6
    (Phi, K), (A,) = problem.map.read(jnp.ones(18))
    assert (Phi.shape, K) == ((20, 6), None)
    np.testing.assert_allclose(A.sum(axis=-1), 1.0)


def test_data_choose_scores():
    """Where targets are the value of the second token, attention moves to it."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(12, 2, 2))
    X[:, 0, 0], X[:, 1, 0] = -2, 2  # which token it is
    y = ll.attention(ll.Matrix(cols=2) @ ll.data(X), heads=1, q_std=2.0)[..., 0]
    found = ll.posterior(y, slice(10), X[:10, 1, 1], 0.1, samples=512, key=0, method="smc")
    A = found.attention()
    mean, error = A.mean().reshape(12, 2), A.error.mean().reshape(12, 2)
    assert (mean[:, 1] - 5 * error[:, 1]).min() > 0.75
    centred = found.scores().mean().reshape(12, 2)
    assert (centred[:, 1] > 0).all()
    np.testing.assert_allclose(centred.sum(axis=-1), 0.0, atol=1e-12)
    value, error = found.mean(slice(10, None))
    law = found.predict()
    np.testing.assert_allclose(value, law.mean(), rtol=1e-9)
    np.testing.assert_allclose(error, law.error.mean(), rtol=1e-6)
    assert found.split_r_hat < 1.2
    assert "islands" in repr(found)
    assert found.kernel().shape == (12, 12)
    assert len(found.plot().axes) == 3


def test_chi_of_normals():
    """The quantiles that the host computes, and their slopes."""
    df = np.array([1.0, math.inf, 3.0, 64.0])
    for z in np.random.default_rng(0).normal(size=(8, 4)):
        found, slope = jax.jvp(lambda z: chi_of_normals(df, z), (jnp.asarray(z),), (jnp.ones(4),))
        by_host = [
            x if d == math.inf else chi_quantile(d, np.array(x))
            for d, x in zip(df, z, strict=True)
        ]
        np.testing.assert_allclose(found, by_host, rtol=1e-10)
        assert (slope > 0).all()


X = np.random.default_rng(0).normal(size=(4, 2, 2))


def small(heads=1):
    """Four inputs of two tokens."""
    return ll.attention(ll.Matrix(cols=2) @ ll.data(X), heads)[..., 0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"targets": [1.0]},
            r"targets must have shape \(3,\) or \(3, outputs\).*got shape \(1,\)",
        ),
        ({"targets": [1.0, math.nan, 0.0]}, "targets must be finite"),
        ({"train": [0, 1, 9]}, "train must index y"),
        ({"train": [0, 1, 1]}, "train must pick entries of y once each"),
        ({"train": []}, "train must"),
        ({"noise": -1.0}, "noise must be"),
        ({"noise": [0.1, 0.2]}, "noise must be one number"),
        ({"method": "gibbs"}, "method must be one of 'smc', 'importance'"),
        ({"samples": 0}, "samples must be a positive integer"),
        ({"width": 0}, "width must be a positive integer"),
        ({"noise": 0.0}, "kernel of 3 training inputs has rank 2"),
    ],
)
def test_errors(arguments, message):
    """Bad input is told by its name."""
    given = {"train": [0, 1, 2], "targets": [1.0, 0.0, 1.0], "noise": 0.1, "key": 0} | arguments
    with pytest.raises((ValueError, TypeError, IndexError), match=message):
        ll.posterior(
            small(), given.pop("train"), given.pop("targets"), given.pop("noise"), **given
        )


def test_errors_of_predictions():
    """No test inputs, repeated inputs without noise, and no batch."""
    y = ll.mlp(ll.data(X[:, 0]), hidden=(ll.n,), phi=ll.relu)
    found = ll.posterior(y, slice(None), np.ones(4), 0.1, key=0)
    with pytest.raises(ValueError, match="test is empty: all entries of y are training inputs"):
        found.predict()
    with pytest.raises(IndexError, match="test must index y"):
        found.predict(7)
    with pytest.raises(IndexError, match="layer must be one of the 0 layers"):
        found.attention()
    repeated = ll.mlp(ll.data(X[[0, 1, 0], 0]), hidden=(ll.n,), phi=ll.relu)
    with pytest.raises(ValueError, match="repeated: entries 0 and 2"):
        ll.posterior(repeated, slice(None), np.ones(3), 0.0, key=0)
    with pytest.raises(TypeError, match="y must be a batch of wide vectors"):
        ll.posterior(y[0], 0, [1.0], 0.1, key=0)
