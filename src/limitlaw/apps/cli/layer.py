"""The command `limitlaw law`: the law of an attention layer's output, given a kernel of tokens."""

import dataclasses
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from limitlaw.apps.cli import output
from limitlaw.apps.cli.errors import opened
from limitlaw.apps.cli.options import FORCE, command, flag, option
from limitlaw.apps.cli.output import PICTURES
from limitlaw.digits import counted

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.figure import Figure

    from limitlaw.laws import Law

TOKENS_OF_A_LAYER = 4  # the number of tokens without --tokens and --kernel


@dataclasses.dataclass(frozen=True)
class LawOptions:
    """The options of `limitlaw law`."""

    heads: list[str] | None = option(
        None, "H", "Heads: a positive integer, or inf; 2. Again for several laws."
    )
    tokens: int | None = option(
        None, "S", f"Tokens; {TOKENS_OF_A_LAYER}, or as many as --kernel has."
    )
    head_dim: int | None = option(
        None, "D", "Dimension of a head; all matrices are n × n without it."
    )
    width: int | None = option(None, "N", "Width n; n → ∞ without it.")
    kernel: Path | None = option(
        None, "FILE.npy", "S × S kernel E[x_i x_j] of the tokens; the identity."
    )
    mask: str | None = option(None, "causal", "Tokens see themselves and earlier ones.")
    scaling: str = option("sqrt", "sqrt|linear", "Scores are divided by √n or by n (√D or D).")
    token: int = option(0, "I", "The token whose output it is, from 0.")
    q_std: float = option(1.0, "SD", "Scale of the query matrices.")
    k_std: float = option(1.0, "SD", "Scale of the key matrices.")
    v_std: float = option(1.0, "SD", "Scale of the value matrices.")
    o_std: float = option(1.0, "SD", "Scale of the output matrices.")
    samples: int | None = option(None, "N", "Draws, where something has to be sampled.")
    seed: int | None = option(None, "N", "Seed of these draws.")
    plot: Path | None = option(None, "FILE", "Draw the density into a .png, .pdf or .svg file.")
    as_json: bool = flag("Print one JSON object instead of the table.", "json")
    force: bool = flag(FORCE)


@command("this law", "ask for fewer --samples or --tokens")
def law(asked: LawOptions) -> None:
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
    with opened("--plot", asked.plot, PICTURES) as picture:
        layers = _layers(asked)
        laws = [layer.law() for layer in layers]
        _print(asked, layers, laws)
        if asked.plot is not None and picture is not None:
            figure = density_figure(layers, laws)
            figure.savefig(picture, format=asked.plot.suffix[1:].lower(), dpi=150)
    if asked.plot is not None:
        typer.echo(f"drew {asked.plot}", err=True)


def _print(asked: LawOptions, layers: "list[LayerOptions]", laws: "list[Law]") -> None:
    """A table for each law, or all of them as JSON."""
    written = []
    for layer, one in zip(layers, laws, strict=True):
        if not float(one.variance()) > 0:
            raise ValueError(
                "the output is always 0: --v-std, --o-std and the kernel must leave it a variance"
            )
        quantities = output.quantities_of(one)
        if asked.as_json:
            path = None if asked.kernel is None else str(asked.kernel)
            written.append(output.as_object(one, quantities, {"kernel": path, **layer.used(one)}))
        else:
            output.print_table(quantities, layer.title, output.remark(one, asked.width))
    if asked.as_json:
        typer.echo(output.as_json(written[0] if len(written) == 1 else written))
    given = {"--samples": asked.samples, "--seed": asked.seed}
    names = [name for name, value in given.items() if value is not None]
    if names and not any(one.kind == "sampled" for one in laws):
        ignored = f"{' and '.join(names)} made no difference"
        typer.echo(f"limitlaw: nothing is sampled here, so {ignored}", err=True)


def _layers(asked: LawOptions) -> "list[LayerOptions]":
    """The layers that the options describe, one for each number of heads."""
    heads = [heads_of(text) for text in asked.heads or ["2"]]
    if asked.mask not in (None, "causal"):
        raise ValueError(f"--mask must be causal, got {asked.mask}")
    if asked.samples is not None and asked.samples < 1:
        raise ValueError(f"--samples must be a positive integer, got {asked.samples}")
    if asked.width is not None and math.inf in heads:
        raise ValueError("--heads inf is a limit of infinite width: leave out --width")
    kernel = kernel_of(asked.kernel, asked.tokens)
    if not 0 <= asked.token < len(kernel):
        raise ValueError(f"--token must be one of 0 … {len(kernel) - 1}, got {asked.token}")
    shared = {f.name: vars(asked)[f.name] for f in dataclasses.fields(LayerOptions)[2:]}
    return [LayerOptions(kernel, number, **shared) for number in heads]


