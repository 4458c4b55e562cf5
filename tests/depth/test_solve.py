"""The scale at which a statistic reaches a target."""

import math

import pytest

import limitlaw as ll
from limitlaw import nn
from limitlaw.depth import solve

S = 5
X = ll.initial((S,))


def network(c: float) -> ll.Wide:
    return nn.transformer(X, 3, 2, 4, q_std=c, hidden=None)


def test_entropy() -> None:
    """The trace at the solution has the target as its mean,
    and the slope is that of differences.
    """
    target = 0.8 * math.log(S)
    found = solve(network, "entropy", target, over=(0.1, 10), samples=128)
    after = ll.trace(network(found.value), ["entropy"], samples=128)["entropy"]
    assert after.value[-1] == pytest.approx(target, abs=1e-9)
    h = 1e-4
    up, down = (
        ll.trace(network(found.value + d), ["entropy"], samples=128)["entropy"].value[-1]
        for d in (h, -h)
    )
    assert found.slope == pytest.approx((up - down) / (2 * h), rel=1e-5)
    assert found.error == pytest.approx(after.error[-1] / abs(found.slope), rel=1e-6)
    other = solve(network, "entropy", target, over=(0.1, 10), samples=128, key=5)
    assert abs(other.value - found.value) < 5 * math.hypot(found.error, other.error)
    assert "128 draws" in repr(found)


@pytest.mark.usefixtures("as_user")
def test_errors() -> None:
    """Each says what was expected and what came."""
    with pytest.raises(ValueError, match=r"target 2 is not reached in over=\(0.1, 1\)"):
        solve(network, "entropy", 2.0, over=(0.1, 1.0), samples=8)
    with pytest.raises(ValueError, match="a statistic of each draw"):
        solve(network, "kurtosis", 2.0, over=(0.1, 1.0))
    with pytest.raises(ValueError, match="two different positive scales"):
        solve(network, "entropy", 1.0, over=(-1.0, 1.0))
    with pytest.raises(ValueError, match="at must be one of the 3 blocks"):
        solve(network, "entropy", 1.0, over=(0.1, 1.0), at=4, samples=8)
    with pytest.raises(TypeError, match="network must be a function of a scale"):
        solve(network(1.0), "entropy", 1.0, over=(0.1, 1.0))


def relu_network(c: float) -> ll.Wide:
    return ll.repeat(lambda x: ll.relu(ll.dense(x, c)), X, 2)


@pytest.mark.parametrize(
    ("statistic", "at", "target", "expected"),
    [
        ("gradient_ratio", 2, 0.81, math.sqrt(2 * 0.81)),
        ("gradient", None, 2.0, math.sqrt(2 * math.sqrt(2))),
        ("gradient", 1, 2.0, 2.0),
        # s (σ²/2)² of W_1 of every layer
        ("gradient_W_1", None, 5.0, math.sqrt(2)),
    ],
)
def test_gradients_in_closed_form(
    statistic: str, at: int | None, target: float, expected: float
) -> None:
    """ReLU layers multiply the gradient variance by σ²/2, and nothing is random."""
    found = solve(relu_network, statistic, target, over=(0.5, 4), at=at)
    assert found.value == pytest.approx(expected, rel=1e-8)
    assert found.error < 1e-8


def test_gradients_behind_attention() -> None:
    """A ratio and a matrix, of random scores: `gradients` at the solution has the target within
    both errors.
    """
    x = ll.initial((3,))
    one = lambda c: ll.nn.transformer(x, 1, 1, 2, norm="none", q_std=c, hidden=None)
    for statistic, target in (("gradient_ratio", 3.0), ("gradient_W_Q", 1.0)):
        found = solve(one, statistic, target, over=(0.1, 10), samples=256)
        after = ll.gradients(one(found.value), samples=256)[statistic]
        assert after.value[1] == pytest.approx(target, rel=1e-6)
        assert found.error == pytest.approx(after.error[1] / abs(found.slope), rel=1e-3)


@pytest.mark.usefixtures("as_user")
def test_errors_of_gradients() -> None:
    with pytest.raises(ValueError, match="statistic must be one of gradient, gradient_corr"):
        solve(relu_network, "gradient_W_Q", 1.0, over=(0.5, 2.0))
    with pytest.raises(ValueError, match="at must be one of the layers 0 … 2 of network, got 4"):
        solve(relu_network, "gradient", 1.0, over=(0.5, 2.0), at=4)
    with pytest.raises(ValueError, match="at: gradient_ratio is not defined at layer 0"):
        solve(relu_network, "gradient_ratio", 1.0, over=(0.5, 2.0), at=0)
