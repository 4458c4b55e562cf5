"""All experiments, by name: each `Experiment` that a folder of `limitlaw.apps.paper` declares."""

import importlib
import pkgutil
from collections.abc import Mapping

from limitlaw.apps import paper
from limitlaw.apps.paper.experiment import Experiment


def found(package: str, folders: list[str]) -> dict[str, Experiment]:
    """The experiments of a package, in the order of their places and then of their names."""
    names = [module.name for module in pkgutil.iter_modules(folders) if module.ispkg]
    modules = [importlib.import_module(f"{package}.{name}") for name in names]
    declared = [each for module in modules for each in vars(module).values()]
    experiments = [each for each in declared if isinstance(each, Experiment)]
    in_order = sorted(experiments, key=lambda each: (each.place, each.name))
    return {each.name: each for each in in_order}


EXPERIMENTS = found(paper.__name__, list(paper.__path__))


def chosen(
    names: list[str], among: Mapping[str, Experiment] = EXPERIMENTS, kind: str = "experiment"
) -> list[Experiment]:
    """The experiments of these names, in the order of the report; "fig1b" is a part of "fig1"."""
    wanted = [
        name if name in among or name[-1:] not in ("a", "b") else name[:-1] for name in names
    ]
    for name, experiment in zip(names, wanted, strict=True):
        if experiment not in among:
            raise ValueError(f"there is no {kind} {name!r}; there are {', '.join(among)}")
    return [experiment for name, experiment in among.items() if not names or name in wanted]
