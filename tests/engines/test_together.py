"""Programs that repeat themselves, written out: covariances of alike vectors at once, one step as
much of a program as any other, and kernels of images a pair at a time.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import limitlaw as ll
from limitlaw.engines.effort import BUDGET
from limitlaw.engines.limit import pairs, statistics, together
from limitlaw.engines.limit.conditions import Limit

CELLS = {"gru": ll.gru, "lstm": ll.lstm, "rnn": ll.rnn}


def one_by_one(self, terms):
    """Nothing is alike: every covariance by itself, as it was before."""
    return [(term, [i]) for i, term in enumerate(terms)]


def sequences(steps):
    return ll.data(np.random.default_rng(0).normal(size=(2, 4, steps)).swapaxes(1, 2))


@pytest.mark.parametrize(
    ("cell", "readout"), [("gru", "states"), ("gru", "last"), ("lstm", "mean"), ("rnn", "states")]
)
def test_rows_are_the_covariances_one_by_one(cell, readout, monkeypatch):
    """With the same nodes, to rounding; a batch of two sequences, biases, products of gates."""

    def kernel():
        h = CELLS[cell](sequences(4), bias_std=0.3)
        y = {"states": h, "mean": ll.dense(h.mean(axis=-1)), "last": h[..., -1]}[readout]
        return np.asarray(ll.kernel(y))

    found = kernel()
    ll.clear_cache()
    monkeypatch.setattr(together.Together, "groups", one_by_one)
    np.testing.assert_allclose(found, kernel(), rtol=0, atol=1e-13)
    ll.clear_cache()


@pytest.mark.parametrize("cell", CELLS)
def test_each_step_is_as_long_as_any_other(cell):
    """A program of T steps grew by T operations with each."""

    def operations(steps):
        program = Limit((CELLS[cell](ll.initial((steps,)))[-1].core,), statistics.second_moment)
        nodes = program.table(2**4, 0)
        arguments = program.arrays, jnp.zeros(0), jax.random.key(0), nodes, None
        return len(jax.make_jaxpr(program.plan.single.function)(*arguments).jaxpr.eqns)

    first, second, third = operations(6), operations(8), operations(10)
    assert third - second <= 1.1 * (second - first)


def test_numbers_beside_alike_vectors_are_stacked(monkeypatch):
    """h ← h/2 + W tanh(h): each half is a number of its own."""

    def kernel():
        W, h = ll.Matrix(0.7), ll.initial((2,))
        for t in range(5):
            h = h * (0.5 + 0.1 * t) + W @ ll.tanh(h * ll.sigmoid(h))
        return np.asarray(ll.kernel(h))

    found = kernel()
    ll.clear_cache()
    monkeypatch.setattr(together.Together, "groups", one_by_one)
    np.testing.assert_allclose(found, kernel(), rtol=0, atol=1e-13)
    ll.clear_cache()


def test_a_gru_is_what_wide_networks_give():
    y = ll.gru(ll.initial((4,)), std=1.5)
    K = ll.kernel(y)
    n, samples = 256, 200
    draws = np.asarray(ll.simulate(y, width=n, samples=samples, key=0, coordinates=n))
    assert draws.shape == (samples, 4, n)
    products = np.einsum("sin,sjn->sij", draws, draws) / n
    error = products.std(axis=0) / np.sqrt(samples)
    # what is left of 1/n at this width
    assert np.all(np.abs(products.mean(axis=0) - K.value) < 5 * error + 2 / n * K.value.max())


# --- images --------------------------------------------------------------------------------------


def images(X, phi=ll.relu):
    h = ll.data(X)
    for _ in range(2):
        h = phi(ll.conv2d(h, bias_std=0.1))
    return ll.readout(h, axes=2, bias_std=0.2)


@pytest.fixture
def little_memory(monkeypatch):
    monkeypatch.setattr(BUDGET, "covariance", 2**10)
    asked = []
    conditions = pairs.Pairs.conditions
    monkeypatch.setattr(
        pairs.Pairs,
        "conditions",
        lambda self, *a, **k: asked.append(1) or conditions(self, *a, **k),
    )
    return asked


X = np.random.default_rng(1).normal(size=(3, 5, 4, 2))


@pytest.mark.parametrize("phi", [ll.relu, ll.tanh])
def test_pairs_of_images_are_the_whole(phi, little_memory, monkeypatch):
    found = ll.kernel(images(X, phi))
    assert little_memory
    monkeypatch.setattr(BUDGET, "covariance", 2**24)
    whole = ll.kernel(images(X, phi))
    assert type(found) is type(whole)
    np.testing.assert_allclose(np.asarray(found), np.asarray(whole), rtol=0, atol=1e-12)
    if phi is ll.tanh:
        assert found.error.shape == whole.error.shape
        assert found.error.max() < 1e-6


def test_pairs_of_random_images_and_of_several_outputs(little_memory, monkeypatch):
    def kernel():
        h = ll.relu(ll.conv2d(ll.initial((2, 4, 4)), bias_std=0.1))
        return np.asarray(ll.kernel(ll.dense(h.mean(axis=-1))))

    found = kernel()
    monkeypatch.setattr(BUDGET, "covariance", 2**24)
    np.testing.assert_allclose(found, kernel(), rtol=0, atol=1e-12)


def test_pairs_inside_jit_and_grad(little_memory, monkeypatch):
    function = lambda X: jnp.sum(jnp.asarray(ll.kernel(images(X))) ** 2)
    found = jax.jit(jax.value_and_grad(function))(X)
    assert little_memory
    monkeypatch.setattr(BUDGET, "covariance", 2**24)
    whole = jax.jit(jax.value_and_grad(lambda X: function(X)))(X)
    np.testing.assert_allclose(found[0], whole[0], rtol=1e-12)
    np.testing.assert_allclose(found[1], whole[1], rtol=0, atol=1e-12)


def test_the_rest_of_a_batch_is_not_made_for_one_image():
    """Windows kept all images of a batch where one was asked for."""
    program = Limit((images(X)[0].core,), statistics.second_moment)
    assert (1, 5, 4, 2) in map(np.shape, program.arrays)
    assert X.shape not in map(np.shape, program.arrays)


def test_a_vector_that_comes_twice():
    """Of stack(h, h, g) both of the first are h: not other vectors of its law."""
    C = np.array([[1.0, 0.3], [0.3, 2.0]])
    h = ll.initial((2,), cov=C)
    g = ll.Matrix(2.0) @ h
    whole = ll.stack([h, h, g, g])
    np.testing.assert_allclose(ll.kernel(h - 0.5 * whole[1]), 0.25 * C, rtol=1e-12)
    gram = np.array([[1, 1, 0, 0], [1, 1, 0, 0], [0, 0, 4, 4], [0, 0, 4, 4]])
    np.testing.assert_allclose(ll.kernel(whole), np.kron(gram, C), atol=1e-12)
    np.testing.assert_allclose(ll.kernel(g - whole[2:]), np.zeros((4, 4)), atol=1e-12)
    total = ll.kernel(h[0] + whole.sum(axis=0)[1])  # h₀ + 2 h₁ + 2 g₁
    np.testing.assert_allclose(total, 1.0 + 4 * 2.0 + 4 * 0.3 + 16 * 2.0, rtol=1e-12)
