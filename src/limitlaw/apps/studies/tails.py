"""Sakai, Karakida and Imaizumi (2025) predict that stacked layers yield even heavier tails. Do
they?

Excess kurtosis of a coordinate after each of eight layers, four tokens with K = I, one head, as n
→ ∞ and at width 64.
"""

import functools

import numpy as np

import limitlaw as ll
from limitlaw.apps.paper.experiment import Experiment
from limitlaw.apps.paper.shown.claims import Claim, ClaimRule
from limitlaw.apps.paper.shown.reading import SIGMAS, Tables, where
from limitlaw.apps.reports.figure import Figure
from limitlaw.apps.reports.scales import positive
from limitlaw.apps.studies import look
from limitlaw.apps.studies.settings import StudySettings
from limitlaw.apps.studies.tracing import column, parts, pooled, tokens, traced
from limitlaw.digits import compact
from limitlaw.figures import style
from limitlaw.figures.picture import Panel, Picture, PlotAxis
from limitlaw.runs import Arrays, Chunk, Results, Table, rows

TAILS_DEPTH, TAILS_TOKENS, TAILS_WIDTH = 8, 4, 64
NETWORKS = {
    "bare": "attention alone",
    "residual": "attention with residuals",
    "pre": "pre-norm blocks with MLP",
}
FINITE = ("residual",)  # networks that are computed at width 64, too
INFINITE = 0  # stands for n → ∞ in tables


@functools.cache
def network(kind: str) -> ll.Wide:
    """A network of eight layers of this kind."""
    x = tokens(TAILS_TOKENS)
    if kind == "bare":
        return ll.repeat(lambda w: ll.nn.attention(w, 1), x, TAILS_DEPTH)
    if kind == "residual":
        return ll.nn.transformer(x, TAILS_DEPTH, 1, norm="none", hidden=None)
    return ll.nn.transformer(x, TAILS_DEPTH, 1, norm="pre")


def kurtosis(*, kind: str, width: int, draws: int, seed: int) -> Arrays:
    """Excess kurtosis after each layer."""
    return traced(network(kind), ["kurtosis"], draws, seed, width or None)


def _cases(settings: StudySettings) -> list[tuple[str, int, int]]:
    """The network, the width and the number of draws of each case."""
    limits = [(kind, INFINITE, settings.either(2**16, 2**13)) for kind in NETWORKS]
    return [*limits, *((kind, TAILS_WIDTH, settings.either(2**14, 2**12)) for kind in FINITE)]


def _parts(settings: StudySettings, kind: str, width: int, draws: int) -> list[Chunk]:
    return parts(1, settings.seed, kurtosis, kind=kind, width=width, draws=draws)


def _chunks(settings: StudySettings) -> list[Chunk]:
    return [chunk for case in _cases(settings) for chunk in _parts(settings, *case)]


def _tables(settings: StudySettings, results: Results) -> dict[str, Table]:
    records = []
    for kind, width, draws in _cases(settings):
        found = pooled(_parts(settings, kind, width, draws), results)
        layers = np.arange(TAILS_DEPTH + 1)
        curve = {"layer": layers, **column(found, "kurtosis")}
        records.append({"network": kind, "width": width, **curve})
    return {"tails": rows(*records)}


def _heavier(kind: str, width: int) -> ClaimRule:
    """The rule that the kurtosis after the last layer is larger than after the first."""

    def rule(tables: Tables) -> Claim:
        part = where(tables["tails"], network=kind, width=width)
        claim = (
            f"Depth makes tails heavier: {NETWORKS[kind]}, {f'n = {width}' if width else 'n → ∞'}"
        )
        expected = "excess kurtosis grows with depth"
        value, error = part["kurtosis"], part["error"]
        top = 1 + int(np.argmax(value[1:]))
        shown = [
            f"{compact(float(value[i]), float(error[i]))} after layer {i}"
            for i in sorted({1, top, TAILS_DEPTH})
        ]
        holds = value[-1] - value[1] > SIGMAS * np.hypot(error[-1], error[1])
        return Claim("tails", claim, expected, ", ".join(shown), bool(holds))

    return ClaimRule(("tails",), rule)


def _panel(table: Table, width: int, title: str) -> Panel:
    curves = []
    for place, (kind, label) in enumerate(NETWORKS.items()):
        part = where(table, network=kind, width=width)
        if len(part["layer"]):
            layers, *numbers = (part[name][1:] for name in ("layer", "kurtosis", "error"))
            curves.append(look.line(place, layers, positive(numbers[0]), numbers[1], label))
    return Panel(
        PlotAxis("layer"), PlotAxis("excess kurtosis", log=True), tuple(curves), title=title
    )


def picture(table: Table) -> Picture:
    """A picture of the excess kurtosis along depth, in the limit and at a finite width."""
    panels = (
        _panel(table, INFINITE, look.AT_INFINITY),
        _panel(table, TAILS_WIDTH, f"<i>n</i> = {style.number(TAILS_WIDTH)}"),
    )
    return Picture((panels,), (7.2, 3.5), 3)


TAILS_STUDY = Experiment(
    "tails",
    _chunks,
    _tables,
    (
        *(_heavier(kind, INFINITE) for kind in NETWORKS),
        *(_heavier(kind, TAILS_WIDTH) for kind in FINITE),
    ),
    (
        Figure(
            "tails",
            "Sakai, Karakida and Imaizumi 2025",
            "do stacked layers have heavier tails?",
            "Excess kurtosis of a coordinate after each of eight layers, one head, four tokens. "
            "As <i>n</i> → ∞ (left) tokens become parallel, after which attention adds nothing "
            "random: tails stop growing or become lighter. At width 64 (right) products of random "
            "matrices make them heavier. Bars: one standard error.",
            picture,
            {"tails": ("network", "width", "layer", "kurtosis", "error")},
        ),
    ),
)
