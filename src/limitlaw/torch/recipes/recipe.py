"""`Std` and `Recipe`: standard deviations by role, with fan, depth and truncation."""

import dataclasses
import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from limitlaw.arguments import shown
from limitlaw.torch.reading.roles import ROLES, RolePiece

FANS = ("", "in", "out", "both", "in²")
DEPTHS = ("", "2L", "2(l+1)", "2(L+1)")
# where a recipe does not say, a role is as this one
_AS = {
    **dict.fromkeys(("q", "k", "v"), "qkv"),
    **dict.fromkeys(("gate", "up"), "mlp"),
    **dict.fromkeys(("qkv", "mlp", "out", "down", "head", "input"), "linear"),
    **dict.fromkeys(("positions", "types", "token"), "embedding"),
}
_WORDS = {*ROLES, *_AS, *_AS.values()} - {"lora A", "lora B"}


@dataclasses.dataclass(frozen=True)
class Std:
    """The standard deviation std/(√fan·√depth) of the entries of a matrix.

    `fan`: "in", "out", "in²", or "both" for (in + out)/2, as Xavier has it; "" for 1. `depth`:
    "2L" for all of L blocks, "2(l+1)" for block l = 0, 1, …, "2(L+1)"; "" for 1. `cut`: normal
    numbers are cut at so many of these standard deviations, which makes them smaller.
    """

    std: float = 1.0
    fan: str = ""
    depth: str = ""
    cut: float = math.inf

    def __post_init__(self) -> None:
        if not (isinstance(self.std, int | float) and 0 <= self.std < math.inf):
            raise ValueError(f"std must be a number of at least 0, got {shown(self.std)}")
        for name, known in (("fan", FANS), ("depth", DEPTHS)):
            if vars(self)[name] not in known:
                raise ValueError(f"{name} must be one of {known}, got {shown(vars(self)[name])}")
        if not self.cut > 0:
            raise ValueError(f"cut must be positive, got {shown(self.cut)}")

    def of(self, piece: RolePiece) -> float:
        """The standard deviation of a matrix of a module."""
        fan_in, fan_out = int(piece.weight.shape[-1]), piece.fan_out
        fans = dict(
            zip(FANS, (1, fan_in, fan_out, (fan_in + fan_out) / 2, fan_in**2), strict=True)
        )
        l, L = piece.block, piece.blocks
        depths = dict(zip(DEPTHS, (1, 2 * L, 2 * (l + 1), 2 * (L + 1)), strict=True))
        return self.std / math.sqrt(fans[self.fan] * depths[self.depth]) * shrunk(self.cut)

    def __str__(self) -> str:
        fan = {"": "", "in": "√fan_in", "out": "√fan_out", "both": "√((in+out)/2)"}
        below = [fan.get(self.fan, "fan_in"), f"√({self.depth})" if self.depth else ""]
        return f"{self.std:.3g}" + "".join(f"/{x}" for x in below if x)

    @property
    def code(self) -> str:
        """The standard deviation as Python, for a matrix p in block l of L."""
        fan = {
            "in": "p.shape[1]",
            "out": "p.shape[0]",
            "both": "sum(p.shape) / 2",
            "in²": "p.shape[1] ** 2",
        }
        depth = self.depth.replace("2(", "2 * (").replace("2L", "2 * L").replace("+", " + ")
        below = " * ".join(x for x in (fan.get(self.fan, ""), depth) if x)
        return f"{self.std:.4g} / ({below}) ** 0.5" if below else f"{self.std:.4g}"


def shrunk(cut: float) -> float:
    """The standard deviation of N(0, 1) cut at ±c: √(1 − 2cφ(c)/(2Φ(c) − 1))."""
    if cut > 40:
        return 1.0
    density = math.exp(-(cut**2) / 2) / math.sqrt(2 * math.pi)
    return math.sqrt(1 - 2 * cut * density / math.erf(cut / math.sqrt(2)))


class InitRecipe:
    """What an initialisation was meant to be: a standard deviation for each role.

        Recipe("ours", linear=0.02, embedding=1.0, out=Std(0.02, depth="2L"))

    Roles are embedding, positions, types, token (a class token), input (patches), q, k, v, out (of
    an attention), gate, up, down, head; qkv stands for q, k, v, mlp for gate and up, linear for
    every matrix, embedding for every table. A role that is not given is not compared. `bias`: the
    standard deviation of biases, None where it does not matter.
    """

    def __init__(self, name: str, *, bias: float | None = 0.0, **roles: Std | float):
        unknown = [role for role in roles if role not in _WORDS]
        if unknown:
            raise ValueError(
                f"a recipe has no role {unknown[0]!r}; there are {', '.join(sorted(_WORDS))}"
            )
        self.name, self.bias = name, bias
        self.roles = {r: s if isinstance(s, Std) else Std(s) for r, s in roles.items()}

    def std(self, role: str) -> Std | None:
        """The standard deviation of a role; None where the recipe says nothing."""
        found: str | None = role
        while found is not None and found not in self.roles:
            found = _AS.get(found)
        return None if found is None else self.roles[found]

    def scaled(self, factor: float) -> "InitRecipe":
        """The recipe with every standard deviation that has no fan times a factor."""
        roles = {
            r: s if s.fan else dataclasses.replace(s, std=s.std * factor)
            for r, s in self.roles.items()
        }
        std = next((s.std for r, s in roles.items() if r == "linear" and not s.fan), None)
        name = self.name if std is None or factor == 1 else f"{self.name} with std {std:.3g}"
        return InitRecipe(name, bias=self.bias, **roles)

    def __repr__(self) -> str:
        return f"Recipe({self.name!r}, {', '.join(f'{r}={s}' for r, s in self.roles.items())})"


