"""The progress of several experiments on a terminal: one bar each, with the time left."""

import contextlib
import sys
from collections.abc import Callable, Iterator, Mapping

Advance = Callable[..., None]


@contextlib.contextmanager
def bars(totals: Mapping[str, int | float], enabled: bool | None = None) -> Iterator[Advance]:
    """A bar on standard error for each name, moved by `advance(name, steps=1)`;
    silent where that is no terminal.

    What is written to standard output or error meanwhile appears above the bars.
    """
    if not (sys.stderr.isatty() if enabled is None else enabled):
        yield _nothing
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

        yield advance


def _nothing(name: str, steps: int | float = 1) -> None:
    pass
