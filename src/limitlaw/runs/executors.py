"""Executors that compute chunks: threads of this machine, or the workers of a Dask cluster."""

import abc
import asyncio
import contextvars
import os
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from limitlaw.runs.chunks import versions

if TYPE_CHECKING:
    from distributed import Client
    from distributed import Future as RemoteFuture

CONNECT_SECONDS = 10.0


class ClusterError(ConnectionError):
    """A cluster that cannot be used; its text is one line for the user."""


def local(jobs: int | None = None) -> Executor:
    """Threads, one for each core: NumPy and XLA release Python's lock and share programs."""
    if jobs is not None and jobs < 1:
        raise ValueError(f"jobs must be a positive integer, got {jobs}")
    return _Threads(cores() if jobs is None else jobs)


class Crew(Executor):
    """An executor that knows how many chunks it computes at once."""

    @property
    @abc.abstractmethod
    def workers(self) -> int:
        """The number of chunks that are computed at once."""


class _Threads(ThreadPoolExecutor, Crew):
    """Threads with the context variables of the thread that submits the work."""

    workers = 0

    def __init__(self, jobs: int):
        super().__init__(jobs, thread_name_prefix="chunk")
        self.workers = jobs

    def submit(
        self, function: Callable[..., Any], /, *arguments: Any, **named: Any
    ) -> Future[Any]:
        """Run `function(*arguments, **named)` in some thread."""
        return super().submit(contextvars.copy_context().run, function, *arguments, **named)


def cores() -> int:
    """The processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def workers_of(executor: Executor) -> int:
    """The number of chunks that an executor computes at once."""
    return executor.workers if isinstance(executor, Crew) else cores()


def cluster(address: str, timeout: int | float = CONNECT_SECONDS) -> Executor:
    """The workers of the Dask scheduler at `address`, if they run the same code."""
    try:
        from distributed import Client
    except ImportError:
        raise ClusterError("--cluster needs Dask: pip install 'limitlaw[cluster]'") from None
    try:
        # a loop of its own, whether or not the caller is inside one
        with ThreadPoolExecutor(1) as thread:
            thread.submit(asyncio.run, _reach(address, timeout)).result()
        client = Client(address, timeout=timeout, set_as_default=False)
    except (OSError, ValueError) as error:
        raise ClusterError(
            f"no Dask scheduler at {address}: {str(error) or type(error).__name__}"
        ) from error
    try:
        _check_workers(client, address, timeout)
    except BaseException:
        client.close()
        raise
    return ClusterExecutor(client)


async def _reach(address: str, timeout: int | float) -> None:
    """Greet the scheduler. A client that fails to do so itself complains again as the program
    ends.
    """
    from distributed import Security
    from distributed.comm.core import connect

    comm = await connect(address, timeout=timeout, **Security().get_connection_args("client"))
    await comm.close()


def _check_workers(client: "Client", address: str, timeout: int | float) -> None:
    """Raise unless there are workers, and they run the same versions as this process."""
    try:
        client.wait_for_workers(1, timeout=timeout)
    except TimeoutError:
        raise ClusterError(f"the Dask scheduler at {address} has no workers") from None
    try:
        found = client.run(versions)
    except Exception as error:
        raise ClusterError(f"workers of {address} cannot import this limitlaw: {error}") from error
    for worker, theirs in found.items():
        for name, version in versions().items():
            if theirs.get(name) != version:
                raise ClusterError(
                    f"worker {worker} has {name} {theirs.get(name)}, but this process {version}"
                )


class ClusterExecutor(Crew):
    """A Dask client as an executor; the scheduler gives a dead worker's chunks to another."""

    def __init__(self, client: "Client"):
        self._client = client

    @property
    def workers(self) -> int:
        """The number of threads of all workers at this moment."""
        return max(1, sum(self._client.nthreads().values()))

    def submit(
        self, function: Callable[..., Any], /, *arguments: Any, **named: Any
    ) -> Future[Any]:
        """Run `function(*arguments, **named)` on some worker."""
        remote = self._client.submit(function, *arguments, pure=False, **named)
        future: Future[Any] = Future()
        future.add_done_callback(lambda _: remote.cancel() if future.cancelled() else None)
        remote.add_done_callback(lambda _: _hand_over(remote, future))
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Leave the scheduler, which forgets what was not finished; it and its workers go on."""
        self._client.close()


def _hand_over(remote: "RemoteFuture[Any]", future: "Future[Any]") -> None:
    """Hand the outcome of Dask's future to one of the standard library."""
    if not future.set_running_or_notify_cancel():
        return
    if remote.cancelled():
        future.set_exception(ClusterError("the connection to the Dask scheduler was lost"))
        return
    try:
        future.set_result(remote.result())
    except BaseException as error:
        future.set_exception(error)
