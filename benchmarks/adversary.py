"""limitlaw against an independent slow reference on many random cases:
the long run of tests/adversary.

    python benchmarks/adversary.py --cases 5000 --seed 0 --jobs 2

Twenty cases share a structure (what is asked of which program), so that it is compiled once; the
structures are random, too. Each figure is compared eagerly and under jax.jit: |value − reference|
≤ 5 √(stated² + reference error²). A figure that fails against drawn references is compared with
ten times as many other draws before it counts. Prints a table of the worst z and the worst
overstatement of every class of figures, and for each failure the code that shows it. Exit status 1
if there are any.
"""

import argparse
import functools
import importlib
import multiprocessing
import os
import pickle
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

TESTS = Path(__file__).resolve().parent.parent / "tests"
SHARED = 20  # cases of one structure
# where engines say how many draws a sampled law has, and what share of the effort that is
SHARES = {  # of the effort, that each budget of draws is
    "samples": 1.0,
    "joint_draws": 8.0,
    "head_nodes": 1.0,
    "head_nodes_of_many": 0.5,
    "head_nodes_traced": 1 / 16,
    "pooled_draws": 1.0,
    "groups": 1 / 16,
}
SLOW_INSIDE = {"entropy", "expect"}
SHOWN = 3  # failures of one structure whose code is printed


def main() -> None:
    """Compare, and print what fails."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cases", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=0, help="of the first case")
    parser.add_argument("--draws", type=int, default=10**6, help="of the reference")
    parser.add_argument(
        "--effort",
        type=int,
        default=2**12,
        help="draws of a sampled law, where the default is 2^16",
    )
    parser.add_argument(
        "--limit", type=int, default=120, help="processor seconds for a case; more is a failure"
    )
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--eager", action="store_true", help="leave out jax.jit")
    parser.add_argument(
        "--keep", type=Path, help="a folder for verdicts: what lies there is not examined again"
    )
    parser.add_argument(
        "--seconds", type=float, default=float("inf"), help="start nothing after this time"
    )
    arguments = parser.parse_args()
    for threads in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):  # a process is one thread
        os.environ[threads] = "1"
    sys.path.insert(0, str(TESTS))
    report: Any = importlib.import_module("adversary.compare").Report()
    start = time.perf_counter()
    seeds = range(arguments.seed, arguments.seed + arguments.cases)
    tasks = [seeds[i : i + SHARED] for i in range(0, len(seeds), SHARED)]
    done = 0
    # One process a structure, so that compiled programs do not pile up.
    context = multiprocessing.get_context("spawn")
    deadline = time.time() + arguments.seconds
    settings = {"draws": arguments.draws, "jit": not arguments.eager, "limit": arguments.limit}
    work = functools.partial(compared, **settings, deadline=deadline, keep=arguments.keep)
    with context.Pool(arguments.jobs, prepare, (arguments.effort,), maxtasksperchild=1) as pool:
        for count, verdicts in pool.imap_unordered(work, tasks):
            done += count
            report.verdicts += verdicts
            show(v for v in verdicts if v.failure)
            seconds, failures = time.perf_counter() - start, len(report.failures)
            print(
                f"{done} cases, {len(report.verdicts)} figures, {failures} failures, "
                f"{seconds:.0f} s",
                flush=True,
            )
            if time.time() > deadline:
                break  # what is left would start a process each to find that out
    summarise(report)
    sys.exit(bool(report.failures or report.overstated()))


def show(failures: Iterable[Any]) -> None:
    """The first failures of a structure in full, the others by their number."""
    found = list(failures)
    for verdict in found[:SHOWN]:
        print(verdict, flush=True)
    if len(found) > SHOWN:
        print(f"    … and {len(found) - SHOWN} more of this structure")


def summarise(report: Any) -> None:
    """The table, and the cases that stand out."""
    print(report.table())
    for name, verdict in zip(("worst z", "worst overstatement"), report.worst(), strict=True):
        if verdict is not None:
            print(
                f"{name}: z = {verdict.z:.3g}, overstated {verdict.overstatement:.3g} "
                f"times\n{verdict}"
            )
    for kind, median in report.overstated().items():
        print(f"overstated in the median, {median:.3g} times: {'/'.join(kind)}")
    refused = sum(
        bool(verdict.stated.raised) and not verdict.failure for verdict in report.verdicts
    )
    print(
        f"{len(report.failures)} of {len(report.verdicts)} figures fail; {refused} are refused, "
        "with reasons"
    )


def prepare(effort: int) -> None:
    """What each process does first: sampled laws have fewer draws,
    whose larger errors must hold as well.
    """
    sys.path.insert(0, str(TESTS))
    import jax

    jax.config.update("jax_enable_x64", True)
    budget = importlib.import_module("limitlaw.engines.effort").BUDGET
    for name, share in SHARES.items():
        setattr(budget, name, max(1, int(share * effort)))


def compared(
    seeds: range, draws: int, jit: bool, limit: int, deadline: float, keep: Path | None
) -> tuple[int, list[Any]]:
    """How many cases of one structure were examined, and the verdicts."""
    kept = None if keep is None else keep / f"{seeds.start}-{seeds.stop}.pickle"
    if kept is not None and kept.exists():
        return len(seeds), pickle.loads(kept.read_bytes())
    cases: Any = importlib.import_module("adversary.cases")
    run: Any = importlib.import_module("adversary.run")
    shape = cases.structure(seeds[0] // SHARED)
    slow = tuple(figure for figure in shape.figures if figure.method in SLOW_INSIDE)
    quick = tuple(figure for figure in shape.figures if figure not in slow)
    verdicts: list[Any] = []
    for count, seed in enumerate(seeds):
        if time.time() > deadline:
            return count, verdicts
        # two functions, so that neither is compiled again for the second case
        inside = (quick, *([slow] if count == 0 else [])) if jit else ()
        found = run.examined(cases.case(shape, seed), draws, inside, limit)
        verdicts += run.confirmed(found, draws)
    if kept is not None:
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_bytes(pickle.dumps(verdicts))
    return len(seeds), verdicts


if __name__ == "__main__":
    main()
