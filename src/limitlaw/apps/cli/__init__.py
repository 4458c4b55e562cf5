"""The command `limitlaw`: numbers and pictures of exact laws from a terminal.

Heavy modules are imported where they are needed: `limitlaw --help` needs none.
"""

import importlib.metadata
import io
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from limitlaw.apps.cli import depth, output
from limitlaw.apps.cli.errors import Force, end_promptly, one_line_errors, opened
from limitlaw.apps.cli.explore import explore
from limitlaw.apps.cli.layer import TOKENS, Layer, density_figure, heads_of, kernel_of
from limitlaw.apps.cli.output import PICTURES, print_table, quantities_of, remark
from limitlaw.engines.bounds import Call

KEPT = "--quick is a first look; what is finished is kept"
REPRODUCTION = Path("out/reproduction")
STUDIES = Path("out/studies")

app = typer.Typer(
    help="Exact laws of neural networks at initialisation, at width n and as n → ∞.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


app.command()(explore)


def main() -> None:
    """The entry point of the command."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # terminals that cannot show ± or ∞
    end_promptly()
    app(prog_name="limitlaw")


def _print_version(wanted: bool) -> bool:
    if wanted:
        typer.echo(f"limitlaw {importlib.metadata.version('limitlaw')}")
        raise typer.Exit
    return wanted


@app.callback()
def _group(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    """Exact laws of neural networks at initialisation, at width n and as n → ∞."""


@app.command()
def law(
    heads: Annotated[
        list[str] | None,
        typer.Option(
            metavar="H", help="Heads: a positive integer, or inf; 2. Again for several laws."
        ),
    ] = None,
    tokens: Annotated[
        int | None,
        typer.Option(metavar="S", help=f"Tokens; {TOKENS}, or as many as --kernel has."),
    ] = None,
    head_dim: Annotated[
        int | None,
        typer.Option(metavar="D", help="Dimension of a head; all matrices are n × n without it."),
    ] = None,
    width: Annotated[
        int | None, typer.Option(metavar="N", help="Width n; n → ∞ without it.")
    ] = None,
    kernel: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.npy", help="S × S kernel E[x_i x_j] of the tokens; the identity."
        ),
    ] = None,
    mask: Annotated[
        str | None, typer.Option(metavar="causal", help="Tokens see themselves and earlier ones.")
    ] = None,
    scaling: Annotated[
        str,
        typer.Option(metavar="sqrt|linear", help="Scores are divided by √n or by n (√D or D)."),
    ] = "sqrt",
    token: Annotated[
        int, typer.Option(metavar="I", help="The token whose output it is, from 0.")
    ] = 0,
    q_std: Annotated[float, typer.Option(metavar="SD", help="Scale of the query matrices.")] = 1.0,
    k_std: Annotated[float, typer.Option(metavar="SD", help="Scale of the key matrices.")] = 1.0,
    v_std: Annotated[float, typer.Option(metavar="SD", help="Scale of the value matrices.")] = 1.0,
    o_std: Annotated[
        float, typer.Option(metavar="SD", help="Scale of the output matrices.")
    ] = 1.0,
    samples: Annotated[
        int | None, typer.Option(metavar="N", help="Draws, where something has to be sampled.")
    ] = None,
    seed: Annotated[int | None, typer.Option(metavar="N", help="Seed of these draws.")] = None,
    plot: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Draw the density into a .png, .pdf or .svg file."),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object instead of the table.")
    ] = False,
    force: Force = False,
) -> None:
    """The law of one token's output of a random attention layer.

    Prints its variance, excess kurtosis, quantiles, density at 0, tail beyond three standard
    deviations and Kullback-Leibler divergence from the Gaussian of equal variance, each with a
    standard error where it is sampled.

    \b
    Examples:
      limitlaw law --heads 2 --tokens 4
      limitlaw law --heads 8 --head-dim 64 --mask causal --token 3
      limitlaw law --heads 2 --width 64 --samples 20000
      limitlaw law --heads inf --kernel kernel.npy
      limitlaw law --heads 1 --heads 2 --heads 16 --plot law.png
      limitlaw law --heads 2 --json | jq .figures.variance.value
    """
    call = Call("this law", "ask for fewer --samples or --tokens", force)
    with one_line_errors(call), opened("--plot", plot, PICTURES) as picture:
        stds = q_std, k_std, v_std, o_std
        layers = [
            Layer(heads_of(h), head_dim, scaling, mask, *stds, samples, seed)
            for h in heads or ["2"]
        ]
        for layer in layers:
            layer.check(width)
        matrix = kernel_of(kernel, tokens)
        if not 0 <= token < len(matrix):
            raise ValueError(f"--token must be one of 0 … {len(matrix) - 1}, got {token}")
        laws = [layer.law(matrix, token, width) for layer in layers]
        given = {
            "kernel": None if kernel is None else str(kernel),
            "tokens": len(matrix),
            "token": token,
            "width": width,
        }
        written = []
        for layer, one in zip(layers, laws, strict=True):
            if not float(one.variance()) > 0:
                raise ValueError(
                    "the output is always 0: --v-std, --o-std and the kernel must leave it a "
                    "variance"
                )
            quantities = quantities_of(one)
            if as_json:
                written.append(
                    output.as_object(one, quantities, {**given, **layer.used(one, width)})
                )
            else:
                print_table(quantities, layer.title(len(matrix), token, width), remark(one, width))
        if as_json:
            typer.echo(output.as_json(written[0] if len(written) == 1 else written))
        _remark_on_what_was_ignored(laws, samples, seed)
        if plot is not None and picture is not None:
            figure = density_figure(layers, matrix, token, width, laws)
            figure.savefig(picture, format=plot.suffix[1:].lower(), dpi=150)
    if plot is not None:
        typer.echo(f"drew {plot}", err=True)


def _remark_on_what_was_ignored(laws: list[Any], samples: int | None, seed: int | None) -> None:
    """An option that made no difference is not passed over in silence."""
    given = {"--samples": samples, "--seed": seed}
    names = [name for name, value in given.items() if value is not None]
    if names and not any(law.kind == "sampled" for law in laws):
        typer.echo(
            f"limitlaw: nothing is sampled here, so {' and '.join(names)} made no difference",
            err=True,
        )


@app.command()
def reproduce(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[EXPERIMENT]...",
            help="Such as fig1, fig5, heads or theorem; all without a name.",
        ),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="A first look, with fewer samples, in half a minute.")
    ] = False,
    out: Annotated[
        Path, typer.Option(metavar="FOLDER", help="Where report, figures and data go.")
    ] = REPRODUCTION,
    seed: Annotated[int, typer.Option(metavar="N", help="Seed of all draws.")] = 0,
    trials: Annotated[
        int | None, typer.Option(metavar="N", help="Trials of the paper's estimator; 10.")
    ] = None,
    samples: Annotated[
        int | None,
        typer.Option(
            metavar="N", help="Samples of a trial; 50,000, and twice as many in figure 5."
        ),
    ] = None,
    tokens: Annotated[
        int | None, typer.Option(metavar="S", help="Tokens of figure 4; 16.")
    ] = None,
    jobs: Annotated[
        int | None, typer.Option(metavar="N", help="Threads; as many as there are cores.")
    ] = None,
    cluster: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS", help="A Dask scheduler whose workers compute, tcp://host:8786."
        ),
    ] = None,
    force: Force = False,
) -> None:
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
    from limitlaw.apps.cli.reproduce import Request
    from limitlaw.apps.cli.reproduce import reproduce as run

    with one_line_errors(Call("reproduce", KEPT, force)):
        run(Request(names or [], out, quick, seed, trials, samples, tokens, jobs, cluster))


app.command()(depth.depth)
app.command()(depth.phase)


@app.command()
def studies(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[STUDY]...", help="Such as giorlandino, noci or tails; all without a name."
        ),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="A first look, with fewer draws, in a minute.")
    ] = False,
    out: Annotated[
        Path, typer.Option(metavar="FOLDER", help="Where report, figures and data go.")
    ] = STUDIES,
    seed: Annotated[int, typer.Option(metavar="N", help="Seed of all draws.")] = 0,
    jobs: Annotated[
        int | None, typer.Option(metavar="N", help="Threads; as many as there are cores.")
    ] = None,
    force: Force = False,
) -> None:
    """What others published about deep Transformers, computed again:
    data, figures, and which claims hold.

    What is finished is kept in FOLDER/chunks: a command that was stopped goes on where it was,
    with the same result.

    \b
    Examples:
      limitlaw studies --quick
      limitlaw studies noci tails --out depth
    """
    from limitlaw.apps.cli.studies import Request
    from limitlaw.apps.cli.studies import studies as run

    with one_line_errors(Call("studies", KEPT, force)):
        run(Request(names or [], out, quick, seed, jobs))


@app.command()
def audit(
    model: Annotated[
        str | None,
        typer.Argument(
            metavar="[FILE.py:FUNCTION]", help="A function that makes a torch.nn.Module."
        ),
    ] = None,
    hf: Annotated[
        Path | None,
        typer.Option(metavar="CONFIG.json", help="A configuration of transformers, instead."),
    ] = None,
    tokens: Annotated[int, typer.Option(metavar="S", help="Tokens of the input.")] = 16,
    seeds: Annotated[
        int, typer.Option(metavar="N", help="Re-initialisations that are measured.")
    ] = 32,
    samples: Annotated[int, typer.Option(metavar="N", help="Draws that are predicted.")] = 256,
    input_dim: Annotated[
        int | None,
        typer.Option(
            metavar="N", help="Width of the input; a vocabulary or the first Linear tells it."
        ),
    ] = None,
    limit: Annotated[
        bool, typer.Option("--limit", help="Also as n → ∞, which takes longer.")
    ] = False,
    html: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a page with findings and picture.")
    ] = None,
    width: Annotated[
        list[int] | None,
        typer.Option(
            metavar="N", help="Call FUNCTION(N); twice or more, for growth with the width."
        ),
    ] = None,
    force: Force = False,
) -> None:
    """What every layer of a PyTorch module does at initialisation,
    beside what it should do, and what is wrong.

    Runs FILE.py and calls FUNCTION, once for each seed: the code in it runs as you, so audit files
    that you trust. A model with a vocabulary is given S different tokens, others one sequence of S
    normal vectors. Nothing is downloaded.

    \b
    Examples:
      limitlaw audit mymodule.py:make_model --tokens 16 --seeds 32 --html out.html
      limitlaw audit mymodule.py:make_encoder --input-dim 64
      limitlaw audit mymodule.py:make_width --width 64 --width 128 --width 256
      limitlaw audit --hf gpt2-config.json
    """
    call = Call("audit", "ask for fewer --seeds, --samples or --tokens", force)
    with one_line_errors(call):
        from limitlaw.apps.cli.audit import Request
        from limitlaw.apps.cli.audit import audit as run

        run(Request(model, hf, tokens, seeds, samples, input_dim, limit, html, tuple(width or ())))
