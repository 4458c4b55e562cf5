"""The flow of an attention layer against the equations of scores and ∂f/∂A (theory, §10)."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.special import softmax

import limitlaw as ll

RNG = np.random.default_rng(2)
X, T = RNG.normal(size=(3, 4, 5)), np.array([1.0, -2.0, 0.5])
LAYERS = {
    "first token": ll.AttentionLayer(2, q_std=2.0),
    "causal, mean": ll.AttentionLayer(1, mask="causal", v_std=1.5, readout="mean"),
    "each, three heads": ll.AttentionLayer(3, k_std=0.5, o_std=2.0, readout="each"),
}


def flow_of_scores(layer, p, D, time):
    """ṗ^μ = −2σ_Q²σ_K² Σ_ν ℓ'_ν K^{μν} P^ν K^{μν}ᵀ, Ḋ^μ = −2σ_O²σ_V²H⁻¹ Σ_ν ℓ'_ν G A^ν K^{μν}ᵀ."""
    K = np.einsum("aiD,bjD->abij", X, X) / 5
    G = layer.readers(4) @ layer.readers(4).T
    seen = np.tril(np.ones((4, 4))) if layer.mask else np.ones((4, 4))
    shape = p.shape  # sequences, heads, s, s

    def rate(_, state):
        p, D = state.reshape(2, *shape)
        A = softmax(np.where(seen, p, -np.inf), axis=-1)
        slope = (A * D).sum(axis=(1, 2, 3)) - T
        P = A * (D - (A * D).sum(axis=-1, keepdims=True))
        moved = np.einsum("b,abik,bhkl,abjl->ahij", slope, K, P, K)
        values = np.einsum("b,ik,bhkl,abjl->ahij", slope, G, A, K)
        c, e = (layer.q_std * layer.k_std) ** 2, (layer.o_std * layer.v_std) ** 2 / layer.heads
        return -2 * np.stack([c * moved, e * values]).ravel()

    end = solve_ivp(rate, (0, time), np.stack([p, D]).ravel(), rtol=1e-10, atol=1e-12).y[:, -1]
    p, D = end.reshape(2, *shape)
    return p, (softmax(np.where(seen, p, -np.inf), axis=-1) * D).sum(axis=(1, 2, 3))


@pytest.mark.parametrize("name", LAYERS)
def test_scores_follow_their_equations(name) -> None:
    layer = LAYERS[name]
    run = ll.train(layer, X, T, time=0.6, times=3, samples=2, key=1)
    (w,) = run._weights.value
    D = layer.o_std * layer.v_std * layer.heads**-0.5
    D = D * np.einsum("ig,nhgD,mjD->nmhij", layer.readers(4), w[:, 0], X / 5**0.5)
    for i in range(2):
        p, f = flow_of_scores(layer, run.scores()[i, 0], D[i], 0.6)
        np.testing.assert_allclose(run.scores()[i, -1], p, atol=1e-4)
        np.testing.assert_allclose(run.outputs()[i, -1], f, atol=1e-4)
        loss = ((run.outputs()[i, -1] - T) ** 2).sum() / 2
        assert run.loss[i, -1] == pytest.approx(loss, rel=1e-9)


def test_networks_start_with_the_law_of_the_limit() -> None:
    """f and the scores of the first moment, in mean square, within 5 standard errors."""
    layer = ll.AttentionLayer(2, q_std=1.5, readout=1)
    run = ll.train(layer, X[:1], T[:1], time=1e-3, times=2, samples=4096)
    x = ll.Matrix(cols=5) @ ll.data(X[0])
    y = ll.attention(x, heads=2, q_std=1.5)
    for found, expected in (
        (run.outputs()[:, 0, 0], ll.limit(y[1]).variance()),
        (run.scores()[:, 0, 0, 1, 2, 3], 1.5**2 * (X[0] @ X[0].T / 5)[[2, 3], [2, 3]].prod()),
    ):
        square = found**2
        assert abs(square.mean() - expected) < 5 * square.std() / 4096**0.5


def test_frozen_kernels_and_narrow_heads() -> None:
    """Both flows leave along −Θ(f − t): they come apart by the square of the time, four times as
    far after twice as long. Later a frozen kernel is elsewhere.
    """
    layer = ll.AttentionLayer(2, head_dim=3, q_std=2.0)
    runs = [
        ll.train(layer, X, T, time=1.0, times=101, samples=1, linearised=frozen)
        for frozen in (False, True)
    ]
    f, frozen = (run.outputs()[0] for run in runs)
    np.testing.assert_array_equal(f[0], frozen[0])
    once, twice, late = (np.abs(f[i] - frozen[i]).max() for i in (1, 2, 100))
    assert 3 < twice / once < 5
    assert late > 10 * twice
    assert runs[0].attention().shape == (1, 101, 3, 2, 4, 4)
    np.testing.assert_allclose(runs[0].attention().sum(axis=-1), 1.0)
    assert runs[0].law().shape == (3,)


def test_draws_depend_on_their_number_only() -> None:
    few, more = (ll.train(LAYERS["first token"], X, T, time=0.1, samples=n) for n in (2, 5))
    np.testing.assert_allclose(more.loss[:2], few.loss, rtol=1e-9)


def test_bad_input() -> None:
    layer = ll.AttentionLayer(1)
    for arguments, message in (
        ((layer, X[0], T), "inputs must be tokens of shape"),
        ((layer, X, T[:2]), "targets must have shape"),
        ((layer, X, [np.nan, 0, 0]), "targets"),
        ((layer, X, T, "square"), "loss must be one of"),
        ((ll.AttentionLayer(1, readout=7), X, T), "readout must be a token"),
        ((ll.AttentionLayer(1, mask="causl"), X, T), "mask must be"),
    ):
        with pytest.raises(ValueError, match=message):
            ll.train(*arguments, time=1.0)
    with pytest.raises(ValueError, match="time must be a positive number"):
        ll.train(layer, X, T, time=0.0)
    with pytest.raises(TypeError, match="layer must be an AttentionLayer"):
        ll.train(X, X, T, time=1.0)
    with pytest.raises(ValueError, match="heads"):
        ll.AttentionLayer(0)
