"""A line of progress on standard error, which changes in place in a terminal or notebook, else a
new one every ten seconds; and a way to stop a calculation before its end.
"""

import contextlib
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator

FIRST, AGAIN = 1.0, 0.2  # seconds before the line appears, and between its changes
EVERY = 10.0  # seconds between lines in a file or a pipe
BAR = 24  # characters of the bar
_PAINTING = threading.Lock()  # one line at a time
_current: "Watch | None" = None  # the calculation whose line that is
_this_thread = threading.local()  # `stopped`: is what it computes no longer wanted?


class Watch:
    """The progress of a calculation. It compiles until `reached` is first called."""

    def __init__(self, label: str) -> None:
        self.label, self.thread = label, threading.get_ident()
        self.start()

    def start(self) -> None:
        """Begin another part of the calculation."""
        end_if_stopped()
        self.done = self.total = self._before = 0
        self.judged = False  # was the time that all steps take checked?
        self._began = self._drawing = time.monotonic()

    def reached(self, done: int, total: int) -> None:
        """Note that `done` steps of `total` are finished."""
        end_if_stopped()
        if not self.total:
            self._drawing = time.monotonic()
            # these took the compiler's time, which says nothing about the rest
            self._before = done
        self.done, self.total = done, total

    def pace(self) -> tuple[float, float]:
        """Seconds since the first steps were compiled, and at this pace for all; 0 if unknown."""
        elapsed, steps = time.monotonic() - self._drawing, self.done - self._before
        return elapsed, elapsed * (self.total - self._before) / steps if steps else 0.0

    def line(self, bar: bool = True) -> str:
        """The line of progress as it is now."""
        now = time.monotonic()
        if not self.total:
            return f"{self.label}: compiling … {clock(now - self._began)}"
        share = min(1.0, self.done / self.total)
        full = round(BAR * share)
        drawn = f"{'━' * full}{'╌' * (BAR - full)} " if bar else ""
        text = f"{self.label}: {drawn}{share:4.0%} of {self.total:,}"
        steps = self.done - self._before
        if not steps:
            return f"{text}, {clock(now - self._began)} so far"
        return f"{text}, {clock((now - self._drawing) * (self.total - self.done) / steps)} left"


@contextlib.contextmanager
def watched(label: str) -> Iterator[Watch]:
    """A context for a calculation that shows its progress where a person watches, from the first
    second to its end, on the line of one that it is inside of; silent in another thread.
    """
    global _current
    if _current is not None and _current.thread == threading.get_ident():
        _current.start()
        yield _current
        return
    watch = Watch(label)
    paint = _painter()
    if paint is None or not _PAINTING.acquire(blocking=False):
        yield watch
        return
    over = threading.Event()
    painter = threading.Thread(target=paint, args=(watch, over), daemon=True)
    painter.start()
    _current = watch
    try:
        yield watch
    finally:
        _current = None
        over.set()
        painter.join()
        _PAINTING.release()


@contextlib.contextmanager
def stoppable(stopped: Callable[[], bool]) -> Iterator[None]:
    """A context in which calculations of this thread end with an InterruptedError once `stopped()`
    is true: at the next batch of draws, or the next block of an integrand. A compiler at work is
    waited for.
    """
    _this_thread.stopped = stopped
    try:
        yield
    finally:
        del _this_thread.stopped


def end_if_stopped() -> None:
    """Raise InterruptedError if the calculation is unwanted by now; called between steps."""
    stopped = getattr(_this_thread, "stopped", None)
    if stopped is not None and stopped():
        raise InterruptedError("the calculation was stopped")


def _painter() -> Callable[[Watch, threading.Event], None] | None:
    """The function that shows progress on standard error; None if another bar or a test does."""
    stream, own = sys.stderr, sys.__stderr__
    if type(stream).__module__.partition(".")[0] == "ipykernel":
        return _paint
    if own is None or stream is not own:
        return None
    return _paint if own.isatty() else _write


def _paint(watch: Watch, over: threading.Event) -> None:
    """Rewrite the line until `over`, in its own thread: the main one may be compiling."""
    stream, length = sys.stderr, 0
    while not over.wait(AGAIN if length else FIRST):
        line = _shown(watch.line())[: shutil.get_terminal_size().columns - 1]
        stream.write("\r" + line.ljust(length))
        stream.flush()
        length = max(length, len(line))
    if length:
        stream.write("\r" + " " * length + "\r")
        stream.flush()


def _write(watch: Watch, over: threading.Event) -> None:
    """Write one line after the other until `over`."""
    while not over.wait(EVERY):
        with contextlib.suppress(OSError, ValueError):  # a pipe or a file that was closed
            print(_shown(watch.line(bar=False)), file=sys.stderr, flush=True)


def _shown(line: str) -> str:
    """The line without characters that standard error cannot show."""
    encoding = sys.stderr.encoding or "ascii"
    return line.encode(encoding, "replace").decode(encoding)


def clock(seconds: float) -> str:
    """A time as minutes and seconds, 1:05."""
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"
