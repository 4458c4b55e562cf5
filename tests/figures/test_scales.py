"""Axes, guides and labels of pictures in general."""

import math

import numpy as np
import pytest

from limitlaw.apps.reports import scales
from limitlaw.figures import style


def test_ticks_are_plain() -> None:
    """Powers of four without exponents where values are many;
    each value where they are few; decades.
    """
    assert [text for _, text in scales.power_axis("", [8.0, 64.0, 128.0]).ticks] == [
        "8",
        "64",
        "128",
    ]
    many = scales.power_axis("", [float(2**k) for k in range(11)]).ticks
    assert [text for _, text in many] == ["1", "4", "16", "64", "256", "1024"]
    decades = scales.power_axis("", [float(2**k) for k in range(21)]).ticks
    assert [text for _, text in decades] == [
        "1",
        "10",
        "100",
        "1000",
        "10,000",
        "100,000",
        "1,000,000",
    ]


def test_guides() -> None:
    """Straight lines of the slope they say."""
    for slope in (-1, -2):
        guide = scales.guide(np.array([1, 4, 16]), np.array([1, 0.2, 0.01]), slope)
        assert math.log(guide.y[1] / guide.y[0]) / math.log(
            guide.x[1] / guide.x[0]
        ) == pytest.approx(slope)
        assert guide.label == f"slope −{-slope}"


def test_mathtext() -> None:
    """Labels become mathematics."""
    assert (
        style.mathtext("<i>D</i><sub>KL</sub>(finite ‖ limit)")
        == r"$D_{\mathrm{KL}}$(finite ‖ limit)"
    )
    assert style.mathtext("scaling 1/√<i>n</i>") == "scaling 1/√$n$"
