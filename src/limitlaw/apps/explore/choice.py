"""The settings that can be chosen, and their form in an address: `tokens=4&heads=2&scale=1.5`."""

import dataclasses
import math
import re
from collections.abc import Iterable, Sequence
from typing import Any

from limitlaw.depth.network import PHIS

DRAW_CHOICES = (1024, 4096, 16384, 65536)


@dataclasses.dataclass(frozen=True)
class Setting:
    """One setting: label, meaning, range or choices; `log`: its slider is logarithmic after 0."""

    label: str
    help: str
    low: float | int = 0
    high: float | int = 0
    log: bool = False
    choices: tuple[tuple[str, str], ...] = ()
    group: str = "layer"
    whole: bool = True

    @property
    def ticks(self) -> Sequence[float | int]:
        """The values at which a slider stops: few, so that few programs are compiled."""
        if not self.log:
            step = 1.0 if self.whole else 0.02
            return [
                round(self.low + i * step, 6)
                for i in range(round((self.high - self.low) / step) + 1)
            ]
        if self.whole:
            powers = [
                round(2 ** (k / 2) if k % 2 == 0 else 1.5 * 2 ** ((k - 1) / 2)) for k in range(26)
            ]
            return [0] * (self.low == 0) + [
                p for p in dict.fromkeys(powers) if self.low <= p <= self.high
            ]
        fine = [float(f"{10 ** (k / 20):.2g}") for k in range(-40, 61)]
        return [x for x in fine if self.low <= x <= self.high]


def _setting(default: object, *field: Any, **more: Any) -> Any:
    return dataclasses.field(default=default, metadata={"field": Setting(*field, **more)})


@dataclasses.dataclass(frozen=True)
class Choice:
    """Attention on tokens φ(g), g ~ N(0, (1 − c) I + c), and a Transformer of such layers."""

    tokens: int = _setting(4, "Tokens s", "how many vectors attend to each other", 1, 32)
    token: int = _setting(3, "Token i", "whose output is looked at, from 0", 0, 31)
    heads: int = _setting(1, "Heads H", "summed with 1/√H", 1, 64, True)
    head_dim: int = _setting(
        0, "Head dimension d", "0: as wide as the network, n × n matrices", 0, 128, True
    )
    width: int = _setting(64, "Width n", "of the exact law and of the simulation", 4, 4096, True)
    scale: float = _setting(
        2.0, "Score scale", "multiplies all attention scores", 0.05, 20, True, whole=False
    )
    correlation: float = _setting(
        0.0, "Kernel correlation c", "of the tokens, before the nonlinearity", -1, 1, whole=False
    )
    mask: str = _setting(
        "none",
        "Mask",
        "which tokens are seen",
        choices=(("none", "none: all tokens"), ("causal", "causal: earlier ones")),
    )
    phi: str = _setting(
        "identity",
        "Nonlinearity φ",
        "of the tokens; of the MLP in depth",
        choices=tuple((phi, phi) for phi in PHIS),
    )
    samples: int = _setting(
        4096, "Draws", "of the exact law", choices=tuple((str(n), f"{n:,}") for n in DRAW_CHOICES)
    )
    depth: int = _setting(
        12, "Blocks L", "attention and an MLP of 4n units each", 1, 48, group="depth"
    )
    norm: str = _setting(
        "pre",
        "Norm",
        "where LayerNorm stands",
        choices=tuple((n, n) for n in ("pre", "post", "none")),
        group="depth",
    )
    compare: str = _setting(
        "limit",
        "Curves",
        "a width takes longer, of gradients the limit",
        choices=(
            ("limit", "n → ∞"),
            ("both", "n → ∞ and width n"),
            ("gradients-limit", "gradients, n → ∞"),
            ("gradients", "gradients at width n"),
            ("gradients-both", "gradients, n → ∞ and width n"),
        ),
        group="depth",
    )

    @property
    def of_gradients(self) -> bool:
        """Are the curves those of gradients?"""
        return self.compare.startswith("gradients")

    @property
    def widths(self) -> tuple[int | None, ...]:
        """The widths of the curves along depth; None is n → ∞."""
        if self.compare == "gradients":
            return (self.width,)
        return (None, self.width) if self.compare.endswith("both") else (None,)

    @property
    def query(self) -> str:
        """The settings that are not the default, as in an address."""
        changed = [f for f in dataclasses.fields(self) if vars(self)[f.name] != f.default]
        return "&".join(f"{f.name}={vars(self)[f.name]}" for f in changed)


FIELDS: dict[str, Setting] = {f.name: f.metadata["field"] for f in dataclasses.fields(Choice)}
DEFAULTS: dict[str, Any] = {f.name: f.default for f in dataclasses.fields(Choice)}


def choice_of(settings: Iterable[tuple[str, str]]) -> Choice:
    """The choice from the names and texts of an address; an error is one line that names the
    setting.
    """
    given: dict[str, Any] = {}
    for name, text in settings:
        if name not in FIELDS:
            raise ValueError(f"{_quoted(name)} is no setting; there are {', '.join(FIELDS)}")
        if name in given:
            raise ValueError(f"{name} is given twice")
        given[name] = _value(name, text)
    choice = Choice(**given)
    _check_together(choice)
    return choice


def _value(name: str, text: str) -> Any:
    default, field = DEFAULTS[name], FIELDS[name]
    if field.choices:
        allowed = [value for value, _ in field.choices]
        if text not in allowed:
            raise ValueError(f"{name} must be one of {', '.join(allowed)}, got {_quoted(text)}")
        return type(default)(text)
    value = _integer(text) if isinstance(default, int) else _real(text)
    if value is None or not field.low <= value <= field.high:
        kind = "a whole number" if isinstance(default, int) else "a number"
        raise ValueError(
            f"{name} must be {kind} from {field.low:g} to {field.high:g}, got {_quoted(text)}"
        )
    return value


def _integer(text: str) -> int | None:
    return int(text) if re.fullmatch(r"[+-]?[0-9]{1,9}", text.strip(), re.ASCII) else None


def _real(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _quoted(text: str) -> str:
    return repr(text if len(text) <= 40 else text[:39] + "…")


def _check_together(choice: Choice) -> None:
    """Refuse settings that are possible by themselves, and not together."""
    s, c = choice.tokens, choice.correlation
    if choice.token >= s:
        raise ValueError(f"token must be one of 0 … {s - 1} of the {s} tokens, got {choice.token}")
    if c < -1 / max(1, s - 1):
        raise ValueError(
            f"correlation must be −1/(s − 1) = −{1 / (s - 1):.4g} or more: {s} tokens have no "
            f"correlation −{-c:g}"
        )
