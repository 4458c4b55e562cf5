"""The command `limitlaw reproduce`, as a process: what it leaves,
killed and damaged runs, other seeds, bad input.
"""

import csv
import functools
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from limitlaw.apps import cli
from limitlaw.runs import executors

SMALL = "fig1", "--quick", "--trials", "1", "--samples", "500"
TABLES = {"claims", "fig1_coupled", "fig1_density", "fig1_kl", "kde_floor"}


def command(out: Path, jobs: int, seed: int = 0) -> list[str]:
    """The command line of a small run."""
    return [
        sys.executable,
        "-m",
        "limitlaw",
        "reproduce",
        *SMALL,
        "--jobs",
        str(jobs),
        "--seed",
        str(seed),
        "--out",
        str(out),
    ]


def environment(out: Path) -> dict[str, str]:
    """One cache of compiled programs for the processes of these tests:
    they compute what they would compute without.
    """
    cache = {
        "JAX_COMPILATION_CACHE_DIR": str(out.parent / "cache"),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0.1",
    }
    return {**os.environ, "JAX_PLATFORMS": "cpu", **cache}


def finished(out: Path, jobs: int, seed: int = 0) -> subprocess.CompletedProcess:
    """The command, left alone."""
    return subprocess.run(
        command(out, jobs, seed), env=environment(out), capture_output=True, text=True, timeout=120
    )


def said(run: subprocess.CompletedProcess) -> list[str]:
    """Standard error, but for the lines of progress that a busy machine makes time for."""
    return [line for line in run.stderr.splitlines() if not line.startswith("fig1: ")]


def tables(out: Path) -> dict[str, bytes]:
    """The bytes of the CSV files by name."""
    return {path.stem: path.read_bytes() for path in (out / "data").glob("*.csv")}


def chunks(out: Path) -> set[Path]:
    """The files of finished chunks."""
    return set((out / "chunks").glob("*.chunk"))


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> tuple[Path, subprocess.CompletedProcess, dict[str, bytes]]:
    """A run that nobody disturbs, on one thread: its folder, what it said, and its tables."""
    out = tmp_path_factory.mktemp("command") / "whole"
    return out, finished(out, jobs=1), tables(out)


def test_what_it_leaves(whole):
    """Exit code 0, a quiet standard error, a summary with all claims and the speed-up;
    report, tables and pictures.
    """
    out, run, found = whole
    assert (run.returncode, said(run)) == (0, [])
    claims, speed, places = run.stdout.splitlines()
    assert claims == "6 of 6 claims hold"
    assert speed.startswith("speed-up over drawing every matrix: about ")
    assert places.startswith(f"report: {out / 'report.html'}   data: {out / 'data'}   ")
    assert set(found) == TABLES
    assert [row["holds"] for row in csv.DictReader(found["claims"].decode().splitlines())] == [
        "yes"
    ] * 6
    report = (out / "report.html").read_text()
    assert "limitlaw reproduce fig1 --quick --trials 1 --samples 500" in report
    assert str(out) not in report
    pictures = {path.name: path.read_bytes()[:5] for path in (out / "figures").iterdir()}
    assert {name.rpartition(".")[0] for name in pictures} >= {"fig1a", "fig1b"}
    for name, start in pictures.items():
        assert start == (b"%PDF-" if name.endswith(".pdf") else b"\x89PNG\r")
    assert {name.rpartition(".")[2] for name in pictures} == {"pdf", "png"}
    assert not [path for path in out.rglob("*") if path.name.startswith(".")]


def test_killed_and_damaged(whole):
    """SIGKILL midway, then one chunk cut short and a byte of another changed:
    the same command says so and goes on.

    Its tables are, byte for byte, those of the run on one thread that nobody disturbed.
    """
    out = whole[0].parent / "killed"
    with subprocess.Popen(command(out, jobs=2), env=environment(out)) as process:
        while len(chunks(out)) < 5:
            assert process.poll() is None, "it ended before it could be killed"
            time.sleep(0.01)
        process.kill()
    assert process.returncode == -signal.SIGKILL
    kept = chunks(out)
    assert 5 <= len(kept) < len(chunks(whole[0]))
    assert not (out / "data" / "fig1_kl.csv").exists()
    cut, changed, *_ = sorted(kept)
    cut.write_bytes(cut.read_bytes()[:-100])
    damaged = bytearray(changed.read_bytes())
    # a time in the archive, which nothing but the checksum covers
    damaged[damaged.index(b"\n") + 11] ^= 1
    changed.write_bytes(damaged)
    before = {path: path.stat().st_mtime_ns for path in kept}
    run = finished(out, jobs=2)
    assert run.returncode == 0
    lines = said(run)
    assert len(lines) == 2
    for path in (cut, changed):
        assert [line for line in lines if line.startswith(f"limitlaw: {path} is damaged: ")]
    assert "not measured, as" in run.stdout
    assert tables(out) == whole[2]
    assert {path.name: path.read_bytes() for path in chunks(out)} == {
        p.name: p.read_bytes() for p in chunks(whole[0])
    }
    assert {path for path in kept if path.stat().st_mtime_ns != before[path]} == {cut, changed}


