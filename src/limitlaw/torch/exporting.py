"""A module as a graph of ATen operations, and the numbers that the graph computes: with the
module's own parameters, or with parameters drawn again.
"""

import copy
import dataclasses
import types
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import torch
from torch.export.graph_signature import InputKind
from torch.utils import _pytree as pytree

from limitlaw.arguments import first_line
from limitlaw.torch.errors import ConversionError
from limitlaw.torch.scales import Parameters

Tensors = dict[str, torch.Tensor]  # by name of the parameter, or of the node of the graph

SILENT = {"_assert_tensor_metadata", "_assert_async", "_assert_scalar"}
SILENT |= {"sym_constrain_range_for_size"}


@dataclasses.dataclass(frozen=True)
class Exported:
    """The graph of a module, and for each of its placeholders the name of a parameter, or its
    value.
    """

    graph: torch.fx.Graph
    parameters: dict[str, str]  # placeholder → name of the parameter
    arrays: Tensors  # name of the parameter → its numbers
    constants: dict[str, Any]  # placeholder → buffer, lifted constant or input
    kinds: dict[str, str]  # name of the parameter → the classes of the modules that it is in
    inputs: frozenset[str] = frozenset()  # the placeholders that are inputs of the module


def exported(module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Exported:
    """The graph of `module` in eval mode and float64; the module itself stays as it is."""
    _check_numbers(module)
    twin = copy.deepcopy(module).double().eval()
    args, kwargs = pytree.tree_map(
        lambda x: x.double() if isinstance(x, torch.Tensor) and x.is_floating_point() else x,
        (args, kwargs),
    )
    try:
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # warnings of PyTorch about itself
            program = torch.export.export(twin, args, kwargs, strict=False).run_decompositions({})
    except Exception as error:
        raise ConversionError(_why(error)) from error
    return _read(program, args, kwargs, twin)


def _check_numbers(module: torch.nn.Module) -> None:
    """Raise for parameters without numbers, or with numbers that are not finite."""
    for name, parameter in module.named_parameters():
        if parameter.is_meta:
            raise ConversionError(
                f"{name} is on the meta device and has no numbers: build the module on the CPU"
            )
        if not bool(torch.isfinite(parameter).all()):
            raise ConversionError(f"{name} has entries that are not finite numbers")


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
    program: torch.export.ExportedProgram,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    module: torch.nn.Module,
) -> Exported:
    parameters: dict[str, str] = {}
    constants: dict[str, Any] = {}
    inputs: set[str] = set()
    flat = iter(pytree.tree_flatten((args, kwargs))[0])
    for spec in program.graph_signature.input_specs:
        name = spec.arg.name
        if spec.kind == InputKind.PARAMETER:
            parameters[name] = spec.target
        elif spec.kind == InputKind.USER_INPUT:
            constants[name] = next(flat)
            inputs.add(name)
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
        frozenset(inputs),
    )


def kind_of(module: torch.nn.Module, parameter: str) -> str:
    """The classes of the modules on the way to a parameter, the outermost first."""
    kinds = [type(module).__qualname__]
    for part in parameter.split(".")[:-1]:
        module = module.get_submodule(part)
        kinds.append(type(module).__qualname__)
    return ".".join(kinds)


# --- what the graph computes ---------------------------------------------------------------------


_FUNCTIONS = types.FunctionType | types.BuiltinFunctionType


def name_of(target: object) -> str:
    """The name of an operation without its overload: "add" for aten.add.Tensor."""
    if isinstance(target, torch._ops.OpOverload):
        return target.overloadpacket.__name__
    return target.__name__ if isinstance(target, _FUNCTIONS) else str(target)


def arguments_of(
    node: torch.fx.Node, value: Callable[[torch.fx.Node], Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of an operation, with the value of every node that it reads."""
    return torch.fx.node.map_arg((node.args, dict(node.kwargs)), value)


def result_of(node: torch.fx.Node, numbers: Mapping[torch.fx.Node, object]) -> Any:
    """The numbers of an operation (casts to float32 stay in float64), None for assertions."""
    if name_of(node.target) in SILENT:
        return None
    found = arguments_of(node, numbers.__getitem__)
    args, kwargs = pytree.tree_map(lambda x: torch.float64 if x is torch.float32 else x, found)
    assert callable(node.target)
    try:
        return node.target(*args, **kwargs)
    except RuntimeError as error:
        if "without overflow" not in str(error):
            raise
    args, kwargs = pytree.tree_map(_in_float32, (args, kwargs))
    return node.target(*args, **kwargs)


def _in_float32(x: object) -> object:
    """The least number of float64, which may fill a float32 table, as that of float32."""
    largest = torch.finfo(torch.float32).max
    return min(max(x, -largest), largest) if isinstance(x, float) else x


def computed(exported: Exported, arrays: Tensors) -> Tensors:
    """The numbers of every tensor of a graph, by the name of its node, for these parameters."""
    numbers: dict[torch.fx.Node, object] = {}
    for node in exported.graph.nodes:
        if node.op == "placeholder":
            own = exported.parameters.get(node.name)
            numbers[node] = exported.constants[node.name] if own is None else arrays[own]
        elif node.op == "call_function":
            numbers[node] = result_of(node, numbers)
    return {node.name: x for node, x in numbers.items() if isinstance(x, torch.Tensor)}


def runs(
    exported: Exported,
    parameters: Parameters,
    factory: Callable[[], torch.nn.Module] | None,
    seeds: Iterable[int],
) -> Iterator[Tensors]:
    """The graph with new parameters for each seed; torch's own generator is left as it was."""
    for seed in seeds:
        with torch.random.fork_rng(devices=[]), torch.no_grad():
            torch.manual_seed(seed)
            if factory is None:
                arrays = _drawn(exported, parameters)
            else:
                made = factory()
                arrays = {n: made.get_parameter(n).detach().double() for n in exported.arrays}
            yield computed(exported, arrays)


def _drawn(exported: Exported, parameters: Parameters) -> Tensors:
    """Normal parameters of the measured variances; zeros stay zero, equal arrays stay equal."""
    fresh: Tensors = {}
    for name, array in exported.arrays.items():
        if name in parameters.random:
            own = parameters.random[name]
            if own.key not in fresh:
                normal = torch.randn(array.shape, dtype=torch.float64)
                fresh[own.key] = own.variance**0.5 * normal * (array != 0)
    return {
        n: fresh[parameters.random[n].key] if n in parameters.random else a
        for n, a in exported.arrays.items()
    }
