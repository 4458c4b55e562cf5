"""What a divergence is given as: a number and its error."""

import dataclasses
import math


@dataclasses.dataclass(frozen=True)
class Divergence:
    """`value`, and `error`: the standard error from sampled laws and the error of the quadrature, in quadrature.

    `float(d)` is the value; `print(d)` shows the digits that the error leaves: 2.217e-02 ± 9e-05.
    """

    value: float
    error: float

    def __float__(self) -> float:
        return self.value

    def __str__(self) -> str:
        if not (math.isfinite(self.value) and math.isfinite(self.error)):
            return f"{self.value:.6g} ± {self.error:.2g}"
        return f"{self.value:.{self._digits()}e} ± {self.error:.0e}"

    def _digits(self) -> int:
        """Decimals of the mantissa: down to the first digit of the error, 12 at most."""
        if self.value == 0 or self.error <= 0:
            return 0 if self.value == 0 else 12
        return max(0, min(12, _exponent(self.value) - _exponent(self.error)))


def _exponent(x: float) -> int:
    return math.floor(math.log10(abs(x)))
