"""The exact finite-width engine against the definition on many random programs:
the long run of the property test.

    python benchmarks/random_programs.py --programs 10000 --seed 0 --jobs 2

Program i is that of seed + i, at a width of 1, 2, 3, 5 or 8. Each is compared by about 20
statistics at five standard errors, so that ten thousand programs give false alarms: a program that
disagrees is drawn again, thirty times as often and with other keys, and fails if it disagrees
again. Exit status 1 if any does.
"""

import argparse
import functools
import importlib
import multiprocessing
import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

WIDTHS = (1, 2, 3, 5, 8)
DRAWS = 3000
AGAIN = 30  # times as many draws for a suspect
TESTS = Path(__file__).resolve().parent.parent / "tests"


def main() -> None:
    """Compare, and print what disagrees."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--programs", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0, help="of the first program")
    parser.add_argument("--both-sides", action="store_true", help="with transposes and gradients")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after this time")
    arguments = parser.parse_args()
    # small products: a process is one thread
    for threads in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ[threads] = "1"
    seeds = range(arguments.seed, arguments.seed + arguments.programs)
    start, done, suspects, failures = time.perf_counter(), 0, 0, []
    with ProcessPoolExecutor(
        arguments.jobs, multiprocessing.get_context("spawn"), prepare
    ) as pool:
        for i in range(0, len(seeds), 100):
            if time.perf_counter() - start > arguments.seconds:
                break
            kind = "BothSides" if arguments.both_sides else "Writer"
            some = functools.partial(compared, kind)
            for seed, first, second in pool.map(some, seeds[i : i + 100], chunksize=5):
                done += 1
                if second is None:
                    continue
                suspects += 1
                verdict = "FAILED" if second >= 1 else "a false alarm"
                print(
                    f"seed {seed}: {first:.2f} of the threshold, then {second:.2f}: {verdict}",
                    flush=True,
                )
                if second >= 1:
                    failures.append(seed)
            print(
                f"{done} programs, {suspects} suspects, {time.perf_counter() - start:.0f} s",
                flush=True,
            )
    print(
        f"{done} programs agree"
        if not failures
        else f"{len(failures)} of {done} programs disagree: {failures}"
    )
    sys.exit(bool(failures))


def prepare() -> None:
    """What each process does first."""
    sys.path[:0] = [str(TESTS), str(TESTS / "engines")]
    import jax

    jax.config.update("jax_enable_x64", True)


def compared(kind: str, seed: int) -> tuple[int, float, float | None]:
    """The seed, how far the engines are apart (1 is the threshold),
    and the same again if that is too far.
    """
    eager: Any = importlib.import_module("eager")
    writer: Any = importlib.import_module("engines.random_programs")
    statistics: Any = importlib.import_module("statistics_of_samples")
    y = getattr(writer, kind)(seed).program()
    width = WIDTHS[seed % len(WIDTHS)]

    def apart(draws: int, key: int) -> float:
        defined, exact = (
            eager.defined(y, width, draws, key),
            eager.exact(y, width, draws, key + 10**9),
        )
        distance = float(statistics.disagreement(defined, exact))
        return distance if distance == distance else float("inf")

    first = apart(DRAWS, seed)
    return seed, first, apart(AGAIN * DRAWS, seed + 10**8) if first >= 1 else None


if __name__ == "__main__":
    main()
