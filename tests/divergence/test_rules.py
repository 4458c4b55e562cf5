"""Laws by quadrature: what another rule changes is in the error of their divergences."""

import numpy as np
import pytest

from limitlaw.divergence import kl, kolmogorov, total_variation, wasserstein1
from limitlaw.laws import Gaussian, HeadSum


@pytest.mark.parametrize("f", [kl, total_variation, wasserstein1, kolmogorov])
def test_another_rule(f):
    """Of a law with its variances 1 % larger by another rule,
    on either side, and of nothing for equal laws.
    """
    v, w = np.array([0.3, 1.0]), np.array([0.5, 0.5])
    law, other, q = HeadSum(v, 3, w), HeadSum(1.01 * v, 3, w), Gaussian(0.1, 1.0)
    for compare in (lambda p: f(p, q), lambda p: f(q, p)):
        plain = compare(law)
        d = compare(HeadSum(v, 3, w).compared_with(lambda: other))
        assert d.value == plain.value
        assert d.error == pytest.approx(abs(compare(other).value - plain.value), rel=1e-6)
        assert plain.error < 1e-6 * d.error
    same = HeadSum(v, 3, w).compared_with(lambda: law)
    assert f(same, q) == f(law, q)
    assert f(same, same).error == 0
