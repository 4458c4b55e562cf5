"""Numbers and their errors as text."""

import math
from pathlib import Path

import pytest

import limitlaw
from limitlaw.digits import compact, exponential, plus_minus, short


def test_digits():
    """Two of the error; an exponent for small numbers; 12 digits where there is no error."""
    assert plus_minus(0.39197144357612, 0.0) == "0.391971443576"
    assert plus_minus(0.39197, 0.0012) == "0.3920 ± 0.0012"
    assert plus_minus(3.2812e-5, 1.6e-6) == "(3.28 ± 0.16)e-05"
    assert plus_minus(-3.2812e-5, 1.6e-4) == "(-3 ± 16)e-05"


def test_a_visible_error_decides():
    """No exponent where the error reaches into the decimals;
    none of 0; what is not finite is said as it is.
    """
    assert plus_minus(3e-4, 1e-3) == "0.0003 ± 0.0010"
    assert plus_minus(0.0, 1.6e-6) == "0.0000000 ± 0.0000016"
    assert plus_minus(1e5, 2e3) == "100000 ± 2e+03"
    assert plus_minus(math.inf, math.nan) == "inf ± ?"
    assert plus_minus(1 / 3, 1e-10) == "0.333333333"


def test_exponential():
    """One digit of the error, and as many decimals of the value."""
    assert exponential(2.2171e-2, 9.1e-5) == "2.217e-02 ± 9e-05"
    assert exponential(1.5, 0.0) == "1.500000000000e+00 ± 0e+00"
    assert exponential(0.0, 0.0) == "0e+00 ± 0e+00"


def test_short():
    """Three digits, a minus that is one, and exponents without zeros."""
    found = [short(x) for x in (0.0123456, 1.0349e-5, -2.5, 1e6)]
    assert found == ["0.0123", "1.03e-5", "−2.5", "1e6"]


@pytest.mark.parametrize(
    ("value", "error", "text"),
    [
        (2.217e-2, 9e-5, "2.217(9)e-2"),
        (2.12e-3, 1e-5, "2.12(1)e-3"),
        (1.035e-5, 4e-8, "1.035(4)e-5"),
        (2.57e-9, 1.2e-11, "2.57(1)e-9"),
        (11.04, 0.05, "11.04(5)"),
        (-2.003, 0.004, "−2.003(4)"),
        (-1.98, 0.3, "−2.0(3)"),
        (0.5, 0.02, "0.50(2)"),
        (312.0, 20.0, "3.1(2)e2"),
        (312.0, 2.0, "312(2)"),
        (1.5e4, 1e3, "1.5(1)e4"),
        (3e-5, 4e-4, "3(40)e-5"),  # more error than value
        (1.234567, 0.0, "1.23"),
        (0.0, 0.1, "0"),
        (math.nan, 0.1, "nan"),
        (1.25, math.nan, "1.25"),
        (math.inf, 1.0, "inf"),
        (2.0, math.inf, "2"),
    ],
)
def test_compact(value, error, text):
    """The error in units of the last digit; without one three digits."""
    assert compact(value, error) == text


def test_nothing_else_prints_errors():
    """No other module puts a ± before a number."""
    root = Path(limitlaw.__file__).parent
    assert [path.name for path in root.rglob("*.py") if "± {" in path.read_text()] == ["digits.py"]
