"""The package as it is published: metadata that agree, and dependencies that are declared."""

import ast
import importlib.metadata
import pathlib
import re
import sys
import tomllib

import pytest

import limitlaw

PACKAGE = pathlib.Path(limitlaw.__file__).parent
REPOSITORY = pathlib.Path(__file__).parent.parent
PYPROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())
PROJECT = PYPROJECT["project"]
README = PYPROJECT["tool"]["hatch"]["metadata"]["hooks"]["fancy-pypi-readme"]
CITATION = (REPOSITORY / "CITATION.cff").read_text()
OPTIONAL = ("apps", "torch", "figures")  # parts that may need an extra as they load


def requirement_names(requirements: list[str]) -> set[str]:
    """The names in a list of requirements such as "jax>=0.6"."""
    return {
        re.match(r"[A-Za-z0-9_.-]+", requirement).group().lower() for requirement in requirements
    }


def third_party(text: str, late: bool) -> set[str]:
    """Top-level names that a module imports beyond the standard library;
    with `late`, also inside functions.
    """
    tree = ast.parse(text)
    nodes = ast.walk(tree) if late else tree.body
    names = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names.add(node.module)
    return {name.split(".")[0] for name in names} - {"limitlaw"} - sys.stdlib_module_names


def undeclared(text: str, optional: bool, runtime: set[str], extras: set[str]) -> set[str]:
    """Imports that pyproject does not declare; an extra is enough for late imports
    and in optional parts.
    """
    missing = third_party(text, late=True) - runtime - extras
    return missing if optional else missing | (third_party(text, late=False) - runtime)


RUNTIME = requirement_names(PROJECT["dependencies"])
EXTRAS = {
    name
    for extra, requirements in PROJECT.get("optional-dependencies", {}).items()
    if extra != "dev"
    for name in requirement_names(requirements)
}
SOURCES = sorted(PACKAGE.rglob("*.py"))


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_are_declared(path):
    """What src imports is in pyproject's dependencies,
    or in an extra where it is imported late.
    """
    optional = path.relative_to(PACKAGE).parts[0] in OPTIONAL
    assert undeclared(path.read_text(), optional, RUNTIME, EXTRAS) == set()


def test_dependencies_are_used():
    """No runtime dependency is declared that src never imports."""
    used = set().union(*(third_party(path.read_text(), late=True) for path in SOURCES))
    assert used >= RUNTIME


def test_the_checker_can_fail():
    """An undeclared import is seen; an extra does not excuse an import as the module loads."""
    late = "def f():\n    import matplotlib"
    assert undeclared("import requests", False, {"jax"}, set()) == {"requests"}
    assert undeclared("import matplotlib.pyplot", False, {"jax"}, {"matplotlib"}) == {"matplotlib"}
    assert undeclared("import matplotlib.pyplot", True, {"jax"}, {"matplotlib"}) == set()
    assert undeclared(late, False, {"jax"}, {"matplotlib"}) == set()
    assert undeclared(late, False, {"jax"}, set()) == {"matplotlib"}
    assert (
        undeclared("import os\nimport jax.numpy as jnp\nfrom . import x", False, {"jax"}, set())
        == set()
    )


def test_version():
    """One version: in pyproject, in the installed metadata, in CITATION.cff."""
    cited = re.search(r"^version: *\"?([^\"\n]+)", CITATION, re.MULTILINE).group(1)
    assert PROJECT["version"] == cited == importlib.metadata.version("limitlaw")
    assert re.fullmatch(r"\d+\.\d+\.\d+\S*", cited)


def test_citation():
    """CITATION.cff agrees with pyproject on the licence and the authors, and cites the paper."""
    assert f"license: {PROJECT['license']}" in CITATION
    assert CITATION.startswith("cff-version:")
    for author in PROJECT["authors"]:
        assert f'name: "{author["name"]}"' in CITATION
    assert "Infinite-Width Limit of a Single Attention Layer" in CITATION


def test_files():
    """The files that pyproject promises are there, and the package says that it is typed."""
    assert (PACKAGE / "py.typed").is_file()
    assert "Typing :: Typed" in PROJECT["classifiers"]
    for name in (
        README["fragments"][0]["path"],
        *PROJECT["license-files"],
        "CITATION.cff",
    ):
        assert (REPOSITORY / name).stat().st_size > 0
    assert "MIT" in (REPOSITORY / "LICENSE").read_text()


def test_python_version():
    """The interpreter that runs the tests is one the package supports."""
    lowest = tuple(map(int, re.search(r">=(\d+)\.(\d+)", PROJECT["requires-python"]).groups()))
    assert sys.version_info >= lowest


def test_slow_tests_exist():
    """Every line of slow.txt names a function of a file of tests:
    a name that has changed marks nothing as long.
    """
    folder = pathlib.Path(__file__).parent
    lines = [
        line
        for line in (folder / "slow.txt").read_text().splitlines()
        if line and not line.startswith("#")
    ]
    for line in lines:
        file, _, test = line.partition("::")
        tree = ast.parse((folder / file).read_text())
        names = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
        assert test.partition("[")[0] in names, line


def test_readme_on_pypi_has_no_link_to_a_file():
    """Where the package is published there are no files beside the README."""
    text = (REPOSITORY / "README.md").read_text()
    for change in README["substitutions"]:
        text = re.sub(change["pattern"], change["replacement"], text)
    links = re.findall(r"\]\(([^)]*)\)", text)
    assert all(link.startswith(("http://", "https://", "#")) for link in links)
    assert "Picture: Density of one output" in text
