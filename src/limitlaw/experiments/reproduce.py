"""Experiments → tables: all chunks in one queue, so that no core waits between figures."""

import dataclasses
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from pathlib import Path
from typing import NamedTuple

from limitlaw.experiments.chunks import Chunk
from limitlaw.experiments.claims import claims
from limitlaw.experiments.experiment import Experiment
from limitlaw.experiments.files import make_folder
from limitlaw.experiments.runner import run
from limitlaw.experiments.settings import Settings
from limitlaw.experiments.store import Store
from limitlaw.experiments.tables import Table, write_csv


class Outcome(NamedTuple):
    """Tables by name, the table of claims, and how many chunks there were and came from an earlier run."""

    tables: dict[str, Table]
    claims: Table
    chunks: int
    reused: int


def totals(experiments: Sequence[Experiment], settings: Settings) -> dict[str, int]:
    """How many chunks each experiment has."""
    return {experiment.name: len(dict.fromkeys(experiment.chunks(settings))) for experiment in experiments}


def reproduce(
    experiments: Sequence[Experiment],
    settings: Settings,
    out: Path,
    executor: Executor,
    advance: Callable[[str], None],
    warn: Callable[[str], None],
) -> Outcome:
    """Compute what is missing in `out`/chunks, and write `out`/data/*.csv: the tables, and the claims about them."""
    store = Store(out / "chunks", warn)
    make_folder(out / "data")
    wanted = {experiment.name: dict.fromkeys(experiment.chunks(settings)) for experiment in experiments}
    chunks = [chunk for each in wanted.values() for chunk in each]
    store.write_manifest(dataclasses.asdict(settings), chunks)
    reused = sum(store.path(chunk).exists() for chunk in dict.fromkeys(chunks))

    def done(chunk: Chunk) -> None:
        for name, each in wanted.items():
            if chunk in each:
                advance(name)

    results = run(chunks, store, executor, done)
    tables: dict[str, Table] = {}
    for experiment in experiments:
        tables |= experiment.tables(settings, results)
    found = claims(tables)
    for name, table in {**tables, "claims": found}.items():
        write_csv(out / "data" / f"{name}.csv", table)
    store.write_manifest(dataclasses.asdict(settings), chunks)
    return Outcome(tables, found, len(results), reused)
