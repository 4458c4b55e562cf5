"""A sampled law as the average of laws of independent blocks of its draws:
what errors and biases come from.
"""

import dataclasses
from collections.abc import Callable

import numpy as np
from jaxtyping import Float

from limitlaw.divergence.jackknife import log_mixture
from limitlaw.laws import Law
from limitlaw.progress import end_if_stopped


@dataclasses.dataclass(frozen=True)
class InBlocks:
    """p = Σ_b a_b p_b with a_b = `weights`. One block where the law is not sampled,
    or cannot be cut: `whole`.

    Where this holds to first order in the noise only (not `exact`), rows of the blocks are moved
    until it does, by as much for each: what they differ by is the noise.
    """

    whole: Law
    parts: tuple[Law, ...]
    weights: Float[np.ndarray, " b"]
    exact: bool = True

    @property
    def several(self) -> bool:
        """Do the blocks show the noise?"""
        return len(self.parts) > 1

    @property
    def opaque(self) -> bool:
        """Is the law sampled, and known to err only point by point?"""
        return self.whole.kind == "sampled" and not self.several

    def rows(self, quantity: Callable[[Law], object]) -> Float[np.ndarray, "b x"]:
        """A quantity of each block that is linear in p."""
        rows = self._of_each(quantity)
        return (
            rows if self.exact else rows + (np.asarray(quantity(self.whole)) - self.weights @ rows)
        )

    def log_rows(self, quantity: Callable[[Law], object]) -> Float[np.ndarray, "b x"]:
        """The logarithm of such a quantity, of each block."""
        logs = self._of_each(quantity)
        if self.exact:
            return logs
        whole, average = np.asarray(quantity(self.whole)), self.log_average(logs)
        return logs + np.where(
            np.isfinite(average), whole - np.where(np.isfinite(average), average, 0), 0
        )

    def _of_each(self, quantity: Callable[[Law], object]) -> Float[np.ndarray, "b x"]:
        found = []
        for part in self.parts:
            end_if_stopped()  # densities of sums over heads take long far out
            found.append(np.asarray(quantity(part)))
        return np.stack(found)

    def log_average(self, logs: Float[np.ndarray, "b x"]) -> Float[np.ndarray, " x"]:
        """The log density of the law from those of its blocks."""
        return (
            log_mixture(logs, self.weights, np.ones((1, len(logs))))[0]
            if self.several
            else logs[0]
        )

    def spread(self, rows: Float[np.ndarray, "b x"]) -> Float[np.ndarray, " x"]:
        """The standard error of Σ_b a_b rows_b: √(Σ a_b² (rows_b − mean)²/(1 − Σ a_b²));
        0 for one block.
        """
        if not self.several:
            return np.zeros(rows.shape[1:])
        a = self.weights[:, None]
        return np.sqrt(np.sum(a**2 * (rows - self.weights @ rows) ** 2, 0) / (1 - np.sum(a**2)))


def in_blocks(law: Law) -> InBlocks:
    """The law in the blocks that it says it consists of."""
    whole = law.in_bulk()
    blocks = whole.blocks()
    return one_block(whole) if blocks is None else InBlocks(whole, *blocks)


def one_block(law: Law) -> InBlocks:
    """The law as it is."""
    return InBlocks(law, (law,), np.ones(1))
