"""Posteriors against draws of the prior, and calibrated on tasks from the prior.

    python benchmarks/posterior.py exactness  # 10⁶ draws of the prior for each network, in NumPy
    python benchmarks/posterior.py calibration  # 200 tasks: where the truth lies
    python benchmarks/posterior.py retrieval  # five seeds of the task and of the sampler

The networks are those of tests/learning/priors.py, drawn there by formulas of their own.
"""

import importlib
import math
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import chi2

import limitlaw as ll

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "learning"))
priors: Any = importlib.import_module("priors")
TASKS, BINS = 200, 10


def exactness() -> bool:
    """Every network by both methods; z-scores of evidence, means and second moments."""
    worst = 0.0
    for name, network in priors.NETWORKS.items():
        X = priors.inputs(1)
        t = priors.targets_of(network, X, 5)
        expected = priors.reference(network, X, t, 10**6, 7)
        for method, samples in (("importance", 2**17), ("smc", 4096)):
            settings = {"samples": samples, "key": 3, "method": method, "width": network.width}
            rows = np.arange(priors.TRAIN)
            found = ll.posterior(network.program(X), rows, t, priors.NOISE, **settings)
            z = float(np.abs(priors.z_scores(found, expected)).max())
            worst = max(worst, z)
            print(f"{name:24s} {method:11s} largest z {z:.2f}   {found}")
        print(f"{'':24s} the reference is worth {expected.effective:,.0f} draws")
    return worst < 4


def calibration() -> bool:
    """P(f_* ≤ truth | targets) is uniform where truth and targets are from the prior."""
    passed = True
    for name in ("one head", "two heads, a mask", "width 4"):
        network, X = priors.NETWORKS[name], priors.inputs(2)
        y, k, rng = network.program(X), priors.TRAIN, np.random.default_rng(0)
        kernels = next(network.kernels(X, TASKS, 11))[:TASKS]
        places = []
        for i, K in enumerate(kernels):
            f = np.linalg.cholesky(K + 1e-12 * np.eye(len(K))) @ rng.normal(size=len(K))
            t = f[:k] + priors.NOISE * rng.normal(size=k)
            settings = {"samples": 1024, "key": i, "method": "smc", "width": network.width}
            law = ll.posterior(y, np.arange(k), t, priors.NOISE, **settings).predict(k)
            places.append(float(law.cdf(f[k])))
        counts = np.histogram(places, BINS, (0, 1))[0]
        statistic = float(np.sum((counts - TASKS / BINS) ** 2) / (TASKS / BINS))
        p = float(chi2.sf(statistic, BINS - 1))
        passed &= p > 0.001
        print(f"{name:24s} χ² = {statistic:.1f}, p = {p:.3f}, counts {counts.tolist()}")
    return passed


def retrieval() -> bool:
    """Test errors, evidence and its order, for five seeds; seconds of each."""
    from limitlaw.apps.learn.retrieval import Retrieval

    passed = True
    for seed in range(5):
        found = []
        for heads in (1, 2, 4, math.inf):
            start = time.monotonic()
            answer = Retrieval(seed=seed).answer(heads, 1024, seed)
            seconds = time.monotonic() - start
            found.append(answer)
            print(
                f"seed {seed}, {heads} heads: test error {answer.test_error:.5f}, log evidence "
                f"{answer.log_evidence:.2f} ± {answer.error:.2f}, {seconds:.0f} s"
            )
            passed &= seconds < 120
            passed &= answer.test_error > 0.3 if heads == math.inf else answer.test_error < 0.05
        evidence = [answer.log_evidence for answer in found]
        passed &= evidence == sorted(evidence, reverse=True)
    return bool(passed)


if __name__ == "__main__":
    warnings.simplefilter("ignore", UserWarning)  # the table says what is not stable
    chosen = {"exactness": exactness, "calibration": calibration, "retrieval": retrieval}
    names = sys.argv[1:] or ["exactness"]
    results = [chosen[name]() for name in names]
    sys.exit(not all(results))
