"""The functions of chunks: what a trial of the paper compares."""

import pytest

from limitlaw.apps.paper.computed import tasks

COUNTS = {"tokens": 4, "heads": 1, "phi": "clip", "trial": 0, "samples": 4000, "seed": 0}


@pytest.mark.parametrize(("head_dim", "far"), [(None, False), (2, True)])
def test_a_trial_compares_with_the_n_by_n_limit(head_dim, far):
    """Heads of dimension 2 are far from it at any width (D = 0.071),
    wide ones at the estimator's noise.
    """
    found = tasks.trial(**COUNTS, head_dim=head_dim, width=1024)
    assert (float(found["kl"]) > 0.03) == far
