"""One module as it is, one step ahead: every layer given the numbers that the layers
before it have computed.

Given what it reads, the output of a layer with independent weights has a known law, whatever made
its input: that of the program in which the input is data. For one weight matrix with entries N(0,
v) and given inputs X (tokens × n) the coordinates of the output are independent N(0, v X Xᵀ), so
that the mean square of one token over D of them is v |x|² χ²_D / D. A layer that reads its own
weights, as copied and trained ones do, does not keep that law.
"""

from collections.abc import Mapping

import numpy as np
import torch

from limitlaw.torch.converted import replay
from limitlaw.torch.converting import Conversion, written
from limitlaw.torch.layers import within
from limitlaw.torch.measuring import Draws
from limitlaw.torch.subject import Key, Subject, statistics
from limitlaw.torch.tracing import computed, traced


def ahead(subject: Subject, samples: int) -> tuple[dict[str, Draws], dict[str, Draws]]:
    """What the module's own numbers give in every layer,
    and what so many draws given the layers before it give.

    Layers that nothing random is left in, as norms of given vectors, are left out.
    """
    given = given_inputs(subject)
    predicted: dict[str, Draws] = {}
    for part in _parts(given):
        predicted |= part.predicted(samples)
    with torch.no_grad():
        run = computed(subject.done.exported, subject.done.exported.arrays)
    own = statistics(_one(given.measured(run)))
    return {name: own[name] for name in _in_order(subject, predicted)}, predicted


def given_inputs(subject: Subject) -> Subject:
    """The same layers and attentions in a program whose layers read numbers:
    those of the layers before them.
    """
    done = subject.done
    names = {item.label.name for item in subject.layers.values()}
    program = written(traced(done.exported, done.parameters, names), done.parameters.notes)
    replay(program)
    values = {item.label.name: item for item in program.values if item.label.name != "output"}
    attentions = {a.label.name: a for a in program.attentions}
    return Subject(
        Conversion(program, done.exported, done.parameters),
        {
            name: values[i.label.name]
            for name, i in subject.layers.items()
            if i.label.name in values
        },
        {
            name: attentions[a.label.name]
            for name, a in subject.attentions.items()
            if a.label.name in attentions
        },
        subject.kurtosis,
    )


def _parts(subject: Subject) -> list[Subject]:
    """Layer by layer, each with the attentions inside of it:
    layers of one structure are compiled once.
    """
    parts, left = [], dict(subject.attentions)
    for name, item in subject.layers.items():
        own = {n: a for n, a in left.items() if within(a.label.module, name)}
        left = {n: a for n, a in left.items() if n not in own}
        parts.append(Subject(subject.done, {name: item}, own, subject.kurtosis))
    return [
        *parts,
        *(Subject(subject.done, {}, {name: a}, subject.kurtosis) for name, a in left.items()),
    ]


def _one(found: Mapping[Key, np.ndarray]) -> dict[Key, np.ndarray]:
    return {key: array[None] for key, array in found.items()}


def _in_order(subject: Subject, known: Mapping[str, Draws]) -> list[str]:
    return [name for name in (*subject.layers, *subject.attentions) if name in known]
