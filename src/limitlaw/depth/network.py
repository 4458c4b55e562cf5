"""A Transformer described by plain settings, as commands and stored runs have it."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from limitlaw import nn
from limitlaw.arguments import one_of, positive_int
from limitlaw.core.space import n
from limitlaw.language import named
from limitlaw.language.functions import initial
from limitlaw.language.values import Wide

PHIS: dict[str, Callable[[Any], Any]] = {
    phi.__name__: phi
    for phi in (named.gelu, named.relu, named.silu, named.tanh, named.erf, named.identity)
}
NORMALISATIONS = {"layernorm": nn.layernorm, "rmsnorm": nn.rmsnorm}
SEEN_POSITIONS = {"none": None, "rotary": nn.Rotary(), "alibi": nn.Alibi()}
SCALES = ("scale", "q_std", "k_std", "v_std", "o_std", "mlp_std", "bias_std", "correlation")


@dataclasses.dataclass(frozen=True)
class Network:
    """A Transformer on tokens of kernel (1 − correlation) I + correlation; `hidden` is the MLP's
    multiple of n, 0 for none, and the rest are settings of `nn.transformer`.
    """

    depth: int = 12
    tokens: int = 16
    heads: int = 4
    head_dim: int | None = None
    norm: str = "pre"
    normalise: str = "layernorm"
    mask: str | None = None
    kv_heads: int | None = None
    positions: str = "none"
    hidden: int = 4
    phi: str = "gelu"
    gated: bool = False
    parallel: bool = False
    shared: bool = False
    scale: Any = 1.0
    q_std: Any = 1.0
    k_std: Any = 1.0
    v_std: Any = 1.0
    o_std: Any = 1.0
    mlp_std: Any = 1.0
    bias_std: Any = 0.0
    correlation: float = 0.0

    def program(self) -> Wide:
        """The vectors behind the last block."""
        s = positive_int("tokens", self.tokens)
        if not -1 / max(1, s - 1) <= self.correlation <= 1:
            raise ValueError(
                f"correlation must be between −1/(tokens − 1) and 1, got {self.correlation:g}"
            )
        kernel = (1 - self.correlation) * np.eye(s) + self.correlation
        same = (*SCALES[:-1], "gated", "parallel", "shared", "kv_heads")
        return nn.transformer(
            initial((s,), cov=kernel),
            self.depth,
            self.heads,
            self.head_dim,
            self.norm,
            self.mask,
            hidden=self.hidden * n if self.hidden else None,
            phi=_chosen("phi", self.phi, PHIS),
            normalise=_chosen("normalise", self.normalise, NORMALISATIONS),
            positions=_chosen("positions", self.positions, SEEN_POSITIONS),
            **{name: vars(self)[name] for name in same},
        )

    @property
    def title(self) -> str:
        """The network in one line."""
        parts = [f"{self.depth} blocks", f"{self.heads} head{'s' * (self.heads != 1)}"]
        parts += [f"of dimension {self.head_dim}"] * (self.head_dim is not None)
        parts += [
            f"{self.tokens} tokens",
            {"pre": "pre-norm", "post": "post-norm", "none": "no norm"}[self.norm],
        ]
        parts += ["causal"] * (self.mask == "causal") + [
            self.phi if self.hidden else "attention alone"
        ]
        return ", ".join(parts)


def _chosen(name: str, value: object, among: Mapping[str, Any]) -> Any:
    """The value that a name stands for."""
    return among[one_of(name, value, tuple(among))]


class ScaleGrid(NamedTuple):
    """The name of a scale and its values."""

    name: str
    values: tuple[float, ...]

    @property
    def linear(self) -> bool:
        """Are the values evenly spaced, as those of a correlation, and not in logarithms?"""
        return self.name == "correlation"

    @staticmethod
    def of(text: str, option: str) -> "ScaleGrid":
        """The grid in a text like `q_std=0.1:10:8`: 8 values, log-spaced (`correlation`: even)."""
        name, _, span = text.partition("=")
        name = name.strip().replace("-", "_")
        try:
            low, high, count = (
                kind(part) for kind, part in zip((float, float, int), span.split(":"), strict=True)
            )
        except ValueError:
            raise ValueError(
                f"{option} must look like q_std=0.1:10:8 (from:to:values), got {text}"
            ) from None
        if name not in SCALES:
            raise ValueError(f"{option} must be one of {', '.join(SCALES)}, got {name}")
        if count < 2 or low >= high or (name != "correlation" and low <= 0):
            raise ValueError(
                f"{option} must go from a lower to a higher value in two or more steps, got {text}"
            )
        spaced = np.linspace if name == "correlation" else np.geomspace
        values = spaced(low, high, count)
        return ScaleGrid(name, tuple(float(f"{value:.12g}") for value in values))
