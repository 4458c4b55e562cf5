"""What a divergence is given as: a number and its error."""

import dataclasses

from limitlaw.digits import exponential


@dataclasses.dataclass(frozen=True)
class Divergence:
    """`value`, and `error`: the standard error from sampled laws and the error of the quadrature,
    in quadrature.

    `float(d)` is the value; `print(d)` shows the digits that the error leaves: 2.217e-02 ± 9e-05.
    """

    value: float
    error: float

    def __float__(self) -> float:
        return self.value

    def __str__(self) -> str:
        return exponential(self.value, self.error)
