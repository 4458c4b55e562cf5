"""An experiment is a folder: one that nothing else knows of is found,
run, claimed, drawn and reported.
"""

import math
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from limitlaw.apps.cli.reproduce import Clock
from limitlaw.apps.paper.catalogue import EXPERIMENTS, chosen
from limitlaw.apps.paper.computed.baseline import (
    SECONDS_PER_NORMAL,
    Case,
    Cost,
    cost,
)
from limitlaw.apps.paper.computed.settings import Settings

COMPUTED = '''
"""How often a coin shows heads: the example of docs/architecture.md."""

import numpy as np

from limitlaw.apps.paper.coin import shown
from limitlaw.apps.paper.computed.settings import Settings
from limitlaw.apps.paper.experiment import Experiment
from limitlaw.runs import Arrays, Chunk, Results, Table, rows


def flips(*, count: int, seed: int) -> Arrays:
    """The share of heads among so many flips."""
    return {"share": np.random.default_rng([seed, count]).integers(0, 2, count).mean()}


def _chunks(settings: Settings) -> list[Chunk]:
    return [Chunk.of(flips, count=4**k, seed=settings.seed) for k in range(2, 8)]


def _tables(settings: Settings, results: Results) -> dict[str, Table]:
    records = [{**dict(chunk.arguments), **results[chunk]} for chunk in _chunks(settings)]
    return {"coin": rows(*records)}


COIN = Experiment("coin", _chunks, _tables, shown.COIN_CLAIMS, shown.COIN_FIGURES)
'''
SHOWN = '''
"""What a coin is claimed to do, and how it is shown."""

import math

from limitlaw.digits import compact
from limitlaw.figures import style
from limitlaw.apps.reports.figure import Figure
from limitlaw.figures.picture import PlotAxis, Curve, Panel, Picture
from limitlaw.apps.reports.scales import power_axis
from limitlaw.apps.paper.shown.claims import Claim, ClaimRule
from limitlaw.apps.paper.shown.reading import Tables, agree
from limitlaw.runs import Table


def _fair(tables: Tables) -> Claim:
    count, share = (float(tables["coin"][name][-1]) for name in ("count", "share"))
    error = 0.5 / math.sqrt(count)
    measured = compact(share, error)
    return Claim("coin", "The coin is fair", "1/2", measured, agree(share, error, 0.5))


def share_of_heads(table: Table) -> Picture:
    x = power_axis("flips", [float(count) for count in table["count"]])
    curve = Curve(table["count"], table["share"], style.DOTS, "share of heads")
    return Picture(((Panel(x, PlotAxis("share", limits=(0.0, 1.0)), (curve,)),),), (4.6, 3.5))


COIN_CLAIMS = (ClaimRule(("coin",), _fair),)
TEXT = "The share of heads among <i>n</i> flips."
COIN_FIGURES = (Figure("coin", "", "A coin", TEXT, share_of_heads, {"coin": ("count", "share")}),)
'''
COMMAND = """
import sys
import limitlaw.apps.paper

limitlaw.apps.paper.__path__.append(sys.argv[1])  # as if the folder lay there

if __name__ == "__main__":
    from limitlaw.apps.cli import app
    app(["reproduce", "coin", "--jobs", "1", "--out", sys.argv[2]])
"""


def test_a_folder_is_enough(tmp_path):
    """A new folder, and the command knows it: its data,
    its picture in two formats, its claim and its caption.
    """
    folder, out, script = tmp_path / "more" / "coin", tmp_path / "out", tmp_path / "command.py"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text(COMPUTED)
    (folder / "shown.py").write_text(SHOWN)
    script.write_text(COMMAND)
    command = [sys.executable, str(script), str(tmp_path / "more"), str(out)]
    run = subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, "JAX_PLATFORMS": "cpu"}
    )
    lines = [line for line in run.stderr.splitlines() if not line.startswith("coin: ")]
    assert (run.returncode, lines) == (0, []), run.stdout
    assert run.stdout.startswith("1 of 1 claims hold\n")
    assert {path.name for path in (out / "data").iterdir()} == {"claims.csv", "coin.csv"}
    assert {path.name for path in (out / "figures").iterdir()} == {"coin.pdf", "coin.png"}
    assert (out / "data" / "coin.csv").read_text().startswith("count,seed,share\n16,0,")
    report = (out / "report.html").read_text()
    for text in (
        "The coin is fair",
        "The share of heads among <i>n</i> flips.",
        'href="figures/coin.pdf"',
    ):
        assert text in report


