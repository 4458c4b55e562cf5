"""`audit`: the statistics of every layer of a module, beside their predictions."""

import concurrent.futures
import dataclasses
import math
from collections.abc import Iterator, Sequence
from typing import Any, overload

import numpy as np
import torch

from limitlaw.arguments import positive_int, shown
from limitlaw.engines.bounds import bounded, reached
from limitlaw.float64 import in_float64
from limitlaw.progress import watched
from limitlaw.torch.checking import findings_of
from limitlaw.torch.converted import replay
from limitlaw.torch.converting import AnyModule, Module, conversion, written
from limitlaw.torch.exporting import Tensors, computed, runs
from limitlaw.torch.growing import Widths
from limitlaw.torch.layers import within
from limitlaw.torch.measuring import ByStatistic
from limitlaw.torch.reading.anatomy import reading_of
from limitlaw.torch.references import Expected
from limitlaw.torch.subject import Subject, mean, statistics, subject_of
from limitlaw.torch.table import Audit, AuditRow
from limitlaw.torch.tracing import traced
from limitlaw.torch.widths import ModuleFamily, at_width, checked_family

SEEDS = 32  # re-initialisations, where the user does not say


@overload
def audit(module: Module, *inputs: Any, widths: None = None, **settings: Any) -> Audit: ...
@overload
def audit(
    module: ModuleFamily, *inputs: Any, widths: Sequence[int], **settings: Any
) -> Widths: ...
@in_float64
@bounded("ask for fewer seeds, samples or tokens")
def audit(
    module: AnyModule,
    *inputs: Any,
    widths: Sequence[int] | None = None,
    seeds: int | Sequence[int] | None = None,
    samples: int = 256,
    layers: Sequence[str] | None = None,
    limit: bool = True,
    kurtosis: bool = False,
    recipe: object = None,
    expected: Expected | None = None,
    force: bool = False,
    **kwargs: Any,
) -> Audit | Widths:
    """The statistics of every layer: measured, predicted at the module's width, and in the limit;
    and findings of what is wrong, in words.

    They are variance and token correlation of layers, entropy and score variance of attention, and
    with `kurtosis` the excess kurtosis of coordinates. Predictions are from `samples` draws of
    `finite_samples` at the module's own width. What is measured depends on `module`:

    - a function that makes the module: over `seeds` calls of it (32, or those of a range), in the
    graph that was exported once;
    - a module: its own numbers, *one step ahead*: each layer is predicted given what the layers
    before it have computed. With `seeds` re-initialisations by normal numbers of the measured
    scales, instead;
    - `widths=[64, 128, 256]`: the module is a function of the width, and so may be every input; a
    `Widths` has an audit of each, and a growth exponent of each layer.

    `layers`: the paths of submodules; the default is that of children and of the members of lists
    of blocks. `limit=False` leaves the last column out, which takes a compilation: one for each
    layer where equal blocks are no loop. `recipe`, `expected`: see `check`. A call that would
    take more memory than there is, or more than ten minutes, is refused without `force`.
    """
    positive_int("samples", samples)
    settings = _Settings(_seeds(seeds), samples, layers, limit, kurtosis, recipe, expected)
    if widths is None:
        return _at_one_width(module, inputs, kwargs, settings)
    found = []
    family, chosen = checked_family(module, widths)
    for width in chosen:
        own = dataclasses.replace(settings, limit=limit and width == chosen[-1])
        found.append(_at_one_width(*at_width(family, inputs, kwargs, width), own))
    return Widths(tuple(chosen), tuple(found))


@dataclasses.dataclass(frozen=True)
class _Settings:
    """The settings of `audit`."""

    seeds: Sequence[int]
    samples: int
    layers: Sequence[str] | None
    limit: bool
    kurtosis: bool
    recipe: object
    expected: Expected | None


def _at_one_width(
    module: Module, inputs: tuple[Any, ...], kwargs: dict[str, Any], settings: _Settings
) -> Audit:
    done = conversion(module, inputs, kwargs)
    reading = reading_of(done.exported, done.parameters.drawn)
    references = findings_of(reading, settings.recipe, settings.expected, measured=False)
    subject = subject_of(done, settings.layers, settings.kurtosis)
    seeds = settings.seeds or range(0 if isinstance(module, torch.nn.Module) else SEEDS)
    if seeds:
        # PyTorch measures while XLA compiles
        with concurrent.futures.ThreadPoolExecutor(1) as beside:
            drawing = beside.submit(in_float64(subject.predicted), settings.samples)
            measured = over_seeds(subject, module, seeds)
            predicted = drawing.result()
    else:
        measured, predicted = ahead(subject, settings.samples)
    beyond = subject.in_the_limit() if settings.limit else {}
    rows = []
    for name, found in measured.items():
        for statistic, here in found.items():
            there, at_infinity = predicted[name][statistic], beyond.get(name, {}).get(statistic)
            several = len(there) > 1
            spread = float(there.std(ddof=1)) if several else math.nan
            law = mean(there) if several else (float(there[0]), math.inf)
            row = AuditRow(name, statistic, mean(here), law, at_infinity, spread, len(here))
            rows.append(row)
    return Audit(tuple(rows), done.program, subject.width, len(seeds), references, reading)


