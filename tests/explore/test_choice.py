"""What an address says, and what it cannot say."""

import dataclasses
import re

import pytest

from limitlaw.apps.explore import budget
from limitlaw.apps.explore.choice import FIELDS, Choice, choice_of


def test_an_address_holds_every_setting():
    """What `query` writes, `choice_of` reads: each setting by itself, and all together."""
    other = Choice(5, 2, 3, 8, 96, 0.5, -0.125, "causal", "tanh", 1024, 7, "post", "both")
    assert all(getattr(other, f.name) != f.default for f in dataclasses.fields(other))
    pairs = [tuple(pair.split("=")) for pair in other.query.split("&")]
    assert choice_of(pairs) == other
    assert Choice().query == ""
    assert choice_of([]) == Choice()
    assert set(FIELDS) == {f.name for f in dataclasses.fields(Choice)}


WRONG = [
    ("tokens=abc", "tokens must be a whole number from 1 to 32, got 'abc'"),
    ("tokens=", "tokens must be a whole number from 1 to 32, got ''"),
    ("tokens=4.0", "tokens must be a whole number"),
    ("tokens=٤", "tokens must be a whole number"),
    ("width=1e3", "width must be a whole number from 4 to 4096"),
    ("width=99999999999999999999", "width must be a whole number"),
    ("scale=nan", "scale must be a number from 0.05 to 20, got 'nan'"),
    ("scale=-1", "scale must be a number"),
    ("phi=softmax", "phi must be one of gelu, relu"),
    ("samples=7", "samples must be one of 1024"),
    ("tokens=4&tokens=5", "tokens is given twice"),
    ("<script>=1", "'<script>' is no setting"),
    ("tokens=4&token=4", "token must be one of 0 … 3 of the 4 tokens, got 4"),
    ("tokens=4&correlation=-0.5", "correlation must be −1/(s − 1) = −0.3333 or more"),
]


@pytest.mark.parametrize(("query", "message"), WRONG)
def test_what_is_wrong_is_named(query, message):
    """One line."""
    with pytest.raises(ValueError, match=f"^{re.escape(message)}[^\n]*$"):
        choice_of([tuple(pair.split("=")) for pair in query.split("&")])


def test_sliders_stop_at_possible_values():
    """Each tick is in range, and the default of every slider is one of them."""
    for name, field in FIELDS.items():
        if not field.choices:
            assert getattr(Choice(), name) in field.ticks
            assert (min(field.ticks), max(field.ticks)) == (field.low, field.high)
            assert field.ticks == sorted(set(field.ticks))


def test_what_takes_minutes_is_refused():
    """With a reason, from the sizes alone; what does not, is not."""
    for check in (budget.check_law, budget.check_depth, budget.simulated_networks):
        check(Choice())
    with pytest.raises(ValueError, match=r"this would take about \d+ minutes \(65,536 draws of"):
        budget.check_law(Choice(tokens=32, width=4096, phi="relu", samples=65536))
    with pytest.raises(ValueError, match="this would take about"):
        budget.check_depth(Choice(tokens=32, heads=64, depth=48))
    with pytest.raises(ValueError, match=r"draws all 67,108,864 weights of each network"):
        budget.simulated_networks(Choice(width=4096))
    budget.check_law(Choice(tokens=32, heads=64, width=4096, samples=65536))