@pytest.mark.long
def test_another_seed(whole):
    """Another seed in the same folder draws anew what is drawn;
    the first one again is all there, in the old bytes.
    """
    out, _, expected = whole
    first = chunks(out)
    run = finished(out, jobs=2, seed=1)
    assert run.returncode in (0, 1), run.stderr  # claims are statistical
    assert said(run) == []
    other, both = tables(out), chunks(out)
    assert set(other) == TABLES
    assert all(other[name] != expected[name] for name in TABLES)
    assert len(both) == 2 * len(first) - 1  # the limit is not drawn
    run = finished(out, jobs=2)
    assert (run.returncode, said(run)) == (0, [])
    assert (
        f"not measured, as {len(first)} of {len(first)} chunks come from an earlier run"
        in run.stdout
    )
    assert " times;" not in run.stdout
    assert tables(out) == expected
    assert chunks(out) == both


DRAW_AND_DIE = """
import os, signal, sys
from pathlib import Path
from limitlaw.apps.cli.running import drawing
from limitlaw.apps.paper.report import draw as pictures

if __name__ == "__main__":
    with drawing(Path(sys.argv[1]), pictures) as draw:
        draw({})
        children = Path(f"/proc/self/task/{os.getpid()}/children").read_text()
        Path(sys.argv[1], "children").write_text(children)
        os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs /proc")
def test_killed_while_drawing(tmp_path):
    """What draws beside the work ends with it, even by SIGKILL: nothing is left behind."""
    script = tmp_path / "die.py"
    script.write_text(DRAW_AND_DIE)
    run = subprocess.run([sys.executable, str(script), str(tmp_path)], timeout=60)
    assert run.returncode == -signal.SIGKILL
    children = [Path("/proc", child) for child in (tmp_path / "children").read_text().split()]
    assert children
    try:
        deadline = time.monotonic() + 30  # a busy machine is slow to import
        while any(map(alive, children)) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert not any(map(alive, children))
    finally:
        for child in filter(alive, children):
            os.kill(int(child.name), signal.SIGKILL)


def alive(process: Path) -> bool:
    """Whether a process runs, and is not only waiting for somebody to ask how it ended."""
    try:
        return (process / "stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


# --- bad input -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["fig6"], "there is no experiment 'fig6'; there are fig1, fig2, "),
        (["fig1", ""], "there is no experiment ''"),
        (["--trials", "0"], "--trials must be at least 1, got 0"),
        (["--samples", "1"], "--samples must be at least 2, got 1"),
        (["--tokens", "1"], "--tokens must be at least 2, got 1"),
        (["--jobs", "0"], "--jobs must be at least 1, got 0"),
        (["--seed", "-1"], "--seed must not be negative, got -1"),
        (
            ["--jobs", "2", "--cluster", "tcp://127.0.0.1:1"],
            "--jobs is for this machine, --cluster for another",
        ),
        (["heads", "--cluster", "tcp://127.0.0.1:1"], "no Dask scheduler at tcp://127.0.0.1:1: "),
        (["heads", "--cluster", "nonsense"], "no Dask scheduler at nonsense: "),
        (["heads", "--out", "FILE"], "cannot write FILE"),
        (["heads", "--out", "FILE/below"], "cannot write FILE/below"),
    ],
)
def test_bad_input(tmp_path, monkeypatch, arguments, message):
    """One line that says what is wrong, exit code 2, and nothing written."""
    monkeypatch.setattr(executors, "cluster", functools.partial(executors.cluster, timeout=0.3))
    monkeypatch.chdir(tmp_path)
    Path("FILE").write_text("mine")
    result = CliRunner().invoke(cli.app, ["reproduce", *arguments])
    assert (result.exit_code, result.stdout) == (2, ""), result.exception
    assert result.stderr.startswith(f"limitlaw: {message}")
    assert result.stderr.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["FILE"]
    assert Path("FILE").read_text() == "mine"
