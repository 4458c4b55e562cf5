"""From chunks to arrays: what is stored is read, the rest is computed and stored at once."""

import contextlib
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, wait

import numpy as np

from limitlaw.runs.chunks import Chunk
from limitlaw.runs.executors import workers_of
from limitlaw.runs.store import Store

Arrays = dict[str, np.ndarray]
Results = Mapping[Chunk, Arrays]
AHEAD = 2  # chunks per worker that are computed or wait


class ChunkError(RuntimeError):
    """A chunk that could not be computed; what was finished before is stored."""


def run(
    chunks: Sequence[Chunk],
    store: Store,
    executor: Executor,
    done: Callable[[Chunk, Arrays], None] = lambda chunk, arrays: None,
) -> dict[Chunk, Arrays]:
    """The arrays of all chunks, in order; `done` gets each different chunk once, in this thread,
    when its arrays are in the store.
    """
    results = {}
    missing = []
    for chunk in dict.fromkeys(chunks):
        arrays = store.get(chunk)
        if arrays is None:
            missing.append(chunk)
        else:
            results[chunk] = arrays
            done(chunk, arrays)
    with contextlib.closing(_computed(missing, executor)) as computed:
        for chunk, arrays in computed:
            store.put(chunk, arrays)
            results[chunk] = arrays
            done(chunk, arrays)
    return {chunk: results[chunk] for chunk in dict.fromkeys(chunks)}


def _computed(
    chunks: list[Chunk], executor: Executor
) -> Generator[tuple[Chunk, Arrays], None, None]:
    """Chunks as they are finished, a bounded number at a time; an early end cancels the rest."""
    limit = AHEAD * workers_of(executor)
    running: dict[Future[Arrays], Chunk] = {}
    try:
        for chunk in chunks:
            running[_submitted(chunk, executor)] = chunk
            if len(running) >= limit:
                yield from _finished(running)
        while running:
            yield from _finished(running)
    finally:
        for future in running:
            future.cancel()


def _submitted(chunk: Chunk, executor: Executor) -> "Future[Arrays]":
    try:
        return executor.submit(run_if_same, chunk, chunk.identity)
    except (BrokenExecutor, OSError) as error:  # Dask's lost connections are of the latter kind
        raise _failure(chunk, error) from error


def _finished(running: "dict[Future[Arrays], Chunk]") -> Iterator[tuple[Chunk, Arrays]]:
    """Wait, and take what is finished: all good chunks first, then the first failure is raised."""
    ended, _ = wait(running, return_when=FIRST_COMPLETED)
    failed = [future for future in running if future in ended and future.exception() is not None]
    for future in [future for future in running if future in ended and future not in failed]:
        yield running.pop(future), future.result()
    for future in failed:
        error = future.exception()
        raise _failure(running[future], error) from error


def run_if_same(chunk: Chunk, identity: str) -> Arrays:
    """The arrays of a chunk, unless this process has other versions than the one that asked."""
    if chunk.identity != identity:
        raise ChunkError("this worker has other versions of limitlaw or of what it needs")
    return chunk.run()


def _failure(chunk: Chunk, error: BaseException | None) -> ChunkError:
    """The error that names the chunk that failed, and says what remains."""
    if isinstance(error, BrokenExecutor):
        message = (
            "a worker was killed, perhaps for lack of memory, while it may have computed "
            f"{chunk.name}"
        )
    else:
        message = f"{chunk.name} failed: {type(error).__name__}: {error}"
    return ChunkError(f"{message}; what is finished is kept, the same command goes on from there")
