"""Laws on panels: where panels must end, and the laws' distribution functions there."""

import dataclasses
from typing import TypeVar

import numpy as np
from jaxtyping import Float

from limitlaw.divergence.in_blocks import InBlocks
from limitlaw.laws import Law
from limitlaw.numerics.meshes import mesh
from limitlaw.numerics.panels import Panels, of_integral, resolve

# relative errors by rounding: of densities, and of the smaller tail of distribution functions,
# some of which are inversions
DENSITY_ROUNDING, TAIL_ROUNDING = 2e-15, 3e-14

Resolved = TypeVar("Resolved", bound="ResolvedTails")


def first_panels(p: Law, q: Law, also: tuple[float, ...] = ()) -> Panels:
    """Panels that show each law: fine where a component is narrow, to where both are negligible or
    bounded; atoms, ends of branches and `also` are edges.
    """
    poles = np.concatenate([p.breaks(), q.breaks()])
    hard = np.concatenate([poles, atoms(p), atoms(q), np.array(also)])
    (x, s), (y, t) = p.places(), q.places()
    edges = mesh(np.concatenate([hard, x, y]), np.concatenate([0 * hard, s, t]))
    if len(edges) == 1:  # two point masses at one place
        edges = edges[0] + max(1.0, abs(float(edges[0]))) * np.array([-1.0, 0.0, 1.0])
    return Panels.between(edges, poles)


def atoms(law: Law) -> Float[np.ndarray, " a"]:
    """The points that carry mass; empty for samples, which are treated as steps."""
    return np.zeros(0) if law.discrete else np.asarray(law.atoms().points)


@dataclasses.dataclass(frozen=True)
class Tails:
    """F(x) for x ≤ middle, −P(Y > x) beyond: differences of two laws do not cancel."""

    laws: tuple[InBlocks, ...]
    middle: float

    @classmethod
    def of(cls, laws: tuple[InBlocks, ...]) -> "Tails":
        """The tails of these laws, with the mean of their middles as the middle."""
        return cls(laws, float(np.mean([law.whole.middle() for law in laws])))

    def rows(self, x: Float[np.ndarray, " x"]) -> Float[np.ndarray, "b x"]:
        """The tails of all blocks of all laws."""
        return np.concatenate([law.rows(lambda part: self.at(part, x)) for law in self.laws])

    def at(self, law: Law, x: Float[np.ndarray, " x"]) -> Float[np.ndarray, " x"]:
        """The tail of one law; both, at all points, where both are needed: fewer shapes are
        compiled for.
        """
        left = x <= self.middle
        below = np.asarray(law.cdf(x)) if left.any() else 0.0
        above = np.asarray(law.sf(x)) if not left.all() else 0.0
        return np.where(left, below, -above)


@dataclasses.dataclass(frozen=True)
class ResolvedTails:
    """One law's tails, F left of the middle and F − 1 right of it, at nodes of panels that resolve
    them, each on one side: a row for every block.
    """

    law: InBlocks
    panels: Panels
    rows: Float[np.ndarray, "b x"]
    middle: float

    @classmethod
    def of(cls: type[Resolved], law: InBlocks, tolerance: float) -> Resolved:
        """The tails on panels whose polynomials leave out at most this part of ∫ |F|."""
        whole, tails = law.whole, Tails.of((law,))
        panels, rows = resolve(
            tails.rows,
            lambda rows: law.weights @ rows,
            first_panels(whole, whole, (tails.middle,)),
            of_integral(tolerance, jumps=np.append(atoms(whole), tails.middle)),
        )
        return cls(law, panels, rows, tails.middle)
