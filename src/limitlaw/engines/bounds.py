"""Refusals: a call that would take more memory than there is, or longer than a user waits, raises
one line that says how much it would take and what to ask for instead. With `force=True` it goes
on.
"""

import contextlib
import contextvars
import functools
import math
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple, ParamSpec, TypeVar

from limitlaw.digits import duration
from limitlaw.engines.effort import BUDGET
from limitlaw.progress import Watch, watched

P = ParamSpec("P")
T = TypeVar("T")
MEMINFO = Path("/proc/meminfo")
CGROUPS = (  # files with limit and use of memory, in a container
    ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
    (
        "/sys/fs/cgroup/memory/memory.limit_in_bytes",
        "/sys/fs/cgroup/memory/memory.usage_in_bytes",
    ),
)


class Call(NamedTuple):
    """A call of a user's: its name, how to ask for less, and whether it is forced to go on."""

    name: str = "this"
    advice: str = "ask for less"
    force: bool = False


NOBODY = Call()
_call: contextvars.ContextVar[Call] = contextvars.ContextVar("call", default=NOBODY)


@contextlib.contextmanager
def calling(call: Call) -> Iterator[None]:
    """Refusals inside are in the name of this call, or of the one that made it; with `force`
    nothing is refused.
    """
    outer = _call.get()
    named = call if outer is NOBODY else outer
    token = _call.set(named._replace(force=outer.force or call.force))
    try:
        yield
    finally:
        _call.reset(token)


def bounded(advice: str) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """A decorator: the function is watched under its name, and its work refused where it would
    take too much, unless its keyword `force` is true. `advice` says what to ask for instead.
    """

    def decorated(function: Callable[P, T]) -> Callable[P, T]:
        name = function.__name__

        @functools.wraps(function)
        def bounded_function(*args: P.args, **kwargs: P.kwargs) -> T:
            with calling(Call(name, advice, bool(kwargs.get("force")))), watched(name):
                return function(*args, **kwargs)

        return bounded_function

    return decorated


def later(function: Callable[P, T]) -> Callable[P, T]:
    """A part of a law that is computed when it is first asked for, under the name and `force` of
    the call that makes the law.
    """
    made_by = _call.get()

    def called(*args: P.args, **kwargs: P.kwargs) -> T:
        with calling(made_by):
            return function(*args, **kwargs)

    return called


def refuse(message: str) -> None:
    """Raise this message, unless the user's call has force=True."""
    if not _call.get().force:
        raise ValueError(f"{message}; force=True goes on")


def check_seconds(seconds: float, what: str = "") -> None:
    """Refuse a calculation that takes longer than `BUDGET.longest`."""
    if seconds > BUDGET.longest:
        name, advice, _ = _call.get()
        refuse(
            f"{name} would take about {duration(seconds)}{what and f' ({what})'}, longer than "
            f"{duration(BUDGET.longest)}: {advice}"
        )


def check_bytes(count: int) -> None:
    """Refuse a calculation that needs more memory than is free."""
    if count <= BUDGET.noticed:
        return
    free = free_gib()
    if count / 2**30 > free:
        name, advice, _ = _call.get()
        refuse(
            f"{name} would take {count / 2**30:,.3g} GiB of memory, of {free:.3g} GiB that are "
            f"free on this machine: {advice}"
        )


def reached(watch: Watch, done: int, total: int, known: float | None = None) -> None:
    """Note that `done` steps of `total` are finished, and refuse the rest if at the pace of the
    first `known` seconds (by default `BUDGET.known`) it would take too long.
    """
    watch.reached(done, total)
    elapsed, whole = watch.pace()
    if whole and not watch.judged and elapsed > (BUDGET.known if known is None else known):
        watch.judged = True
        check_seconds(whole, f"the first {done:,} of {total:,} took {duration(elapsed)}")


def check_memory(samples: int, numbers: int, advice: str) -> None:
    """Refuse draws of so many numbers each that do not fit into memory, before any is drawn."""
    size, most = 8 * samples * numbers / 2**30, most_gib()
    if size > most:
        plural = "" if numbers == 1 else "s"
        refuse(
            f"samples={samples} would take {size:,.0f} GiB, with {numbers} number{plural} a draw, "
            f"and a result may take {most:.3g} GiB on this machine: {advice}"
        )


def check_covariance(entries: int) -> None:
    """Refuse a covariance over so many entries that it does not fit into memory."""
    size = 8 * entries**2 / 2**30
    if size > most_gib():
        refuse(
            f"y has {entries} entries, whose covariance would take {size:,.0f} GiB, of "
            f"{most_gib():.3g} GiB on this machine: ask for fewer of them, as y[0]"
        )


def check_draw(width: int, numbers: int, advice: str) -> None:
    """Refuse a width at which a single draw does not fit into memory."""
    size = 8 * numbers / 2**30
    if size > most_gib():
        refuse(
            f"width={width} would take {size:,.0f} GiB for one draw, of {most_gib():.3g} GiB on "
            f"this machine: {advice}"
        )


@functools.cache
def most_gib() -> float:
    """The GiB that a result may take: at most half of this machine's, where that is known."""
    return min(BUDGET.gib, 0.5 * _machine())


def free_gib() -> float:
    """The GiB of memory that are free now: what the system says is available, within the limit of
    a container; half of the machine's where neither is known.
    """
    known = []
    with contextlib.suppress(OSError):
        found = re.search(r"MemAvailable:\s+(\d+) kB", MEMINFO.read_text())
        known += [int(found[1]) / 2**20] if found else []
    for limit, use in CGROUPS:
        with contextlib.suppress(OSError, ValueError):  # "max": no limit
            known.append((int(Path(limit).read_text()) - int(Path(use).read_text())) / 2**30)
    return min(known, default=0.5 * _machine())


def _machine() -> float:
    """All memory of this machine in GiB; ∞ where it is not known."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30
    except (AttributeError, OSError, ValueError):  # not on every system
        return math.inf
