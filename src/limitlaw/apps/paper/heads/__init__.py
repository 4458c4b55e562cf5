"""Beyond the paper: how the law of y¹ approaches the Gaussian of infinitely many heads."""

from limitlaw.apps.paper.computed import tasks
from limitlaw.apps.paper.computed.estimators import kl_of_difference
from limitlaw.apps.paper.computed.settings import Settings
from limitlaw.apps.paper.experiment import Experiment
from limitlaw.apps.paper.heads import shown
from limitlaw.runs import Chunk, Results, Table, rows

COUNTS = tuple(2**k for k in range(11))


def _limit(heads: int) -> Chunk:
    return Chunk.of(tasks.limit, tokens=4, heads=heads, head_dim=None, nodes_of=None, phi="clip")


def _chunks(settings: Settings) -> list[Chunk]:
    return [_limit(heads) for heads in (COUNTS[::2] if settings.quick else COUNTS)]


def _tables(settings: Settings, results: Results) -> dict[str, Table]:
    records = []
    for chunk in _chunks(settings):
        law, heads = results[chunk], dict(chunk.arguments)["heads"]
        kl = kl_of_difference(law["q"] - law["gaussian"], law["gaussian"], law["weights"])
        moments = {"variance": float(law["variance"]), "kurtosis": float(law["kurtosis"])}
        records.append({"heads": heads, **moments, "kl": kl})
    return {"heads": rows(*records)}


HEADS = Experiment("heads", _chunks, _tables, shown.HEADS_CLAIMS, shown.HEADS_FIGURES, place=6)
