"""Figure 2: the score p_11 under both scalings, and one head and 256 heads against infinitely many; n = 256."""

import numpy as np

from limitlaw.paper import tasks
from limitlaw.paper.convergence import Convergence, Point, kl_row
from limitlaw.paper.estimators import kl_of_blocks, mixture_density, nodes
from limitlaw.paper.experiment import Experiment, Results, rows
from limitlaw.paper.settings import Settings
from limitlaw.runs.chunks import Chunk
from limitlaw.runs.tables import Table

HEADS = Convergence(
    name="fig2b",
    title="one head and 256 heads",
    paper=(Point(256, 1), Point(256, 256)),
    trials=1,
)


def _scores(settings: Settings) -> Chunk:
    return Chunk.of(tasks.scores, tokens=4, width=256, samples=settings.samples, seed=settings.seed)


def _differences(settings: Settings) -> list[Chunk]:
    counts = {"draws": settings.draws, "seed": settings.seed}
    return [Chunk.of(tasks.score_difference, tokens=4, width=256, block=b, **counts) for b in range(settings.blocks)]


def _chunks(settings: Settings) -> list[Chunk]:
    return [_scores(settings), *_differences(settings), *HEADS.chunks(settings)]


def _tables(settings: Settings, results: Results) -> dict[str, Table]:
    scores = results[_scores(settings)]
    tables = HEADS.tables(settings, results)
    scalings = ("sqrt", "linear")
    return {
        "fig2a": rows(*(row for scaling in scalings for row in _score_rows(scores, scaling))),
        "fig2a_variance": rows(*(_variance_row(scores, scaling) for scaling in scalings)),
        "fig2a_kl": rows(_score_kl(settings, results)),
        "fig2b": _joined(tables["fig2b_density"], [_gaussian_row(settings, results, p) for p in HEADS.paper]),
        "fig2b_kl": _joined(tables["fig2b_kl"], [_gaussian_kl(settings, results, p) for p in HEADS.paper]),
    }


def _score_rows(scores: dict[str, np.ndarray], scaling: str) -> list[dict[str, object]]:
    """The limit under 1/n is a point mass at 0: it has no density."""
    p = scores[f"{scaling}_p"]
    curves = {"kde": scores[f"{scaling}_kde"], "exact": scores[f"{scaling}_exact"]}
    if scaling == "sqrt":
        curves["limit"] = mixture_density(np.ones(1), p)
    return [{"scaling": scaling, "curve": name, "p": p, "density": density} for name, density in curves.items()]


def _variance_row(scores: dict[str, np.ndarray], scaling: str) -> dict[str, object]:
    value, error = scores[f"{scaling}_variance"]
    return {"scaling": scaling, "variance": value, "error": error, "limit": 1.0 if scaling == "sqrt" else 0.0}


def _score_kl(settings: Settings, results: Results) -> dict[str, object]:
    """D(p_11 at n = 256 ‖ N(0, 1))."""
    at = nodes(1.0)
    deltas = np.concatenate([results[chunk]["delta"] for chunk in _differences(settings)])
    kl = kl_of_blocks(deltas, mixture_density(np.ones(1), at.y), at.weights)
    return {"scaling": "sqrt", "kl": kl.value, "error": kl.error}


def _gaussian_row(settings: Settings, results: Results, point: Point) -> dict[str, object]:
    """The law with infinitely many heads, which has the variance of each of them."""
    law = results[HEADS.limit(settings, point, None)]
    density = mixture_density(law["variance"][None], law["y"])
    return {"heads": point.heads, "y": law["y"], "width": np.inf, "curve": "gaussian", "density": density}


def _gaussian_kl(settings: Settings, results: Results, point: Point) -> dict[str, object]:
    deltas, draws, law = HEADS.differences(settings, results, point)
    whole = deltas + law["q"] - law["gaussian"]
    return kl_row(point, "exact", "gaussian", kl_of_blocks(whole, law["gaussian"], law["weights"]), draws)


def _joined(table: Table, records: list[dict[str, object]]) -> Table:
    more = rows(*records)
    return {name: np.concatenate([table[name], more[name]]) for name in table}


EXPERIMENT = Experiment("fig2", "scores under both scalings; one head and 256 heads", _chunks, _tables)
