"""A phase diagram: a statistic at some depth over a grid of two scales, through resumable runs."""

import dataclasses
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from limitlaw.depth.network import SCALES, Network
from limitlaw.depth.trace import trace
from limitlaw.runs import Chunk, Store, Table, run, write_csv
from limitlaw.runs.disk import make_folder


class Grid(NamedTuple):
    """A scale and its values."""

    name: str
    values: tuple[float, ...]

    @staticmethod
    def of(text: str, option: str) -> "Grid":
        """From `q_std=0.1:10:8`, eight values spaced evenly in logarithms;
        `correlation` is spaced evenly.
        """
        name, _, span = text.partition("=")
        name = name.strip().replace("-", "_")
        try:
            low, high, count = (
                kind(part) for kind, part in zip((float, float, int), span.split(":"), strict=True)
            )
        except ValueError:
            raise ValueError(
                f"{option} must look like q_std=0.1:10:8 (from:to:values), got {text}"
            ) from None
        if name not in SCALES:
            raise ValueError(f"{option} must be one of {', '.join(SCALES)}, got {name}")
        if count < 2 or low >= high or (name != "correlation" and low <= 0):
            raise ValueError(
                f"{option} must go from a lower to a higher value in two or more steps, got {text}"
            )
        spaced = np.linspace if name == "correlation" else np.geomspace
        values = spaced(low, high, count)
        return Grid(name, tuple(float(f"{value:.12g}") for value in values))


@dataclasses.dataclass(frozen=True)
class Phase:
    """What is computed at each point: the statistic after block `at`, by so many draws, or as many
    as a relative error of `rtol` takes.
    """

    network: Network
    statistic: str
    x: Grid
    y: Grid
    at: int
    width: int | None
    samples: int | None
    seed: int
    rtol: float | None = None

    def chunks(self) -> list[Chunk]:
        """One for each point."""
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
    """The table of all points, also written to `out`/phase.csv;
    points that `out`/chunks has are not computed again.
    """
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
