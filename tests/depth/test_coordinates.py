"""The coordinate check: measured points on the curve of theory."""

import math
from typing import Any

import numpy as np
import pytest

import limitlaw as ll


def network() -> tuple[dict[str, Any], ll.Scalars]:
    h = ll.Matrix(cols=2) @ ll.data([1.0, 0.5])
    f = ll.dot(ll.initial(), ll.tanh(ll.Matrix() @ ll.relu(h)), "linear")
    return {"h": h, "f": f}, f


def test_check() -> None:
    """Both are the same law; in μP Δh is of order one as n → ∞."""
    net, f = network()
    widths = [8, 16, math.inf]
    check = ll.coordinate_check(
        net, f, lambda f: f, 1.0, widths, parametrization="mup", samples=500, networks=500
    )
    assert list(check.theory) == ["h", "f"]
    for name in net:
        theory, measured = check[name], check.measured[name]
        error = np.hypot(theory.error, measured.error)[:2]
        assert np.all(abs(theory.value - measured.value)[:2] < 5 * error)
        assert math.isnan(measured.value[2])
        assert abs(theory.value[2] / theory.value[1] - 1) < 0.3
    assert len(check.records()) == 2 * (3 + 2)
    assert str(check).splitlines()[1].split() == [
        "n",
        "h",
        "h,",
        "measured",
        "f",
        "f,",
        "measured",
    ]
    assert [row[0] for row in check.rows()] == ["8", "16", "∞"]
    assert "∞" in check._repr_html_()
    (panel,) = check.plot("μP").axes
    lines = {str(line.get_label()): line for line in panel.get_lines()}
    np.testing.assert_array_equal(lines["h"].get_ydata(), check["h"].value[:2])
    low, high = panel.get_ylim()
    assert high >= 9.9 * low
    with pytest.raises(KeyError, match="is not among h, f"):
        check["g"]


def test_what_grows_has_no_limit() -> None:
    net, f = network()
    with pytest.raises(ValueError, match="y grows with n"):
        ll.coordinate_check(
            net, f, lambda f: f, 1.0, [math.inf], parametrization=lambda W: ll.Rate(rows=1.5)
        )


@pytest.mark.usefixtures("as_user")
def test_bad_arguments() -> None:
    net, f = network()
    for message, call in {
        "net must name activations": lambda: ll.coordinate_check([f], f, abs, 1.0, [8]),
        "widths must be a sequence": lambda: ll.coordinate_check(net, f, abs, 1.0, 8),
    }.items():
        with pytest.raises(TypeError, match=message):
            call()
    with pytest.raises(ValueError, match="in increasing order"):
        ll.coordinate_check(net, f, abs, 1.0, [16, 8])
    with pytest.raises(ValueError, match="networks must be"):
        ll.coordinate_check(net, f, abs, 1.0, [16], networks=-1)
