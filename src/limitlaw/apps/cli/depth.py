"""The commands `limitlaw depth` and `limitlaw phase`: a Transformer by options → statistics along
depth, or a map.
"""

import functools
import inspect
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from limitlaw.apps.cli.errors import Force, one_line_errors, opened
from limitlaw.apps.cli.output import PICTURES
from limitlaw.digits import compact
from limitlaw.engines.bounds import Call

if TYPE_CHECKING:
    from limitlaw.depth import Trace
    from limitlaw.depth.network import Network
    from limitlaw.depth.phase import Phase

FEWER = "ask for fewer --samples, --tokens or blocks (--depth)"
PRINTED = "variance,correlation,effective_rank,entropy,participation,score_variance,kurtosis,kl"


DRAWS = Annotated[
    int | None, typer.Option(metavar="N", help="Draws; as many as an error of --rtol takes.")
]
ERROR = Annotated[
    float | None, typer.Option(metavar="R", help="Relative standard error to reach: 0.01.")
]

Settings = dict[str, Any]  # the value of each of these options


def _option(kind: object, default: object, metavar: str, help: str) -> tuple[Any, object]:
    """The annotation that Typer reads, and the value where the option is not given."""
    return Annotated[kind, typer.Option(metavar=metavar, help=help)], default


def _flag(name: str, help: str) -> tuple[Any, object]:
    return Annotated[bool, typer.Option(f"--{name}", help=help)], False


STD = _option(float, 1.0, "SD", "Scale of these matrices.")
NETWORK = {
    "depth": _option(int, 12, "L", "Blocks."),
    "heads": _option(int, 4, "H", "Heads."),
    "head_dim": _option(int | None, None, "D", "Dimension of a head; n × n matrices without it."),
    "tokens": _option(int, 16, "S", "Tokens."),
    "norm": _option(str, "pre", "pre|post|none", "Where the norms stand."),
    "normalise": _option(str, "layernorm", "layernorm|rmsnorm", "Which norm it is."),
    "mask": _option(str | None, None, "causal", "Tokens see themselves and earlier ones."),
    "kv_heads": _option(
        int | None, None, "G", "Key and value heads, shared by groups of queries."
    ),
    "positions": _option(str, "none", "none|rotary|alibi", "What attention sees of positions."),
    "hidden": _option(int, 4, "K", "The MLP has K·n hidden units; 0 for attention alone."),
    "phi": _option(str, "gelu", "gelu|relu|silu|tanh|…", "The nonlinearity of the MLP."),
    "gated": _flag("gated", "A gated MLP, as SwiGLU."),
    "parallel": _flag("parallel", "Attention and MLP read the same vectors."),
    "shared": _flag("shared", "All blocks have the same weights, as in ALBERT."),
    "scale": _option(float, 1.0, "C", "Of each residual branch."),
    "q_std": STD,
    "k_std": STD,
    "v_std": STD,
    "o_std": STD,
    "mlp_std": STD,
    "bias_std": _option(float, 0.0, "SD", "Scale of all biases."),
    "correlation": _option(float, 0.0, "C", "Of the tokens that the first block is given."),
}


def of_a_network(command: Callable[..., None]) -> Callable[..., None]:
    """The command with all options of a Transformer in the place of its parameter `network`, which
    gets their `Settings`.
    """

    @functools.wraps(command)
    def told(**options: Any) -> None:
        command(network={name: options.pop(name) for name in NETWORK}, **options)

    parameters: list[inspect.Parameter] = []
    for parameter in inspect.signature(command).parameters.values():
        own = [parameter.replace(kind=parameter.KEYWORD_ONLY)]
        parameters += _options() if parameter.name == "network" else own
    told.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    told.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return told


def _options() -> list[inspect.Parameter]:
    """The parameters that Typer reads."""
    kind = inspect.Parameter.KEYWORD_ONLY
    return [
        inspect.Parameter(name, kind, default=default, annotation=a)
        for name, (a, default) in NETWORK.items()
    ]


@of_a_network
def depth(
    *,
    network: Settings,
    width: Annotated[
        list[int] | None, typer.Option(metavar="N", help="Also at this width; may be repeated.")
    ] = None,
    statistics: Annotated[
        str | None, typer.Option(metavar="A,B,…", help="Such as variance,entropy, or all.")
    ] = None,
    samples: DRAWS = None,
    rtol: ERROR = None,
    seed: Annotated[int | None, typer.Option(metavar="N", help="Seed of the draws.")] = None,
    every: Annotated[
        int, typer.Option(metavar="K", help="Print every K-th layer, and the last.")
    ] = 1,
    plot: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Draw the curves into a .png, .pdf or .svg."),
    ] = None,
    csv: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the numbers with all their digits.")
    ] = None,
    force: Force = False,
) -> None:
    """Statistics after every block of a random Transformer: as n → ∞, and at widths beside it.

    Variance, correlation of tokens, effective rank, attention entropy and participation, score
    variance, excess kurtosis and KL from a Gaussian, each with its standard error.

    \b
    Examples:
      limitlaw depth --depth 24 --heads 12 --head-dim 64 --tokens 128 --mask causal --samples 64
      limitlaw depth --norm post --width 64 --width 256 --plot depth.png
      limitlaw depth --hidden 0 --statistics variance,correlation --every 4
    """
    with one_line_errors(Call("depth", FEWER, force)):
        described = _network_of(network)
        if every < 1:
            raise ValueError(f"--every must be a positive integer, got {every}")
        with opened("--plot", plot, PICTURES) as picture, opened("--csv", csv) as file:
            traces = _traces_of(described, statistics, width or [], samples, seed, rtol)
            if plot is not None:
                figure = traces[0].plot(*traces[1:], title=described.title)
                figure.savefig(picture, format=plot.suffix[1:].lower(), dpi=150)
            if file is not None:
                texts = [trace.to_csv() for trace in traces]
                file.write((texts[0] + "".join(t.split("\n", 1)[1] for t in texts[1:])).encode())
        for path in (plot, csv):
            if path is not None:
                typer.echo(f"wrote {path}", err=True)
        for trace in traces:
            _print_trace(trace, described.title, every)


