"""The initial loss: published figures, simulated logits, and networks with a tied head."""

import math

import numpy as np
import pytest

import limitlaw as ll
from limitlaw.depth import TiedHead, initial_loss, network_loss

RNG = np.random.default_rng(7)


def simulated(K, sigma, V, targets, draws):
    """The loss of every token of `draws` sequences, by drawing all logits."""
    root = np.linalg.cholesky(np.asarray(K))
    logits = sigma * np.einsum("ij,njv->niv", root, RNG.standard_normal((draws, len(K), V)))
    own = np.take_along_axis(logits, np.asarray(targets)[None, :, None], -1)[..., 0]
    return np.logaddexp.reduce(logits, -1) - own


def z_of_mean(x, expected):
    """How many standard errors the mean of x is from what is expected."""
    return (x.mean() - expected) / (x.std() / math.sqrt(len(x)))


def z_of_sd(x, expected):
    """The same of the standard deviation."""
    squares = (x - x.mean()) ** 2
    return (squares.mean() - expected**2) / (squares.std() / math.sqrt(len(x)))


def test_figures():
    """Those of the derivation, and the expansion where V is large."""
    found = initial_loss(np.eye(8), 1.0, 50)
    assert found.value == pytest.approx(4.3956, abs=5e-5)
    assert found.sd == pytest.approx(0.996, abs=5e-4)
    assert found.mean_sd == pytest.approx(0.352, abs=5e-4)
    assert initial_loss(1.0, 2.0, 1000).value == pytest.approx(8.888, abs=5e-4)
    large = initial_loss(1.0, 0.5, 50257)
    expansion = math.log(50257) + 0.125 - math.expm1(0.25) / (2 * 50257)
    assert large.value == pytest.approx(expansion, abs=1e-7)
    assert large.uniform == math.log(50257)
    assert initial_loss(1.0, 0.0, 50).value == pytest.approx(math.log(50), abs=1e-10)


@pytest.mark.parametrize(
    ("std", "n", "V", "overlap", "own", "loss"),
    [
        (0.02, 64, 50, 0.336, (0.732, 0.003, 0.141), (3.944, 0.003, 0.154)),
        (0.02, 256, 1000, 0.053, (1.165, 0.020, 0.320), (6.979, 0.022, 0.346)),
        (1 / 16, 256, 1000, 1.0, (15.94, 0.04, 0.701), (16.02, 0.07, 1.25)),
        (1 / 8, 64, 50, 0.608, (6.157, 0.019, 0.854), (6.37, 0.03, 1.21)),
    ],
)
def test_tied_heads_of_networks(std, n, V, overlap, own, loss):
    """The logit of the own token, and the loss of another target, against networks with every
    weight drawn (mean, its standard error, spread): within 5 standard errors, that of a spread
    being the mean's over √2.
    """
    found = initial_loss(1.0, std * math.sqrt(n), V, tied=TiedHead(n, overlap))
    ours = (*found.own_logit, found.value, found.sd)
    for a, b in ((ours[:2], own), (ours[2:], loss)):
        mean, error, spread = b
        assert abs(a[0] - mean) < 5 * error
        assert abs(a[1] - spread) < 5 * error / math.sqrt(2)
    assert math.isnan(found.mean_sd)


@pytest.mark.parametrize(("sigma", "V"), [(0.3, 5), (1.0, 50), (3.0, 40), (6.0, 2)])
def test_simulated(sigma, V):
    """Means and spreads of tokens agree with drawn logits, whatever the scale."""
    losses = simulated(np.eye(1), sigma, V, [0], 60_000)[:, 0]
    found = initial_loss(1.0, sigma, V)
    assert abs(z_of_mean(losses, found.value)) < 5
    assert abs(z_of_sd(losses, found.sd)) < 5
    assert found.error < 1e-9


def test_the_mean_over_tokens():
    """Its spread sees correlated tokens and equal targets."""
    K = 0.6 * np.eye(4) + 0.4
    for targets in ([0, 1, 2, 3], [0, 0, 0, 1]):
        losses = simulated(K, 0.7, 200, targets, 8_000).mean(axis=1)
        found = initial_loss(K, 0.7, 200, targets)
        assert abs(z_of_mean(losses, found.value)) < 5
        assert abs(z_of_sd(losses, found.mean_sd)) < 5


@pytest.mark.parametrize("depth", [0, 3])
def test_a_tied_network(depth):
    """z = LN(e + residual branches): κ = (σ_e/s)², against networks drawn whole."""
    n, V, c = 96, 60, 1.2
    tables = RNG.standard_normal((4000, V, n)) * (c / math.sqrt(n))
    x = tables[:, 0] * math.sqrt(n) / c
    x = x + math.sqrt(depth / 3) * RNG.standard_normal(x.shape)
    z = x - x.mean(-1, keepdims=True)
    z /= np.sqrt((z**2).mean(-1, keepdims=True))
    logits = np.einsum("rvn,rn->rv", tables, z)
    found = initial_loss(1.0, c, V, tied=TiedHead(n, (1 - 1 / n) / (1 + depth / 3)))
    m, sd = found.own_logit
    assert logits[:, 0].mean() == pytest.approx(m, rel=0.02)
    assert logits[:, 0].std() == pytest.approx(sd, rel=0.06)
    losses = np.logaddexp.reduce(logits, -1) - logits[:, 1]
    assert losses.mean() == pytest.approx(found.value, rel=0.02)
    assert losses.std() == pytest.approx(found.sd, rel=0.06)


def test_of_a_network():
    """The kernel behind a norm gives the loss of unit vectors; a tied head keeps its token."""
    x = ll.initial((2,))
    z = ll.nn.layernorm(x + 0.5 * (ll.Matrix() @ x))
    limit = network_loss(x, z, 50, 1.0)
    assert limit.value == pytest.approx(4.3956, abs=1e-3)
    tied = network_loss(x, z, 50, 0.5, width=32, tied=True, samples=400)
    m = math.sqrt(32) * 0.5 / math.sqrt(1.25)
    assert tied.own_logit[0] == pytest.approx(m, rel=0.04)
    with pytest.raises(ValueError, match="tied: the own token's logit grows"):
        network_loss(x, z, 50, tied=True)


def test_arguments():
    """Bad input is named."""
    with pytest.raises(ValueError, match="kernel must be a number or a square matrix"):
        initial_loss(np.ones((2, 3)), 1.0, 50)
    with pytest.raises(ValueError, match="vocab must be at least 2"):
        initial_loss(1.0, 1.0, 1)
    with pytest.raises(ValueError, match="targets must be 2 classes"):
        initial_loss(np.eye(2), 1.0, 50, targets=[1])
    with pytest.raises(ValueError, match="overlap must be between 0 and 1"):
        TiedHead(64, 1.5)
    with pytest.raises(ValueError, match="one batch shape"):
        network_loss(ll.initial((2,)), ll.initial((3,)), 50)
