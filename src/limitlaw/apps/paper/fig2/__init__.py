"""Figure 2, n = 256: the score p_11 under both scalings; one head and 256 against infinity."""

import numpy as np

from limitlaw.apps.paper.computed.convergence import Convergence, Point, kl_row
from limitlaw.apps.paper.computed.estimators import kde, kl_of_blocks, mixture_density, nodes
from limitlaw.apps.paper.computed.networks import score, stream
from limitlaw.apps.paper.computed.settings import Settings
from limitlaw.apps.paper.computed.tasks import differences, drawn_at
from limitlaw.apps.paper.experiment import Experiment
from limitlaw.apps.paper.fig2 import shown
from limitlaw.numerics.replicates import INDEPENDENT
from limitlaw.runs import Arrays, Chunk, Results, Table, rows

FIG2_HEADS = Convergence(name="fig2b", paper=(Point(256, 1), Point(256, 256)), trials=1)


def scores(*, tokens: int, width: int, samples: int, seed: int) -> Arrays:
    """p_11 at width n under both scalings: a KDE, and its density, a Gaussian mixture."""
    first, second = (stream(seed, purpose, tokens, width) for purpose in ("conditions", "scores"))
    variances = score(tokens).finite(width, samples, first)
    normals = np.random.default_rng(second).standard_normal(samples)
    found: Arrays = {}
    for scaling, scale in (("sqrt", 1.0), ("linear", 1 / width)):
        p, v = drawn_at(scale), scale * variances
        found[f"{scaling}_p"] = p
        found[f"{scaling}_kde"] = kde(np.sqrt(v) * normals, p)
        found[f"{scaling}_exact"] = mixture_density(v, p)
        found[f"{scaling}_variance"] = np.array([v.mean(), INDEPENDENT.error(v)])
    return found


def score_difference(*, tokens: int, width: int, block: int, draws: int, seed: int) -> Arrays:
    """The density of p_11 under 1/√n minus that of N(0, 1), at nodes, from coupled draws."""
    purpose = stream(seed, "score difference", tokens, width, block)
    return differences(score(tokens), width, nodes(1.0).y, draws, purpose)


def _scores(settings: Settings) -> Chunk:
    return Chunk.of(scores, tokens=4, width=256, samples=settings.samples, seed=settings.seed)


def _differences(settings: Settings) -> list[Chunk]:
    counts = {"draws": settings.draws, "seed": settings.seed}
    return [
        Chunk.of(score_difference, tokens=4, width=256, block=b, **counts)
        for b in range(settings.blocks)
    ]


def _chunks(settings: Settings) -> list[Chunk]:
    return [_scores(settings), *_differences(settings), *FIG2_HEADS.chunks(settings)]


def _tables(settings: Settings, results: Results) -> dict[str, Table]:
    found = results[_scores(settings)]
    tables = FIG2_HEADS.tables(settings, results)
    scalings = ("sqrt", "linear")
    gaussians = [_gaussian_row(settings, results, point) for point in FIG2_HEADS.paper]
    divergences = [_gaussian_kl(settings, results, point) for point in FIG2_HEADS.paper]
    return {
        "fig2a": rows(*(row for scaling in scalings for row in _score_rows(found, scaling))),
        "fig2a_variance": rows(*(_variance_row(found, scaling) for scaling in scalings)),
        "fig2a_kl": rows(_score_kl(settings, results)),
        "fig2b": rows(tables["fig2b_density"], *gaussians),
        "fig2b_kl": rows(tables["fig2b_kl"], *divergences),
    }


def _score_rows(found: Arrays, scaling: str) -> list[dict[str, object]]:
    """Rows of the densities of a score; under 1/n the limit is a point mass at 0 and has none."""
    p = found[f"{scaling}_p"]
    curves = {"kde": found[f"{scaling}_kde"], "exact": found[f"{scaling}_exact"]}
    if scaling == "sqrt":
        curves["limit"] = mixture_density(np.ones(1), p)
    return [
        {"scaling": scaling, "curve": name, "p": p, "density": density}
        for name, density in curves.items()
    ]


def _variance_row(found: Arrays, scaling: str) -> dict[str, object]:
    value, error = found[f"{scaling}_variance"]
    return {
        "scaling": scaling,
        "variance": value,
        "error": error,
        "limit": 1.0 if scaling == "sqrt" else 0.0,
    }


def _score_kl(settings: Settings, results: Results) -> dict[str, object]:
    """The divergence D(p_11 at n = 256 ‖ N(0, 1)), as a row of a table."""
    at = nodes(1.0)
    deltas = np.concatenate([results[chunk]["delta"] for chunk in _differences(settings)])
    kl = kl_of_blocks(deltas, mixture_density(np.ones(1), at.y), at.weights)
    return {"scaling": "sqrt", "kl": kl.value, "error": kl.error}


def _gaussian_row(settings: Settings, results: Results, point: Point) -> dict[str, object]:
    """The law with infinitely many heads, which has the variance of each of them."""
    law = results[FIG2_HEADS.limit(settings, point, None)]
    density = mixture_density(law["variance"][None], law["y"])
    return {
        "heads": point.heads,
        "y": law["y"],
        "width": np.inf,
        "curve": "gaussian",
        "density": density,
    }


def _gaussian_kl(settings: Settings, results: Results, point: Point) -> dict[str, object]:
    deltas, draws, law = FIG2_HEADS.differences(settings, results, point)
    whole = deltas + law["q"] - law["gaussian"]
    return kl_row(
        point, "exact", "gaussian", kl_of_blocks(whole, law["gaussian"], law["weights"]), draws
    )


FIG2 = Experiment(
    "fig2",
    _chunks,
    _tables,
    shown.FIG2_CLAIMS,
    shown.FIG2_FIGURES,
    place=2,
    dense=FIG2_HEADS.dense,
)
