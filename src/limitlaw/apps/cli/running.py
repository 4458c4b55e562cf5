"""Shared by the commands that run experiments: progress, threads, pictures beside the work."""

import contextlib
import multiprocessing
import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from limitlaw.apps.cli import errors
from limitlaw.engines.bounds import reached
from limitlaw.progress import Watch, watched

if TYPE_CHECKING:
    from limitlaw.apps.paper.experiment import Experiment
    from limitlaw.apps.paper.reproduce import Outcome
    from limitlaw.runs import Table

KNOWN_AFTER = 60.0  # seconds, after which it is known how long a command takes
Advance = Callable[..., None]  # (name, steps)
Drawing = Callable[[dict[str, "Table"], Path], Any]  # draws the pictures of tables into a folder


@contextlib.contextmanager
def bars(totals: Mapping[str, int | float], enabled: bool | None = None) -> Iterator[Advance]:
    """A bar on standard error for each name, moved by `advance(name, steps=1)`, or a line for all
    every ten seconds where it is no terminal.

    Ends in an error where the first minute shows that all of it takes too long (`bounds`).
    """
    if not (sys.stderr.isatty() if enabled is None else enabled):
        with watched(", ".join(totals)) as watch:
            yield _judged(lambda name, steps: None, sum(totals.values()), watch)
        return
    from rich.console import Console  # costs 50 ms to import, so only where a person watches
    from rich.progress import Progress

    with Progress(console=Console(stderr=True)) as progress:
        tasks = {name: progress.add_task(name, total=total) for name, total in totals.items()}

        def advance(name: str, steps: int | float = 1) -> None:
            progress.advance(tasks[name], steps)

        yield _judged(advance, sum(totals.values()), Watch("all"))


def _judged(advance: Advance, total: int | float, watch: Watch) -> Advance:
    """`advance`, with all steps counted and timed."""
    done = 0.0

    def counted(name: str, steps: int | float = 1) -> None:
        nonlocal done
        advance(name, steps)
        done += steps
        reached(watch, round(done), round(total), KNOWN_AFTER)

    return counted


def check(name: str, seed: int, jobs: int | None, cluster: str | None = None) -> None:
    """Refuse impossible options of a command that runs experiments, before any heavy import."""
    if seed < 0:
        raise ValueError(f"--seed must not be negative, got {seed}")
    check_workers(jobs, cluster)
    errors.check_extra(name, "plotly", "plotly", "paper")


def outcome(
    chosen: "Sequence[Experiment]",
    settings: Any,
    out: Path,
    draw: Drawing,
    jobs: int | None,
    cluster: str | None = None,
) -> "tuple[Outcome, int]":
    """Tables and claims of some experiments, and the number of workers; it draws pictures, too."""
    from limitlaw.apps.paper.reproduce import Listener, reproduce, totals
    from limitlaw.runs.executors import workers_of

    with (
        workers(jobs, cluster) as executor,
        drawing(out / "figures", draw) as ready,
        bars(totals(chosen, settings)) as advance,
    ):
        count = workers_of(executor)
        return reproduce(chosen, settings, out, executor, Listener(advance, ready, warn)), count


def reported(
    found: "Outcome", facts: Mapping[str, Any], out: Path, report: Callable[..., None]
) -> bool:
    """Write the report, print which claims hold, and say whether all of them do."""
    from limitlaw.runs.chunks import versions
    from limitlaw.runs.disk import one_line_errors

    with one_line_errors("write", out):
        whole = {**facts, "versions": versions()}
        report(found.tables, found.claims, whole, out / "report.html")
    claims = found.claims
    broken = [i for i, holds in enumerate(claims["holds"]) if holds != "yes"]
    total = len(claims["holds"])
    typer.echo(f"{total - len(broken)} of {total} claims hold")
    for i in broken:
        claim, expected, measured = (claims[n][i] for n in ("claim", "expected", "measured"))
        typer.echo(f"  does not hold: {claim} (expected {expected}; measured {measured})")
    if facts.get("speedup"):
        typer.echo(f"speed-up over drawing every matrix: {facts['speedup']}")
    typer.echo(f"report: {out / 'report.html'}   data: {out / 'data'}   {facts['seconds']:.0f} s")
    return not broken


def check_workers(jobs: int | None, cluster: str | None = None) -> None:
    """Raise unless the options name some threads of this machine, or a cluster."""
    if jobs is not None and jobs < 1:
        raise ValueError(f"--jobs must be at least 1, got {jobs}")
    if jobs is not None and cluster is not None:
        raise ValueError("--jobs is for this machine, --cluster for another: give one of them")


@contextlib.contextmanager
def workers(jobs: int | None, cluster: str | None = None) -> Iterator[Executor]:
    """A context with the executor of chunks. However it ends, unfinished chunks are cancelled."""
    check_workers(jobs, cluster)
    from limitlaw.runs import executors, runner

    executor = executors.local(jobs) if cluster is None else executors.cluster(cluster)
    try:
        yield executor
    except runner.ChunkError as error:
        warn(str(error))
        raise typer.Exit(1) from error
    except KeyboardInterrupt:
        errors.told.set()
        warn("stopped; what is finished is kept, the same command goes on from there")
        raise typer.Exit(130) from None
    finally:
        executor.shutdown(wait=False, cancel_futures=True)


@contextlib.contextmanager
def drawing(folder: Path, draw: Drawing) -> Iterator[Callable[[dict[str, "Table"]], None]]:
    """A context with a function that draws tables as they come, in a process beside the work."""
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
    """End this process, which draws, when the command is killed."""
    parent = multiprocessing.parent_process()
    assert parent is not None

    def watch() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _drawn(draw: Drawing, tables: dict[str, "Table"], folder: Path) -> None:
    from limitlaw.runs.disk import one_line_errors

    with one_line_errors("write", folder):
        draw(tables, folder)


def warn(message: str) -> None:
    print(f"limitlaw: {message}", file=sys.stderr)
