"""The runner: what it computes and what not, in which order,
and what it says when something breaks.
"""

import threading
from collections.abc import Callable
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context

import numpy as np
import pytest
from toy_chunks import computed, deadly, failing, toy, toys

from limitlaw.runs import Chunk, ChunkError, Store, StoreError, executors, local, run, runner


def into(heard: list[Chunk]) -> Callable[[Chunk, dict[str, np.ndarray]], None]:
    """A listener that keeps the chunks it hears of."""
    return lambda chunk, arrays: heard.append(chunk)


def test_repeated(tmp_path, monkeypatch):
    """A second run computes nothing, a larger one the rest,
    other settings everything; `done` hears of each once.
    """
    monkeypatch.setenv("TOY_LOG", str(tmp_path / "log"))
    store = Store(tmp_path / "chunks")
    for count, seed, total in [(3, 0, 3), (3, 0, 3), (5, 0, 5), (5, 1, 10), (5, 0, 10)]:
        heard = []
        with local(2) as executor:
            results = run(toys(count, seed), store, executor, into(heard))
        assert sum(computed(tmp_path).values()) == total
        assert list(results) == toys(count, seed)
        assert sorted(chunk.identity for chunk in heard) == sorted(
            chunk.identity for chunk in results
        )


def test_duplicates(tmp_path, monkeypatch):
    """Equal chunks are computed once and stand in the place of the first."""
    monkeypatch.setenv("TOY_LOG", str(tmp_path / "log"))
    heard = []
    with local(2) as executor:
        results = run(
            [*toys(2, 0)[::-1], *toys(3, 0)], Store(tmp_path / "chunks"), executor, into(heard)
        )
    assert [dict(chunk.arguments)["index"] for chunk in results] == [1, 0, 2]
    assert computed(tmp_path) == {0: 1, 1: 1, 2: 1}
    assert len(heard) == 3


class Backwards(executors.Crew):
    """Two workers that finish last what was given to them first,
    and the most that ever waited for them.
    """

    workers = 2
    most = 0

    def __init__(self) -> None:
        self.waiting: list[tuple[Future, Chunk, str]] = []
        self.lock = threading.Lock()

    def submit(self, function, /, *arguments):
        future = Future()
        with self.lock:
            self.waiting.append((future, function, arguments))
            self.most = max(self.most, len(self.waiting))
        threading.Timer(0.02, self._finish_last).start()
        return future

    def _finish_last(self) -> None:
        with self.lock:
            future, function, arguments = self.waiting.pop()
        future.set_running_or_notify_cancel()
        future.set_result(function(*arguments))


def test_order_and_bound(tmp_path):
    """Results are in the order of the chunks, not of their completion;
    no more than two a worker are under way.
    """
    executor, heard = Backwards(), []
    results = run(toys(12, 0), Store(tmp_path), executor, into(heard))
    assert list(results) == toys(12, 0) != heard
    assert executor.most == 4
    for chunk, arrays in results.items():
        np.testing.assert_array_equal(arrays["mean"], chunk.run()["mean"])


def test_failing_chunk(tmp_path):
    """The error names the chunk and its cause, later chunks are not computed,
    earlier ones are kept.
    """
    store, heard = Store(tmp_path), []
    chunks = [Chunk.of(failing, index=index) for index in range(2)] + toys(50, 0)
    message = (
        r"^toy_chunks.failing\(index=1\) failed: ZeroDivisionError: index is 1; what is finished "
        r"is kept"
    )
    with local(1) as executor, pytest.raises(ChunkError, match=message) as caught:
        run(chunks, store, executor, into(heard))
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    assert store.get(chunks[0]) is not None
    assert len(heard) < 5
    assert len(list(tmp_path.iterdir())) == len(heard)


class Stuck(executors.Crew):
    """Finishes the first chunk, or fails at it, and never comes to the others."""

    workers = 2

    def __init__(self, fails: bool) -> None:
        self.futures: list[Future] = []
        self.fails = fails

    def submit(self, function, /, *arguments):
        future = Future()
        if not self.futures and self.fails:
            future.set_exception(MemoryError("too large"))
        elif not self.futures:
            future.set_result(function(*arguments))
        self.futures.append(future)
        return future


@pytest.mark.parametrize("reason", [ChunkError, StoreError, KeyboardInterrupt])
def test_rest_is_cancelled(tmp_path, reason):
    """Whatever ends a run, a failed chunk, a full disk or Ctrl-C,
    nothing that waits is computed afterwards.
    """

    def done(chunk: Chunk, arrays: dict[str, np.ndarray]) -> None:
        raise reason  # as the store would, or a signal

    executor = Stuck(fails=reason is ChunkError)
    with pytest.raises(reason) as caught:  # its traceback keeps all alive that is not closed
        run(toys(10, 0), Store(tmp_path), executor, done)
    assert caught
    assert [future.cancelled() for future in executor.futures] == [False, True, True, True]


def test_killed_worker(tmp_path):
    """A pool of processes that loses one says so in one line, and which chunk it may have been."""
    store, good = Store(tmp_path), Chunk.of(toy, index=0, seed=0)
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as executor:
        np.testing.assert_array_equal(
            run([good], store, executor)[good]["mean"], good.run()["mean"]
        )
        with pytest.raises(
            ChunkError, match=r"a worker was killed.* may have computed toy_chunks.deadly\(\)"
        ):
            run([good, Chunk.of(deadly)], store, executor)
        with pytest.raises(ChunkError, match="a worker was killed"):
            run(toys(2, 0), store, executor)


def test_other_versions(tmp_path):
    """A worker whose versions give a chunk another identity refuses it."""
    with pytest.raises(ChunkError, match="other versions"):
        runner.run_if_same(toys(1, 0)[0], toys(1, 1)[0].identity)


def test_workers():
    """Threads as asked for, or one for each processor that may be used."""
    for jobs in (1, 3, None):
        with local(jobs) as executor:
            assert isinstance(executor, ThreadPoolExecutor)
            assert executors.workers_of(executor) == (jobs or executors.cores())
    with pytest.raises(ValueError, match="jobs must be a positive integer, got 0"):
        local(0)
