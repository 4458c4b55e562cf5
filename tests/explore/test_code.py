"""The code that the page shows runs, and gives the numbers that the page shows."""

import contextlib
import io
from typing import Any

import numpy as np
import pytest

from limitlaw.apps.explore import answers, programs
from limitlaw.apps.explore.choice import Choice

PLAIN = Choice(tokens=2, token=1, samples=1024)
RICH = Choice(
    tokens=3,
    token=2,
    heads=2,
    head_dim=2,
    width=8,
    scale=0.7,
    correlation=0.3,
    mask="causal",
    phi="relu",
    samples=1024,
)


def executed(code: str) -> dict[str, Any]:
    """What a script defines."""
    names: dict[str, Any] = {}
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(compile(code, "code of the page", "exec"), names)
    assert printed.getvalue()
    return names


def test_code_of_everything_chosen():
    """The programs of the code are the page's, line by line."""
    for code, name, program in (
        (programs.layer_code, "y", programs.layer),
        (programs.network_code, "net", programs.network),
    ):
        text = code(RICH)
        names: dict[str, Any] = {}
        exec(text[: text.index("\nlimit = " if name == "y" else "\nstatistics = ")], names)
        assert str(names[name]) == str(program(RICH))
    for word in (
        "heads=2",
        "head_dim=2",
        'mask="causal"',
        "q_std=0.7",
        "ll.relu(",
        ")[2]",
        "width=8",
        "samples=1024",
    ):
        assert word in programs.layer_code(RICH)


@pytest.mark.parametrize(
    "choice", [PLAIN, pytest.param(RICH, marks=pytest.mark.long)], ids=["plain", "rich"]
)
def test_code_of_the_law(choice):
    """Variance, kurtosis and divergence, bit by bit."""
    names = executed(programs.layer_code(choice))
    shown = {**answers.limit(choice, lambda: False), "exact": answers.exact(choice, lambda: False)}
    for name in ("limit", "gaussian", "exact"):
        assert float(names[name].variance()) == shown[name]["numbers"]["variance"]["value"]
        assert float(names[name].kurtosis()) == shown[name]["numbers"]["kurtosis"]["value"]
    assert (
        names["divergence"].value
        == answers.more(choice, lambda: False)["exact"]["kl_limit"]["value"]
    )
    assert str(names["y"]) == str(programs.layer(choice))


def test_code_of_the_simulation():
    """The line that is commented out gives the histogram's draws."""
    code = programs.layer_code(PLAIN)
    (line,) = [line for line in code.splitlines() if line.startswith("# draws = ")]
    head = code[: code.index("limit = ")]
    short = line.removeprefix("# ").replace("range(16)", "range(2)")
    assert short != line.removeprefix("# ")
    names: dict[str, Any] = {}
    exec(head + short, names)
    assert names["draws"].shape == (2 * programs.DRAWS_AT_ONCE,)
    assert 0.5 < np.std(names["draws"]) < 1.5


@pytest.mark.parametrize(
    "choice",
    [
        Choice(tokens=2, token=1, depth=2),
        Choice(tokens=2, token=1, depth=1, width=8, compare="gradients-both"),
    ],
    ids=["limit", "gradients"],
)
def test_code_of_the_network(choice):
    """Statistics of every block, bit by bit."""
    names = executed(programs.network_code(choice))
    for trace, shown in zip(
        names["traces"], answers.depth(choice, lambda: False)["traces"], strict=True
    ):
        for name, column in shown["columns"].items():
            np.testing.assert_array_equal(trace[name].value, np.array(column["value"], float))
    assert str(names["net"]) == str(programs.network(choice))


@pytest.mark.long
def test_code_of_the_network_at_a_width():
    """The same at a width, with everything chosen."""
    test_code_of_the_network(
        Choice(3, 2, 2, 2, 8, 0.7, 0.3, "causal", "relu", 1024, 2, "post", "both")
    )
