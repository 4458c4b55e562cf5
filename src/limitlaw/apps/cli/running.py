"""What commands that run experiments share: bars of progress, threads that stop, a process that
draws, one line for what goes wrong.
"""

import contextlib
import multiprocessing
import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor, ProcessPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from limitlaw.apps.cli import errors
from limitlaw.engines.bounds import reached
from limitlaw.progress import Watch, watched

if TYPE_CHECKING:
    from limitlaw.runs import Table

KNOWN = 60.0  # seconds, after which it is known how long a command takes
Advance = Callable[..., None]  # of a name, by so many steps
Draw = Callable[[dict[str, "Table"], Path], Any]  # the pictures of some tables, into a folder


@contextlib.contextmanager
def bars(totals: Mapping[str, int | float], enabled: bool | None = None) -> Iterator[Advance]:
    """A bar on standard error for each name, moved by `advance(name, steps=1)`;
    where that is no terminal, a line for all of them every ten seconds. Ends in an error where the
    first minute says that all of it takes too long (`bounds`).

    What is written to standard output or error meanwhile appears above the bars.
    """
    if not (sys.stderr.isatty() if enabled is None else enabled):
        with watched(", ".join(totals)) as watch:
            yield _judged(_nothing, sum(totals.values()), watch)
        return
    from rich.console import Console  # costs 50 ms to import, so only where a person watches
    from rich.progress import (
        BarColumn,
        Progress,
        TaskProgressColumn,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as progress:
        tasks = {name: progress.add_task(name, total=total) for name, total in totals.items()}

        def advance(name: str, steps: int | float = 1) -> None:
            progress.advance(tasks[name], steps)

        yield _judged(advance, sum(totals.values()), Watch("all"))


def _judged(advance: Advance, total: int | float, watch: Watch) -> Advance:
    """`advance`, with all that is done counted and timed."""
    done = 0.0

    def counted(name: str, steps: int | float = 1) -> None:
        nonlocal done
        advance(name, steps)
        done += steps
        reached(watch, round(done), round(total), KNOWN)

    return counted


def _nothing(name: str, steps: int | float = 1) -> None:
    pass


def check_seed(seed: int) -> None:
    """A seed that a generator takes."""
    if seed < 0:
        raise ValueError(f"--seed must not be negative, got {seed}")


def summary(out: Path, claims: "Table", facts: Mapping[str, Any]) -> bool:
    """Say where the report is, which claims hold,
    and how long it took; whether all of them hold.
    """
    broken = [i for i, holds in enumerate(claims["holds"]) if holds != "yes"]
    total = len(claims["holds"])
    typer.echo(f"{total - len(broken)} of {total} claims hold")
    for i in broken:
        expected, measured = claims["expected"][i], claims["measured"][i]
        typer.echo(
            f"  does not hold: {claims['claim'][i]} (expected {expected}; measured {measured})"
        )
    if facts.get("speedup"):
        typer.echo(f"speed-up over drawing every matrix: {facts['speedup']}")
    typer.echo(f"report: {out / 'report.html'}   data: {out / 'data'}   {facts['seconds']:.0f} s")
    return not broken


def check_workers(jobs: int | None, cluster: str | None = None) -> None:
    """Some threads of this machine, or a cluster."""
    if jobs is not None and jobs < 1:
        raise ValueError(f"--jobs must be at least 1, got {jobs}")
    if jobs is not None and cluster is not None:
        raise ValueError("--jobs is for this machine, --cluster for another: give one of them")


@contextlib.contextmanager
def workers(jobs: int | None, cluster: str | None = None) -> Iterator[Executor]:
    """Where chunks are computed. Left at once, however it ends, with one line:
    what is not finished is cancelled.
    """
    check_workers(jobs, cluster)
    from limitlaw.runs import executors

    executor = executors.local(jobs) if cluster is None else executors.cluster(cluster)
    with _one_line():
        try:
            yield executor
        finally:
            executor.shutdown(wait=False, cancel_futures=True)


@contextlib.contextmanager
def _one_line() -> Iterator[None]:
    """What ends the work early, in one line."""
    from limitlaw.runs.runner import ChunkError

    try:
        yield
    except ChunkError as error:
        warn(str(error))
        raise typer.Exit(1) from error
    except KeyboardInterrupt:
        errors.told.set()
        warn("stopped; what is finished is kept, the same command goes on from there")
        raise typer.Exit(130) from None


@contextlib.contextmanager
def drawing(folder: Path, draw: Draw) -> Iterator[Callable[[dict[str, "Table"]], None]]:
    """Draw tables as they come, in a process beside the work;
    all is drawn in the end. `draw` is one of a module.
    """
    from limitlaw.runs.disk import make_folder

    make_folder(folder)
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), _end_with_parent) as process:
        futures = []

        def submit(tables: dict[str, "Table"]) -> None:
            futures.append(process.submit(_drawn, draw, tables, folder))

        yield submit
        for future in futures:
            future.result()


def _end_with_parent() -> None:
    """Where the command is killed, the process that draws is not left waiting for more."""
    parent = multiprocessing.parent_process()
    assert parent is not None

    def watch() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _drawn(draw: Draw, tables: dict[str, "Table"], folder: Path) -> None:
    from limitlaw.runs.disk import one_line_errors

    with one_line_errors("write", folder):
        draw(tables, folder)


def warn(message: str) -> None:
    print(f"limitlaw: {message}", file=sys.stderr)
