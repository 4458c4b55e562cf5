"""Distribution functions as tails: the lower one left of a middle,
minus the upper one right of it.
"""

import dataclasses

import numpy as np
from jaxtyping import Float

from limitlaw.divergence.in_blocks import InBlocks
from limitlaw.laws import Law


@dataclasses.dataclass(frozen=True)
class Tails:
    """F(x) for x ≤ middle, F(x) − 1 = −P(Y > x) beyond:
    differences of two laws are those of F, without cancelling.
    """

    laws: tuple[InBlocks, ...]
    middle: float

    @classmethod
    def of(cls, laws: tuple[InBlocks, ...]) -> "Tails":
        """With the middle between those of the laws."""
        return cls(laws, float(np.mean([law.whole.middle() for law in laws])))

    def rows(self, x: Float[np.ndarray, " x"]) -> Float[np.ndarray, "b x"]:
        """The tails of all blocks of all laws."""
        return np.concatenate([law.rows(lambda part: self.at(part, x)) for law in self.laws])

    def at(self, law: Law, x: Float[np.ndarray, " x"]) -> Float[np.ndarray, " x"]:
        """Of one law. Both tails are asked for at all points where both are needed:
        few shapes to compile for.
        """
        left = x <= self.middle
        below = np.asarray(law.cdf(x)) if left.any() else 0.0
        above = np.asarray(law.sf(x)) if not left.all() else 0.0
        return np.where(left, below, -above)
