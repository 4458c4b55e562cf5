"""The command `limitlaw learn`: what networks with few heads make of a task."""

import dataclasses
import math
from pathlib import Path

import typer

from limitlaw.apps.cli.errors import opened
from limitlaw.apps.cli.options import FORCE, argument, command, flag, option
from limitlaw.apps.cli.output import PICTURES, printed_table
from limitlaw.digits import compact

TASKS = ("retrieval",)


@dataclasses.dataclass(frozen=True, kw_only=True)
class LearnOptions:
    """The options of `limitlaw learn`."""

    task: str = argument(..., "TASK", "retrieval")
    heads: str = option("1,2,4,inf", "H,H,…", "Numbers of heads; inf is a Gaussian process.")
    train: list[int] | None = option(None, "M", "Training sequences; may be repeated. 120.")
    samples: int = option(1024, "N", "Particles of the sampler.")
    seed: int = option(0, "N", "Seed of the task, and of the sampler.")
    plot: Path | None = option(None, "FILE", "Draw learning curves and attention into a .png, …")
    force: bool = flag(FORCE)


@command("learn", "ask for fewer --samples, --train or --heads")
def learn(asked: LearnOptions) -> None:
    """The posterior of an infinitely wide attention layer on a task: test error, evidence, and
    attention, for each number of heads.

    retrieval: the first token of a sequence asks for the value behind its key. A Gaussian process,
    that is infinitely many heads, does not learn it; few heads do.

    \b
    Examples:
      limitlaw learn retrieval
      limitlaw learn retrieval --heads 1,inf --train 40 --train 80 --train 120 --plot learnt.png
    """
    if asked.task not in TASKS:
        raise ValueError(f"TASK must be one of {', '.join(TASKS)}, got {asked.task!r}")
    heads = [_heads(text) for text in asked.heads.split(",")]
    from limitlaw.apps.learn.figures import learning_figure
    from limitlaw.apps.learn.retrieval import Answer, Retrieval

    answers: list[tuple[int, Answer]] = []
    with opened("--plot", asked.plot, PICTURES) as picture:
        for train in asked.train or [120]:
            task = Retrieval(train=train, seed=asked.seed)
            answers += [(train, task.answer(h, asked.samples, asked.seed)) for h in heads]
        if asked.plot is not None and picture is not None:
            figure = learning_figure(answers)
            figure.savefig(picture, format=asked.plot.suffix[1:].lower(), dpi=150)
    if asked.plot is not None:
        typer.echo(f"wrote {asked.plot}", err=True)
    printed_table(
        ("sequences", "heads", "test error", "log evidence", "attention to the answer", ""),
        [
            (
                str(train),
                _shown(answer.heads),
                f"{answer.test_error:.2g}",
                compact(answer.log_evidence, answer.error),
                "" if answer.attention is None else f"{answer.attention:.3f}",
                "" if answer.posterior.stable else "evidence not stable",
            )
            for train, answer in answers
        ],
        "Retrieval: mean squared test error (1 is knowing nothing)",
        f"seed {asked.seed}; {asked.samples} particles, ± one standard error",
        120,
    )


def _heads(text: str) -> int | float:
    if text.strip() == "inf":
        return math.inf
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"--heads must be numbers, or inf, got {text!r}") from None


def _shown(heads: int | float) -> str:
    return "∞" if heads == math.inf else str(heads)
