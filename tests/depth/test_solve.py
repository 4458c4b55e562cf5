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
