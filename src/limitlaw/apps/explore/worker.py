"""One thread computes answers, quick ones first, and else in the order of asking; the other
threads wait for them.

It is a single one, because two threads of LAPACK inside JAX have been seen to wait for each other
for ever. What a page asked for is dropped when it asks for something newer, or for nothing: a
calculation under way ends at its next batch of draws. Equal questions of several pages are
computed once; the last answers are kept.
"""

import collections
import threading
from collections.abc import Callable, Hashable
from pathlib import Path

from limitlaw.progress import stoppable

MOST_WAITING = 100  # questions in the queue
MOST_KEPT = 256  # answers, some tens of kilobytes each
PATIENCE = 180.0  # seconds that a page waits for an answer
# areas of memory of 65,530 that a process may map: compiled programs take some each
MOST_MAPPINGS = 45_000

# takes a function that says whether the answer is no longer wanted
Compute = Callable[[Callable[[], bool]], bytes]


class Busy(Exception):
    """Raised where too many questions are waiting."""


class Superseded(Exception):
    """Raised where the page asked for something newer, or for nothing any more."""


class _Job:
    def __init__(self, key: Hashable, compute: Compute, rank: int) -> None:
        self.key, self.compute, self.rank = key, compute, rank
        self.wanted_by: set[Hashable] = set()
        self.stopped = threading.Event()
        self.done = False
        self.answer = b""
        self.error: BaseException | None = None


class Worker:
    """The thread that computes: `ask` from any thread, and `stop` at the end."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._waiting: list[_Job] = []
        self._jobs: dict[Hashable, _Job] = {}  # jobs that wait or are computed
        self._asked: dict[Hashable, _Job] = {}  # the job that each asker waits for
        self._kept: collections.OrderedDict[Hashable, bytes] = collections.OrderedDict()
        self._over = False
        self._thread = threading.Thread(target=self._work, name="limitlaw explore", daemon=True)
        self._thread.start()

    def ask(self, who: Hashable, key: Hashable, compute: Compute, rank: int = 0) -> bytes:
        """The answer under `key`, computed if it is not kept.

        `who` waits for one answer at a time: the newest. `rank` is 0 for quick questions; those of
        a higher rank wait until none of a lower one does.
        """
        with self._changed:
            self._forget(who, but=key)
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
            job = self._jobs.get(key) or self._queued(key, compute, rank)
            job.wanted_by.add(who)
            self._asked[who] = job
            in_time = self._changed.wait_for(
                lambda: job.done or who not in job.wanted_by or self._over, PATIENCE
            )
            if not in_time:
                self._forget(who)
                raise Busy(f"no answer within {PATIENCE:g} s")
            if not job.done or who not in job.wanted_by:
                raise Superseded
            if self._asked.get(who) is job:
                del self._asked[who]
        if job.error is not None:
            raise job.error
        return job.answer

    def forget(self, who: Hashable) -> bool:
        """Drop the question of `who`; says whether an answer was being waited for."""
        with self._changed:
            return self._forget(who)

    def stop(self) -> None:
        """Compute nothing after what is being computed now."""
        with self._changed:
            self._over = True
            for job in self._jobs.values():
                job.stopped.set()
            self._changed.notify_all()

    def _queued(self, key: Hashable, compute: Compute, rank: int) -> _Job:
        if len(self._waiting) >= MOST_WAITING:
            raise Busy(f"{MOST_WAITING} questions wait already")
        job = self._jobs[key] = _Job(key, compute, rank)
        self._waiting.append(job)
        self._changed.notify_all()
        return job

    def _forget(self, who: Hashable, but: Hashable = None) -> bool:
        job = self._asked.get(who)
        if job is None or job.key == but:
            return False
        del self._asked[who]
        job.wanted_by.discard(who)
        if not job.wanted_by and not job.done:
            job.stopped.set()
            self._jobs.pop(job.key, None)
            if job in self._waiting:
                self._waiting.remove(job)
        self._changed.notify_all()
        return True

    def _work(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._over)
                if self._over:
                    return
                job = min(self._waiting, key=lambda job: job.rank)  # the first of them
                self._waiting.remove(job)
            try:
                with stoppable(job.stopped.is_set):
                    job.answer = job.compute(job.stopped.is_set)
            except Exception as error:
                job.error = error
            with self._changed:
                job.done = True
                if self._jobs.get(job.key) is job:
                    del self._jobs[job.key]
                if job.error is None:
                    self._kept[job.key] = job.answer
                    while len(self._kept) > MOST_KEPT:
                        self._kept.popitem(last=False)
                self._changed.notify_all()
            _tidy()


def _tidy() -> None:
    """Forget compiled programs before there are more than a process can map."""
    maps = Path("/proc/self/maps")
    if not maps.exists() or maps.read_bytes().count(b"\n") <= MOST_MAPPINGS:
        return
    import jax

    from limitlaw.engines.engine import clear_cache

    clear_cache()
    jax.clear_caches()
