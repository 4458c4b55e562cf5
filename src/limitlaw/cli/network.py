"""The options that describe a Transformer, and how a command gets them."""

import functools
import inspect
from collections.abc import Callable
from typing import Annotated, Any

import typer

Settings = dict[str, Any]  # the value of each of these options
STD = Annotated[float, typer.Option(metavar="SD", help="Scale of these matrices.")]
# fmt: off
NETWORK: dict[str, tuple[Any, Any]] = {  # what it is, and its value where it is not given
    "depth": (Annotated[int, typer.Option(metavar="L", help="Blocks.")], 12),
    "heads": (Annotated[int, typer.Option(metavar="H", help="Heads.")], 4),
    "head_dim": (
        Annotated[int | None, typer.Option(metavar="D", help="Dimension of a head; n × n matrices without it.")], None
    ),
    "tokens": (Annotated[int, typer.Option(metavar="S", help="Tokens.")], 16),
    "norm": (Annotated[str, typer.Option(metavar="pre|post|none", help="Where the norms stand.")], "pre"),
    "normalise": (Annotated[str, typer.Option(metavar="layernorm|rmsnorm", help="Which norm it is.")], "layernorm"),
    "mask": (
        Annotated[str | None, typer.Option(metavar="causal", help="Tokens see themselves and earlier ones.")], None
    ),
    "kv_heads": (
        Annotated[int | None, typer.Option(metavar="G", help="Key and value heads, shared by groups of queries.")], None
    ),
    "positions": (
        Annotated[str, typer.Option(metavar="none|rotary|alibi", help="What attention sees of positions.")], "none"
    ),
    "hidden": (
        Annotated[int, typer.Option(metavar="K", help="The MLP has K·n hidden units; 0 for attention alone.")], 4
    ),
    "phi": (Annotated[str, typer.Option(metavar="gelu|relu|silu|tanh|…", help="The nonlinearity of the MLP.")], "gelu"),
    "gated": (Annotated[bool, typer.Option("--gated", help="A gated MLP, as SwiGLU.")], False),
    "parallel": (Annotated[bool, typer.Option("--parallel", help="Attention and MLP read the same vectors.")], False),
    "shared": (
        Annotated[bool, typer.Option("--shared", help="All blocks have the same weights, as in ALBERT.")], False
    ),
    "scale": (Annotated[float, typer.Option(metavar="C", help="Of each residual branch.")], 1.0),
    "q_std": (STD, 1.0),
    "k_std": (STD, 1.0),
    "v_std": (STD, 1.0),
    "o_std": (STD, 1.0),
    "mlp_std": (STD, 1.0),
    "bias_std": (Annotated[float, typer.Option(metavar="SD", help="Scale of all biases.")], 0.0),
    "correlation": (
        Annotated[float, typer.Option(metavar="C", help="Of the tokens that the first block is given.")], 0.0
    ),
}
# fmt: on


def of_a_network(command: Callable[..., None]) -> Callable[..., None]:
    """The command with all of these options in the place of its parameter `network`, which gets their `Settings`."""

    @functools.wraps(command)
    def told(**options: Any) -> None:
        command(network={name: options.pop(name) for name in NETWORK}, **options)

    parameters: list[inspect.Parameter] = []
    for parameter in inspect.signature(command).parameters.values():
        parameters += _options() if parameter.name == "network" else [parameter.replace(kind=parameter.KEYWORD_ONLY)]
    told.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    told.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return told


def _options() -> list[inspect.Parameter]:
    """The parameters that Typer reads."""
    kind = inspect.Parameter.KEYWORD_ONLY
    return [inspect.Parameter(name, kind, default=default, annotation=a) for name, (a, default) in NETWORK.items()]
