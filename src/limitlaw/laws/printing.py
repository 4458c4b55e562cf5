"""A law as a small table: in a terminal, in a notebook, and as records."""

import contextlib
import html
import itertools
import math
from typing import Any, NamedTuple

import numpy as np

from limitlaw import notebook
from limitlaw.digits import plus_minus
from limitlaw.laws.base import Law

SHOWN_LEVELS = (0.001, 0.01, 0.1, 0.5, 0.9, 0.99, 0.999)
ENTRIES = 8  # most entries of a joint law that are shown
NOTEBOOK_POINTS = 121  # of the curve that a notebook shows
QUANTILE_ZERO = 1e-14  # a quantile smaller than this share of the largest is shown as 0
CURVE_ENDS = 1e-3  # share of the mass beyond the curve on either side


class QuantityRow(NamedTuple):
    """A quantity of a law, with its error: numbers, or an array of one for each entry."""

    name: str
    value: Any
    error: Any


def table(law: Law) -> str:
    """Mean, variance, kurtosis, atoms and quantiles as lines of text, with standard errors."""
    return "\n".join(
        [repr(law), *(f"  {name:<12} {'  '.join(cells)}" for name, *cells in _cells(law))]
    )


def in_notebook(law: Law) -> str:
    """The table in HTML, with the curve of the density of one number."""
    title = html.escape(repr(law))
    return notebook.block(
        "", f"<div><strong>{title}</strong></div>", _curve(law), notebook.table((), _cells(law))
    )


def records(law: Law) -> list[dict[str, Any]]:
    """A record of quantity, entry (of a joint law), value and error for each number."""
    found = rows(law)
    if not law.shape:
        return [
            {"quantity": r.name, "value": float(r.value), "error": float(r.error)} for r in found
        ]
    places = list(itertools.product(*map(range, law.shape)))
    return [
        {
            "quantity": row.name,
            "entry": at[0] if len(at) == 1 else at,
            "value": float(x),
            "error": float(e),
        }
        for row in found
        for at, x, e in zip(places, np.ravel(row.value), np.ravel(row.error), strict=True)
    ]


def rows(law: Law) -> list[QuantityRow]:
    """The rows that the table shows."""
    found = [
        QuantityRow(name, getattr(law, name)(), getattr(law.error, name)())
        for name in ("mean", "variance", "kurtosis")
    ]
    if not law.shape and np.isnan(found[-1].value):
        found.pop()  # a deterministic value has no kurtosis
    if not law.shape:
        # the branches of a function of the user's own are not known
        with contextlib.suppress(ValueError):
            found += _places(law)
    return found


def _places(law: Law) -> list[QuantityRow]:
    """The rows of quantiles and atoms."""
    q = np.array(SHOWN_LEVELS)
    pairs = np.stack(np.broadcast_arrays(law.ppf(q), law.error.ppf(q)))
    rounding = QUANTILE_ZERO * np.max(np.abs(pairs[0]))
    pairs = np.where(np.max(np.abs(pairs), axis=0) < rounding, 0.0, pairs)  # medians, mostly
    found = [
        QuantityRow(f"ppf({level:g})", *pair)
        for level, pair in zip(SHOWN_LEVELS, pairs.T, strict=True)
    ]
    points, masses = law.atoms()
    if len(points) > ENTRIES:
        return [*found, QuantityRow(f"{len(points)} atoms", masses.sum(), np.zeros(()))]
    errors = law.error.atoms()
    return found + [
        QuantityRow(f"P(Y = {float(x):g})", m, e)
        for x, m, e in zip(points, masses, errors, strict=True)
    ]


def _cells(law: Law) -> list[list[str]]:
    """A name and the numbers of each row as text, a few entries of joint laws."""
    lines = []
    for name, values, errors in rows(law):
        pairs = zip(np.ravel(np.asarray(values)), np.ravel(np.asarray(errors)), strict=True)
        numbers = [plus_minus(float(x), float(e)) for x, e in itertools.islice(pairs, ENTRIES)]
        lines.append([name, *numbers, *(["…"] if math.prod(law.shape) > ENTRIES else [])])
    return lines


def _curve(law: Law) -> str:
    """The curve of the density between two quantiles, in HTML; empty where there is none."""
    if law.shape or law.discrete:
        return ""
    with contextlib.suppress(ValueError):
        low, high = (float(x) for x in law.ppf(np.array([CURVE_ENDS, 1 - CURVE_ENDS])))
        x = np.linspace(low, high, NOTEBOOK_POINTS + 2)[1:-1]
        return notebook.curve(x, np.asarray(law.pdf(x)), f"density from {low:.3g} to {high:.3g}")
    return ""
