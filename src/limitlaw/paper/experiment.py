"""What an experiment is: chunks to be computed, and tables made of their arrays."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from limitlaw.paper.settings import Settings
from limitlaw.runs.chunks import Chunk
from limitlaw.runs.tables import Table

Results = Mapping[Chunk, dict[str, np.ndarray]]


class Experiment(NamedTuple):
    """One figure, or two that share their data."""

    name: str
    title: str
    chunks: Callable[[Settings], list[Chunk]]
    tables: Callable[[Settings, Results], dict[str, Table]]


def rows(*records: dict[str, Any]) -> Table:
    """A table of rows; entries that are arrays make as many rows as they are long."""
    columns: dict[str, list[np.ndarray]] = {name: [] for name in records[0]}
    for record in records:
        values = np.broadcast_arrays(*(np.atleast_1d(value) for value in record.values()))
        for name, value in zip(record, values, strict=True):
            columns[name].append(value)
    return {name: np.concatenate(parts) for name, parts in columns.items()}