def test_order():
    """As in the paper, then beyond it; a part of a figure asks for the whole."""
    names = ["fig1", "fig2", "fig3", "fig4", "fig5", "heads", "head_dim", "joint", "theorem"]
    assert list(EXPERIMENTS) == names
    assert [experiment.name for experiment in chosen([])] == names
    assert [experiment.name for experiment in chosen(["theorem", "fig5b", "fig1a"])] == [
        "fig1",
        "fig5",
        "theorem",
    ]


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_folders_and_names_agree(name):
    """An experiment is called as its folder, and borrows from experiments that there are."""
    experiment = EXPERIMENTS[name]
    assert (
        Path(sys.modules["limitlaw.apps.paper.catalogue"].__file__).parent / name / "shown.py"
    ).is_file()
    assert {*experiment.borrows} <= {*EXPERIMENTS}
    assert experiment.figures
    assert experiment.claims


def test_what_the_paper_draws():
    """The networks of its five figures at its counts;
    what drawing all their matrices costs is scaled by their random numbers.
    """
    cases = [case for experiment in EXPERIMENTS.values() for case in experiment.dense(Settings())]
    assert len(cases) == 4 + 2 + 3 + 4 + 4
    assert (
        sum(case.samples for case in cases)
        == 4 * 500_000 + 2 * 50_000 + 3 * 500_000 + 4 * 500_000 + 4 * 1_000_000
    )
    assert Case(4, 16, 64, 1024, 500_000) in cases
    assert Case(16, 2, None, 256, 500_000) in cases
    small, large = Case(2, 1, None, 8, 10), Case(2, 1, None, 16, 10)
    assert cost([large, small]).samples == 20
    assert cost([large, small]).seconds == pytest.approx(
        SECONDS_PER_NORMAL * (large.normals + small.normals) * 10
    )
    # what the README says
    assert cost(cases).seconds / 3600 == pytest.approx(107, abs=0.5)


def sample(case: Case, rng: np.random.Generator) -> float:
    """One sample of y¹_1, with all matrices drawn."""
    n, d = case.width, case.width if case.head_dim is None else case.head_dim
    h = rng.standard_normal(n)
    x = np.stack([rng.standard_normal((n, n)) @ h for _ in range(case.tokens)], axis=1) / np.sqrt(
        n
    )
    x = np.clip(x, -100, 100)
    y = np.zeros(n)
    for _ in range(case.heads):
        Q, K, V = (rng.standard_normal((d, n)) / np.sqrt(n) for _ in range(3))
        O = rng.standard_normal((n, d)) / np.sqrt(d)
        p = (K @ x).T @ (Q @ x[:, 0]) / np.sqrt(d)
        A = np.exp(p - p.max())
        y += O @ (V @ x @ (A / A.sum()))
    return float(y[0] / np.sqrt(case.heads))


def test_the_reference_can_be_measured():
    """To an order of magnitude, whatever the machine, on one thread (OPENBLAS_NUM_THREADS=1)."""
    case, rng, times = Case(4, 2, None, 256, 1), np.random.default_rng(0), [math.inf]
    for _ in range(20):
        start = time.process_time()
        sample(case, rng)
        times.append(time.process_time() - start)
    assert SECONDS_PER_NORMAL / 20 < min(times) / case.normals < SECONDS_PER_NORMAL * 20


def test_speed_ups_do_not_depend_on_the_clock():
    """A reference over processor time; none on a cluster, or where work was reused."""
    dense = Cost(9000.0, 10)
    clock = Clock(2, 30.0, dense, 4, 0)
    assert clock.speedup().startswith("about 300 times; NumPy would need 2.5 core-hours (one core")
    assert "30 s of processor time" in clock.speedup()
    assert clock._replace(processor=None).speedup().startswith("not measured on a cluster")
    assert clock._replace(reused=1).speedup().startswith("not measured, as 1 of 4 chunks")
    assert clock._replace(dense=Cost(0.0, 0)).speedup() == ""
