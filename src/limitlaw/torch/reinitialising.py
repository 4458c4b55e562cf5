"""The same graph with parameters drawn again, and what it then computes."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch

from limitlaw.torch.exporting import Exported
from limitlaw.torch.scales import Parameters
from limitlaw.torch.tracing import computed

Numbers = dict[str, torch.Tensor]  # by name of the parameter, or of the node of the graph


def runs(
    exported: Exported,
    parameters: Parameters,
    factory: Callable[[], torch.nn.Module] | None,
    seeds: Iterable[int],
) -> Iterator[Numbers]:
    """What the graph computes with new parameters, for each seed;
    the state of torch's generator stays.
    """
    for seed in seeds:
        with torch.random.fork_rng(devices=[]), torch.no_grad():
            torch.manual_seed(seed)
            arrays = _drawn(exported, parameters) if factory is None else _made(exported, factory)
            yield computed(exported, arrays)


def _drawn(exported: Exported, parameters: Parameters) -> Numbers:
    """Normal numbers of the measured variances; zeros,
    as of padding, stay, and what was the same stays the same.
    """
    fresh: Numbers = {}
    for name, array in exported.arrays.items():
        if name in parameters.random:
            own = parameters.random[name]
            if own.key not in fresh:
                fresh[own.key] = (
                    own.variance**0.5
                    * torch.randn(array.shape, dtype=torch.float64)
                    * (array != 0)
                )
    return {
        n: fresh[parameters.random[n].key] if n in parameters.random else a
        for n, a in exported.arrays.items()
    }


def _made(exported: Exported, factory: Callable[[], torch.nn.Module]) -> Numbers:
    """The parameters of another module that the factory makes."""
    module: Any = factory()
    return {name: module.get_parameter(name).detach().double() for name in exported.arrays}
