"""The commands `limitlaw depth` and `limitlaw phase`: statistics of a Transformer, or a map."""

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from limitlaw.apps.cli.errors import opened
from limitlaw.apps.cli.options import FORCE, JOBS, argument, command, flag, option
from limitlaw.apps.cli.output import PICTURES, printed_table
from limitlaw.digits import compact

if TYPE_CHECKING:
    from limitlaw.depth import Trace
    from limitlaw.depth.network import Network
    from limitlaw.depth.phase import Phase

FEWER_DRAWS = "ask for fewer --samples, --tokens or blocks (--depth)"
PRINTED = "variance,correlation,effective_rank,entropy,participation,score_variance,kurtosis,kl"
DRAWS_HELP = "Draws; as many as an error of --rtol takes."
LOSS_DRAWS = 256  # of the kernel that the head reads
RTOL_HELP = "Relative standard error to reach: 0.01."
STD_HELP = "Scale of these matrices."


@dataclasses.dataclass(frozen=True)
class NetworkOptions:
    """A Transformer: the fields of `depth.network.Network`, with the same defaults."""

    depth: int = option(12, "L", "Blocks.")
    tokens: int = option(16, "S", "Tokens.")
    heads: int = option(4, "H", "Heads.")
    head_dim: int | None = option(None, "D", "Dimension of a head; n × n matrices without it.")
    norm: str = option("pre", "pre|post|none", "Where the norms stand.")
    normalise: str = option("layernorm", "layernorm|rmsnorm", "Which norm it is.")
    mask: str | None = option(None, "causal", "Tokens see themselves and earlier ones.")
    kv_heads: int | None = option(None, "G", "Key and value heads, shared by groups of queries.")
    positions: str = option("none", "none|rotary|alibi", "What attention sees of positions.")
    hidden: int = option(4, "K", "The MLP has K·n hidden units; 0 for attention alone.")
    phi: str = option("gelu", "gelu|relu|silu|tanh|…", "The nonlinearity of the MLP.")
    gated: bool = flag("A gated MLP, as SwiGLU.")
    parallel: bool = flag("Attention and MLP read the same vectors.")
    shared: bool = flag("All blocks have the same weights, as in ALBERT.")
    scale: float = option(1.0, "C", "Of each residual branch.")
    q_std: float = option(1.0, "SD", STD_HELP)
    k_std: float = option(1.0, "SD", STD_HELP)
    v_std: float = option(1.0, "SD", STD_HELP)
    o_std: float = option(1.0, "SD", STD_HELP)
    mlp_std: float = option(1.0, "SD", STD_HELP)
    bias_std: float = option(0.0, "SD", "Scale of all biases.")
    correlation: float = option(0.0, "C", "Of the tokens that the first block is given.")

    def network(self) -> "Network":
        """The network that these options describe."""
        from limitlaw.depth.network import Network

        return Network(**vars(self))


# --- depth ---------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class DepthOptions:
    """The options of `limitlaw depth`."""

    network: NetworkOptions
    width: list[int] | None = option(None, "N", "Also at this width; may be repeated.")
    statistics: str | None = option(None, "A,B,…", "Such as variance,entropy, or all.")
    samples: int | None = option(None, "N", DRAWS_HELP)
    rtol: float | None = option(None, "R", RTOL_HELP)
    seed: int | None = option(None, "N", "Seed of the draws.")
    gradients: bool = flag("Also what comes back from a random readout, and to each matrix.")
    vocab: int | None = option(None, "V", "Also the initial loss over so many tokens.")
    head_std: float = option(1.0, "SD", "Scale of the head: √n times the std of its entries.")
    tied: bool = flag("The head is the embedding (needs --width).")
    every: int = option(1, "K", "Print every K-th layer, and the last.")
    plot: Path | None = option(None, "FILE", "Draw the curves into a .png, .pdf or .svg.")
    csv: Path | None = option(None, "FILE", "Write the numbers with all their digits.")
    force: bool = flag(FORCE)


@command("depth", FEWER_DRAWS)
def depth(asked: DepthOptions) -> None:
    """Statistics after every block of a random Transformer: as n → ∞, and at widths beside it.

    Variance, correlation of tokens, effective rank, attention entropy and participation, score
    variance, excess kurtosis and KL from a Gaussian, each with its standard error. With
    --gradients, also gradient variance, correlation and ratio from block to block, and the
    squared gradient of every matrix; compilation then takes two seconds or more for each block.
    With --vocab, the loss of a language model at initialisation, beside ln V.

    \b
    Examples:
      limitlaw depth --depth 24 --heads 12 --head-dim 64 --tokens 128 --mask causal --samples 64
      limitlaw depth --norm post --width 64 --width 256 --plot depth.png
      limitlaw depth --hidden 0 --statistics variance,correlation --every 4
      limitlaw depth --depth 3 --tokens 4 --width 64 --gradients
      limitlaw depth --depth 2 --tokens 8 --vocab 50257 --head-std 0.55 --width 768 --tied
    """
    network = asked.network.network()
    if asked.every < 1:
        raise ValueError(f"--every must be a positive integer, got {asked.every}")
    with opened("--plot", asked.plot, PICTURES) as picture, opened("--csv", asked.csv) as file:
        traces = _traces(network, asked)
        if asked.plot is not None:
            figure = traces[0].plot(*traces[1:], title=network.title)
            figure.savefig(picture, format=asked.plot.suffix[1:].lower(), dpi=150)
        if file is not None:
            file.write(traces[0].to_csv(*traces[1:]).encode())
    for path in (asked.plot, asked.csv):
        if path is not None:
            typer.echo(f"wrote {path}", err=True)
    for trace in (half for whole in traces for half in _halves(whole)):
        rows = list(enumerate(trace.rows(compact)))
        kept = [row for i, row in rows if i % asked.every == 0 or i == len(rows) - 1]
        printed_table(("layer", *trace.labels.values()), kept, network.title, trace.title, 140)
    for line in _losses(network, asked):
        typer.echo(line)


