"""A factory watched while it draws the parameters of a module."""

from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from limitlaw.arguments import shown
from limitlaw.torch.errors import ConversionError
from limitlaw.torch.scales import Drawn


class _Watch(TorchDispatchMode):
    """Keeps, for each storage, the last law that its numbers were drawn from."""

    def __init__(self) -> None:
        super().__init__()
        self.drawn: dict[int, Drawn] = {}
        self.kept: list[torch.Tensor] = []  # so that no storage is used twice

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        name = func._overloadpacket.__name__
        if name.endswith("_") and args and isinstance(args[0], torch.Tensor):
            place = args[0].untyped_storage().data_ptr()
            whole = args[0].numel() * args[0].element_size() == args[0].untyped_storage().nbytes()
            self.drawn[place] = _after(name, args[1:], kwargs or {}, self.drawn.get(place), whole)
            self.kept.append(args[0].detach())
        elif name == "clone" and args[0].untyped_storage().data_ptr() in self.drawn:
            # as deepcopy does
            self.drawn[result.untyped_storage().data_ptr()] = self.drawn[
                args[0].untyped_storage().data_ptr()
            ]
            self.kept.append(result.detach())
        return result


def _after(name: str, args: Any, kwargs: Any, before: Drawn | None, whole: bool) -> Drawn:
    """The law after an operation in place; of one that is not followed, nothing is known."""
    if name == "normal_":
        std = float(args[1] if len(args) > 1 else kwargs.get("std", 1.0))
        mean = float(args[0] if args else kwargs.get("mean", 0.0))
        return Drawn("normal", std**2) if mean == 0 else Drawn("normal", None)
    if name == "uniform_":
        low, high = (*args, *(0.0, 1.0)[len(args) :])[:2]
        return Drawn("uniform", (high - low) ** 2 / 12) if low == -high else Drawn("uniform", None)
    if name in ("mul_", "div_") and before is not None and before.variance is not None:
        factor = args[0] if isinstance(args[0], int | float) else None
        if factor is not None:
            return Drawn(
                before.law, before.variance * (factor**2 if name == "mul_" else factor**-2)
            )
    if name in ("zero_", "fill_") and before is not None and not whole:
        return before  # a row of padding
    return Drawn("unknown", None)


def made(module: object) -> tuple[torch.nn.Module, dict[str, Drawn] | None]:
    """The module, and how its parameters were drawn where a function made it."""
    if isinstance(module, torch.nn.Module):
        return module, None
    if not callable(module):
        raise TypeError(
            f"module must be a torch.nn.Module or a function that makes one, got {shown(module)}"
        )
    with _without_orthogonal(), _Watch() as watch:
        result = module()
    if not isinstance(result, torch.nn.Module):
        raise TypeError(f"the factory must return a torch.nn.Module, got {shown(result)}")
    found = {}
    for name, parameter in result.named_parameters():
        drawn = watch.drawn.get(parameter.untyped_storage().data_ptr())
        if drawn is not None:
            found[name] = drawn
    return result, found


class _without_orthogonal:
    """torch.nn.init.orthogonal_ is refused as long as this lasts."""

    def __enter__(self) -> None:
        self._before: Callable[..., Any] = torch.nn.init.orthogonal_
        torch.nn.init.orthogonal_ = _refused  # type: ignore[assignment]

    def __exit__(self, *_: object) -> None:
        torch.nn.init.orthogonal_ = self._before  # type: ignore[assignment]


def _refused(*_: Any, **__: Any) -> Any:
    raise ConversionError(
        "orthogonal_: entries of orthogonal matrices are not independent, and limitlaw has no rule"
    )
