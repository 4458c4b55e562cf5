"""What comes back to every layer of a network from a random readout of its vectors y,

    f = n^{-1/2} Σ_i u_i·y_i,   u_i ~ N(0, I),

written as a program: gradients of f in the vectors behind each layer, and in its matrices.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

from limitlaw.backward.reverse import backward
from limitlaw.backward.tangent import squared_norms
from limitlaw.depth.layers import stages
from limitlaw.language import ops
from limitlaw.language.functions import dot, initial
from limitlaw.language.tree import ancestors
from limitlaw.language.values import Scalars, Wide
from limitlaw.language.writing_out import every_iteration, without_loops


@dataclasses.dataclass(frozen=True)
class Backward:
    """The backward half of a network. `grams`: n⁻¹⟨b_i, b_j⟩ with b_i = √n ∂f/∂x_i, for the
    vectors x that the first layer is given and for those that each layer gives. `matrices`: for
    each layer, Σ_w (∂f/∂w)² over the parameters of its matrices W = σ w/√cols.
    """

    grams: tuple[Scalars, ...]
    matrices: tuple[dict[str, Scalars], ...]

    @classmethod
    def of(cls, network: Wide | Sequence[Wide], token: int | None) -> "Backward":
        """That of a network with a random readout of all tokens, or of one."""
        first, layers = stages(network)
        y = layers[-1] if isinstance(network, Sequence) else network
        (f,) = without_loops([readout(y, token)])
        behind = [x for layer in (first, *layers) for x in every_iteration(layer)]
        made = [v for v in ancestors([f]) if isinstance(v.op, ops.MatMul)]
        found = backward(f, [*behind, *made])
        grams = tuple(_gram(found.get(x, 0.0 * x)) for x in behind)
        matrices, before = [], set(ancestors(behind[:1]))
        for x in behind[1:]:
            layer = set(ancestors([x])) - before
            before |= layer
            matrices.append(_named([(v, found[v]) for v in made if v in layer and v in found]))
        return cls(grams, tuple(matrices))


def readout(y: Wide, token: int | None) -> Scalars:
    """f, of all tokens or of one."""
    y = y if token is None else y[..., token]
    u = initial(y.shape, dim=y.dim)
    each = dot(u[..., None], y[..., None])[..., 0, 0]
    return each.sum() if each.ndim else each


def _gram(b: Wide) -> Scalars:
    """n⁻¹⟨b_i, b_j⟩ over the flattened batch."""
    b = b.reshape(-1)
    return dot(b, b, "linear")


def _named(products: list[tuple[Any, Any]]) -> dict[str, Scalars]:
    """Σ_w (∂f/∂w)² by the names of matrices, W_1, W_2, … for those that have none, in the order in
    which the layer multiplies by them.
    """
    found: dict[str, Scalars] = {}
    unnamed = 0
    for matrix, norm in squared_norms(products).items():
        unnamed += not matrix.name
        name = f"W_{matrix.name or unnamed}"
        same = sum(known.split("'")[0] == name for known in found)
        found[name + "'" * same] = norm
    return found
