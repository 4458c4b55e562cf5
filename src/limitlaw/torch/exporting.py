"""A module as a graph of ATen operations, with the numbers of its parameters,
buffers and inputs.
"""

import copy
import dataclasses
import warnings
from typing import Any

import torch
from torch.export.graph_signature import InputKind
from torch.utils import _pytree as pytree

from limitlaw.arguments import first_line, shown
from limitlaw.torch.errors import ConversionError


@dataclasses.dataclass(frozen=True)
class Exported:
    """The graph, and for each of its placeholders the name of a parameter or what it holds."""

    graph: torch.fx.Graph
    parameters: dict[str, str]  # placeholder → name of the parameter
    arrays: dict[str, torch.Tensor]  # name of the parameter → its numbers
    constants: dict[str, Any]  # placeholder → buffer, lifted constant or input
    kinds: dict[str, str]  # name of the parameter → the classes of the modules that it is in


def exported(module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Exported:
    """The graph of `module` in eval mode and float64; the module itself stays as it is."""
    if not isinstance(module, torch.nn.Module):
        raise TypeError(
            f"module must be a torch.nn.Module or a function that makes one, got {shown(module)}"
        )
    twin = copy.deepcopy(module).double().eval()
    args, kwargs = pytree.tree_map(_double, (args, kwargs))
    try:
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # those of PyTorch about itself
            program = torch.export.export(twin, args, kwargs, strict=False).run_decompositions({})
    except Exception as error:
        raise ConversionError(_why(error)) from error
    return _read(program, args, kwargs, twin)


def _double(value: object) -> Any:
    return (
        value.double() if isinstance(value, torch.Tensor) and value.is_floating_point() else value
    )


def _why(error: Exception) -> str:
    text = f"{type(error).__name__}: {first_line(error)}"
    if any(
        word in str(error)
        for word in ("data-dependent", "data dependent", "DataDependent", "Data-dependent")
    ):
        return (
            "data-dependent control flow has no rule: an `if` of the module depends on random "
            f"values ({text})"
        )
    return f"torch.export cannot follow this module: {text}"


def _read(
    program: Any, args: tuple[Any, ...], kwargs: dict[str, Any], module: torch.nn.Module
) -> Exported:
    parameters: dict[str, str] = {}
    constants: dict[str, Any] = {}
    flat = iter(pytree.tree_flatten((args, kwargs))[0])
    for spec in program.graph_signature.input_specs:
        name = spec.arg.name
        if spec.kind == InputKind.PARAMETER:
            parameters[name] = spec.target
        elif spec.kind == InputKind.USER_INPUT:
            constants[name] = next(flat)
        else:
            held = program.state_dict if spec.target in program.state_dict else program.constants
            constants[name] = held[spec.target]
    for name, value in kwargs.items():
        if name in constants and isinstance(value, torch.Tensor):
            constants[name] = value
    arrays = {name: program.state_dict[name].detach() for name in parameters.values()}
    return Exported(
        program.graph,
        parameters,
        arrays,
        constants,
        {name: kind_of(module, name) for name in arrays},
    )


def kind_of(module: torch.nn.Module, parameter: str) -> str:
    """The classes of the modules on the way to a parameter, the outermost first."""
    kinds = [type(module).__qualname__]
    for part in parameter.split(".")[:-1]:
        module = module.get_submodule(part)
        kinds.append(type(module).__qualname__)
    return ".".join(kinds)
