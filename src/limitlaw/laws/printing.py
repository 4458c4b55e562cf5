"""A law as a small table."""

import contextlib
import math
from typing import Any

import numpy as np

from limitlaw.digits import plus_minus
from limitlaw.laws.base import Law

LEVELS = (0.001, 0.01, 0.1, 0.5, 0.9, 0.99, 0.999)
ENTRIES = 8  # of a joint law, at most


def table(law: Law) -> str:
    """Mean, variance, kurtosis, atoms and quantiles, each with its standard error where it has one."""
    rows: list[tuple[str, Any, Any]] = [("mean", law.mean(), law.error.mean())]
    rows.append(("variance", law.variance(), law.error.variance()))
    rows.append(("kurtosis", law.kurtosis(), law.error.kurtosis()))
    if law.shape:
        return "\n".join([repr(law), *_joint(rows, math.prod(law.shape))])
    with contextlib.suppress(ValueError):  # the branches of a function of the user's own are not known
        rows += _places(law)
    return "\n".join([repr(law), *(f"  {name:<12} {plus_minus(float(x), float(e))}" for name, x, e in rows)])


def _places(law: Law) -> list[tuple[str, Any, Any]]:
    """Quantiles and atoms."""
    q = np.array(LEVELS)
    rows = [(f"ppf({level:g})", x, e) for level, x, e in zip(LEVELS, law.ppf(q), law.error.ppf(q), strict=True)]
    points, masses = law.atoms()
    if len(points) > ENTRIES:
        return [*rows, (f"{len(points)} atoms", masses.sum(), np.zeros(()))]
    errors = law.error.atoms()
    return rows + [(f"P(Y = {float(x):g})", m, e) for x, m, e in zip(points, masses, errors, strict=True)]


def _joint(rows: list[tuple[str, Any, Any]], count: int) -> list[str]:
    lines = []
    for name, values, errors in rows:
        pairs = zip(np.ravel(np.asarray(values)), np.ravel(np.asarray(errors)), strict=True)
        cells = [plus_minus(float(x), float(e)) for x, e in pairs][:ENTRIES]
        lines.append(f"  {name:<12} {'  '.join(cells)}{'  …' if count > ENTRIES else ''}")
    return lines
