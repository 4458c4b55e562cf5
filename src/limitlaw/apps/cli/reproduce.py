"""The commands `limitlaw reproduce` and `studies`: experiments → tables → pictures → report."""

import dataclasses
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import typer

from limitlaw.apps.cli import running
from limitlaw.apps.cli.options import FOLDER, FORCE, JOBS, argument, command, flag, option

if TYPE_CHECKING:
    from limitlaw.apps.paper.computed.baseline import Cost

KEPT = "--quick is a first look; what is finished is kept"


@dataclasses.dataclass(frozen=True)
class Reproduction:
    """The options of `limitlaw reproduce`."""

    names: list[str] | None = argument(
        None, "[EXPERIMENT]...", "Such as fig1, fig5, heads or theorem; all without a name."
    )
    quick: bool = flag("A first look, with fewer samples, in half a minute.")
    out: Path = option(Path("out/reproduction"), "FOLDER", FOLDER)
    seed: int = option(0, "N", "Seed of all draws.")
    trials: int | None = option(None, "N", "Trials of the paper's estimator; 10.")
    samples: int | None = option(
        None, "N", "Samples of a trial; 50,000, and twice as many in figure 5."
    )
    tokens: int | None = option(None, "S", "Tokens of figure 4; 16.")
    jobs: int | None = option(None, "N", JOBS)
    cluster: str | None = option(
        None, "ADDRESS", "A Dask scheduler whose workers compute, tcp://host:8786."
    )
    force: bool = flag(FORCE)


@command("reproduce", KEPT)
def reproduce(asked: Reproduction) -> None:
    """Every experiment of the paper, and some beyond it,
    at the paper's counts: data, figures and a report.

    What is finished is kept in FOLDER/chunks: a command that was stopped goes on where it was,
    with the same result.

    \b
    Examples:
      limitlaw reproduce
      limitlaw reproduce fig1 fig3 --quick
      limitlaw reproduce fig4 --tokens 32 --out more-tokens
      limitlaw reproduce --cluster tcp://10.0.0.1:8786
    """
    start = time.perf_counter()
    given = {"trials": asked.trials, "samples": asked.samples, "tokens": asked.tokens}
    _check(given, asked.names)
    running.check("reproduce", asked.seed, asked.jobs, asked.cluster)
    from limitlaw.apps.paper import catalogue, report
    from limitlaw.apps.paper.computed import baseline
    from limitlaw.apps.paper.computed.networks import ELIDED
    from limitlaw.apps.paper.computed.settings import Settings

    chosen = catalogue.chosen(asked.names or [])
    settings = Settings.of(asked.quick, asked.seed, **given)
    dense = baseline.cost(case for each in chosen for case in each.dense(settings))
    processor = time.process_time()
    outcome, workers = running.outcome(
        chosen, settings, asked.out, report.draw, asked.jobs, asked.cluster
    )
    # the threads of this process, unless there is a cluster
    used = None if asked.cluster else time.process_time() - processor
    clock = Clock(workers, used, dense, outcome.chunks, outcome.reused)
    facts = {
        "command": _command_line("reproduce", asked, given),
        "seconds": time.perf_counter() - start,
        "speedup": clock.speedup(),
        "settings": settings.described(),
        "elided": ELIDED,
    }
    if not running.reported(outcome, facts, asked.out, report.report):
        raise typer.Exit(1)


@dataclasses.dataclass(frozen=True)
class Studies:
    """The options of `limitlaw studies`."""

    names: list[str] | None = argument(
        None, "[STUDY]...", "Such as giorlandino, noci or tails; all without a name."
    )
    quick: bool = flag("A first look, with fewer draws, in a minute.")
    out: Path = option(Path("out/studies"), "FOLDER", FOLDER)
    seed: int = option(0, "N", "Seed of all draws.")
    jobs: int | None = option(None, "N", JOBS)
    force: bool = flag(FORCE)


@command("studies", KEPT)
def studies(asked: Studies) -> None:
    """What others published about deep Transformers, computed again:
    data, figures, and which claims hold.

    What is finished is kept in FOLDER/chunks: a command that was stopped goes on where it was,
    with the same result.

    \b
    Examples:
      limitlaw studies --quick
      limitlaw studies noci tails --out depth
    """
    start = time.perf_counter()
    running.check("studies", asked.seed, asked.jobs)
    from limitlaw.apps.studies import report
    from limitlaw.apps.studies.settings import StudySettings

    chosen, settings = report.chosen(asked.names or []), StudySettings(asked.seed, asked.quick)
    outcome, _ = running.outcome(chosen, settings, asked.out, report.draw, asked.jobs)
    facts = {
        "command": _command_line("studies", asked, {}),
        "seconds": time.perf_counter() - start,
        "settings": dataclasses.asdict(settings),
    }
    # that a claim does not hold is a result as well: the code is 0
    running.reported(outcome, facts, asked.out, report.report)


def _command_line(name: str, asked: Reproduction | Studies, given: Mapping[str, Any]) -> str:
    """The command line for these options, without those of where and how it runs."""
    options = {"seed": asked.seed or None, **given}
    words = [f"--{option} {value}" for option, value in options.items() if value is not None]
    return " ".join(["limitlaw", name, *(asked.names or ()), *["--quick"] * asked.quick, *words])


def _check(given: Mapping[str, int | None], names: list[str] | None) -> None:
    """Refuse numbers that are too small, before anything heavy is loaded."""
    for name, value in given.items():
        least = 1 if name == "trials" else 2
        if value is not None and value < least:
            raise ValueError(f"--{name} must be at least {least}, got {value}")
    if given["tokens"] is not None and names and "fig4" not in names:
        among = f"which is not among {', '.join(names)}"
        raise ValueError(f"--tokens is the number of tokens of fig4, {among}")


class Clock(NamedTuple):
    """The workers of a run, its processor time (None: not known), the cost of drawing every
    matrix, its chunks, and how many of them an earlier run had computed.
    """

    workers: int
    processor: float | None
    dense: "Cost"
    chunks: int
    reused: int

    def speedup(self) -> str:
        """Core-seconds of a reference over those of this run; other processes do not count."""
        from limitlaw.apps.paper.computed.baseline import REFERENCE

        if not self.dense.samples:
            return ""
        cost = f"NumPy would need {self.dense.seconds / 3600:,.1f} core-hours ({REFERENCE})"
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