@dataclasses.dataclass(frozen=True)
class LayerOptions:
    """An attention layer on tokens of this kernel, and the token whose output is asked for."""

    kernel: "np.ndarray"
    heads: int | float
    token: int
    width: int | None
    head_dim: int | None
    scaling: str
    mask: str | None
    q_std: float
    k_std: float
    v_std: float
    o_std: float
    samples: int | None
    seed: int | None

    def law(self) -> "Law":
        """The law of the output of one token; those of the others are not drawn."""
        import limitlaw as ll
        from limitlaw.arguments import covariance
        from limitlaw.engines.frames.finite import law_at_width

        s = len(self.kernel)
        x = ll.initial((s,), cov=covariance("kernel", self.kernel, s))
        stds = self.q_std, self.k_std, self.v_std, self.o_std
        y = ll.attention(x, self.heads, self.head_dim, self.scaling, self.mask, *stds)[self.token]
        if self.width is None:
            return ll.limit(y, self.samples, self.seed)
        return law_at_width(y, self.width, self.samples, self.seed or 0)

    def used(self, law: "Law") -> dict[str, Any]:
        """The settings; for a sampled law with the draws and the seed that were used."""
        from limitlaw.numerics.random import SEED

        settings = {**vars(self), "tokens": len(self.kernel)}
        del settings["kernel"]
        if law.kind == "sampled":
            default = SEED if self.width is None else 0
            settings |= {
                "samples": law.samples,
                "seed": default if self.seed is None else self.seed,
            }
        return settings

    @property
    def described_heads(self) -> str:
        """The number of heads in words, as "2 heads"."""
        if self.heads == math.inf:
            return "infinitely many heads"
        return counted(int(self.heads), "head")

    @property
    def described_width(self) -> str:
        """The width in words: "n → ∞", or as "n = 64"."""
        return "n → ∞" if self.width is None else f"n = {self.width}"

    @property
    def title(self) -> str:
        """The layer and the token in one line."""
        place = f"token {self.token} of {len(self.kernel)}"
        parts = [f"Attention, {self.described_heads}", place, self.described_width]
        parts += [f"head dimension {self.head_dim}"] * (self.head_dim is not None)
        parts += ["causal mask"] * (self.mask is not None)
        parts += ["linear scaling"] * (self.scaling == "linear")
        return ", ".join(parts)


def density_figure(layers: list[LayerOptions], laws: "list[Law]") -> "Figure":
    """The picture of the laws, the Gaussian of infinitely many heads, and that of 1/n scaling."""
    from limitlaw.figures import law as drawing
    from limitlaw.laws import Gaussian

    first = layers[0]
    # the variance is the same for any number of heads
    few = dataclasses.replace(first, heads=min(first.heads, 2), width=None)
    shown = {
        f"{own.described_heads}, {own.described_width}": one
        for own, one in zip(layers, laws, strict=True)
    }
    if all(own.heads != math.inf for own in layers):
        wide = laws[0] if first.width is None else few.law()
        shown["Gaussian: infinitely many heads"] = Gaussian(0.0, float(wide.variance()))
    linear = dataclasses.replace(few, scaling="linear", head_dim=None)
    shown["Gaussian: scores scaled by 1/n"] = linear.law()
    title = first.title
    if len(layers) > 1:
        title = title.replace(first.described_heads, "several heads", 1)
    return drawing.density_figure(shown, title)


def heads_of(text: str) -> int | float:
    """The number of heads that an option says: a positive integer, or infinity."""
    if text.strip().lower() in ("inf", "infinity", "∞"):
        return math.inf
    try:
        count = int(text)
    except ValueError:
        count = 0
    if count < 1:
        raise ValueError(f"--heads must be a positive integer or inf, got {text}")
    return count


def kernel_of(path: Path | None, tokens: int | None) -> "np.ndarray":
    """The kernel of the tokens: from a file, or the identity."""
    import numpy as np

    if tokens is not None and tokens < 1:
        raise ValueError(f"--tokens must be a positive integer, got {tokens}")
    if path is None:
        return np.eye(TOKENS_OF_A_LAYER if tokens is None else tokens)
    matrix = _loaded(path)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or not matrix.size:
        raise ValueError(
            f"--kernel must hold a square matrix over the tokens, got shape {matrix.shape} in "
            f"{path}"
        )
    if tokens not in (None, len(matrix)):
        raise ValueError(
            f"--tokens {tokens} disagrees with --kernel {path}, which is for {len(matrix)} tokens"
        )
    return matrix


def _loaded(path: Path) -> "np.ndarray":
    import numpy as np

    try:
        matrix = np.load(path, allow_pickle=False)
    except OSError as error:
        raise ValueError(f"--kernel {path}: {error.strerror or error}") from None
    except (ValueError, EOFError):
        raise ValueError(
            f"--kernel {path}: not a .npy file of numbers, as numpy.save writes"
        ) from None
    if not isinstance(matrix, np.ndarray):
        matrix.close()
        raise ValueError(
            f"--kernel {path}: an archive of several arrays; numpy.save the one matrix"
        )
    return matrix
