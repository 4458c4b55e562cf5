"""Summaries of statistics over draws, with the errors of what is the same in all of them."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from limitlaw.depth.statistics import Column, Statistic
from limitlaw.numerics.replicates import Replicates


def columns_of(
    chosen: Sequence[Statistic], arrays: Any, replicates: Replicates, dim: int | float
) -> dict[str, Column]:
    """Each statistic's summary over draws, from arrays (draws, layers, …) of several parts."""
    columns = {}
    for i, statistic in enumerate(chosen):
        parts = [np.asarray(part[i]) for part in arrays]
        shapes = dict.fromkeys(part.shape[2:] for part in parts)
        if len(shapes) > 1:
            raise ValueError(
                f"statistics: {statistic.name!r} must have one shape in all rows, got "
                f"{', '.join(map(str, shapes))}; in row 0 scores are None"
            )
        columns[statistic.name] = statistic.column(np.concatenate(parts, axis=1), replicates, dim)
    return columns


def deterministic(column: Column, inflated: Column | None) -> Column:
    """A column where nothing is random: the spread is 0, and the error is that of sets of nodes,
    or by how much errors of integrals change the value.
    """
    spread = np.where(np.isnan(column.value), math.nan, 0.0)
    error = np.where(np.isnan(column.error), spread, column.error)
    if inflated is not None:
        error = np.abs(inflated.value - column.value)
    return Column(column.value, error, spread)


def with_bias(column: Column, rougher: Column) -> Column:
    """A column whose bias is a third of what it differs from one with four times the bias: the
    error of both together.
    """
    bias = (rougher.value - column.value) / 3
    return column._replace(error=np.hypot(column.error, bias))
