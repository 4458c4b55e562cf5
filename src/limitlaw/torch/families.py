"""Weight matrices as families: one matrix for each piece of the rows and of the columns."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

import limitlaw as ll
from limitlaw.torch import nodes
from limitlaw.torch.reading import ordered
from limitlaw.torch.writer import Writer


def product(writer: Writer, node: nodes.Linear) -> Any:
    """Σ over pieces of the columns of W_piece x_piece, for each piece of the rows."""
    shape, contracted, axis = writer.layouts.meeting[node]
    layout = writer.layout(node)
    own = len(layout.sizes) - (len(shape) - len(contracted))
    rows = layout.sizes[len(layout.sizes) - own :]
    columns = [shape[i] for i in contracted]
    place = contracted.index(axis)
    matrix = _matrix(writer, node, rows, columns, place)
    x = writer.read(node.x, shape)
    pieces, families = len(columns) - 1, own - (layout.coordinate is not None)
    product = matrix @ x
    if pieces:
        product = ll.normalised_sum(product, tuple(range(product.ndim - pieces, product.ndim)))
    others = product.ndim - families
    product = ordered(product, [*range(families, families + others), *range(families)])
    return product if layout.coordinate is not None else ll.average(product)


def _matrix(
    writer: Writer, node: nodes.Linear, rows: Sequence[int], columns: Sequence[int], place: int
) -> Any:
    """The family of matrices that the pieces of a weight matrix are;
    the same weights cut alike are the same family.

    Entries have variance v; the family has m pieces of columns, whose sum is divided by √m, and D
    columns each, so that std² = v·m·D and the weights are √m times those of the module.
    """
    layout = writer.layout(node)
    shape, _, _ = writer.layouts.meeting[node]
    others = len(shape) - len(columns)
    vectors = layout.coordinate is not None
    batch = tuple(rows[:-1] if vectors else rows)
    pieces = tuple(c for i, c in enumerate(columns) if i != place)
    key = (node.parameter.key, node.part, tuple(rows), tuple(columns), place, vectors, others)
    if key not in writer.shared:
        m, D = math.prod(pieces), columns[place]
        std = math.sqrt(node.parameter.variance * m * D)
        family = (*batch, *(1,) * others, *pieces) if batch or pieces else ()
        rows_dim, cols_dim = writer.dim(node) if vectors else 1, writer.dim(node.x.node)
        matrix = ll.Matrix(std, family, rows=rows_dim, cols=cols_dim)
        array = node.weight.reshape(*batch, rows[-1] if vectors else 1, *columns)
        array = np.moveaxis(array, len(batch) + 1 + place, -1)  # (batch, row, pieces, column)
        array = np.moveaxis(array, len(batch), -2)  # (batch, pieces, row, column)
        array = array.reshape(*family, *array.shape[-2:])
        writer.weights[matrix] = math.sqrt(m) * array
        writer.shared[key] = matrix
    return writer.shared[key]
