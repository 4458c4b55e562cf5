"""The command `limitlaw reproduce`: experiments → tables → pictures → report."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import typer

from limitlaw.apps.cli import running
from limitlaw.apps.cli.errors import check_extra

if TYPE_CHECKING:
    from limitlaw.apps.paper.computed.baseline import Cost
    from limitlaw.apps.paper.reproduce import Outcome


class Request(NamedTuple):
    """What was asked for on the command line."""

    names: list[str]
    out: Path
    quick: bool
    seed: int
    trials: int | None
    samples: int | None
    tokens: int | None
    jobs: int | None
    cluster: str | None

    @property
    def command(self) -> str:
        """The command line that asks for this, without where and how it runs."""
        options = {
            "seed": self.seed or None,
            "trials": self.trials,
            "samples": self.samples,
            "tokens": self.tokens,
        }
        given = [f"--{name} {value}" for name, value in options.items() if value is not None]
        return " ".join(["limitlaw reproduce", *self.names, *["--quick"] * self.quick, *given])


def reproduce(request: Request) -> None:
    """Run the experiments, draw, and say where everything is."""
    start = time.perf_counter()
    _check(request)
    from limitlaw.apps.paper import catalogue, report
    from limitlaw.apps.paper.computed import baseline
    from limitlaw.apps.paper.computed.settings import Settings
    from limitlaw.apps.paper.reproduce import Listener, totals
    from limitlaw.apps.paper.reproduce import reproduce as computed
    from limitlaw.runs.executors import workers_of

    experiments = catalogue.chosen(request.names)
    settings = Settings.of(
        request.quick, request.seed, request.trials, request.samples, request.tokens
    )
    cases = [case for experiment in experiments for case in experiment.dense(settings)]
    dense, processor = baseline.cost(cases), time.process_time()
    with (
        running.workers(request.jobs, request.cluster) as executor,
        running.drawing(request.out / "figures", report.draw) as draw,
        running.bars(totals(experiments, settings)) as advance,
    ):
        workers = workers_of(executor)
        outcome = computed(
            experiments, settings, request.out, executor, Listener(advance, draw, running.warn)
        )
    # threads of this process, unless there is a cluster
    used = None if request.cluster else time.process_time() - processor
    clock = Clock(start, workers, used, dense, outcome.chunks, outcome.reused)
    _present(request, settings.described(), outcome, clock)


class Clock(NamedTuple):
    """When the work began, on how many workers, its processor time, and what it would cost to draw
    every matrix.
    """

    start: float
    workers: int
    processor: float | None
    dense: "Cost"
    chunks: int
    reused: int

    def speedup(self) -> str:
        """In core-seconds: a reference over the processor time of this run, so that neither counts
        what else the machine does.
        """
        from limitlaw.apps.paper.computed.baseline import MEASURED

        if not self.dense.samples:
            return ""
        cost = f"NumPy would need {self.dense.seconds / 3600:,.1f} core-hours ({MEASURED})"
        if self.reused:
            return (
                f"not measured, as {self.reused} of {self.chunks} chunks come from an earlier "
                f"run; {cost}"
            )
        if self.processor is None:
            return f"not measured on a cluster; {cost}"
        return (
            f"about {self.dense.seconds / self.processor:,.0f} times; {cost}, this run took "
            f"{self.processor:,.0f} s of processor time on {self.workers} cores"
        )


def _present(request: Request, settings: dict[str, int], outcome: "Outcome", clock: Clock) -> None:
    from limitlaw.apps.paper.computed.networks import ELIDED
    from limitlaw.apps.paper.report import report
    from limitlaw.runs.chunks import versions
    from limitlaw.runs.disk import one_line_errors

    with one_line_errors("write", request.out):
        facts = {
            "command": request.command,
            "seconds": time.perf_counter() - clock.start,
            "speedup": clock.speedup(),
            "settings": settings,
            "versions": versions(),
            "elided": ELIDED,
        }
        report(outcome.tables, outcome.claims, facts, request.out / "report.html")
    if not running.summary(request.out, outcome.claims, facts):
        raise typer.Exit(1)


def _check(request: Request) -> None:
    """Numbers of which there must be at least one, before anything heavy is loaded."""
    for name in ("trials", "samples", "tokens"):
        value, least = getattr(request, name), 2 if name in ("samples", "tokens") else 1
        if value is not None and value < least:
            raise ValueError(f"--{name} must be at least {least}, got {value}")
    if request.tokens is not None and request.names and "fig4" not in request.names:
        raise ValueError(
            "--tokens is the number of tokens of fig4, which is not among "
            f"{', '.join(request.names)}"
        )
    running.check_seed(request.seed)
    running.check_workers(request.jobs, request.cluster)
    check_extra("reproduce", "plotly", "plotly", "paper")
