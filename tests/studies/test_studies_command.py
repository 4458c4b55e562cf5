"""The command `limitlaw studies`, as a process: what it leaves,
the same bytes on more threads, bad input.
"""

import csv
import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from limitlaw.apps import cli


def finished(out: Path, *options: str) -> subprocess.CompletedProcess:
    """The quickest study."""
    arguments = ["studies", "participation", "--quick", "--out", str(out), *options]
    environment = {**os.environ, "JAX_PLATFORMS": "cpu"}
    return subprocess.run(
        [sys.executable, "-m", "limitlaw", *arguments],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )


def data(out: Path) -> dict[str, bytes]:
    """The bytes of tables and pictures by name."""
    return {
        path.name: path.read_bytes()
        for folder in ("data", "figures")
        for path in (out / folder).iterdir()
    }


def test_what_it_leaves(tmp_path):
    """Code 0 although claims fail; all files, with the same bytes on two threads."""
    out = tmp_path / "one"
    run = finished(out, "--jobs", "1")
    progress = "participation: "  # on a busy machine
    lines = [line for line in run.stderr.splitlines() if not line.startswith(progress)]
    assert (run.returncode, lines) == (0, [])
    first, *rest, last = run.stdout.splitlines()
    assert first == "1 of 4 claims hold"
    assert [line[:17] for line in rest] == ["  does not hold: "] * 3
    assert last.startswith(f"report: {out / 'report.html'}   data: {out / 'data'}   ")
    found = data(out)
    assert set(found) == {
        "claims.csv",
        "participation.csv",
        "participation.pdf",
        "participation.png",
    }
    rows = list(csv.DictReader(found["claims.csv"].decode().splitlines()))
    assert [row["holds"] for row in rows] == ["no", "no", "no", "yes"]
    assert "limitlaw studies participation --quick" in (out / "report.html").read_text()
    assert finished(tmp_path / "two", "--jobs", "2").returncode == 0
    assert data(tmp_path / "two") == found


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["vaswani"], "there is no study 'vaswani'; there are giorlandino, participation, "),
        (["--jobs", "0"], "--jobs must be at least 1, got 0"),
        (["--seed", "-1"], "--seed must not be negative, got -1"),
        (["noci", "--out", "FILE"], "cannot write FILE"),
    ],
)
def test_bad_input(tmp_path, monkeypatch, arguments, message):
    """One line that says what is wrong, exit code 2, and nothing written."""
    monkeypatch.chdir(tmp_path)
    Path("FILE").write_text("mine")
    result = CliRunner().invoke(cli.app, ["studies", *arguments])
    assert (result.exit_code, result.stdout) == (2, ""), result.exception
    assert result.stderr.startswith(f"limitlaw: {message}")
    assert result.stderr.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["FILE"]
