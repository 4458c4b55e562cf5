"""Tables and small curves for notebooks and terminals, in the reader's colours (`currentColor`);
every text is escaped, and nothing is loaded from elsewhere.
"""

import html
from collections.abc import Callable, Iterable, Sequence

import numpy as np
from jaxtyping import Float

CELL = "text-align:left;padding:1px 14px 1px 0;background:none;border:0;white-space:nowrap"
WRAPPED = CELL.replace("nowrap", "normal")
WIDTH, HEIGHT, MARGIN = 220.0, 60.0, 4.0  # size of a curve, in pixels


def block(title: str, *parts: str) -> str:
    """Parts in HTML under a title."""
    head = f"<div><strong>{html.escape(title)}</strong></div>" if title else ""
    return f'<div style="line-height:1.5">{head}{"".join(parts)}</div>'


def table(head: Sequence[str], rows: Iterable[Sequence[str]], wrap: int = -1) -> str:
    """Rows of text under a head, which may be empty, in HTML; column `wrap` breaks lines."""
    cells = "".join(f'<th style="{CELL}">{html.escape(cell)}</th>' for cell in head)
    top = (
        f'<thead style="border-bottom:1px solid currentColor"><tr>{cells}</tr></thead>'
        if head
        else ""
    )
    written = [
        "".join(_cell(cell, WRAPPED if i == wrap else CELL) for i, cell in enumerate(row))
        for row in rows
    ]
    body = "".join(f"<tr>{cells}</tr>" for cells in written)
    return (
        f'<table style="border-collapse:collapse;color:inherit">{top}<tbody>{body}</tbody></table>'
    )


def _cell(text: str, look: str) -> str:
    return f'<td style="{look}">{html.escape(text)}</td>'


def curve(x: Float[np.ndarray, " x"], y: Float[np.ndarray, " x"], label: str) -> str:
    """A line over its axis, as an SVG image; `label` is what a screen reader says."""
    known = np.isfinite(y)
    x, y = x[known], y[known]
    if x.size < 2 or not y.max() > 0 or not x[-1] > x[0]:
        return ""
    across = MARGIN + (WIDTH - 2 * MARGIN) * (x - x[0]) / (x[-1] - x[0])
    down = HEIGHT - MARGIN - (HEIGHT - 2 * MARGIN) * y / y.max()
    points = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(across, down, strict=True))
    base = HEIGHT - MARGIN
    return (
        f'<svg width="{WIDTH:g}" height="{HEIGHT:g}" role="img" aria-label="{html.escape(label)}" '
        'fill="none" stroke="currentColor">'
        f'<path d="M{MARGIN:g} {base:g}H{WIDTH - MARGIN:g}" stroke-width="0.5"/>'
        f'<polyline points="{points}" stroke-width="1.5"/></svg>'
    )


def aligned(rows: Sequence[Sequence[str]], justified: Callable[[str, int], str]) -> str:
    """Rows of cells as lines of text, in columns as wide as their longest cell."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ("  ".join(map(justified, row, widths)) for row in rows)
    return "\n".join(line.rstrip() for line in lines)


def frame(records: list[dict[str, object]]) -> object:
    """A data frame of records (needs pandas)."""
    try:
        import pandas  # type: ignore[import-untyped]
    except ImportError:
        raise ImportError("to_pandas needs pandas: pip install 'limitlaw[pandas]'") from None
    return pandas.DataFrame(records)
