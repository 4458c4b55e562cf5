"""The commands `limitlaw depth` and `limitlaw phase`: a Transformer by options → statistics along depth, or a map."""

import contextlib
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import typer

from limitlaw.digits import compact, short

if TYPE_CHECKING:
    from limitlaw.depth import Trace
    from limitlaw.depth.network import Network


PRINTED = "variance,correlation,effective_rank,entropy,participation,score_variance,kurtosis,kl"


def network_of(settings: dict[str, Any]) -> "Network":
    """The network that the options describe."""
    import jax

    jax.config.update("jax_enable_x64", True)
    from limitlaw.depth.network import Network

    return Network(**settings)


def traces_of(
    network: "Network", statistics: str | None, widths: Sequence[int], samples: int | None, seed: int | None
) -> list["Trace"]:
    """As n → ∞, and at each width."""
    from limitlaw.depth import STATISTICS, trace

    names = [name.strip() for name in (statistics or PRINTED).split(",") if name.strip()]
    if statistics == "all":
        names = list(STATISTICS)
    program = network.program()
    return [trace(program, names, width, samples, seed) for width in (None, *widths)]


def print_trace(trace: "Trace", title: str, every: int) -> None:
    """The table of a trace, every so many layers and the last."""
    from rich.console import Console
    from rich.table import Table

    table = Table("layer", *trace.labels.values(), title=title, title_justify="left", title_style="")
    for layer in range(len(trace)):
        if layer % every == 0 or layer == len(trace) - 1:
            table.add_row(str(layer), *(_cell(column, layer) for column in trace.columns.values()))
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 140)
    console.print(table)
    console.print(trace.title, soft_wrap=True, markup=False)


def _cell(column: Any, layer: int) -> str:
    value, error = float(column.value[layer]), float(column.error[layer])
    return "–" if math.isnan(value) else short(value) if not error > 0 else compact(value, error)


class PhaseRequest(NamedTuple):
    """What `limitlaw phase` was asked for."""

    network: dict[str, Any]
    statistic: str
    x: str
    y: str
    at: int | None
    width: int | None
    samples: int
    seed: int
    out: Path
    jobs: int | None
    cluster: str | None


def phase(request: PhaseRequest) -> None:
    """Compute what is missing, write the table and the picture, and say where they are."""
    network = network_of(request.network)
    from limitlaw.cli import running
    from limitlaw.cli.progress import bars
    from limitlaw.depth.phase import Grid, Phase
    from limitlaw.depth.phase import phase as computed
    from limitlaw.depth.trace import chosen_statistics
    from limitlaw.figures.depth import phase_figure
    from limitlaw.files import replacing
    from limitlaw.runs import executors

    (statistic,) = chosen_statistics([request.statistic])
    at = network.depth if request.at is None else request.at
    if not 0 <= at <= network.depth:
        raise ValueError(f"--at must be one of 0 … {network.depth}, got {at}")
    x, y = Grid.of(request.x, "--x"), Grid.of(request.y, "--y")
    if x.name == y.name:
        raise ValueError(f"--x and --y must be two different scales, got {x.name} twice")
    asked = Phase(network, request.statistic, x, y, at, request.width, request.samples, request.seed)
    if request.jobs is not None and request.cluster is not None:
        raise ValueError("--jobs is for this machine, --cluster for another: give one of them")
    executor = executors.local(request.jobs) if request.cluster is None else executors.cluster(request.cluster)
    points = len(x.values) * len(y.values)
    with contextlib.ExitStack() as stack:
        stack.enter_context(running.one_line())
        stack.enter_context(running.stopping(executor))
        advance = stack.enter_context(bars({"phase": points}))
        table = computed(asked, request.out, executor, lambda: advance("phase"), running.warn)
    with replacing(request.out / "phase.png") as file:
        phase_figure(table, asked, statistic.label or statistic.name).savefig(file, format="png", dpi=150)
    typer.echo(f"{points} points: {request.out / 'phase.csv'}   picture: {request.out / 'phase.png'}")