# --- named ones ----------------------------------------------------------------------------------


def _by_depth(name: str, std: Std, depth: str, **others: Std | float) -> InitRecipe:
    """The recipe of a standard deviation for all, over √depth where branches end."""
    last = dataclasses.replace(std, depth=depth)
    roles = {"linear": std, "embedding": std, "out": last, "down": last, **others}
    return InitRecipe(name, bias=0.0, **roles)


_D, _DEFAULT = Std(1.0, "in"), Std(3**-0.5, "in")
_TITAN, _CUT = Std(0.02, depth="2(l+1)"), Std(1.0, "in", cut=3.0)
NAMED: dict[str, InitRecipe] = {
    "transformers": InitRecipe("transformers' default", linear=0.02, embedding=0.02),
    "gpt2": _by_depth("GPT-2", Std(0.02), "2L"),
    "torchtitan": InitRecipe(
        "torchtitan's Llama 3", embedding=1.0, linear=0.02, out=_TITAN, up=_TITAN, down=_TITAN,
        head=_CUT,
    ),
    "torchtitan-gate": InitRecipe(
        "torchtitan's Llama 3, up without depth", embedding=1.0, linear=0.02, out=_TITAN,
        down=_TITAN, head=_CUT,
    ),
    "lingua": InitRecipe("lingua", linear=_CUT, embedding=_CUT),
    "lingua-current": _by_depth("lingua, current_depth", _CUT, "2(l+1)"),
    "lingua-global": _by_depth("lingua, global_depth", _CUT, "2(L+1)"),
    "olmo-mitchell": _by_depth("OLMo's mitchell", _CUT, "2(l+1)"),
    "olmo-full-megatron": _by_depth(
        "OLMo's full_megatron", Std(0.02, cut=3.0), "2L", embedding=0.02, head=_D
    ),
    "mup": InitRecipe("μP", embedding=1.0, linear=_D, head=Std(1.0, "in²")),
    "pytorch": InitRecipe("nn.Linear default", bias=None, embedding=1.0, linear=_DEFAULT),
    "pytorch-attention": InitRecipe(
        "nn.MultiheadAttention default", bias=None, embedding=1.0, linear=_DEFAULT,
        qkv=Std(2**-0.5, "in"),
    ),
    "xavier": InitRecipe("Xavier", bias=None, linear=Std(1.0, "both"), embedding=1.0),
}  # fmt: skip
ALIASES = {
    **dict.fromkeys(("llama", "bert", "vit", "olmo", "qwen", "mistral", "gemma"), "transformers"),
    **dict.fromkeys(("gpt-2", "nanogpt"), "gpt2"),
    **dict.fromkeys(("μp", "mu-p"), "mup"),
}
_WITH_DEPTH = ("gpt2", "imagegpt", "decision_transformer")  # configurations of transformers
_OTHER = ("t5", "mt5", "umt5", "longt5", "switch_transformers", "pop2piano", "xlnet")


@runtime_checkable
class Configuration(Protocol):
    """A configuration of transformers."""

    def to_dict(self) -> dict[str, Any]:
        """Its settings by name."""


def from_config(config: object) -> InitRecipe:
    """The recipe of a configuration of transformers: an object, a dictionary, or a JSON file."""
    if isinstance(config, str | os.PathLike):
        config = json.loads(Path(config).read_text())
    known = config.to_dict() if isinstance(config, Configuration) else config
    if not isinstance(known, Mapping):
        raise TypeError(f"recipe must be a configuration of transformers, got {shown(config)}")
    kind = known.get("model_type")
    given = [known.get(name) for name in ("initializer_range", "init_std")]
    std = next((x for x in given if isinstance(x, int | float)), None)
    if kind in _OTHER or std is None:
        raise ValueError(
            f"recipe {kind!r}: the configuration has no initializer_range that all its matrices "
            "have; write a Recipe"
        )
    base = NAMED["gpt2" if kind in _WITH_DEPTH else "transformers"]
    return base.scaled(float(std) / 0.02)


def recipe_of(recipe: object) -> InitRecipe:
    """A recipe, a name of one, a mapping of roles, or a configuration, as a recipe."""
    if isinstance(recipe, InitRecipe):
        return recipe
    if isinstance(recipe, str):
        key = ALIASES.get(recipe.lower(), recipe.lower())
        if key in NAMED:
            return NAMED[key]
        if not recipe.endswith(".json"):
            raise ValueError(
                f"recipe must be one of {', '.join((*NAMED, *ALIASES))}, or a configuration "
                f"FILE.json, got {recipe!r}"
            )
    if isinstance(recipe, Mapping) and set(recipe) <= _WORDS | {"bias"}:
        return InitRecipe("the recipe", **recipe)
    if isinstance(recipe, str | os.PathLike | Mapping | Configuration):
        return from_config(recipe)
    raise TypeError(
        "recipe must be a Recipe, a name, a mapping from roles to standard deviations, or a "
        f"configuration of transformers, got {shown(recipe)}"
    )