def _seeds(seeds: object) -> Sequence[int]:
    """The seeds 0, 1, … up to a number, or those that are given; none where nothing is given."""
    if seeds is None or isinstance(seeds, int):
        return range(0 if seeds is None else positive_int("seeds", seeds))
    found = list(seeds) if isinstance(seeds, Sequence) and not isinstance(seeds, str) else []
    if not found or not all(isinstance(seed, int) for seed in found):
        raise TypeError(
            f"seeds must be a positive integer or a sequence of integers, got {shown(seeds)}"
        )
    return found


def over_seeds(subject: Subject, module: Module, seeds: Sequence[int]) -> dict[str, ByStatistic]:
    """The statistics of re-initialised modules, one for each seed."""
    found = [subject.measured(run) for run in _runs(subject, module, seeds)]
    return statistics({key: np.stack([one[key] for one in found]) for key in found[0]})


def _runs(subject: Subject, module: Module, seeds: Sequence[int]) -> Iterator[Tensors]:
    """Runs of the re-initialised modules, with a line of progress."""
    factory = None if isinstance(module, torch.nn.Module) else module
    with watched("measuring") as watch:
        for i, run in enumerate(
            runs(subject.done.exported, subject.done.parameters, factory, seeds)
        ):
            yield run
            reached(watch, i + 1, len(seeds))


# --- one step ahead ------------------------------------------------------------------------------


def ahead(subject: Subject, samples: int) -> tuple[dict[str, ByStatistic], dict[str, ByStatistic]]:
    """One module as it is: the statistics of its own numbers in every layer, and those of
    `samples` draws, in which each layer is given the numbers that the layers before it have
    computed.

    Given what it reads, the output of a layer with independent weights has a known law, whatever
    made its input: that of the program in which the input is data. For one weight matrix with
    entries N(0, v) and given inputs X (tokens × n) the coordinates of the output are independent
    N(0, v X Xᵀ), so that the mean square of one token over D of them is v |x|² χ²_D / D. A layer
    that reads its own weights, as copied and trained ones do, does not keep that law. Layers in
    which nothing random is left, as norms of given vectors, are left out.
    """
    given = given_inputs(subject)
    predicted: dict[str, ByStatistic] = {}
    for part in _parts(given):
        predicted |= part.predicted(samples)
    with torch.no_grad():
        run = computed(subject.done.exported, subject.done.exported.arrays)
    own = statistics({key: array[None] for key, array in given.measured(run).items()})
    names = [name for name in (*subject.layers, *subject.attentions) if name in predicted]
    return {name: own[name] for name in names}, predicted


def given_inputs(subject: Subject) -> Subject:
    """The same subject in a program where each layer reads the numbers that the layers before it
    have computed.
    """
    done = subject.done
    names = {item.label.name for item in subject.layers.values()}
    program = written(traced(done.exported, done.parameters, names), done.parameters.notes)
    replay(program)
    values = {item.label.name: item for item in program.values if item.label.name != "output"}
    attentions = {a.label.name: a for a in program.attentions}
    return dataclasses.replace(
        subject,
        done=dataclasses.replace(done, program=program),
        layers={
            name: values[i.label.name]
            for name, i in subject.layers.items()
            if i.label.name in values
        },
        attentions={
            name: attentions[a.label.name]
            for name, a in subject.attentions.items()
            if a.label.name in attentions
        },
    )


def _parts(subject: Subject) -> list[Subject]:
    """The subject layer by layer, each with its attentions, so that layers of one structure are
    compiled once.
    """
    parts, left = [], dict(subject.attentions)
    for name, item in subject.layers.items():
        own = {n: a for n, a in left.items() if within(a.label.module, name)}
        left = {n: a for n, a in left.items() if n not in own}
        parts.append(dataclasses.replace(subject, layers={name: item}, attentions=own))
    for name, a in left.items():
        parts.append(dataclasses.replace(subject, layers={}, attentions={name: a}))
    return parts
