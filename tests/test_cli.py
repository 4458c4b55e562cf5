"""The command: its table, its JSON, its picture,
its one-line errors, and what it does not import.
"""

import json
import math
import os
import re
import signal
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import limitlaw as ll
from limitlaw.apps import cli
from limitlaw.apps.cli import layer, output

SOURCE = Path(ll.__file__).parent
# theory.md, section 7: 2 heads, 4 tokens
VARIANCE, KURTOSIS, AT_0 = 0.391971443576, 0.121659213, 0.646080127
LABELS = [
    "variance",
    "standard deviation (sd)",
    "excess kurtosis",
    *(f"quantile {q} %" for q in (90, 99, 99.9, 99.99)),
]
LABELS += ["density at 0", "P(|y| > 3 sd)", "KL from the Gaussian"]


def succeed(*arguments: object) -> str:
    """What `limitlaw law` prints."""
    result = CliRunner().invoke(cli.app, ["law", *map(str, arguments)])
    assert result.exit_code == 0, (result.stderr, result.exception)
    return result.stdout


def fail(*arguments: object) -> str:
    """The one line with which it refuses, and nothing else, with exit code 2."""
    result = CliRunner().invoke(cli.app, ["law", *map(str, arguments)])
    assert (result.exit_code, result.stdout) == (2, ""), result.exception
    line = result.stderr.removesuffix("\n")
    assert line.startswith("limitlaw: ")
    assert "\n" not in line
    return line.removeprefix("limitlaw: ")


def figures(*arguments: object) -> dict[str, dict[str, float]]:
    """The figures of the JSON object."""
    return json.loads(succeed(*arguments, "--json"))["figures"]


def rows(table: str) -> dict[str, list[str]]:
    """The cells of the printed table by the label of the row."""
    cells = [
        [cell.strip() for cell in line.split("│")[1:-1]]
        for line in table.splitlines()
        if line.startswith("│")
    ]
    return {first: rest for first, *rest in cells}


@pytest.fixture
def kernel(tmp_path: Path) -> Path:
    """A file with a kernel of three tokens."""
    np.save(tmp_path / "kernel.npy", 0.5 + 0.5 * np.eye(3))
    return tmp_path / "kernel.npy"


# --- the table and the JSON ----------------------------------------------------------------------


def test_the_table_has_the_known_numbers() -> None:
    """Theory.md, section 7, to all digits given there, without standard errors."""
    text = succeed("--heads", 2, "--tokens", 4)
    table = rows(text)
    assert list(table) == LABELS
    assert table["variance"][0] == f"{VARIANCE:.12f}"
    assert float(table["excess kurtosis"][0]) == pytest.approx(KURTOSIS, abs=5e-10)
    assert float(table["density at 0"][0]) == pytest.approx(AT_0, abs=5e-10)
    assert table["P(|y| > 3 sd)"][1] == "0.00269979606326"
    assert "quadrature" in text
    assert "within Theorem 3.1" in text
    assert "±" not in text


def test_json_is_the_law() -> None:
    """The defaults in a new process: one object on standard output,
    and the library's figures to 1e-9.
    """
    command = [sys.executable, "-m", "limitlaw", "law", "--json"]
    run = subprocess.run(
        command, capture_output=True, text=True, timeout=120, check=True, env=_environment()
    )
    found = json.loads(run.stdout)
    law = ll.attention_law(np.eye(4), 2).marginal(0)
    sd = math.sqrt(float(law.variance()))
    expected = {
        "variance": law.variance(),
        "standard_deviation": sd,
        "excess_kurtosis": law.kurtosis(),
        **{f"quantile_{q}": law.ppf(q) for q in output.QUANTILES},
        "density_at_0": law.pdf(0.0),
        "tail_beyond_3_sd": 2 * law.sf(3 * sd),
        "kl_from_gaussian": 2.7317974473567e-4,  # by limitlaw.divergence.kl
    }
    assert {name: figure["value"] for name, figure in found["figures"].items()} == pytest.approx(
        {name: float(value) for name, value in expected.items()}, rel=1e-9
    )
    assert all(figure["error"] < 1e-11 for figure in found["figures"].values())
    assert (found["kind"], found["beyond"]) == ("quadrature", [])
    settings = {
        "heads": 2,
        "tokens": 4,
        "token": 0,
        "width": None,
        "kernel": None,
        "scaling": "sqrt",
        "q_std": 1.0,
    }
    assert found["settings"] | settings == found["settings"]


