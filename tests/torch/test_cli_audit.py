"""The command `limitlaw audit`."""

import pytest

pytest.importorskip(
    "torch.nn", reason="limitlaw.torch is NOT tested: pip install torch==2.13.0 transformers"
)

import json
import re
import sys
import textwrap

from typer.testing import CliRunner

from limitlaw.apps.cli import app
from limitlaw.apps.cli.audit import AuditOptions, _configured, _input

pytestmark = pytest.mark.filterwarnings("ignore")

FILE = """
    import torch
    from torch import nn

    def make_model():
        module = nn.Sequential(*[nn.Linear(16, 16, bias=False) for _ in range(2)])
        with torch.no_grad():
            module[1].weight.mul_(2)
        return module

    def make_width(n):
        module = nn.Sequential(nn.Linear(5, n, bias=False), nn.Linear(n, n, bias=False))
        nn.init.normal_(module[1].weight)
        return module

    ours = {"linear": 0.5, "input": 0.5}

    def make_one():
        return nn.Linear(16, 16, bias=False)

    def broken():
        raise RuntimeError("no such thing")
"""


@pytest.fixture
def file(tmp_path):
    """A file of the user's."""
    path = tmp_path / "mymodule.py"
    path.write_text(textwrap.dedent(FILE))
    return path


def limitlaw(*arguments):
    result = CliRunner().invoke(app, [str(a) for a in arguments])
    return result.exit_code, result.stdout, result.stderr


def test_the_command_writes_a_page(file, tmp_path):
    """Table and finding on the terminal and on the page."""
    page = tmp_path / "out.html"
    code, out, err = limitlaw(
        "audit", f"{file}:make_model", "--tokens", 3, "--seeds", 8, "--samples", 16, "--html", page
    )
    assert code == 1, err
    assert re.search(r"measured, 8 seeds +predicted, n = 16", out)
    (finding,) = re.findall(
        r"! (1: its weights are [12](?:\.\d)? times as large as those of its sibling 0, .*)", out
    )
    assert finding in page.read_text()
    assert "base64," in page.read_text()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ["{file}:nothing"],
            "has no function nothing; there are make_model, make_width, make_one, broken",
        ),
        (["{file}:broken"], "broken failed: RuntimeError: no such thing"),
        (["{file}"], "the module must be given as FILE.py:FUNCTION"),
        (["nowhere.py:make"], "there is no file nowhere.py"),
        ([], "give one of FILE.py:FUNCTION and --hf CONFIG.json"),
        (["--hf", "nowhere.json"], "--hf: there is no file nowhere.json"),
        (["--hf", "{file}"], "it is no JSON file"),
        (["{file}:make_model", "--seeds", "0"], "--seeds must be a positive integer, got 0"),
        (["{file}:make_model", "--input-dim", "5"], "torch.export cannot follow this module"),
        (["{file}:make_model", "--html", "nowhere/out.html"], "there is no folder"),
        (["{file}:make_model", "--level", "all"], "--level must be fault or warning, got all"),
        (["{file}:make_model", "--quick", "--width", "8"], "--quick has neither a page nor"),
        (
            ["{file}:make_model", "--quick", "--recipe", "gpt5"],
            "--recipe must be one of transformers, gpt2",
        ),
        (["{file}:make_width", "--width", "8"], "--width must be given twice or more"),
        (
            ["--hf", "{file}", "--width", "8", "--width", "9"],
            "--width must be given twice or more",
        ),
        (
            ["{file}:make_model", "--width", "8", "--width", "9"],
            "module must be a function of the width",
        ),
    ],
)
def test_errors_are_one_line(file, arguments, said):
    """Code 2, and what is wrong."""
    code, _, err = limitlaw("audit", *(a.format(file=file) for a in arguments))
    assert code == 2
    assert said in err
    assert err.count("\n") == 1


def test_several_widths(file):
    """The function is called with each of them, and what grows is named."""
    widths = ["--width", 32, "--width", 128]
    code, out, err = limitlaw(
        "audit", f"{file}:make_width", "--tokens", 2, "--seeds", 64, "--samples", 64, *widths
    )
    assert code == 1, err
    assert "measured, width 32" in out
    assert re.search(r"! 1: its scale grows with width as n\^0\.\d+ ± 0\.\d+, expected n\^0", out)


def test_a_quick_look(file):
    """Findings as JSON and code 1, without seeds; a level, and a recipe of the user's file."""
    code, out, err = limitlaw("audit", f"{file}:make_model", "--quick", "--json")
    assert code == 1, err
    (finding,) = json.loads(out)["findings"]
    assert (finding["level"], finding["place"]) == ("warning", "1")
    assert finding["change"].startswith("for p in map(model.get_parameter, ['1.weight'])")
    code, out, _ = limitlaw("audit", f"{file}:make_model", "--quick", "--level", "fault")
    assert code == 0
    assert "What I read" in out
    code, out, _ = limitlaw("audit", f"{file}:make_one", "--quick", "--recipe", f"{file}:ours")
    assert code == 1
    assert "expected 0.5 = 0.5 (the recipe)" in out


def test_without_torch(file, monkeypatch):
    """One line that says how to get it."""
    monkeypatch.delitem(sys.modules, "limitlaw.torch")
    monkeypatch.setitem(sys.modules, "torch", None)
    code, _, err = limitlaw("audit", f"{file}:make_model")
    assert code == 2
    assert "pip install 'limitlaw[torch]'" in err


def request_of(**settings):
    return AuditOptions(**{"tokens": 4, **settings})


def test_inputs():
    """Different tokens for a vocabulary, vectors of the first Linear's width,
    or of the width that is asked for.
    """
    from torch import nn

    tokens = _input(nn.Sequential(nn.Embedding(6, 8), nn.Linear(8, 8)), request_of())
    assert tokens.shape == (1, 4)
    assert len(set(tokens[0].tolist())) == 4
    assert tokens.max() < 6
    assert _input(nn.Sequential(nn.Linear(5, 8), nn.Linear(8, 8)), request_of()).shape == (1, 4, 5)
    assert _input(nn.LayerNorm(8), request_of(input_dim=8)).shape == (1, 4, 8)
    with pytest.raises(ValueError, match="give the width of its input as --input-dim N"):
        _input(nn.LayerNorm(8), request_of())


def test_a_configuration(tmp_path):
    """The model of a configuration file with random weights, and inputs that it accepts."""
    sizes = {"n_embd": 16, "n_layer": 1, "n_head": 2, "n_positions": 8, "vocab_size": 20}
    path = tmp_path / "gpt2-config.json"
    path.write_text(json.dumps({"model_type": "gpt2", **sizes}))
    factory, inputs, kwargs = _configured(request_of(hf=path))
    assert factory()(*inputs, **kwargs).last_hidden_state.shape == (1, 4, 16)
    path.write_text("{}")
    with pytest.raises(ValueError, match="it has no model_type"):
        _configured(request_of(hf=path))


def test_the_help_says_that_it_runs_code():
    """A file of the user's is run."""
    code, out, _ = limitlaw("audit", "--help")
    assert code == 0
    assert "the code in it runs as you" in " ".join(out.split())
