"""The command `limitlaw studies`: studies → tables → pictures → report."""

import dataclasses
import time
from pathlib import Path
from typing import NamedTuple

from limitlaw.apps.cli import running
from limitlaw.apps.cli.errors import check_extra


class Request(NamedTuple):
    """What was asked for on the command line."""

    names: list[str]
    out: Path
    quick: bool
    seed: int
    jobs: int | None

    @property
    def command(self) -> str:
        """The command line that asks for this, without where and how it runs."""
        seed = [f"--seed {self.seed}"] * bool(self.seed)
        return " ".join(["limitlaw studies", *self.names, *["--quick"] * self.quick, *seed])


def studies(request: Request) -> None:
    """Run the studies, draw, and say where everything is.
    What does not hold is a result as well: the code is 0.
    """
    start = time.perf_counter()
    running.check_seed(request.seed)
    running.check_workers(request.jobs)
    check_extra("studies", "plotly", "plotly", "paper")
    from limitlaw.apps.paper.reproduce import Listener, reproduce, totals
    from limitlaw.apps.studies import report
    from limitlaw.apps.studies.settings import Settings
    from limitlaw.runs.chunks import versions
    from limitlaw.runs.disk import one_line_errors

    chosen, settings = report.chosen(request.names), Settings(request.seed, request.quick)
    with (
        running.workers(request.jobs) as executor,
        running.drawing(request.out / "figures", report.draw) as draw,
        running.bars(totals(chosen, settings)) as advance,
    ):
        outcome = reproduce(
            chosen, settings, request.out, executor, Listener(advance, draw, running.warn)
        )
    facts = {
        "command": request.command,
        "seconds": time.perf_counter() - start,
        "settings": dataclasses.asdict(settings),
        "versions": versions(),
    }
    with one_line_errors("write", request.out):
        report.report(outcome.tables, outcome.claims, facts, request.out / "report.html")
    running.summary(request.out, outcome.claims, facts)
