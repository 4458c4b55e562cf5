"""`audit`: what every layer does, beside what it should do."""

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
import torch

import limitlaw as ll
from limitlaw.arguments import positive_int
from limitlaw.digits import plus_minus
from limitlaw.language.values import Wide
from limitlaw.torch.converted import Converted, Labelled
from limitlaw.torch.converting import Module, conversion
from limitlaw.torch.reinitialising import Numbers, runs

CHANCE = 5.0  # standard errors


@dataclasses.dataclass(frozen=True)
class Row:
    """One statistic of a layer: (value, standard error) as measured, predicted at the module's width, in the limit."""

    layer: str
    statistic: str
    measured: tuple[float, float]
    predicted: tuple[float, float]
    limit: float | None

    @property
    def z(self) -> float:
        """The difference of measurement and prediction, in standard errors."""
        error = math.hypot(self.measured[1], self.predicted[1])
        difference = self.measured[0] - self.predicted[0]
        tiny = 1e-9 * abs(self.predicted[0])  # what norms fix is the same in every draw
        return difference / error if error > tiny else (0.0 if abs(difference) <= 1e3 * tiny else math.inf)


@dataclasses.dataclass(frozen=True)
class Audit:
    """A table: one row for each layer and statistic. `program` is the module as a program."""

    rows: tuple[Row, ...]
    program: Converted
    seeds: int

    @property
    def findings(self) -> tuple[str, ...]:
        """What is no chance: rows in which measurement and prediction differ by more than 5 standard errors."""
        return tuple(
            f"{row.layer}: {row.statistic} is {plus_minus(*row.measured)}, predicted {plus_minus(*row.predicted)}"
            for row in self.rows
            if abs(row.z) > CHANCE
        )

    def __getitem__(self, layer: str) -> tuple[Row, ...]:
        found = tuple(row for row in self.rows if row.layer == layer)
        if not found:
            raise KeyError(
                f"no layer {layer!r} in the audit; there are {', '.join(dict.fromkeys(r.layer for r in self.rows))}"
            )
        return found

    def __str__(self) -> str:
        head = (
            "layer",
            "statistic",
            f"measured, {self.seeds} seeds",
            f"predicted, n = {self.program.width}",
            "z",
            "limit",
        )
        lines = [head, *(_cells(row) for row in self.rows)]
        widths = [max(len(line[i]) for line in lines) for i in range(len(head))]
        table = ["  ".join(cell.ljust(w) for cell, w in zip(line, widths, strict=True)).rstrip() for line in lines]
        return "\n".join([*table, *(f"! {finding}" for finding in self.findings)])


def _cells(row: Row) -> tuple[str, ...]:
    limit = "" if row.limit is None else f"{row.limit:.4g}"
    return (row.layer, row.statistic, plus_minus(*row.measured), plus_minus(*row.predicted), f"{row.z:+.1f}", limit)


def audit(
    module: Module,
    *inputs: Any,
    seeds: int = 32,
    samples: int = 256,
    layers: Sequence[str] | None = None,
    limit: bool = True,
    **kwargs: Any,
) -> Audit:
    """Variance and token correlation of every layer: measured, predicted at the module's width, and in the limit.

    Measured over `seeds` re-initialisations of the exported graph: by the factory where `module` is one, else normal
    with the measured scales. Predicted from `samples` draws of `finite_samples` at the module's own width. `layers`:
    the paths of submodules; the default is that of children and of the members of lists of blocks. `limit=False`
    leaves the last column out, which takes a compilation a layer.
    """
    positive_int("seeds", seeds)
    done = conversion(module, inputs, kwargs)
    chosen = _chosen(done.program, layers)
    factory = None if isinstance(module, torch.nn.Module) else module
    measured = [_grams_of(run, chosen) for run in runs(done.exported, done.parameters, factory, seeds)]
    values = {name: _flat(item.value) for name, item in chosen.items()}
    asked = {name: ll.dot(x, x, "linear") for name, x in values.items()}
    draws = ll.finite_samples(asked, width=done.program.width, samples=samples, key=jax.random.key(0))
    rows: list[Row] = []
    for name, x in values.items():
        here = _statistics(np.stack([grams[name] for grams in measured]))
        there = _statistics(np.asarray(draws[name]))
        beyond = _in_the_limit(x) if limit else {}
        rows += [Row(name, s, _mean(here[s]), _mean(there[s]), beyond.get(s)) for s in here]
    return Audit(tuple(rows), done.program, seeds)


def _chosen(program: Converted, layers: Sequence[str] | None) -> dict[str, Labelled]:
    """The last wide value of each layer."""
    wide = [v for v in program.values if isinstance(v.value, Wide) and v.value.dim.wide and v.label.name != "output"]
    found: dict[str, Labelled] = {}
    for item in wide:
        for path in _paths(item.label.module) if layers is None else layers:
            if item.label.module == path or item.label.module.startswith(f"{path}."):
                found[path] = item
    missing = [path for path in layers or () if path not in found]
    if missing or not found:
        known = ", ".join(dict.fromkeys(v.label.module for v in wide)) or "none"
        raise ValueError(f"layers must be paths of submodules with wide values ({known}), got {missing or layers}")
    return found


def _paths(module: str) -> list[str]:
    """The layer that a submodule is in: the member of a list of blocks, else the child of the module."""
    parts = module.split(".")
    block = next((i for i, part in enumerate(parts) if part.isdigit()), 0)
    return [".".join(parts[: block + 1])] if module else []


def _flat(x: Any) -> Any:
    return x.reshape(-1) if x.ndim else x[None]


def _grams_of(run: Numbers, chosen: dict[str, Labelled]) -> dict[str, np.ndarray]:
    """n^{-1} X Xᵀ of the tokens of each layer."""
    found = {}
    for name, item in chosen.items():
        layout = item.layout
        assert layout.coordinate is not None
        x = np.moveaxis(run[item.label.name].numpy().reshape(layout.sizes), layout.coordinate, -1)
        x = x.reshape(-1, layout.dimension)
        found[name] = x @ x.T / layout.dimension
    return found


def _statistics(grams: np.ndarray) -> dict[str, np.ndarray]:
    """For each draw the mean variance of tokens, and the mean correlation of pairs."""
    diagonal = np.einsum("...ii->...i", grams)
    result = {"variance": np.asarray(diagonal.mean(axis=-1))}
    tokens = grams.shape[-1]
    if tokens > 1:
        scale = np.sqrt(diagonal[..., :, None] * diagonal[..., None, :])
        correlation = grams / np.where(scale > 0, scale, 1.0)
        off = ~np.eye(tokens, dtype=bool)
        result["token correlation"] = np.asarray(correlation[..., off].mean(axis=-1))
    return result


def _mean(draws: np.ndarray) -> tuple[float, float]:
    return float(draws.mean()), float(draws.std(ddof=1) / math.sqrt(len(draws))) if len(draws) > 1 else math.inf


def _in_the_limit(x: Any) -> dict[str, float]:
    """Those of the mean kernel as n → ∞; none where there is no limit."""
    try:
        kernel = ll.kernel(x, samples=256)
    except (ValueError, TypeError, NotImplementedError):
        return {}
    mean = kernel.mean() if isinstance(kernel, ll.RandomKernel) else kernel
    return {name: float(value) for name, value in _statistics(np.asarray(mean)).items()}
