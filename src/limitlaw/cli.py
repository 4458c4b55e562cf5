"""The command `limitlaw`: figures and pictures of exact laws from a terminal.

Heavy modules are imported where they are needed: `limitlaw --help` needs none.
"""

import contextlib
import dataclasses
import importlib.metadata
import io
import json
import math
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import NormalDist
from typing import Annotated, Any, NoReturn

import typer

LEVELS = (0.9, 0.99, 0.999, 0.9999)
TOKENS = 4  # where neither --tokens nor --kernel says otherwise
SMALL = 1e-3  # numbers below are printed with an exponent
SUFFIXES = (".png", ".pdf", ".svg")
ENTROPY_SUFFICES = 1e-5  # above it a difference of entropies has ten digits of the divergence
OPTIONS = "heads|head_dim|width|kernel|mask|scaling|samples|q_std|k_std|v_std|o_std"

app = typer.Typer(
    help="Exact laws of neural networks at initialisation, at width n and as n → ∞.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def main() -> None:
    """The entry point of the command."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # terminals that cannot show ± or ∞
    app(prog_name="limitlaw")


def _print_version(wanted: bool) -> bool:
    if wanted:
        typer.echo(f"limitlaw {importlib.metadata.version('limitlaw')}")
        raise typer.Exit
    return wanted


@app.callback()
def _group(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Exact laws of neural networks at initialisation, at width n and as n → ∞."""


@app.command()
def law(
    heads: Annotated[str, typer.Option(metavar="H", help="Heads: a positive integer, or inf.")] = "2",
    tokens: Annotated[
        int | None, typer.Option(metavar="S", help=f"Tokens; {TOKENS}, or as many as --kernel has.")
    ] = None,
    head_dim: Annotated[
        int | None, typer.Option(metavar="D", help="Dimension of a head; all matrices are n × n without it.")
    ] = None,
    width: Annotated[int | None, typer.Option(metavar="N", help="Width n; n → ∞ without it.")] = None,
    kernel: Annotated[
        Path | None, typer.Option(metavar="FILE.npy", help="S × S kernel E[x_i x_j] of the tokens; the identity.")
    ] = None,
    mask: Annotated[str | None, typer.Option(metavar="causal", help="Tokens see themselves and earlier ones.")] = None,
    scaling: Annotated[
        str, typer.Option(metavar="sqrt|linear", help="Scores are divided by √n or by n (√D or D).")
    ] = "sqrt",
    token: Annotated[int, typer.Option(metavar="I", help="The token whose output it is, from 0.")] = 0,
    q_std: Annotated[float, typer.Option(metavar="SD", help="Scale of the query matrices.")] = 1.0,
    k_std: Annotated[float, typer.Option(metavar="SD", help="Scale of the key matrices.")] = 1.0,
    v_std: Annotated[float, typer.Option(metavar="SD", help="Scale of the value matrices.")] = 1.0,
    o_std: Annotated[float, typer.Option(metavar="SD", help="Scale of the output matrices.")] = 1.0,
    samples: Annotated[int | None, typer.Option(metavar="N", help="Draws, where something has to be sampled.")] = None,
    seed: Annotated[int | None, typer.Option(metavar="N", help="Seed of these draws.")] = None,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw the density into a .png, .pdf or .svg file.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of the table.")] = False,
) -> None:
    """The law of one token's output of a random attention layer.

    Prints its variance, excess kurtosis, quantiles, density at 0, tail beyond three standard deviations and
    Kullback-Leibler divergence from the Gaussian of equal variance, each with a standard error where it is sampled.

    \b
    Examples:
      limitlaw law --heads 2 --tokens 4
      limitlaw law --heads 8 --head-dim 64 --mask causal --token 3
      limitlaw law --heads 2 --width 64 --samples 20000
      limitlaw law --heads inf --kernel kernel.npy
      limitlaw law --heads 1 --plot law.png
      limitlaw law --heads 2 --json | jq .figures.variance.value
    """
    with _one_line_errors():
        with _picture(plot) as picture:
            layer = Layer(_heads(heads), head_dim, scaling, mask, q_std, k_std, v_std, o_std, samples, seed)
            layer.check(width)
            matrix = _kernel(kernel, tokens)
            if not 0 <= token < len(matrix):
                raise ValueError(f"--token must be one of 0 … {len(matrix) - 1}, got {token}")
            one = layer.law(matrix, token, width)
            if not float(one.variance()) > 0:
                raise ValueError("the output is always 0: --v-std, --o-std and the kernel must leave it a variance")
            figures = _figures(one)
            if picture is not None:
                _draw(picture, layer, matrix, token, width, one)
        if plot is not None:
            typer.echo(f"drew {plot}", err=True)
        if as_json:
            names = {"kernel": None if kernel is None else str(kernel), "tokens": len(matrix), "token": token}
            typer.echo(_as_json(one, figures, {**names, "width": width, **dataclasses.asdict(layer)}))
        else:
            _print_table(figures, layer.title(len(matrix), token, width), _remark(one, width))


# --- input ------------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Layer:
    """An attention layer as the options describe it."""

    heads: int | float
    head_dim: int | None
    scaling: str
    mask: str | None
    q_std: float
    k_std: float
    v_std: float
    o_std: float
    samples: int | None
    seed: int | None

    def check(self, width: int | None) -> None:
        """What the library would say in other terms."""
        if self.mask not in (None, "causal"):
            raise ValueError(f"--mask must be causal, got {self.mask}")
        if self.samples is not None and self.samples < 1:
            raise ValueError(f"--samples must be a positive integer, got {self.samples}")
        if width is not None and self.heads == math.inf:
            raise ValueError("--heads inf is a limit of infinite width: leave out --width")

    def law(self, kernel: Any, token: int, width: int | None) -> Any:
        """The law of the output of one token, as `attention_law` has it, without drawing the other tokens' outputs."""
        import jax

        jax.config.update("jax_enable_x64", True)
        if self.heads == math.inf:
            gaussian = self._gaussian(kernel, token)
            if gaussian is not None:
                return gaussian
        import limitlaw as ll
        from limitlaw.arguments import covariance
        from limitlaw.presets import SAMPLES

        x = ll.initial((len(kernel),), cov=covariance("kernel", kernel, len(kernel)))
        stds = self.q_std, self.k_std, self.v_std, self.o_std
        y = ll.attention(x, self.heads, self.head_dim, self.scaling, self.mask, *stds)[token]
        if width is None:
            return ll.limit(y, self.samples, self.seed)
        return ll.finite(y, width, SAMPLES if self.samples is None else self.samples, self.seed or 0)

    def _gaussian(self, kernel: Any, token: int) -> Any:
        """Of infinitely many heads: its variance is that of one head, where this is not sampled."""
        from limitlaw.laws import Gaussian

        one = dataclasses.replace(self, heads=1).law(kernel, token, None)
        if one.kind == "sampled":
            return None
        return Gaussian(0.0, float(one.variance()), one.kind, (*one.beyond, "infinitely many heads"))

    @property
    def described_heads(self) -> str:
        """How many heads, in words."""
        return "infinitely many heads" if self.heads == math.inf else f"{self.heads} head{'s' * (self.heads != 1)}"

    def title(self, tokens: int, token: int, width: int | None) -> str:
        """What the law is of, in one line."""
        parts = [
            f"Attention, {self.described_heads}",
            f"token {token} of {tokens}",
            "n → ∞" if width is None else f"n = {width}",
        ]
        parts += [f"head dimension {self.head_dim}"] * (self.head_dim is not None)
        parts += ["causal mask"] * (self.mask is not None) + ["linear scaling"] * (self.scaling == "linear")
        return ", ".join(parts)


@contextlib.contextmanager
def _one_line_errors() -> Iterator[None]:
    """Bad input ends the command with code 2 and one line that names the option."""
    try:
        yield
    except BrokenPipeError:
        raise  # the reader of the output left
    except (ValueError, TypeError, OSError) as error:
        _fail(str(error))


def _fail(message: str) -> NoReturn:
    line = re.sub(r"\s*\n\s*", " ", message.strip())
    line = re.sub(rf"^(?:(?:limit|finite): )?({OPTIONS})\b", lambda m: "--" + m[1].replace("_", "-"), line)
    typer.echo(f"limitlaw: {line}", err=True)
    raise typer.Exit(2)


def _heads(text: str) -> int | float:
    """A positive integer, or infinity."""
    if text.strip().lower() in ("inf", "infinity", "∞"):
        return math.inf
    try:
        count = int(text)
    except ValueError:
        count = 0
    if count < 1:
        raise ValueError(f"--heads must be a positive integer or inf, got {text}")
    return count


def _kernel(path: Path | None, tokens: int | None) -> Any:
    """The kernel of the tokens: from a file, or the identity."""
    import numpy as np

    if tokens is not None and tokens < 1:
        raise ValueError(f"--tokens must be a positive integer, got {tokens}")
    if path is None:
        return np.eye(TOKENS if tokens is None else tokens)
    matrix = _loaded(path)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or not matrix.size:
        raise ValueError(f"--kernel must hold a square matrix over the tokens, got shape {matrix.shape} in {path}")
    if tokens not in (None, len(matrix)):
        raise ValueError(f"--tokens {tokens} disagrees with --kernel {path}, which is for {len(matrix)} tokens")
    return matrix


def _loaded(path: Path) -> Any:
    import numpy as np

    try:
        matrix = np.load(path, allow_pickle=False)
    except OSError as error:
        raise ValueError(f"--kernel {path}: {error.strerror or error}") from None
    except (ValueError, EOFError):
        raise ValueError(f"--kernel {path}: not a .npy file of numbers, as numpy.save writes") from None
    if not isinstance(matrix, np.ndarray):
        matrix.close()
        raise ValueError(f"--kernel {path}: an archive of several arrays; numpy.save the one matrix")
    return matrix


# --- figures ----------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Figure:
    """A number, its standard error (0: none), and the same figure of the Gaussian of equal variance."""

    name: str
    label: str
    value: float
    error: float
    gaussian: float


def _figures(law: Any) -> list[Figure]:
    """All that the command prints of a law."""
    import numpy as np

    variance, error = float(law.variance()), float(law.error.variance())
    sd = math.sqrt(variance)
    normal = NormalDist(0.0, sd)
    figures = [
        Figure("variance", "variance", variance, error, variance),
        Figure("standard_deviation", "standard deviation (sd)", sd, error / (2 * sd), sd),
        Figure("excess_kurtosis", "excess kurtosis", float(law.kurtosis()), float(law.error.kurtosis()), 0.0),
    ]
    q = np.array(LEVELS)
    for level, x, e in zip(LEVELS, law.ppf(q), law.error.ppf(q), strict=True):
        label = f"quantile {100 * level:g} %"
        figures.append(Figure(f"quantile_{level:g}", label, float(x), float(e), normal.inv_cdf(level)))
    at_0 = float(law.pdf(0.0)), float(law.error.pdf(0.0))
    figures.append(Figure("density_at_0", "density at 0", *at_0, normal.pdf(0.0)))
    tail = 2 * float(law.sf(3 * sd)), 2 * float(law.error.sf(3 * sd))
    figures.append(Figure("tail_beyond_3_sd", "P(|y| > 3 sd)", *tail, math.erfc(3 / math.sqrt(2))))
    figures.append(Figure("kl_from_gaussian", "KL from the Gaussian", *_kl_from_gaussian(law, variance), 0.0))
    return figures


def _kl_from_gaussian(law: Any, variance: float) -> tuple[float, float]:
    """D(law‖N(0, variance)): for a law of this variance the difference of their entropies."""
    from limitlaw.laws import Gaussian

    if isinstance(law, Gaussian):
        return 0.0, 0.0
    if law.kind != "sampled":
        difference = 0.5 * math.log(2 * math.pi * math.e * variance) - float(law.entropy())
        if difference > ENTROPY_SUFFICES:
            return difference, 0.0
    from limitlaw.divergence import kl

    divergence = kl(law, Gaussian(0.0, variance))
    return divergence.value, divergence.error if law.kind == "sampled" else 0.0


def _source(law: Any) -> str:
    """Where the figures come from: exact, quadrature (2 heads, 7732 nodes), sampled (65536 components)."""
    detail = law._description().rstrip(", ")
    return f"{law.kind} ({detail})" if detail else law.kind


# --- output -----------------------------------------------------------------------------------------------------------


def _number(x: float, error: float) -> str:
    """With the digits that the error leaves, (3.28 ± 0.16)e-05 where it is small; 12 without an error."""
    from limitlaw.laws.printing import number

    if error == 0:
        return f"{x:.12g}"
    if not 0 < abs(x) < SMALL:
        return number(x, error)
    exponent = math.floor(math.log10(abs(x)))
    return f"({number(x / 10**exponent, error / 10**exponent)})e{exponent:03d}"


def _remark(law: Any, width: int | None) -> str:
    """Where the figures come from, and what lies beyond the theorem."""
    sampled = ", ± one standard error" if law.kind == "sampled" else ""
    if width is not None:
        return f"{_source(law)}{sampled}; the law at this width, no limit is taken"
    return f"{_source(law)}{sampled}; " + (
        f"beyond Theorem 3.1: {', '.join(law.beyond)}" if law.beyond else "within Theorem 3.1"
    )


def _print_table(figures: list[Figure], title: str, remark: str) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table("figure", "this law", "Gaussian of equal variance", title=title, title_justify="left", title_style="")
    for figure in figures:
        digits = 12 if figure.error == 0 else 6
        table.add_row(figure.label, _number(figure.value, figure.error), f"{figure.gaussian:.{digits}g}")
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 120)
    console.print(table)
    console.print(remark, soft_wrap=True, markup=False)