def test_many_heads_keep_the_digits_of_the_divergence() -> None:
    """κ²/48 to leading order, far below what a difference of entropies resolves."""
    found = figures("--heads", 10**6)
    assert found["kl_from_gaussian"]["value"] == pytest.approx(
        found["excess_kurtosis"]["value"] ** 2 / 48, rel=1e-5
    )


def test_finite_width_is_sampled() -> None:
    """Errors stand beside values."""
    text = succeed("--width", 64, "--samples", 2000, "--seed", 1)
    table = rows(text)
    assert "sampled (2000 components)" in text
    assert all("±" in table[label][0] for label in LABELS)
    value, error = map(float, table["variance"][0].split("±"))
    assert 0 < error < 0.01
    assert abs(value - 0.3976) < 5 * error  # 0.3976 ± 0.0003 from three times 2^16 draws


def test_narrow_heads_lie_beyond_the_theorem() -> None:
    """It says so, in the table and in the JSON;
    theory.md, section 4 has the variance for one head.
    """
    found = json.loads(succeed("--heads", 1, "--head-dim", 8, "--samples", 4096, "--json"))
    assert found["beyond"] == ["narrow heads of dimension 8"]
    assert found["kind"] == "sampled"
    variance = found["figures"]["variance"]
    assert abs(variance["value"] - 0.385685) < 5 * variance["error"]
    assert (
        output.remark(ll.Gaussian(0.0, 1.0, beyond=("a", "b")), None)
        == "exact; beyond Theorem 3.1: a, b"
    )


def test_linear_scaling_is_gaussian() -> None:
    """Uniform weights: variance 1/4 for four uncorrelated tokens,
    and every figure that of the Gaussian.
    """
    text = succeed("--scaling", "linear")
    found = {label: list(map(float, cells)) for label, cells in rows(text).items()}
    assert found["variance"][0] == 0.25
    assert found["KL from the Gaussian"] == [0, 0]
    assert all(
        x == pytest.approx(gaussian, rel=1e-11, abs=1e-14) for x, gaussian in found.values()
    )
    assert "\nexact; " in text


def test_infinitely_many_heads() -> None:
    """The Gaussian with the variance of any number of heads."""
    found = json.loads(succeed("--heads", "inf", "--json"))
    assert found["settings"]["heads"] == "inf"
    assert found["figures"]["variance"]["value"] == pytest.approx(VARIANCE, abs=5e-13)
    assert found["figures"]["excess_kurtosis"]["value"] == 0
    assert found["beyond"] == ["infinitely many heads"]


def test_options_reach_the_layer(kernel: Path) -> None:
    """Kernel, mask, token and scales are those of `attention_law`."""
    found = json.loads(
        succeed(
            "--kernel",
            kernel,
            "--mask",
            "causal",
            "--token",
            2,
            "--q-std",
            2,
            "--o-std",
            3,
            "--json",
        )
    )
    law = ll.attention_law(np.load(kernel), 2, mask="causal", q_std=2.0, o_std=3.0).marginal(2)
    assert found["figures"]["variance"]["value"] == pytest.approx(float(law.variance()), rel=1e-12)
    assert found["figures"]["excess_kurtosis"]["value"] == pytest.approx(
        float(law.kurtosis()), rel=1e-12
    )
    assert (found["settings"]["tokens"], found["settings"]["kernel"]) == (3, str(kernel))


def test_numbers_that_are_not_finite_are_null() -> None:
    """JSON has no NaN."""
    figure = output.Printed("x", "x", math.inf, math.nan, 1.0)
    text = output.as_json(output.as_object(ll.Gaussian(0.0, 1.0), [figure], {"heads": math.inf}))
    assert json.loads(text)["figures"]["x"] == {"value": None, "error": None, "gaussian": 1.0}


# --- errors --------------------------------------------------------------------------------------

BAD_OPTIONS = [
    *(("--heads", value) for value in ("0", "1.5", "two")),
    *((f"--{name}", "0") for name in ("tokens", "width", "head-dim", "samples")),
    *(("--token", value) for value in ("4", "-1")),
    ("--scaling", "cube"),
    ("--mask", "full"),
    ("--q-std", "-1"),
    ("--k-std", "inf"),
    ("--v-std", "-2"),
    ("--o-std", "-3"),
]


@pytest.mark.parametrize(("option", "value"), BAD_OPTIONS)
def test_bad_options(option: str, value: str) -> None:
    """One line that names the option, and what came."""
    line = fail(option, value)
    assert line.startswith(f"{option} must be")
    assert value in line


