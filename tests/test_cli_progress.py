"""Bars of experiments: drawn on a terminal, silent elsewhere."""

import os
import subprocess
import sys

import pytest

from limitlaw.apps.cli.running import bars

PROGRAM = """
import sys
from limitlaw.apps.cli.running import bars
with bars({"figure 1": 2, "figure 3": 4}) as advance:
    advance("figure 1", 2)
    advance("figure 3")
    print("said meanwhile", file=sys.stderr)
print("result")
"""


def test_silent(capsys):
    """Nothing is written where standard error is no terminal."""
    with bars({"figure 1": 3}) as advance:
        advance("figure 1")
        advance("figure 1", 0.5)
    assert capsys.readouterr() == ("", "")


@pytest.mark.skipif(os.name != "posix", reason="needs a pseudo-terminal")
def test_terminal():
    """A bar for each experiment with its share and the time left, on standard error;
    other lines stay whole.
    """
    ours, theirs = os.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100", "NO_COLOR": "1"}
    try:
        output = subprocess.check_output(
            [sys.executable, "-c", PROGRAM], stderr=theirs, env=environment
        )
        os.close(theirs)
        drawn = os.read(ours, 100_000).decode()
    finally:
        os.close(ours)
    assert output == b"result\n"
    last = [line for line in drawn.replace("\r", "\n").split("\n") if line.strip()]
    first_bar, second_bar = (
        next(line for line in reversed(last) if name in line) for name in ("figure 1", "figure 3")
    )
    assert "100%" in first_bar
    assert "25%" in second_bar
    assert ":--" in second_bar or "0:00" in second_bar
    assert any("said meanwhile" in line and "figure" not in line for line in last)


def test_enabled(capsys):
    """Asked for, bars are drawn anywhere; an unknown name is an error."""
    with bars({"figure 1": 4}, enabled=True) as advance:
        advance("figure 1")
        with pytest.raises(KeyError):
            advance("figure 2")
    assert "figure 1" in capsys.readouterr().err
