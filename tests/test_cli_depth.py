"""The commands `limitlaw depth` and `limitlaw phase`."""

import dataclasses
import pathlib

import pytest
from typer.testing import CliRunner

from limitlaw.apps.cli import app
from limitlaw.apps.cli.depth import NetworkOptions
from limitlaw.depth.network import Network

SMALL = ["--depth", "2", "--heads", "1", "--tokens", "3", "--hidden", "0"]


def limitlaw(*arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, list(arguments))
    return result.exit_code, result.stdout, result.stderr


def test_depth(tmp_path: pathlib.Path) -> None:
    """A table for the limit and one for each width, a picture, and the numbers."""
    picture, numbers = tmp_path / "depth.png", tmp_path / "depth.csv"
    files = ["--plot", str(picture), "--csv", str(numbers)]
    code, out, _ = limitlaw(
        "depth",
        *SMALL,
        "--samples",
        "32",
        "--width",
        "8",
        "--statistics",
        "variance,entropy",
        *files,
    )
    assert code == 0
    assert "n → ∞, 32 draws" in out
    assert "n = 8, 32 draws" in out
    assert picture.read_bytes().startswith(b"\x89PNG")
    lines = numbers.read_text().splitlines()
    assert lines[0] == "layer,statistic,value,error,spread,width"
    assert len(lines) == 1 + 2 * 2 * 3
    assert lines[1] == "0,variance,1,0,0,inf"


def test_gradients(tmp_path: pathlib.Path) -> None:
    """A table of their own, and rows among the numbers."""
    numbers = tmp_path / "depth.csv"
    code, out, _ = limitlaw(
        "depth",
        *("--depth", "1", "--heads", "1", "--tokens", "2", "--hidden", "0", "--norm", "none"),
        *("--samples", "16", "--statistics", "variance", "--gradients", "--csv", str(numbers)),
    )
    assert code == 0
    assert out.count("n → ∞, 16 draws") == 2
    assert "gradient of" in out
    found = {line.split(",")[1] for line in numbers.read_text().splitlines()[1:]}
    assert {"variance", "gradient", "gradient_ratio", "gradient_W_Q"} <= found


def test_phase_goes_on(tmp_path: pathlib.Path) -> None:
    """The same bytes however it was cut: a chunk that is missing is computed again."""
    command = [
        "phase",
        "entropy",
        "--x",
        "q_std=0.1:10:3",
        "--y",
        "scale=0.5:1:2",
        *SMALL,
        "--samples",
        "16",
    ]
    code, out, _ = limitlaw(*command, "--out", str(tmp_path / "a"), "--jobs", "1")
    assert code == 0
    assert "6 points" in out
    first = (tmp_path / "a" / "phase.csv").read_bytes()
    chunks = sorted((tmp_path / "a" / "chunks").glob("*.chunk"))
    assert len(chunks) == 6
    for chunk in chunks[::2]:
        chunk.unlink()
    (tmp_path / "a" / "phase.csv").unlink()
    assert limitlaw(*command, "--out", str(tmp_path / "a"), "--jobs", "2")[0] == 0
    assert (tmp_path / "a" / "phase.csv").read_bytes() == first
    assert (tmp_path / "a" / "phase.png").exists()
    rows = first.decode().splitlines()
    assert rows[0] == "q_std,scale,value,error,spread"
    values = [float(row.split(",")[2]) for row in rows[1:4]]
    assert values[0] > values[1] > values[2]  # larger scores, less entropy


def test_options_are_those_of_a_network() -> None:
    """One for each setting, with the same default."""
    own, theirs = (
        {field.name: field.default for field in dataclasses.fields(kind)}
        for kind in (NetworkOptions, Network)
    )
    assert own == theirs


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["depth", "--tokens", "0"], "--tokens must be a positive integer, got 0"),
        (["depth", "--norm", "both"], "--norm must be one of"),
        (["depth", "--statistics", "foo"], "--statistics must be functions or among"),
        (["depth", "--correlation", "2"], "--correlation must be between"),
        (["depth", "--every", "0"], "--every must be a positive integer"),
        (["depth", "--plot", "x.jpg"], "--plot must end in"),
        (["depth", "--csv", "."], "--csv .: is a directory"),
        (
            ["phase", "entropy", "--x", "q_std", "--y", "scale=1:2:2"],
            "--x must look like q_std=0.1:10:8",
        ),
        (
            ["phase", "entropy", "--x", "foo=1:2:2", "--y", "scale=1:2:2"],
            "--x must be one of scale, q_std",
        ),
        (["phase", "entropy", "--x", "scale=1:2:2", "--y", "scale=1:2:2"], "two different scales"),
        (
            ["phase", "entropy", "--x", "q_std=1:2:2", "--y", "scale=1:2:2", "--at", "99"],
            "--at must be one of 0 … 12",
        ),
        (
            ["phase", "entropy", "--x", "q_std=1:2:2", "--y", "scale=1:2:2", "--jobs", "0"],
            "--jobs must be at least 1",
        ),
    ],
)
def test_errors(arguments: list[str], message: str) -> None:
    """One line that names the option."""
    code, _, error = limitlaw(*arguments)
    assert code == 2
    assert message in error
    assert error.startswith("limitlaw: ")
    assert error.count("\n") == 1


@pytest.mark.long
def test_the_initial_loss() -> None:
    """Beside ln V, as n → ∞ and at a width; a tied head needs one."""
    few = [*SMALL, "--samples", "32", "--statistics", "variance"]
    code, out, _ = limitlaw("depth", *few, "--vocab", "50", "--width", "8")
    assert code == 0
    assert "n → ∞: initial loss 4.39" in out
    assert "n = 8: initial loss 4.39" in out
    code, out, _ = limitlaw("depth", *few, "--vocab", "50", "--width", "16", "--tied")
    assert code == 0
    assert "the own token's" in out
    code, _, error = limitlaw("depth", *few, "--vocab", "50", "--tied")
    assert code != 0
    assert "--tied needs --width" in error
