"""How many realistic faults of initialisation `check` names at their place, and how often it names
one in healthy modules.

    python benchmarks/faults.py --seeds 5
"""

import argparse
import importlib
import sys
import time
import warnings
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "torch"))

import torch

import limitlaw.torch as lt

faults: Any = importlib.import_module("faults")  # of the tests: this file has its name
FAULTS, HEALTHY = faults.FAULTS, faults.HEALTHY


def main() -> None:
    """Print what was missed, and what was found in healthy modules."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--healthy", type=int, default=12, help="seeds of healthy modules")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    start = time.process_time()
    wrong = 0
    for seed in range(asked.healthy):
        for name, (make, inputs) in HEALTHY.items():
            torch.manual_seed(seed)
            found = lt.check(make, *inputs)
            wrong += bool(found)
            for finding in found:
                print(f"healthy {name}, seed {seed}: {finding}", flush=True)
    print(f"{wrong} of {asked.healthy * len(HEALTHY)} healthy modules have findings", flush=True)
    named = dict.fromkeys(FAULTS, 0)
    for seed in range(asked.seeds):
        for name, (make, inputs, where, word) in FAULTS.items():
            torch.manual_seed(seed)
            named[name] += any(where in f.place and word in f for f in lt.check(make, *inputs))
    for name, times in named.items():
        if times < asked.seeds:
            print(f"{name}: named {times} times of {asked.seeds}")
    always = sum(times == asked.seeds for times in named.values())
    print(f"{always} of {len(FAULTS)} faults are named with every seed")
    print(f"{time.process_time() - start:.0f} s of processor")


if __name__ == "__main__":
    main()
