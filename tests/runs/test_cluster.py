"""A real Dask scheduler and its workers on loopback:
the same bits as here, though a worker is killed midway.
"""

import contextlib
import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import distributed
import numpy as np
import pytest
import toy_chunks
from toy_chunks import failing, table_of, toys

from limitlaw.runs import (
    Chunk,
    ChunkError,
    ClusterError,
    Store,
    cluster,
    executors,
    local,
    run,
    write_csv,
)

COUNT = 30
LOOPBACK = "tcp://127.0.0.1"


@contextlib.contextmanager
def dask(*arguments: object, **more: object) -> Iterator[subprocess.Popen]:
    """A process of Dask, which ends with the test however that ends."""
    command = [
        sys.executable,
        "-m",
        "dask",
        *map(str, arguments),
        "--no-dashboard",
        "--dashboard-address",
        LOOPBACK[6:],
    ]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(command, env=toy_chunks.environment(**more), **quiet) as process:
        try:
            yield process
        finally:
            process.kill()


@contextlib.contextmanager
def scheduler(folder: Path) -> Iterator[tuple[str, subprocess.Popen]]:
    """A scheduler on a port of its choice, and its address."""
    file = folder / "scheduler.json"
    with dask(
        "scheduler", "--host", "127.0.0.1", "--port", 0, "--scheduler-file", file
    ) as process:
        while not (file.exists() and file.read_text().endswith("}")):
            assert process.poll() is None, "the scheduler did not start"
            time.sleep(0.05)
        yield json.loads(file.read_text())["address"], process


def worker(
    address: str, folder: Path, *options: object, **more: object
) -> AbstractContextManager[subprocess.Popen]:
    """A worker with one thread and nobody to restart it."""
    simple = (
        "--nthreads",
        1,
        "--no-nanny",
        "--host",
        "127.0.0.1",
        "--local-directory",
        folder,
        "--memory-limit",
        0,
    )
    return dask("worker", address, *simple, *options, **more)


@pytest.fixture(scope="module")
def address(tmp_path_factory) -> Iterator[str]:
    """A scheduler without workers."""
    with scheduler(tmp_path_factory.mktemp("scheduler")) as (address, _):
        yield address


def test_worker_killed_midway(tmp_path, address):
    """Two workers, one killed by SIGKILL with chunks in hand:
    the CSV is that of a local run, bit for bit.
    """
    log, heard = tmp_path / "log", []
    with (
        worker(address, tmp_path / "one", seconds=0.05, log=log) as one,
        worker(address, tmp_path / "other", seconds=0.05, log=log),
        cluster(address) as executor,
    ):
        executor._client.wait_for_workers(2, timeout=20)
        assert executors.workers_of(executor) == 2

        def done(chunk: Chunk, arrays: dict[str, np.ndarray]) -> None:
            heard.append(chunk)
            if len(heard) == COUNT // 3:
                one.send_signal(signal.SIGKILL)

        results = run(toys(COUNT, 0), Store(tmp_path / "cluster", pytest.fail), executor, done)
        assert one.wait() == -signal.SIGKILL
        assert executors.workers_of(executor) == 1
        message = r"^toy_chunks.failing\(index=1\) failed: ZeroDivisionError: index is 1"
        with pytest.raises(ChunkError, match=message):
            run([Chunk.of(failing, index=1)], Store(tmp_path / "cluster"), executor)
    assert len(heard) == COUNT <= len(log.read_text().split())
    with local(2) as executor:
        here = run(toys(COUNT, 0), Store(tmp_path / "local"), executor)
    write_csv(tmp_path / "cluster.csv", table_of(results))
    write_csv(tmp_path / "local.csv", table_of(here))
    assert (tmp_path / "cluster.csv").read_bytes() == (tmp_path / "local.csv").read_bytes()
    for chunk, arrays in here.items():
        assert list(arrays) == list(results[chunk])
        assert all(np.array_equal(arrays[name], results[chunk][name]) for name in arrays)


def test_lost_scheduler(tmp_path):
    """A scheduler that dies takes the run with it, in one line, and what was finished is kept."""
    with (
        scheduler(tmp_path) as (address, process),
        worker(address, tmp_path, seconds=0.1),
        cluster(address) as executor,
    ):
        heard = []

        def done(chunk: Chunk, arrays: dict[str, np.ndarray]) -> None:
            heard.append(chunk)
            process.kill()

        store = Store(tmp_path / "chunks")
        with pytest.raises(ChunkError, match="the connection to the Dask scheduler was lost"):
            run(toys(COUNT, 0), store, executor, done)
        assert 0 < len(heard) < COUNT
        assert all(store.get(chunk) for chunk in heard)


OTHER_VERSIONS = "from limitlaw.runs import versions\nversions()['jax'] = '0.0.1'\n"


def test_other_versions(tmp_path, address):
    """Workers that would compute something else are refused by name,
    or refuse chunks if they come later.
    """
    preload = tmp_path / "preload.py"
    preload.write_text(OTHER_VERSIONS)
    with worker(address, tmp_path, "--preload", preload):
        with pytest.raises(
            ClusterError, match=rf"^worker {LOOPBACK}:\d+ has jax 0\.0\.1, but this process \d"
        ):
            cluster(address)
        late = executors.ClusterExecutor(distributed.Client(address, set_as_default=False))
        with late as executor, pytest.raises(ChunkError, match="other versions"):
            run(toys(1, 0), Store(tmp_path / "chunks"), executor)


def test_no_workers_and_no_scheduler(address):
    """One line each, soon."""
    began = time.monotonic()
    with pytest.raises(ClusterError, match=f"^the Dask scheduler at {address} has no workers$"):
        cluster(address, timeout=0.5)
    with pytest.raises(ClusterError, match=f"^no Dask scheduler at {LOOPBACK}:1: "):
        cluster(f"{LOOPBACK}:1", timeout=0.5)
    with pytest.raises(ClusterError, match=r"^no Dask scheduler at nonsense://x: "):
        cluster("nonsense://x", timeout=0.5)
    assert time.monotonic() - began < 10


def test_no_dask(monkeypatch):
    """Without the extra, the line says how to get it."""
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(ClusterError, match=r"pip install 'limitlaw\[cluster\]'"):
        cluster(LOOPBACK)
