"""The scales of parameters: the variance of their entries, as declared or as measured."""

import dataclasses
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from limitlaw.arguments import shown
from limitlaw.digits import plus_minus
from limitlaw.torch.errors import ConversionError

FIRST_ENTRIES = 64  # entries: arrays that differ do so there, as a rule
ROWS = 32  # rows that are checked: orthogonal matrices have orthogonal rows from the first on
TOO_FAR = 6.0  # standard errors between a declared and a measured variance


@dataclasses.dataclass(frozen=True, eq=False)
class Parameter:
    """A random parameter with entries of mean 0; equal arrays have the same `key`."""

    name: str
    key: str
    variance: float
    drawn: str  # "normal", "uniform", … where the factory was watched, else "measured"


@dataclasses.dataclass(frozen=True)
class DrawnAs:
    """The last law that a factory drew a parameter from, and its variance (None: unknown)."""

    law: str
    variance: float | None
    cut: float = 0.0  # a truncated normal law is cut at so many standard deviations


class Parameters:
    """The parameters of a module: which are constants, which are equal, and the scales of the
    others.
    """

    def __init__(
        self, arrays: Mapping[str, np.ndarray], drawn: Mapping[str, DrawnAs] | None = None
    ):
        self.notes: list[str] = []
        self.drawn = dict(drawn or {})
        self.constants = {
            name for name, a in arrays.items() if a.size == 0 or (a == a.flat[0]).all()
        }
        given = {name for name, d in (drawn or {}).items() if d.law == "given"}
        self.constants |= given
        if given:
            some = ", ".join(sorted(given)[:3]) + (", …" if len(given) > 3 else "")
            self.notes.append(
                f"{some} ({len(given)} in all) are the same at every call of the factory: given, "
                "not random"
            )
        self.random: dict[str, Parameter] = {}
        self._uniform: list[str] = []
        for names in _same({name: a for name, a in arrays.items() if name not in self.constants}):
            self._add(names, arrays[names[0]], drawn or {})
        if self._uniform:
            some = ", ".join(self._uniform[:3]) + (", …" if len(self._uniform) > 3 else "")
            self.notes.append(
                f"{some} ({len(self._uniform)} in all) are uniform, and normal in the program: "
                "exact as the width grows, an approximation of order 1/n before; what |b|² of a "
                "bias spreads, n^-1/2, is overstated"
            )

    def _add(self, names: list[str], array: np.ndarray, drawn: Mapping[str, DrawnAs]) -> None:
        first = names[0]
        if len(names) > 1:
            self.notes.append(
                f"{', '.join(names)} start with the same numbers: they are one matrix"
            )
        _check_not_orthogonal(first, array)
        known = next((drawn[name] for name in names if name in drawn), None)
        measured = float(np.mean(array[array != 0] ** 2))
        law, variance = "measured", measured
        if known is not None and known.variance is not None:
            _cross_check(first, array, known)
            law, variance = known.law, known.variance
        if law == "uniform":
            self._uniform.append(first)
        self.random |= {name: Parameter(name, first, variance, law) for name in names}


def _same(arrays: Mapping[str, np.ndarray]) -> list[list[str]]:
    """The names of arrays, in groups of equal numbers."""
    alike: dict[tuple[tuple[int, ...], bytes], list[list[str]]] = {}
    for name, array in arrays.items():
        groups = alike.setdefault((array.shape, array.reshape(-1)[:FIRST_ENTRIES].tobytes()), [])
        own = next((group for group in groups if np.array_equal(arrays[group[0]], array)), None)
        if own is None:
            groups.append(own := [])
        own.append(name)
    return [group for groups in alike.values() for group in groups]


def _cross_check(name: str, array: np.ndarray, known: DrawnAs) -> None:
    """Raise unless the variance that the factory declared is the one that is measured."""
    assert known.variance is not None
    squares = array[array != 0] ** 2
    error = math.sqrt(2 / len(squares)) * known.variance
    if abs(squares.mean() - known.variance) > TOO_FAR * error:
        raise ConversionError(
            f"{name} was drawn from a {known.law} law of variance {known.variance:g}, but its "
            f"entries have {plus_minus(float(squares.mean()), error)}: it was changed afterwards; "
            "hand the module, not its factory"
        )


def _check_not_orthogonal(name: str, array: np.ndarray) -> None:
    """Raise for an orthogonal matrix, whose entries are not independent."""
    if array.ndim != 2 or min(array.shape) < 2:
        return
    short = (array if array.shape[0] <= array.shape[1] else array.T)[:ROWS]
    gram = short @ short.T / np.mean((short**2).sum(axis=1))
    if np.allclose(gram, np.eye(len(gram)), atol=1e-4):
        raise ConversionError(
            f"{name} is orthogonal: its entries are not independent, and limitlaw has no rule for "
            "such matrices; initialise it by normal_ or uniform_"
        )


# --- a factory watched while it draws ------------------------------------------------------------