def _as_json(law: Any, figures: list[Figure], settings: dict[str, Any]) -> str:
    """One object. What is infinite or no number is null there, infinitely many heads are "inf"."""
    if settings["heads"] == math.inf:
        settings = {**settings, "heads": "inf"}
    numbers = {
        figure.name: {name: _finite(getattr(figure, name)) for name in ("value", "error", "gaussian")}
        for figure in figures
    }
    about = {"kind": law.kind, "source": _source(law), "beyond": list(law.beyond)}
    return json.dumps({"settings": settings, **about, "figures": numbers}, indent=2, allow_nan=False)


def _finite(x: float) -> float | None:
    return x if math.isfinite(x) else None


# --- picture ----------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _picture(path: Path | None) -> Iterator[Path | None]:
    """A file beside `path` to draw into, which takes its place in the end; opened first, to fail before the work."""
    if path is None:
        yield None
        return
    if path.suffix.lower() not in SUFFIXES:
        raise ValueError(f"--plot must end in {', '.join(SUFFIXES)}, got {path}")
    if path.is_dir():
        raise ValueError(f"--plot {path}: is a directory")
    draft = path.with_name(f".{path.stem}.{os.getpid()}{path.suffix}")
    try:
        draft.touch(exist_ok=False)
    except OSError as error:
        raise ValueError(f"--plot {path}: cannot be written ({error.strerror})") from None
    try:
        yield draft
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def _draw(path: Path, layer: Layer, kernel: Any, token: int, width: int | None, law: Any) -> None:
    """The law, the Gaussian of infinitely many heads, and that of 1/n scaling."""
    from limitlaw.figures.law import density_figure
    from limitlaw.laws import Gaussian

    few = dataclasses.replace(layer, heads=min(layer.heads, 2))  # the variance is the same for any number of heads
    wide = law if width is None else few.law(kernel, token, None)
    laws = {f"{layer.described_heads}, {'n → ∞' if width is None else f'n = {width}'}": law}
    if layer.heads != math.inf:
        laws["Gaussian: infinitely many heads"] = Gaussian(0.0, float(wide.variance()))
    linear = dataclasses.replace(few, scaling="linear", head_dim=None).law(kernel, token, None)
    laws["Gaussian: scores scaled by 1/n"] = linear
    density_figure(laws, layer.title(len(kernel), token, width)).savefig(path, dpi=150)
