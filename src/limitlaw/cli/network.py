"""The options that describe a Transformer, and how a command gets them."""

import functools
import inspect
from collections.abc import Callable
from typing import Annotated, Any

import typer

Settings = dict[str, Any]  # the value of each of these options


def _option(kind: Any, default: Any, metavar: str, help: str) -> tuple[Any, Any]:
    """What an option is, and its value where it is not given."""
    return Annotated[kind, typer.Option(metavar=metavar, help=help)], default


def _flag(name: str, help: str) -> tuple[Any, Any]:
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
    """The command with all of these options in the place of its parameter `network`,
    which gets their `Settings`.
    """

    @functools.wraps(command)
    def told(**options: Any) -> None:
        command(network={name: options.pop(name) for name in NETWORK}, **options)

    parameters: list[inspect.Parameter] = []
    for parameter in inspect.signature(command).parameters.values():
        parameters += (
            _options()
            if parameter.name == "network"
            else [parameter.replace(kind=parameter.KEYWORD_ONLY)]
        )
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