class _Watch(TorchDispatchMode):
    """Keeps, for each storage, the last law that its numbers were drawn from."""

    def __init__(self) -> None:
        super().__init__()
        self.drawn: dict[int, DrawnAs] = {}
        self.kept: list[torch.Tensor] = []  # so that no storage is used twice

    def __torch_dispatch__(
        self,
        func: torch._ops.OpOverload,
        types: Collection[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        name = func._overloadpacket.__name__
        if name.endswith("_") and args and isinstance(args[0], torch.Tensor):
            storage = args[0].untyped_storage()
            place, whole = storage.data_ptr(), args[0].nbytes == storage.nbytes()
            self.drawn[place] = _after(name, args[1:], self.drawn.get(place), whole)
            self.kept.append(args[0].detach())
        elif name == "clone" and args[0].untyped_storage().data_ptr() in self.drawn:
            # as deepcopy does
            drawn = self.drawn[args[0].untyped_storage().data_ptr()]
            self.drawn[result.untyped_storage().data_ptr()] = drawn
            self.kept.append(result.detach())
        return result


def _after(name: str, args: Sequence[object], before: DrawnAs | None, whole: bool) -> DrawnAs:
    """The law of a tensor after an operation in place; after one that is not followed it is
    unknown.
    """
    numbers = [float(x) for x in args if isinstance(x, int | float)]
    if name == "normal_":
        mean, std = (*numbers, *(0.0, 1.0)[len(numbers) :])
        return DrawnAs("normal", std**2 if mean == 0 else None)
    if name == "uniform_":
        low, high = (*numbers, *(0.0, 1.0)[len(numbers) :])
        return DrawnAs("uniform", (high - low) ** 2 / 12 if low == -high else None)
    if (
        name in ("mul_", "div_")
        and any(numbers)
        and before is not None
        and before.variance is not None
    ):
        factor = numbers[0] ** (2 if name == "mul_" else -2)
        return DrawnAs(before.law, before.variance * factor)
    if name in ("zero_", "fill_") and before is not None and not whole:
        return before  # a row of padding
    return DrawnAs("unknown", None)


def made(module: object) -> tuple[torch.nn.Module, dict[str, DrawnAs] | None]:
    """The module, and the laws that its parameters were drawn from if a function made it."""
    if isinstance(module, torch.nn.Module):
        return module, None
    if not callable(module):
        raise TypeError(
            f"module must be a torch.nn.Module or a function that makes one, got {shown(module)}"
        )
    with _without_orthogonal(), _Truncations() as cuts, _Watch() as watch:
        result = module()
    if not isinstance(result, torch.nn.Module):
        raise TypeError(f"the factory must return a torch.nn.Module, got {shown(result)}")
    found = {}
    for name, parameter in result.named_parameters():
        place = parameter.untyped_storage().data_ptr()
        drawn = watch.drawn.get(place)
        if drawn is not None:
            std, cut = cuts.found.get(place, (0.0, 0.0))
            if drawn.variance is None or math.isclose(drawn.variance, std**2):
                drawn = dataclasses.replace(drawn, cut=cut)  # not drawn again since
            found[name] = drawn
    return result, found | dict.fromkeys(_given(module, result), DrawnAs("given", None))


def _given(factory: Callable[[], torch.nn.Module], first: torch.nn.Module) -> list[str]:
    """The parameters that are the same in another call of a factory, constants aside; none where
    all are, as in a factory that seeds PyTorch itself.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(torch.initial_seed() ^ 0x5DEECE66D)
        again = dict(factory().named_parameters())
    own = {name: p for name, p in first.named_parameters() if name in again and p.numel()}
    same = {n for n, p in own.items() if torch.equal(p, again[n])}
    varied = {n for n in same if bool((own[n] != own[n].flatten()[0]).any())}
    return [] if len(same) == len(own) else sorted(varied)


class _Truncations:
    """A context that notes where truncated normal numbers are cut, in standard deviations."""

    def __enter__(self) -> "_Truncations":
        self.found: dict[int, tuple[float, float]] = {}  # by storage: std, and where it is cut
        self._before: Callable[..., Any] = torch.nn.init.trunc_normal_
        torch.nn.init.trunc_normal_ = self._noted  # type: ignore[assignment]
        return self

    def __exit__(self, *_: object) -> None:
        torch.nn.init.trunc_normal_ = self._before  # type: ignore[assignment]

    def _noted(
        self,
        tensor: torch.Tensor,
        mean: float = 0.0,
        std: float = 1.0,
        a: float = -2.0,
        b: float = 2.0,
        **kwargs: Any,
    ) -> torch.Tensor:
        if std > 0:
            cut = min(mean - a, b - mean) / std
            self.found[tensor.untyped_storage().data_ptr()] = (std, cut)
        return self._before(tensor, mean, std, a, b, **kwargs)


class _without_orthogonal:
    """A context in which torch.nn.init.orthogonal_ is refused."""

    def __enter__(self) -> None:
        self._before: Callable[..., Any] = torch.nn.init.orthogonal_
        torch.nn.init.orthogonal_ = _refused  # type: ignore[assignment]

    def __exit__(self, *_: object) -> None:
        torch.nn.init.orthogonal_ = self._before  # type: ignore[assignment]


def _refused(*_: object, **__: object) -> torch.Tensor:
    raise ConversionError(
        "orthogonal_: entries of orthogonal matrices are not independent, and limitlaw has no rule"
    )
