"""Numbers as text, with the digits that their errors leave: every ± that is printed is made here.

plus_minus(0.39197, 0.0012)       0.3920 ± 0.0012       laws, and what the command prints of them
exponential(2.2171e-2, 9.1e-5)    2.217e-02 ± 9e-05     divergences, which span many decades
compact(2.2171e-2, 9.1e-5)        2.217(9)e-2           claims, where a line holds several
short(1.0349e-5)                  1.03e-5               a number whose error does not matter
duration(5400.0)                  2 hours               an estimate of what work takes
"""

import math
import re

DIGITS = 12  # most digits that are printed
INVISIBLE = 5e-10  # relative error: digits say it as well as "±" does
EXPONENT_BELOW = 1e-3  # a number and an error below are printed with an exponent


def plus_minus(x: float, error: float) -> str:
    """A number with two digits of its error: 0.39197 ± 0.00012, (3.28 ± 0.16)e-05, or
    0.391971443576 where the error is too small to show.

    An error that is not known, as that of a single draw, is a question mark: 0.39197 ± ?. A number
    that is not defined, as the kurtosis of a deterministic value, has no error either.
    """
    if math.isnan(x):
        return "undefined"
    if math.isnan(error):
        return f"{x:.6g} ± ?"
    if error <= INVISIBLE * abs(x):
        return f"{x:.{_right_digits(x, error)}g}"
    if not (math.isfinite(error) and math.isfinite(x)):
        return f"{x:.6g} ± {error:.2g}"
    if x != 0 and max(abs(x), error) < EXPONENT_BELOW:
        exponent = _exponent(x)
        return f"({_decimal(x / 10**exponent, error / 10**exponent)})e{exponent:03d}"
    return _decimal(x, error)


def _decimal(x: float, error: float) -> str:
    decimals = 1 - _exponent(error)
    if not 0 <= decimals <= 15:
        return f"{x:.6g} ± {error:.2g}"
    return f"{x:.{decimals}f} ± {error:.{decimals}f}"


def _right_digits(x: float, error: float) -> int:
    """The number of digits of x that are right if its error is this small."""
    return DIGITS if error == 0 else min(DIGITS, math.floor(-math.log10(2 * error / abs(x))))


def exponential(x: float, error: float) -> str:
    """A number with one digit of its error, both with an exponent: 2.217e-02 ± 9e-05."""
    if not (math.isfinite(x) and math.isfinite(error)):
        return f"{x:.6g} ± {error:.2g}"
    if x == 0 or error <= 0:
        return f"{x:.{0 if x == 0 else DIGITS}e} ± {error:.0e}"
    decimals = max(0, min(DIGITS, _exponent(x) - _exponent(error)))
    return f"{x:.{decimals}e} ± {error:.0e}"


def compact(x: float, error: float) -> str:
    """A number with its error in units of the last digit: 2.217(9)e-2."""
    if not (math.isfinite(x) and math.isfinite(error)) or error <= 0 or x == 0:
        return short(x)
    if x < 0:
        return f"−{compact(-x, error)}"
    power = _exponent(x)
    digits = max(0, power - _exponent(error))
    last = round(error / 10.0 ** (power - digits))
    if last == 10 and digits:
        digits, last = digits - 1, 1
    if -1 <= power <= 2 and digits >= power:
        return f"{x:.{digits - power}f}({last})"
    return f"{x / 10.0**power:.{digits}f}({last})e{power}"


def short(x: float) -> str:
    """A number with three digits: 0.0123, 1.03e-5."""
    text = f"{x:.3g}" if abs(x) >= EXPONENT_BELOW or x == 0 else f"{x:.2e}"
    text = re.sub(r"e([+-])0*", lambda m: "e" + m[1].replace("+", ""), text)
    return text.replace("-", "−" if x < 0 else "-", 1)


def counted(count: int, noun: str) -> str:
    """A count with its noun: "1 sample", "2 samples"."""
    return f"{count} {noun}{'s' * (count != 1)}"


def _exponent(x: float) -> int:
    return math.floor(math.log10(abs(x)))


def duration(seconds: float) -> str:
    """A time in seconds, or in whole minutes, hours, days or years."""
    for size, unit in ((31_557_600, "years"), (86_400, "days"), (3600, "hours"), (60, "minutes")):
        if seconds >= 1.5 * size:
            return f"{seconds / size:,.0f} {unit}"
    return f"{seconds:.0f} s"
