"""From experiments to tables: all chunks are in one queue, so no core waits between figures."""

import dataclasses
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple

from limitlaw.apps.paper.experiment import Experiment
from limitlaw.apps.paper.shown.claims import claims
from limitlaw.runs import Arrays, Chunk, Store, Table, run, write_csv
from limitlaw.runs.disk import make_folder


class Outcome(NamedTuple):
    """Tables by name, claims, the number of chunks, and how many of them an earlier run made."""

    tables: dict[str, Table]
    claims: Table
    chunks: int
    reused: int


class Listener(NamedTuple):
    """Functions that are told how the work goes on: `advance` the experiment of each chunk,
    `ready` the tables of its figures once they are there, `warn` a line about damaged files.
    """

    advance: Callable[[str], None]
    ready: Callable[[dict[str, Table]], None]
    warn: Callable[[str], None]


def totals(experiments: Sequence[Experiment], settings: object) -> dict[str, int]:
    """The number of chunks of each experiment."""
    return {
        experiment.name: len(dict.fromkeys(experiment.chunks(settings)))
        for experiment in experiments
    }


def reproduce(
    experiments: Sequence[Experiment],
    settings: Any,
    out: Path,
    executor: Executor,
    listener: Listener,
) -> Outcome:
    """Compute what is missing in `out`/chunks, and write `out`/data/*.csv, tables and claims;
    `settings` are a dataclass of the experiments'.
    """
    store = Store(out / "chunks", listener.warn)
    make_folder(out / "data")
    collector = _Collector(experiments, settings, listener)
    chunks = _from_both_ends([chunk for each in collector.wanted.values() for chunk in each])
    store.write_manifest(dataclasses.asdict(settings), chunks)
    reused = sum(store.path(chunk).exists() for chunk in chunks)
    run(chunks, store, executor, collector.done)
    tables = {
        name: table for each in experiments for name, table in collector.tables[each.name].items()
    }
    found = claims((rule for each in experiments for rule in each.claims), tables)
    for name, table in {**tables, "claims": found}.items():
        write_csv(out / "data" / f"{name}.csv", table)
    store.write_manifest(dataclasses.asdict(settings), chunks)
    return Outcome(tables, found, len(chunks), reused)


class _Collector:
    """Makes the tables of an experiment when its last chunk is there."""

    def __init__(
        self, experiments: Sequence[Experiment], settings: object, listener: Listener
    ) -> None:
        self.settings, self.listener = settings, listener
        self.waiting = {experiment.name: experiment for experiment in experiments}
        self.wanted = {
            experiment.name: dict.fromkeys(experiment.chunks(settings))
            for experiment in experiments
        }
        self.results: dict[Chunk, Arrays] = {}
        self.tables: dict[str, dict[str, Table]] = {}

    def done(self, chunk: Chunk, arrays: Arrays) -> None:
        """Keep the arrays of a chunk, and make the tables that are complete with it."""
        self.results[chunk] = arrays
        for name, chunks in self.wanted.items():
            if chunk in chunks:
                self.listener.advance(name)
        while experiment := next(filter(self._complete, self.waiting.values()), None):
            self.tables[experiment.name] = experiment.tables(self.settings, self.results)
            del self.waiting[experiment.name]
            self.listener.ready(self._shown(experiment))

    def _complete(self, experiment: Experiment) -> bool:
        """Are all chunks there, and the tables of the experiments from which it borrows?"""
        borrows = any(name in self.waiting for name in experiment.borrows)
        return not borrows and self.wanted[experiment.name].keys() <= self.results.keys()

    def _shown(self, experiment: Experiment) -> dict[str, Table]:
        """The tables of an experiment, and those of others that its figures may show."""
        others = [self.tables.get(name, {}) for name in experiment.borrows]
        extra = {name for figure in experiment.figures for name in figure.optional}
        borrowed = {
            name: table for tables in others for name, table in tables.items() if name in extra
        }
        return {**borrowed, **self.tables[experiment.name]}


def _from_both_ends(chunks: Sequence[Chunk]) -> list[Chunk]:
    """The first chunk, the last, the second, …, so that threads compile different networks."""
    chunks = list(dict.fromkeys(chunks))
    half = (len(chunks) + 1) // 2
    pairs = zip_longest(chunks[:half], reversed(chunks[half:]))
    return [chunk for pair in pairs for chunk in pair if chunk is not None]
