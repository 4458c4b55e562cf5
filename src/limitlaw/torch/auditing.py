"""`audit`: what every layer does, beside what it should do."""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import jax
import numpy as np
import torch

import limitlaw as ll
from limitlaw.arguments import positive_int
from limitlaw.progress import watched
from limitlaw.torch import measuring as measure
from limitlaw.torch.attending import Attention
from limitlaw.torch.converted import Labelled
from limitlaw.torch.converting import Conversion, Module, conversion
from limitlaw.torch.measuring import ENTROPY, KURTOSIS, SCORES, Draws
from limitlaw.torch.references import referred
from limitlaw.torch.reinitialising import Numbers, runs
from limitlaw.torch.siblings import Expected
from limitlaw.torch.table import Audit, Row

Layers = Mapping[str, Labelled]
Key = tuple[str, str]  # what is asked, of which layer


def audit(
    module: Module,
    *inputs: Any,
    seeds: int = 32,
    samples: int = 256,
    layers: Sequence[str] | None = None,
    limit: bool = True,
    kurtosis: bool = False,
    expected: Expected | None = None,
    **kwargs: Any,
) -> Audit:
    """What every layer does: measured, predicted at the module's width, and in the limit; and what is wrong, in words.

    Variance and token correlation of layers, entropy and score variance of attention, with `kurtosis` also that of
    coordinates. Measured over `seeds` re-initialisations of the exported graph: by the factory where `module` is one,
    else normal with the measured scales. Predicted from `samples` draws of `finite_samples` at the module's own width.
    `layers`: the paths of submodules; the default is that of children and of the members of lists of blocks.
    `limit=False` leaves the last column out, which takes a compilation a layer. `expected`: see `check`.
    """
    positive_int("seeds", seeds)
    positive_int("samples", samples)
    done = conversion(module, inputs, kwargs)
    references = referred(done, expected)
    chosen = measure.chosen_layers(done.program, layers)
    attentions = _attentions(done, layers)
    found = [_measured(done, run, chosen, attentions, kurtosis) for run in _runs(done, module, seeds)]
    measured = _statistics({key: np.stack([one[key] for one in found]) for key in found[0]})
    asked = _asked(chosen, attentions, kurtosis)
    draws = ll.finite_samples(asked, width=done.program.width, samples=samples, key=jax.random.key(0))
    predicted = _statistics({key: np.asarray(draws[key]) for key in asked})
    rows: list[Row] = []
    for name, there in predicted.items():
        beyond = _in_the_limit(_flat(chosen[name].value)) if limit and name in chosen else {}
        rows += [_row(name, s, measured[name][s], there[s], beyond.get(s)) for s in there]
    return Audit(tuple(rows), done.program, seeds, references)


def _runs(done: Conversion, module: Module, seeds: int) -> Iterator[Numbers]:
    """The re-initialisations, with a line of progress."""
    factory = None if isinstance(module, torch.nn.Module) else module
    with watched("measuring") as watch:
        for i, run in enumerate(runs(done.exported, done.parameters, factory, seeds)):
            yield run
            watch.reached(i + 1, seeds)


def _attentions(done: Conversion, layers: Sequence[str] | None) -> dict[str, Attention]:
    """Every attention by the path of its module, and by its node where there are several in one."""
    found = [a for a in done.program.attentions if measure.has_choice(a)]
    if layers is not None:
        found = [a for a in found if any(measure.within(a.label.module, path) for path in layers)]
    count = Counter(a.label.module for a in found)
    return {(a.label.module or "module") + (f":{a.label.name}" if count[a.label.module] > 1 else ""): a for a in found}


def _asked(chosen: Layers, attentions: Mapping[str, Attention], kurtosis: bool) -> dict[Key, Any]:
    """What the program must give."""
    values = {name: _flat(item.value) for name, item in chosen.items()}
    asked = {("gram", name): ll.dot(x, x, "linear") for name, x in values.items()}
    if kurtosis:
        asked |= {("fourth", name): measure.fourth_powers(x) for name, x in values.items()}
    return asked | {("scores", name): measure.attention_statistics(a) for name, a in attentions.items()}


def _measured(
    done: Conversion, run: Numbers, chosen: Layers, attentions: Mapping[str, Attention], kurtosis: bool
) -> dict[Key, np.ndarray]:
    """The same of one re-initialised module."""
    found: dict[Key, np.ndarray] = {}
    for name, item in chosen.items():
        x = measure.vectors_of(run, item)
        found["gram", name] = x @ x.T / x.shape[-1]
        if kurtosis:
            found["fourth", name] = (x**4).mean(axis=-1)
    for name, a in attentions.items():
        found["scores", name] = measure.measured_attention(done.exported, a.label.name, run)
    return found


def _statistics(draws: Mapping[Key, np.ndarray]) -> dict[str, Draws]:
    """The statistics of each layer, by its name, draw by draw."""
    found: dict[str, Draws] = {}
    for (kind, name), array in draws.items():
        if kind == "gram":
            found.setdefault(name, {}).update(measure.of_grams(array))
        elif kind == "fourth":
            found[name][KURTOSIS] = measure.kurtosis(array, draws["gram", name])
        else:
            found.setdefault(name, {}).update({ENTROPY: array[:, 0], SCORES: array[:, 1]})
    return found


def _row(name: str, statistic: str, here: np.ndarray, there: np.ndarray, limit: float | None) -> Row:
    spread = float(there.std(ddof=1)) if len(there) > 1 else math.nan
    return Row(name, statistic, _mean(here), _mean(there), limit, spread, len(here))


def _flat(x: Any) -> Any:
    return x.reshape(-1) if x.ndim else x[None]


def _mean(draws: np.ndarray) -> tuple[float, float]:
    return float(draws.mean()), float(draws.std(ddof=1) / math.sqrt(len(draws))) if len(draws) > 1 else math.inf


def _in_the_limit(x: Any) -> dict[str, float]:
    """Those of the mean kernel as n → ∞; none where there is no limit."""
    try:
        kernel = ll.kernel(x, samples=256)
    except (ValueError, TypeError, NotImplementedError):
        return {}
    mean = kernel.mean() if isinstance(kernel, ll.RandomKernel) else kernel
    return {name: float(value) for name, value in measure.of_grams(np.asarray(mean)).items()}
