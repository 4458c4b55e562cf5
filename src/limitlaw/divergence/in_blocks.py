"""A sampled law as an average of laws of independent blocks, for errors and biases."""

import dataclasses
import functools
from collections.abc import Callable

import numpy as np
from jaxtyping import Float

from limitlaw.laws import Law
from limitlaw.progress import end_if_stopped

EPSILON = 2.0**-52  # of float64


@dataclasses.dataclass(frozen=True)
class InBlocks:
    """p = Σ_b a_b p_b with a_b = `weights`; a single block, `whole`, where the law is not sampled
    or cannot be cut.

    Where this holds only to first order in the noise (not `exact`), rows of the blocks are shifted
    until it does, all by the same amount: what they differ by is the noise.
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
        """The logarithm of a quantity of each block that is linear in p."""
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
        """The standard error √(Σ a_b² (rows_b − mean)²/(1 − Σ a_b²)) of Σ_b a_b rows_b."""
        if not self.several:
            return np.zeros(rows.shape[1:])
        a = self.weights[:, None]
        return np.sqrt(np.sum(a**2 * (rows - self.weights @ rows) ** 2, 0) / (1 - np.sum(a**2)))


def tolerance(*laws: InBlocks) -> float:
    """What a panel may leave out of an integral, relatively: with noise, seven digits do."""
    return 1e-7 if any(law.whole.kind == "sampled" for law in laws) else 1e-12


def in_blocks(law: Law) -> InBlocks:
    """The law in the blocks that `law.blocks` gives."""
    whole = law.in_bulk()
    blocks = whole.blocks()
    return one_block(whole) if blocks is None else InBlocks(whole, *blocks)


def one_block(law: Law) -> InBlocks:
    """The law as a single block."""
    return InBlocks(law, (law,), np.ones(1))


@functools.cache
def subsets(B: int) -> np.ndarray:
    """Rows of 0 and 1: all blocks, all but one (B rows), all but two (B(B − 1)/2 rows)."""
    pairs = np.stack(np.triu_indices(B, 1), 1)
    keep = np.ones((1 + B + len(pairs), B))
    keep[1 + np.arange(B), np.arange(B)] = 0
    keep[1 + B + np.arange(len(pairs))[:, None], pairs] = 0
    return keep


def log_mixture(
    logs: Float[np.ndarray, "b x"],
    weights: Float[np.ndarray, " b"],
    keep: Float[np.ndarray, "r b"],
) -> Float[np.ndarray, "r x"]:
    """log Σ_b a_b p_b / Σ_b a_b over the blocks that each row keeps."""
    top = np.max(logs, 0)
    top = np.where(np.isfinite(top), top, 0)
    with np.errstate(divide="ignore"):
        return (
            np.log((keep * weights) @ np.exp(logs - top)) + top - np.log(keep @ weights)[:, None]
        )


def jackknife(
    functional: Callable[[Float[np.ndarray, "r x"]], Float[np.ndarray, " r"]],
    logs: Float[np.ndarray, "b x"],
    weights: Float[np.ndarray, " b"],
) -> tuple[float, float]:
    """Bias and variance of D(p̂), p̂ = Σ_b a_b p_b, for D of rows of log densities."""
    B = len(weights)
    return bias_and_variance(B, functional(log_mixture(logs, weights, subsets(B))))


def bias_and_variance(B: int, values: Float[np.ndarray, " r"]) -> tuple[float, float]:
    """Bias and variance of D from its values for the `subsets` of B blocks.

    With D₋b the value without block b, the bias is (B − 1)(mean_b D₋b − D) (Quenouille 1956),
    which takes away all of it where D is quadratic in p̂, and the variance is V₁ = (B − 1)/B Σ_b
    (D₋b − mean)² (Tukey 1958). V₁ sees only the part of D that is linear in the noise. Where p̂ is
    near a minimum of D that part vanishes, and what is left is quadratic: its variance is V₂ =
    Σ_{b<c} S_bc²/(B(B − 1))² with the interaction of two blocks

        S_bc = (B − 2)(B D − (B − 1)(D₋b + D₋c) + (B − 2) D₋bc),

    in which constant and linear parts cancel (second-order Hoeffding term; Efron and Stein 1981).
    The mean of V₁ has 2 V₂ of it, so the variance is V₁ − 2 V₂ + V₂, and V₂ at least. The
    rounding of the values enters the bias B times.
    """
    D, one, two = values[0], values[1 : B + 1], values[B + 1 :]
    if not np.isfinite(values).all():
        return 0.0, float("inf")
    b, c = np.triu_indices(B, 1)
    S = (B - 2) * (B * D - (B - 1) * (one[b] + one[c]) + (B - 2) * two)
    V1 = (B - 1) / B * np.sum((one - one.mean()) ** 2)
    V2 = np.sum(S**2) / (B * (B - 1)) ** 2
    rounding = B * EPSILON * float(np.abs(values).max())
    return float((B - 1) * (one.mean() - D)), float(max(V1 - V2, V2)) + rounding**2
