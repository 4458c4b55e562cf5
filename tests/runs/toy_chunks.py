"""Chunks without physics, and a program that runs them:
what the tests kill, fill the disk of, and run twice at once.

How long a chunk takes and where it notes that it was computed come from the environment, so its
arrays and its identity depend on its arguments alone.
"""

import collections
import os
import resource
import signal
import sys
import time
from pathlib import Path

import jax.numpy as jnp
import numpy as np

from limitlaw.runs import Chunk, Store, StoreError, Table, local, run, write_csv

TESTS = Path(__file__).parent
BULK = 20_000  # numbers per chunk that only take up space


def toy(index: int, seed: int) -> Table:
    """Statistics of some normals, in NumPy and in JAX, which must be in 64 bits."""
    if "TOY_LOG" in os.environ:
        with Path(os.environ["TOY_LOG"]).open("a") as log:
            log.write(f"{index}\n")
    time.sleep(float(os.environ.get("TOY_SECONDS", "0")))
    draws = np.random.default_rng([seed, index]).normal(size=BULK)
    mean, label = np.asarray(jnp.mean(jnp.asarray(draws))), np.array(f"chunk {index}, “toy”")
    return {
        "count": np.array(BULK),
        "mean": mean,
        "squares": np.array(draws @ draws),
        "label": label,
        "bulk": draws,
    }


def failing(index: int) -> Table:
    """Fails, but for index 0."""
    if index:
        raise ZeroDivisionError(f"index is {index}")
    return {"index": np.array(index)}


def deadly() -> Table:
    """Takes its process with it."""
    os.kill(os.getpid(), signal.SIGKILL)
    return {}


def toys(count: int, seed: int) -> list[Chunk]:
    """Several chunks."""
    return [Chunk.of(toy, index=index, seed=seed) for index in range(count)]


def table_of(results: dict[Chunk, Table]) -> Table:
    """A table with a row for each chunk."""
    names = "label", "count", "mean", "squares"
    return {name: np.array([arrays[name] for arrays in results.values()]) for name in names}


def computed(out: Path) -> dict[int, int]:
    """How often each chunk was computed, by the log of those that ran."""
    return collections.Counter(map(int, (out / "log").read_text().split()))


def environment(**more: object) -> dict[str, str]:
    """The variables of a process that finds this module; `more` become TOY_SECONDS and so on."""
    toy_variables = {f"TOY_{name.upper()}": str(value) for name, value in more.items()}
    path = os.pathsep.join([str(TESTS), *filter(None, [os.environ.get("PYTHONPATH")])])
    return {**os.environ, "PYTHONPATH": path, "JAX_PLATFORMS": "cpu", **toy_variables}


def command(out: Path, jobs: int, count: int, seed: int = 0) -> list[str]:
    """How to start `main` in another process."""
    return [sys.executable, "-m", "toy_chunks", str(out), str(jobs), str(count), str(seed)]


def main(out: str, jobs: str, count: str, seed: str) -> None:
    """Run toys, say each that is done, and write their table: out/toys.csv."""
    if "TOY_DIE" in os.environ:  # in the middle of writing
        setattr(os, os.environ["TOY_DIE"], lambda *_: os.kill(os.getpid(), signal.SIGKILL))
    if "TOY_LARGEST" in os.environ:  # file, in bytes
        resource.setrlimit(resource.RLIMIT_FSIZE, 2 * (int(os.environ["TOY_LARGEST"]),))
    chunks = toys(int(count), int(seed))
    try:
        store = Store(Path(out) / "chunks")
        with local(int(jobs)) as executor:
            results = run(chunks, store, executor, lambda chunk, _: print(chunk.name, flush=True))
        write_csv(Path(out) / "toys.csv", table_of(results))
    except StoreError as error:
        sys.exit(f"toys: {error}")


if __name__ == "__main__":
    from toy_chunks import main  # chunks name their module

    # tests that run in the background of a shell ignore Ctrl-C, and so would what they start
    signal.signal(signal.SIGINT, signal.default_int_handler)
    main(*sys.argv[1:])
