"""Pictures of what was learnt: learning curves, and attention to the answer."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from limitlaw.figures.style import COLOURS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from limitlaw.apps.learn.retrieval import Answer


def learning_figure(answers: "Sequence[tuple[int, Answer]]") -> "Figure":
    """Test error, log evidence and attention to the answer against the number of sequences, a
    curve for each number of heads.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 3.2), layout="constrained")
    error, evidence, attention = figure.subplots(1, 3)
    for colour, heads in zip(
        COLOURS * 4, dict.fromkeys(a.heads for _, a in answers), strict=False
    ):
        mine = [(m, a) for m, a in answers if a.heads == heads]
        x = [m for m, _ in mine]
        name = "∞" if heads == math.inf else str(heads)
        look = {"color": colour, "marker": "o", "markersize": 3, "label": f"{name} heads"}
        error.plot(x, [a.test_error for _, a in mine], **look)
        values, errors = [a.log_evidence for _, a in mine], [a.error for _, a in mine]
        evidence.errorbar(x, values, yerr=errors, **look)
        if heads != math.inf:
            attention.plot(x, [a.attention for _, a in mine], **look)
    error.set(yscale="log", xlabel="training sequences", ylabel="mean squared test error")
    evidence.set(xlabel="training sequences", ylabel="log evidence")
    attention.set(xlabel="training sequences", ylabel="attention to the answer", ylim=(0, 1.02))
    error.legend(frameon=False, fontsize=8)
    return figure
