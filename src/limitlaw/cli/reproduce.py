"""The command `limitlaw reproduce`: experiments → tables → pictures → report."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import typer

from limitlaw.cli import running

if TYPE_CHECKING:
    from limitlaw.paper.computed.baseline import Cost
    from limitlaw.paper.reproduce import Outcome


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
    import jax

    jax.config.update("jax_enable_x64", True)
    from limitlaw.paper import catalogue, report
    from limitlaw.paper.computed import baseline
    from limitlaw.paper.computed.settings import Settings
    from limitlaw.paper.reproduce import Listener, totals
    from limitlaw.paper.reproduce import reproduce as computed
    from limitlaw.runs.executors import workers_of

    experiments = catalogue.chosen(request.names)
    settings = Settings.of(
        request.quick, request.seed, request.trials, request.samples, request.tokens
    )
    cases = [case for experiment in experiments for case in experiment.dense(settings)]
    timing = time.perf_counter()
    dense = baseline.cost(cases, 1e6 if request.quick else 1e8)
    timing = time.perf_counter() - timing
    with (
        running.workers(request.jobs, request.cluster) as executor,
        running.drawing(request.out / "figures", report.draw) as draw,
        running.bars(totals(experiments, settings)) as advance,
    ):
        workers = workers_of(executor)
        outcome = computed(
            experiments, settings, request.out, executor, Listener(advance, draw, running.warn)
        )
    clock = Clock(start + timing, workers, dense, outcome.chunks, outcome.reused)
    _present(request, settings.described(), outcome, clock)


class Clock(NamedTuple):
    """When the work began, on how many workers, and what it would cost to draw every matrix."""

    start: float
    workers: int
    dense: "Cost"
    chunks: int
    reused: int

    def speedup(self) -> str:
        """In core-seconds, with all that was measured."""
        if not self.dense.samples:
            return ""
        how = (
            f"{self.dense.timed} of its networks timed in this run, larger ones scaled by their "
            "random numbers"
        )
        cost = f"NumPy would need {self.dense.seconds / 3600:,.1f} core-hours ({how})"
        if self.reused:
            return (
                f"not measured, as {self.reused} of {self.chunks} chunks come from an earlier "
                f"run; {cost}"
            )
        seconds = time.perf_counter() - self.start
        ratio = self.dense.seconds / (seconds * self.workers)
        return (
            f"about {ratio:,.0f} times; {cost}, this run took {seconds:,.0f} s on {self.workers} "
            "cores"
        )


def _present(request: Request, settings: dict[str, int], outcome: "Outcome", clock: Clock) -> None:
    from limitlaw.paper.computed.networks import ELIDED
    from limitlaw.paper.report import report
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