def test_options_that_disagree() -> None:
    assert fail("--heads", "inf", "--width", "8").endswith("leave out --width")
    assert fail("--v-std", "0").startswith("the output is always 0")


BAD_KERNELS = [
    (np.ones((2, 3)), "(2, 3)"),
    (np.ones(3), "(3,)"),
    (np.zeros((0, 0)), "(0, 0)"),
    (np.full((2, 2), np.nan), "4 NaN"),
    (np.array([[1.0, 2.0], [2.0, 1.0]]), "-1 "),
    (np.array([[1.0, 0.5], [0.2, 1.0]]), "[0, 1] = 0.5 and [1, 0] = 0.2"),
    (1j * np.eye(2), "complex128"),
]


@pytest.mark.parametrize(("matrix", "got"), BAD_KERNELS)
def test_bad_kernels(tmp_path: Path, matrix: np.ndarray, got: str) -> None:
    """One line that says what is wrong with the matrix, and how far."""
    np.save(tmp_path / "bad.npy", matrix)
    line = fail("--kernel", tmp_path / "bad.npy")
    assert line.startswith("--kernel must")
    assert got in line


def test_bad_files(tmp_path: Path, kernel: Path) -> None:
    """Files that are missing, no arrays, archives, pickles, or for another number of tokens."""
    (tmp_path / "text.npy").write_text("1 0\n0 1\n")
    (tmp_path / "empty.npy").touch()
    np.savez(tmp_path / "several.npz", a=np.eye(2))
    np.save(tmp_path / "objects.npy", np.array([None, {}]), allow_pickle=True)
    assert (
        fail("--kernel", tmp_path / "none.npy")
        == f"--kernel {tmp_path / 'none.npy'}: No such file or directory"
    )
    for name in ("text.npy", "empty.npy", "objects.npy"):
        assert fail("--kernel", tmp_path / name).endswith(
            "not a .npy file of numbers, as numpy.save writes"
        )
    assert "an archive" in fail("--kernel", tmp_path / "several.npz")
    assert fail("--kernel", kernel, "--tokens", 4).endswith("which is for 3 tokens")


