"""A progress bar on a terminal; silence elsewhere."""

import sys
from collections.abc import Iterable, Iterator


def track(steps: Iterable[int], label: str, total: int) -> Iterator[int]:
    """`steps`, with a bar on standard error that shows the time left when that is a terminal."""
    if total < 2 or not sys.stderr.isatty():
        yield from steps
        return
    from rich.console import Console  # costs 50 ms to import, so only where a person watches
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    columns = TextColumn(label), BarColumn(), TaskProgressColumn(), TimeRemainingColumn()
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        yield from bar.track(steps, total=total)
