"""The code of the pages runs, their links lead somewhere,
formulas can be drawn, and every public name has its entry.

The site itself, with all that it checks, is built by `make docs`.
"""

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

import jax
import pytest

import limitlaw

DOCS = Path(__file__).parent.parent / "docs"
PAGES = sorted(path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md"))


def hook(name: str) -> ModuleType:
    """A hook of the site."""
    spec = importlib.util.spec_from_file_location(f"docs_{name}", DOCS / "hooks" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


blocks, checks = hook("blocks"), hook("checks")
WITH_CODE = [
    page
    for page in PAGES
    if blocks.BLOCK.search((DOCS / page).read_text()) and page not in blocks.SKIPPED
]


@pytest.mark.parametrize("page", WITH_CODE)
def test_code_runs(page: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In JAX's 32-bit mode, as it starts."""
    monkeypatch.setenv("MPLBACKEND", "agg")
    session = blocks.Session(page)
    for block in blocks.BLOCK.finditer((DOCS / page).read_text(encoding="utf-8")):
        with jax.enable_x64(False):
            session.run(block[1])
    blocks.pictures()


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page: str) -> None:
    text = (DOCS / page).read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", text):
        assert ((DOCS / page).parent / target).exists(), target


def test_every_public_name_has_an_entry() -> None:
    reference = "".join(
        (DOCS / page).read_text(encoding="utf-8") for page in PAGES if page.startswith("api/")
    )
    entries = set(re.findall(r"^::: (\S+)$", reference, re.MULTILINE))
    last = {entry.rpartition(".")[2] for entry in entries}
    # entered with all of their members
    rooms = {entry for entry in entries if entry in checks.ROOMS}
    names = [n for n in checks.public_names() if n.rpartition(".")[0] not in rooms]
    assert [name for name in names if name.rpartition(".")[2] not in last] == []


def test_every_method_of_a_law_that_the_readme_names_has_an_entry() -> None:
    """Those of SciPy included, which are inherited; and no entry is of a method that is gone."""
    readme = (DOCS.parent / "README.md").read_text(encoding="utf-8")
    named = re.search(r"a `Law`, with `([^`]*)`", readme)
    members = re.search(
        r"::: limitlaw\.Law\n.*?members: \[([^\]]*)\]",
        (DOCS / "api" / "laws.md").read_text(encoding="utf-8"),
        re.DOTALL,
    )
    assert named is not None
    assert members is not None
    entries = set(re.findall(r"\w+", members[1]))
    assert set(re.findall(r"\w+", named[1])) <= entries
    assert [name for name in entries if not hasattr(limitlaw.Law, name)] == []


def test_a_block_shows_what_it_prints_and_its_last_value() -> None:
    page = "```python\nx = 1\nprint('a')\nx + 1\n```\n"
    assert "```text\na\n2\n```" in blocks.executed(page, "page.md")
    figure = "```python\nfrom matplotlib.figure import Figure\n\nFigure()\n```\n"
    assert "![](data:image/png;base64," in blocks.executed(figure, "page.md")
    with pytest.raises(ZeroDivisionError):
        blocks.executed("```python\n1 / 0\n```\n", "page.md")


def test_what_a_page_fetches_from_elsewhere_is_a_problem(tmp_path: Path) -> None:
    ids = "".join(f'<h3 id="{name}"></h3>' for name in checks.public_names())
    (tmp_path / "a.html").write_text(
        f'{ids}<a href="https://b.org">b</a><script src="c.js"></script>'
    )
    assert checks.problems(tmp_path) == []
    (tmp_path / "b.html").write_text(
        '<script src="https://b.org/c.js"></script><img src="//b.org/d.png">'
    )
    assert checks.problems(tmp_path) == [
        "b.html fetches https://b.org/c.js",
        "b.html fetches //b.org/d.png",
    ]
    (tmp_path / "a.html").write_text("")
    assert "limitlaw.limit is in no reference" in checks.problems(tmp_path)
