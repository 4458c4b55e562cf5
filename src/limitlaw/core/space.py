"""Spaces: how many coordinates a vector has, as a multiple of the width n or as a fixed number."""

import dataclasses
from fractions import Fraction
from numbers import Rational

from limitlaw.arguments import positive_int


@dataclasses.dataclass(frozen=True)
class Dim:
    """`factor`·n coordinates when `wide`, else `factor` coordinates at every width.

    `n`, `4 * n` and `n / 2` are wide and become infinite in the limit; 64 is fixed.
    """

    factor: Fraction
    wide: bool

    def at(self, width: int) -> int:
        """The number of coordinates at width n = `width`."""
        size = self.factor * width if self.wide else self.factor
        if size.denominator != 1:
            raise ValueError(
                f"width={width} gives the space {self} a dimension of {float(size):g}; it needs a "
                f"width divisible by {self.factor.denominator}"
            )
        return int(size)

    def __mul__(self, factor: int | Fraction) -> "Dim":
        if not isinstance(factor, Rational) or factor <= 0:
            raise TypeError(
                f"a space is {self} times a positive integer or Fraction, got {factor!r}"
            )
        return Dim(self.factor * Fraction(factor), self.wide)

    __rmul__ = __mul__

    def __truediv__(self, divisor: int | Fraction) -> "Dim":
        if not isinstance(divisor, Rational) or divisor <= 0:
            raise TypeError(
                f"a space is {self} divided by a positive integer or Fraction, got {divisor!r}"
            )
        return Dim(self.factor / Fraction(divisor), self.wide)

    __floordiv__ = __truediv__

    def __repr__(self) -> str:
        if not self.wide:
            return str(self.factor)
        numerator = "n" if self.factor.numerator == 1 else f"{self.factor.numerator}n"
        return (
            numerator if self.factor.denominator == 1 else f"{numerator}/{self.factor.denominator}"
        )


n = Dim(Fraction(1), wide=True)
"""The width."""


def as_dim(name: str, value: object) -> Dim:
    """`value` as a space: a `Dim`, or a positive integer for a fixed one."""
    if isinstance(value, Dim):
        return value
    try:
        return Dim(Fraction(positive_int(name, value)), wide=False)
    except (TypeError, ValueError):
        raise ValueError(
            f"{name} must be a multiple of limitlaw.n or a positive integer, got {value!r}"
        ) from None