def _losses(network: "Network", asked: DepthOptions) -> Iterator[str]:
    """The initial loss behind a norm and a head: as n → ∞, and at each width."""
    if asked.vocab is None:
        if asked.tied:
            raise ValueError("--tied says what head there is: it needs --vocab")
        return
    if asked.tied and not asked.width:
        raise ValueError("--tied needs --width: the own token's logit grows as √n")
    from limitlaw.depth.layers import stages
    from limitlaw.depth.loss import network_loss
    from limitlaw.depth.network import NORMALISATIONS

    y = network.program()
    first, _ = stages(y)
    read = NORMALISATIONS[network.normalise](y) if network.norm == "pre" else y
    for width in (*([] if asked.tied else [None]), *(asked.width or ())):
        found = network_loss(
            first,
            read,
            asked.vocab,
            asked.head_std,
            width,
            asked.tied,
            asked.samples or LOSS_DRAWS,
            asked.seed,
        )
        yield f"{'n → ∞' if width is None else f'n = {width}'}: {found} [{found.kind}]"


def _traces(network: "Network", asked: DepthOptions) -> list["Trace"]:
    """The statistics as n → ∞, and at each width that was asked for."""
    from limitlaw.depth import STATISTICS, trace

    named = asked.statistics or PRINTED
    names = [name.strip() for name in named.split(",") if name.strip()]
    chosen = list(STATISTICS) if named == "all" else names
    program = network.program()
    return [
        trace(
            program,
            chosen,
            width,
            asked.samples,
            asked.seed,
            asked.rtol,
            gradients=asked.gradients,
        )
        for width in (None, *(asked.width or ()))
    ]


def _halves(trace: "Trace") -> list["Trace"]:
    """The statistics of a network and, if there are any, those of its gradients, as two tables."""
    back = [name for name in trace if name.startswith("gradient")]
    forth = [name for name in trace if name not in back]
    return [trace.only(names) for names in (forth, back) if names]


# --- phase ---------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, kw_only=True)
class PhaseOptions:
    """The options of `limitlaw phase`."""

    statistic: str = argument(..., "STATISTIC", "Such as entropy or correlation.")
    x: str = option(..., "SCALE=FROM:TO:N", "The horizontal axis, as q_std=0.1:10:16.")
    y: str = option(..., "SCALE=FROM:TO:N", "The vertical axis, as scale=0.1:2:16.")
    at: int | None = option(None, "L", "After this block; the last.")
    network: NetworkOptions
    width: int | None = option(None, "N", "Width; n → ∞ without it.")
    samples: int | None = option(None, "N", DRAWS_HELP)
    rtol: float | None = option(None, "R", RTOL_HELP)
    seed: int = option(0, "N", "Seed, the same at all points.")
    out: Path = option(Path("out/phase"), "FOLDER", "Where table and picture go.")
    jobs: int | None = option(None, "N", JOBS)
    cluster: str | None = option(None, "ADDRESS", "A Dask scheduler, tcp://host:8786.")
    force: bool = flag(FORCE)


@command("phase", f"{FEWER_DRAWS}, or points; what is finished is kept")
def phase(asked: PhaseOptions) -> None:
    """A phase diagram: a statistic over two scales of a random Transformer.

    What is finished is kept in FOLDER/chunks: a command that was stopped goes on where it was,
    with the same bytes.

    \b
    Examples:
      limitlaw phase correlation --x q_std=0.1:10:12 --y scale=0.1:2:12 --depth 24
      limitlaw phase entropy --x q_std=0.3:30:16 --y mlp_std=0.3:3:16 --norm post --jobs 2
    """
    diagram = _phase(asked)
    from limitlaw.apps.cli import running
    from limitlaw.depth import STATISTICS
    from limitlaw.depth.figures import phase_figure
    from limitlaw.depth.phase import phase as computed
    from limitlaw.files import replacing

    points, out = len(diagram.x.values) * len(diagram.y.values), asked.out
    with (
        running.workers(asked.jobs, asked.cluster) as executor,
        running.bars({"phase": points}) as advance,
    ):
        table = computed(diagram, out, executor, lambda: advance("phase"), running.warn)
    statistic = STATISTICS[asked.statistic]
    label = statistic.label or statistic.name
    with replacing(out / "phase.png") as file:
        figure = phase_figure(table, diagram.x, diagram.y, label, f"{label} {diagram.title}")
        figure.savefig(file, format="png", dpi=150)
    typer.echo(f"{points} points: {out / 'phase.csv'}   picture: {out / 'phase.png'}")


def _phase(asked: PhaseOptions) -> "Phase":
    """The phase diagram that the options describe."""
    from limitlaw.depth.network import ScaleGrid
    from limitlaw.depth.phase import Phase
    from limitlaw.depth.trace import chosen_statistics

    network = asked.network.network()
    chosen_statistics([asked.statistic])  # refuses a name that is no statistic
    at = network.depth if asked.at is None else asked.at
    if not 0 <= at <= network.depth:
        raise ValueError(f"--at must be one of 0 … {network.depth}, got {at}")
    x, y = ScaleGrid.of(asked.x, "--x"), ScaleGrid.of(asked.y, "--y")
    if x.name == y.name:
        raise ValueError(f"--x and --y must be two different scales, got {x.name} twice")
    draws = asked.samples, asked.seed, asked.rtol
    return Phase(network, asked.statistic, x, y, at, asked.width, *draws)
