"""Runs: resumable work of any kind, on this machine or on a Dask cluster.

A chunk is a function and its arguments (`Chunk`); finished ones are kept in a folder (`Store`);
`run` computes those that are missing, on the threads of this machine (`local`) or on a cluster
(`cluster`); tables of results go to CSV files (`write_csv`). Nothing here knows of networks, laws,
pictures or the paper: beside `limitlaw.files` it imports nothing of limitlaw.
"""

from limitlaw.runs.chunks import Chunk, versions
from limitlaw.runs.disk import StoreError
from limitlaw.runs.executors import ClusterError, cluster, local
from limitlaw.runs.runner import Arrays, ChunkError, Results, run
from limitlaw.runs.store import Store
from limitlaw.runs.tables import Table, read_csv, rows, write_csv

__all__ = [
    "Arrays",
    "Chunk",
    "ChunkError",
    "ClusterError",
    "Results",
    "Store",
    "StoreError",
    "Table",
    "cluster",
    "local",
    "read_csv",
    "rows",
    "run",
    "versions",
    "write_csv",
]