def test_bad_plots(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Unknown suffixes and unwritable places are refused before anything is computed."""
    monkeypatch.setattr(layer.LayerOptions, "law", lambda *_: pytest.fail("computed something"))
    assert fail("--plot", tmp_path / "law.gif").startswith(
        "--plot must end in .png, .pdf, .svg, got "
    )
    assert "cannot be written (No such file or directory)" in fail(
        "--plot", tmp_path / "none" / "law.png"
    )
    (tmp_path / "folder.png").mkdir()
    assert fail("--plot", tmp_path / "folder.png").endswith("is a directory")


# --- the picture ---------------------------------------------------------------------------------


def test_plot(tmp_path: Path) -> None:
    """A PNG of sensible size takes the place of what was there;
    a failure leaves that as it was.
    """
    path = tmp_path / "law.png"
    path.write_text("old")
    fail("--plot", path, "--token", 7)
    assert path.read_text() == "old"
    assert rows(succeed("--plot", path, "--heads", 1))
    content = path.read_bytes()
    assert content[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = struct.unpack(">II", content[16:24])
    assert 1000 < width < 2000
    assert 400 < height < 1000
    assert len(content) > 20_000
    assert [file.name for file in tmp_path.iterdir()] == ["law.png"]


def test_curves_of_the_plot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The law at its width, the Gaussian of infinitely many heads, and that of 1/n scaling."""
    from limitlaw.figures import law as drawing

    drawn = {}

    def remember(laws: dict[str, ll.Law], title: str) -> object:
        drawn.update(laws, title=title)
        return original(laws, title)

    original = drawing.density_figure
    monkeypatch.setattr(drawing, "density_figure", remember)
    monkeypatch.setattr(output, "quantities_of", lambda law: [])
    succeed("--width", 64, "--samples", 2000, "--plot", tmp_path / "law.svg", "--json")
    labels = [
        "2 heads, n = 64",
        "Gaussian: infinitely many heads",
        "Gaussian: scores scaled by 1/n",
    ]
    assert list(drawn) == [*labels, "title"]
    assert drawn["title"] == "Attention, 2 heads, token 0 of 4, n = 64"
    _, heads, linear = (drawn[label] for label in labels)
    assert float(heads.variance()) == pytest.approx(VARIANCE, abs=1e-11)
    assert float(linear.variance()) == pytest.approx(0.25, rel=1e-12)
    assert (tmp_path / "law.svg").read_text().startswith("<?xml")


# --- the command itself --------------------------------------------------------------------------


def test_help_and_version() -> None:
    """A group with a help text, a version, and examples."""
    run = CliRunner()
    assert re.search(r"law +The law of one token's output", run.invoke(cli.app, ["--help"]).stdout)
    assert run.invoke(cli.app, ["--version"]).stdout.startswith("limitlaw ")
    text = run.invoke(cli.app, ["law", "--help"]).stdout
    assert "limitlaw law --heads 2 --tokens 4\n" in text
    assert all(
        f"--{name}" in text for name in ("kernel FILE.npy", "head-dim D", "o-std SD", "json")
    )


BARE = """
import sys
from limitlaw.apps.cli import app
app(["law", "--help"], standalone_mode=False)
print(sorted({"jax", "numpy", "scipy", "matplotlib", "rich"} & set(sys.modules)))
"""


def test_help_needs_no_heavy_module() -> None:
    """Neither the command nor the package imports one as it loads."""
    run = subprocess.run(
        [sys.executable, "-c", BARE],
        env=_environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert run.stdout.endswith("\n[]\n")


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(SOURCE.parent), "JAX_ENABLE_X64": "0"}


# --- several laws, and what made no difference ---------------------------------------------------


def test_several_heads_in_one_picture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A table for each, an array in JSON, and all of them in the picture."""
    from limitlaw.figures import law as drawing

    drawn: list[str] = []
    original = drawing.density_figure
    monkeypatch.setattr(
        drawing,
        "density_figure",
        lambda laws, title: (drawn.extend([*laws, title]), original(laws, title))[1],
    )
    found = json.loads(
        succeed("--heads", 1, "--heads", 16, "--json", "--plot", tmp_path / "law.svg")
    )
    assert [one["settings"]["heads"] for one in found] == [1, 16]
    kurtosis = [one["figures"]["excess_kurtosis"]["value"] for one in found]
    assert kurtosis[0] == pytest.approx(16 * kurtosis[1], rel=1e-9)
    assert drawn[:2] == ["1 head, n → ∞", "16 heads, n → ∞"]
    assert drawn[-1].startswith("Attention, several heads, token 0")


def test_options_that_make_no_difference_are_named() -> None:
    run = CliRunner().invoke(cli.app, ["law", "--seed", "3", "--samples", "100", "--json"])
    assert run.exit_code == 0
    assert "--samples and --seed made no difference" in run.stderr
    assert json.loads(run.stdout)["settings"]["samples"] == 100
    run = CliRunner().invoke(
        cli.app, ["law", "--width", "8", "--samples", "500", "--seed", "3", "--json"]
    )
    assert "no difference" not in run.stderr
    found = CliRunner().invoke(cli.app, ["law", "--width", "8", "--samples", "500", "--json"])
    assert json.loads(found.stdout)["settings"]["seed"] == 0
    assert json.loads(found.stdout)["settings"]["samples"] == 500


def test_the_table_is_printed_before_the_picture_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk does not take the numbers with it."""

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("matplotlib.figure.Figure.savefig", full)
    run = CliRunner().invoke(cli.app, ["law", "--plot", str(tmp_path / "law.png")])
    assert run.exit_code == 2
    assert "excess kurtosis" in run.stdout
    assert "No space left on device" in run.stderr
    assert list(tmp_path.iterdir()) == []


def test_tokens_of_an_experiment_that_has_none() -> None:
    run = CliRunner().invoke(cli.app, ["reproduce", "fig1", "--tokens", "5"])
    assert run.exit_code == 2
    assert "--tokens is the number of tokens of fig4, which is not among fig1" in run.stderr


BUSY = """
import signal, sys, time
from limitlaw.apps.cli.errors import end_promptly
from limitlaw.files import replacing
end_promptly()
signal.signal(signal.SIGINT, lambda *_: None)  # Python ends nothing, as while JAX computes
with replacing(sys.argv[1]) as file:
    file.write(b"half")
    print("busy", flush=True)
    time.sleep(60)
"""


def test_ctrl_c_ends_what_python_cannot_interrupt(tmp_path: Path) -> None:
    """Within two seconds, with nothing left half-written."""
    command = [sys.executable, "-c", BUSY, str(tmp_path / "law.png")]
    with subprocess.Popen(
        command, env=_environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"busy\n"
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=30)
    assert process.returncode == 130
    assert errors == b"limitlaw: stopped\n"
    assert list(tmp_path.iterdir()) == []
