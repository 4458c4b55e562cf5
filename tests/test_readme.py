"""The README's code runs and prints what the README says;
the example's figures agree with each other.
"""

import contextlib
import importlib.util
import io
import re
from pathlib import Path
from types import ModuleType

import jax
import pytest

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_code_of_the_readme_runs_and_prints_what_follows_it() -> None:
    """In JAX's 32-bit mode, as it starts."""
    blocks = re.findall(
        r"^```python\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?", README, re.DOTALL | re.MULTILINE
    )
    assert len(blocks) >= 2
    assert any(expected for _, expected in blocks)
    names: dict[str, object] = {}
    for code, expected in blocks:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed), jax.enable_x64(False):
            exec(compile(code, "README.md", "exec"), names)
        assert printed.getvalue() == expected
    assert getattr(names["draws"], "shape", None) == (1000, 4)
    assert str(names["report"])


def test_first_code_comes_early() -> None:
    assert README[: README.index("```python")].count("\n") < 40


@pytest.mark.parametrize("target", sorted(set(re.findall(r"\]\(([^)#:]+)\)", README))))
def test_links_of_the_readme_lead_somewhere(target: str) -> None:
    assert (ROOT / target).exists()


def test_commands_of_the_readme_are_in_the_makefile() -> None:
    commands = set(re.findall(r"(?:^|`)make ([\w-]+)", README, re.MULTILINE))
    rules = re.findall(
        r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert {"test", "example"} <= commands <= set(rules)


def test_example_agrees_with_its_exact_law(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MPLBACKEND", "agg")
    example = _example()
    monkeypatch.setattr(example, "HEADS", (1, 2))
    results = example.main(samples=400, conditions=4_000, out=tmp_path)
    picture = (tmp_path / "attention_tails.png").read_bytes()
    assert picture.startswith(b"\x89PNG")
    assert set(results) == set(example.HEADS)
    for simulated, exact, limit in results.values():
        for (a, a_error), (b, b_error) in zip(simulated, exact, strict=True):
            assert abs(a - b) < 5 * (a_error**2 + b_error**2) ** 0.5
        assert limit[0] == (pytest.approx(0.391971443576, abs=1e-8), pytest.approx(0.0, abs=1e-11))
    assert results[2][2][1] == (
        pytest.approx(0.121659213, abs=1e-7),
        pytest.approx(0.0, abs=1e-11),
    )
    printed = capsys.readouterr().out
    assert f"{results[1][0][0][0]:.4f} ± {results[1][0][0][1]:.4f}" in printed


def _example() -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        "attention_tails", ROOT / "examples" / "attention_tails.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