@of_a_network
def phase(
    *,
    statistic: Annotated[
        str, typer.Argument(metavar="STATISTIC", help="Such as entropy or correlation.")
    ],
    x: Annotated[
        str,
        typer.Option(metavar="SCALE=FROM:TO:N", help="The horizontal axis, as q_std=0.1:10:16."),
    ],
    y: Annotated[
        str, typer.Option(metavar="SCALE=FROM:TO:N", help="The vertical axis, as scale=0.1:2:16.")
    ],
    at: Annotated[
        int | None, typer.Option(metavar="L", help="After this block; the last.")
    ] = None,
    network: Settings,
    width: Annotated[
        int | None, typer.Option(metavar="N", help="Width; n → ∞ without it.")
    ] = None,
    samples: DRAWS = None,
    rtol: ERROR = None,
    seed: Annotated[int, typer.Option(metavar="N", help="Seed, the same at all points.")] = 0,
    out: Annotated[
        Path, typer.Option(metavar="FOLDER", help="Where table and picture go.")
    ] = Path("out/phase"),
    jobs: Annotated[
        int | None, typer.Option(metavar="N", help="Threads; as many as there are cores.")
    ] = None,
    cluster: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="A Dask scheduler, tcp://host:8786.")
    ] = None,
    force: Force = False,
) -> None:
    """A phase diagram: a statistic over two scales of a random Transformer.

    What is finished is kept in FOLDER/chunks: a command that was stopped goes on where it was,
    with the same bytes.

    \b
    Examples:
      limitlaw phase correlation --x q_std=0.1:10:12 --y scale=0.1:2:12 --depth 24
      limitlaw phase entropy --x q_std=0.3:30:16 --y mlp_std=0.3:3:16 --norm post --jobs 2
    """
    with one_line_errors(Call("phase", f"{FEWER}, or points; what is finished is kept", force)):
        asked = _phase_of(network, statistic, (x, y), at, width, samples, seed, rtol)
        _compute(asked, out, jobs, cluster)


def _network_of(settings: Settings) -> "Network":
    """The network that the options describe."""
    from limitlaw.depth.network import Network

    return Network(**settings)


# --- depth ---------------------------------------------------------------------------------------


def _traces_of(
    network: "Network",
    statistics: str | None,
    widths: Sequence[int],
    samples: int | None,
    seed: int | None,
    rtol: float | None,
) -> list["Trace"]:
    """As n → ∞, and at each width."""
    from limitlaw.depth import STATISTICS, trace

    names = [name.strip() for name in (statistics or PRINTED).split(",") if name.strip()]
    if statistics == "all":
        names = list(STATISTICS)
    program = network.program()
    return [trace(program, names, width, samples, seed, rtol) for width in (None, *widths)]


def _print_trace(trace: "Trace", title: str, every: int) -> None:
    """The table of a trace, every so many layers and the last."""
    from rich.console import Console
    from rich.table import Table

    table = Table(
        "layer", *trace.labels.values(), title=title, title_justify="left", title_style=""
    )
    for layer, row in enumerate(trace.rows(compact)):
        if layer % every == 0 or layer == len(trace) - 1:
            table.add_row(*row)
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 140)
    console.print(table)
    console.print(trace.title, soft_wrap=True, markup=False)


# --- phase ---------------------------------------------------------------------------------------


def _phase_of(
    settings: Settings,
    statistic: str,
    axes: tuple[str, str],
    at: int | None,
    width: int | None,
    samples: int | None,
    seed: int,
    rtol: float | None,
) -> "Phase":
    """What the options ask for."""
    network = _network_of(settings)
    from limitlaw.depth.phase import Grid, Phase
    from limitlaw.depth.trace import chosen_statistics

    chosen_statistics([statistic])  # refuses what is none
    at = network.depth if at is None else at
    if not 0 <= at <= network.depth:
        raise ValueError(f"--at must be one of 0 … {network.depth}, got {at}")
    x, y = (Grid.of(text, option) for text, option in zip(axes, ("--x", "--y"), strict=True))
    if x.name == y.name:
        raise ValueError(f"--x and --y must be two different scales, got {x.name} twice")
    return Phase(network, statistic, x, y, at, width, samples, seed, rtol)


def _compute(asked: "Phase", out: Path, jobs: int | None, cluster: str | None) -> None:
    """Compute what is missing, write the table and the picture, and say where they are."""
    from limitlaw.apps.cli import running
    from limitlaw.depth import STATISTICS
    from limitlaw.depth.phase import phase as computed
    from limitlaw.figures.depth import phase_figure
    from limitlaw.files import replacing

    points = len(asked.x.values) * len(asked.y.values)
    with running.workers(jobs, cluster) as executor, running.bars({"phase": points}) as advance:
        table = computed(asked, out, executor, lambda: advance("phase"), running.warn)
    statistic = STATISTICS[asked.statistic]
    with replacing(out / "phase.png") as file:
        picture = phase_figure(table, asked, statistic.label or statistic.name)
        picture.savefig(file, format="png", dpi=150)
    typer.echo(f"{points} points: {out / 'phase.csv'}   picture: {out / 'phase.png'}")
