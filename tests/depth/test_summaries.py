"""What the summary of a user's statistic may be: a column with a row for each layer."""

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import limitlaw as ll
from limitlaw import nn


@pytest.mark.parametrize(
    ("summary", "said"),
    [
        (lambda read, *_: read.mean(axis=0), r"a Column\(value, error, spread\), got an array"),
        (lambda read, *_: None, "got None"),
        (lambda read, *_: ll.depth.Column(*[read.mean()] * 3), r"one shape \(3, …\).*got \(\)"),
        (lambda read, *_: ll.depth.Column(*[read.mean(axis=1)] * 3), r"a row for each layer, got"),
        (lambda read, *_: ll.depth.Column(read[0], np.zeros(3), np.zeros(2)), r"\(3,\), \(2,\)"),
        (lambda read, *_: ll.depth.Column(*[read[0] * 1j] * 3), "real numbers, got complex128"),
        (lambda read, *_: ll.depth.Column(*[-read[0]] * 3), "spreads that are not negative"),
    ],
)
def test_a_summary_that_is_no_column(summary: Any, said: str) -> None:
    """It is named, with what it should be."""
    y = nn.transformer(ll.initial((2,)), 2, 1, norm="none", hidden=None)
    mine = ll.depth.Statistic("mine", lambda K, scores: jnp.trace(K), summary=summary)
    with pytest.raises((TypeError, ValueError), match=f"the summary of 'mine' must .*{said}"):
        ll.trace(y, mine, width=4, samples=8, key=0)
