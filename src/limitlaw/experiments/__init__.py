"""Experiments: settings → chunks → streamed statistics → data, resumable after any interruption.

Nothing here knows of physics or pictures: a chunk is a function and its arguments (`Chunk`), finished ones are kept in
a folder (`Store`), `run` computes those that are missing on the threads of this machine (`local`) or on a Dask cluster
(`cluster`), and tables of results go to CSV files (`write_csv`).
"""

from limitlaw.experiments.chunks import Chunk, versions
from limitlaw.experiments.disk import StoreError
from limitlaw.experiments.executors import ClusterError, cluster, local
from limitlaw.experiments.runner import ChunkError, run
from limitlaw.experiments.store import Store
from limitlaw.experiments.tables import Table, read_csv, write_csv

__all__ = [
    "Chunk",
    "ChunkError",
    "ClusterError",
    "Store",
    "StoreError",
    "Table",
    "cluster",
    "local",
    "read_csv",
    "run",
    "versions",
    "write_csv",
]
