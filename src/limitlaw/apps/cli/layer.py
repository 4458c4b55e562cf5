"""What the options of `limitlaw law` describe: an attention layer and the kernel of its tokens."""

import dataclasses
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.figure import Figure

    from limitlaw.laws import Law

TOKENS = 4  # where neither --tokens nor --kernel says otherwise


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

    def law(self, kernel: "np.ndarray", token: int, width: int | None) -> "Law":
        """The law of the output of one token, as `attention_law` has it,
        without drawing the other tokens' outputs.
        """
        import limitlaw as ll
        from limitlaw.arguments import covariance
        from limitlaw.engines.frames.finite import law_at_width

        x = ll.initial((len(kernel),), cov=covariance("kernel", kernel, len(kernel)))
        stds = self.q_std, self.k_std, self.v_std, self.o_std
        y = ll.attention(x, self.heads, self.head_dim, self.scaling, self.mask, *stds)[token]
        if width is None:
            return ll.limit(y, self.samples, self.seed)
        return law_at_width(y, width, self.samples, self.seed or 0)

    def used(self, law: "Law", width: int | None) -> dict[str, Any]:
        """The settings, with the draws and the seed that a sampled law has where the
        options leave them open.
        """
        from limitlaw.numerics.random import SEED

        settings = dataclasses.asdict(self)
        if law.kind == "sampled":
            settings["samples"] = law.samples
            settings["seed"] = self.seed if self.seed is not None else SEED if width is None else 0
        return settings

    @property
    def described_heads(self) -> str:
        """How many heads, in words."""
        if self.heads == math.inf:
            return "infinitely many heads"
        return f"{self.heads} head{'s' * (self.heads != 1)}"

    def title(self, tokens: int, token: int, width: int | None) -> str:
        """What the law is of, in one line."""
        parts = [
            f"Attention, {self.described_heads}",
            f"token {token} of {tokens}",
            "n → ∞" if width is None else f"n = {width}",
        ]
        parts += [f"head dimension {self.head_dim}"] * (self.head_dim is not None)
        parts += ["causal mask"] * (self.mask is not None)
        parts += ["linear scaling"] * (self.scaling == "linear")
        return ", ".join(parts)


def density_figure(
    layers: list[Layer], kernel: "np.ndarray", token: int, width: int | None, laws: "list[Law]"
) -> "Figure":
    """The picture of the laws, the Gaussian of infinitely many heads, and that of 1/n scaling."""
    from limitlaw.figures import law as drawing
    from limitlaw.laws import Gaussian

    layer, law = layers[0], laws[0]
    # the variance is the same for any number of heads
    few = dataclasses.replace(layer, heads=min(layer.heads, 2))
    wide = law if width is None else few.law(kernel, token, None)
    at = "n → ∞" if width is None else f"n = {width}"
    shown = {f"{own.described_heads}, {at}": one for own, one in zip(layers, laws, strict=True)}
    if all(own.heads != math.inf for own in layers):
        shown["Gaussian: infinitely many heads"] = Gaussian(0.0, float(wide.variance()))
    linear = dataclasses.replace(few, scaling="linear", head_dim=None).law(kernel, token, None)
    shown["Gaussian: scores scaled by 1/n"] = linear
    title = layer.title(len(kernel), token, width)
    if len(layers) > 1:
        title = title.replace(layer.described_heads, "several heads", 1)
    return drawing.density_figure(shown, title)


def heads_of(text: str) -> int | float:
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


def kernel_of(path: Path | None, tokens: int | None) -> "np.ndarray":
    """The kernel of the tokens: from a file, or the identity."""
    import numpy as np

    if tokens is not None and tokens < 1:
        raise ValueError(f"--tokens must be a positive integer, got {tokens}")
    if path is None:
        return np.eye(TOKENS if tokens is None else tokens)
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
