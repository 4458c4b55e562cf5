"""Beyond the paper: the joint density of two tokens with one head, beside the Gaussian of equal covariance."""

from limitlaw.paper import tasks
from limitlaw.paper.experiment import Experiment, Results
from limitlaw.paper.settings import Settings
from limitlaw.runs.chunks import Chunk
from limitlaw.runs.tables import Table


def _chunk(settings: Settings) -> Chunk:
    points, samples = (41, 2**12) if settings.quick else (71, 2**15)
    return Chunk.of(tasks.joint, tokens=4, heads=1, points=points, samples=samples)


def _tables(settings: Settings, results: Results) -> dict[str, Table]:
    found = results[_chunk(settings)]
    y1, y2 = found["y"].T
    return {"joint": {"y1": y1, "y2": y2, "density": found["density"], "gaussian": found["gaussian"]}}


EXPERIMENT = Experiment("joint", "joint density of two tokens", lambda settings: [_chunk(settings)], _tables)
