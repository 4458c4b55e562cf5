"""A phase diagram: a statistic at some depth over a grid of two scales, through resumable runs."""

import dataclasses
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from pathlib import Path
from typing import Any

import numpy as np

from limitlaw.depth.network import Network, ScaleGrid
from limitlaw.depth.trace import trace
from limitlaw.runs import Chunk, Store, Table, run, write_csv
from limitlaw.runs.disk import make_folder


@dataclasses.dataclass(frozen=True)
class Phase:
    """A phase diagram: at each point, the statistic after block `at`, by `samples` draws, or by as
    many as a relative error of `rtol` takes.
    """

    network: Network
    statistic: str
    x: ScaleGrid
    y: ScaleGrid
    at: int
    width: int | None
    samples: int | None
    seed: int
    rtol: float | None = None

    @property
    def title(self) -> str:
        """The depth, the width and the network of the statistic, in two lines."""
        where = "n → ∞" if self.width is None else f"n = {self.width}"
        return f"after block {self.at}, {where}\n{self.network.title}"

    def chunks(self) -> list[Chunk]:
        """One chunk for each point of the diagram."""
        settings = dataclasses.asdict(self.network)
        common = {"statistic": self.statistic, "at": self.at, "width": self.width}
        draws = {"samples": self.samples, "seed": self.seed, "rtol": self.rtol}
        return [
            Chunk.of(point, **{**settings, self.x.name: x, self.y.name: y}, **common, **draws)
            for y in self.y.values
            for x in self.x.values
        ]


def point(
    statistic: str,
    at: int,
    width: int | None,
    samples: int | None,
    seed: int,
    rtol: float | None,
    **network: Any,
) -> dict[str, np.ndarray]:
    """The statistic at one point of the grid, its standard error and its spread."""
    program = Network(**network).program()
    found = trace(program, [statistic], width, samples, seed, rtol)[statistic]
    return {name: np.asarray(array[at], float) for name, array in found._asdict().items()}


def phase(
    asked: Phase,
    out: Path,
    executor: Executor,
    done: Callable[[], None] = lambda: None,
    warn: Callable[[str], None] = lambda line: None,
) -> Table:
    """Compute the diagram, write `out`/phase.csv and return the table; chunks are kept."""
    make_folder(out)
    store = Store(out / "chunks", warn)
    chunks = asked.chunks()
    settings = {**dataclasses.asdict(asked), "x": list(asked.x), "y": list(asked.y)}
    store.write_manifest(settings, chunks)
    results = run(chunks, store, executor, lambda chunk, arrays: done())
    table = _table(asked, [results[chunk] for chunk in chunks])
    write_csv(out / "phase.csv", table)
    store.write_manifest(settings, chunks)
    return table


def _table(asked: Phase, points: Sequence[Any]) -> Table:
    x, y = np.meshgrid(asked.x.values, asked.y.values)
    numbers = {
        name: np.array([float(point[name]) for point in points])
        for name in ("value", "error", "spread")
    }
    return {asked.x.name: x.reshape(-1), asked.y.name: y.reshape(-1), **numbers}
