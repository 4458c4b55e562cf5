"""Imports point one way (docs/architecture.md, "The rooms"), private JAX is not used,
and public names are documented.
"""

import ast
import dataclasses
import graphlib
import importlib
import inspect
import pathlib
from collections.abc import Callable, Iterator

import pytest

import limitlaw
from instructions import INSTRUCTIONS
from limitlaw.core.kinds import Instruction
from limitlaw.engines.engine import Draw

ROOT = pathlib.Path(limitlaw.__file__).parent
LEAVES = {
    "digits",
    "domain",
    "files",
    "float64",
    "functions",
    "notebook",
    "progress",
}  # importable from everywhere, importing nothing of limitlaw
# A part imports only parts of lower rank; "" is limitlaw/__init__.py.
RANK = dict.fromkeys(LEAVES, -1) | {
    "arguments": 0,
    "numerics": 1,
    "phi": 2,
    "core": 3,
    "laws": 3,
    "language": 4,
    "nn": 5,
    "backward": 5,
    "engines": 5,
    "divergence": 5,
    "runs": 5,
    "figures": 5,
    "reports": 6,
    "presets": 6,
    "tangent": 6,
    "depth": 6,
    "learning": 6,
    "public": 7,
    "": 8,
    "torch": 9,
    "explore": 9,
    "paper": 10,
    "studies": 11,
    "learn": 11,
    "cli": 12,
    "__main__": 13,
}
# Parts that import less than their rank allows.
ONLY = {
    "runs": {"files", "float64"},
    "figures": {"digits", "files", "laws"},
    "reports": {"digits", "files", "figures"},
}
SHOWING = {"experiment", "report", "shown"}  # what of paper may see pictures
# The rooms inside a part, its files and folders (with a slash), are ranked as parts are; "*" is
# any other one: in paper, the experiments. Rooms of one rank may import each other, but not
# experiments.
INSIDE = {
    "paper": {
        "computed/": 0,
        "shown/": 1,
        "experiment": 2,
        "*": 3,
        "catalogue": 4,
        "reproduce": 5,
        "report": 5,
    },
    "studies": {"settings": 0, "look": 0, "tracing": 0, "*": 1, "report": 2},
    "core": {"space": 0, "labelled": 1, "kinds": 2, "loops": 3, "linear": 3, "instructions": 4}
    | dict.fromkeys(("program", "covariance"), 5)
    | {"*": 6, "transposes": 7, "check": 8},
    "depth": dict.fromkeys(("statistics", "network", "layers"), 0)
    | dict.fromkeys(("coordinates", "figures", "table", "summaries", "readout"), 1)
    | {"gradients": 2, "trace": 3, "*": 4},
    "learning": dict.fromkeys(("regression", "tempering"), 0)
    | {"problem": 1, "answer": 2, "figures": 2, "sampling": 2, "posterior": 3, "*": 3},
    "backward": {"entries": 0, "pullbacks": 0, "uses": 0, "reverse": 1, "*": 2},
    "language": {
        "shapes": 0,
        "tree": 1,
        "matrices": 2,
        "batch_ops": 2,
        "ops": 3,
        "iterations": 4,
        "broadcasting": 3,
        "lower_batch_ops": 4,
        "lower": 5,
        "indexable": 6,
        "values": 7,
        "writing_out": 9,
        "*": 8,
    },
    "engines": dict.fromkeys(
        ("effort", "bounds", "compiled", "estimate", "engine", "law", "meeting", "reading"), 0
    )
    | {"run": 1, "dense/": 2, "frames/": 2, "limit/": 3, "heads/": 4, "*": 5},
}
APART = {"paper", "studies"}  # where rooms of one rank do not import each other


@dataclasses.dataclass(frozen=True)
class Import:
    """`source` imports `target`, both dotted; `late` inside a function or for type
    checkers only.
    """

    source: str
    target: str
    late: bool

    def __str__(self) -> str:
        return f"{self.source} imports {self.target}"


def module_name(path: pathlib.Path) -> str:
    """The dotted name of a source file."""
    parts = path.relative_to(ROOT.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


SOURCES = {module_name(path): path.read_text() for path in sorted(ROOT.rglob("*.py"))}
PACKAGES = {module_name(path) for path in ROOT.rglob("__init__.py")}


def short(name: str) -> str:
    """A dotted name without the folder of what is run rather than imported."""
    return name.replace("limitlaw.apps.", "limitlaw.", 1)


SHORT = set(map(short, SOURCES))


def imports(module: str, text: str, packages: set[str] = PACKAGES) -> list[Import]:
    """Every import of a module; `from package import name` gives "package.name",
    whether module or object.
    """
    found = []

    def visit(node: ast.AST, late: bool) -> None:
        if isinstance(node, ast.Import):
            found.extend(Import(module, alias.name, late) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parents = module.split(".")[: None if module in packages else -1]
            base = parents[: len(parents) + 1 - node.level] if node.level else []
            source = ".".join([*base, *([node.module] if node.module else [])])
            found.extend(Import(module, f"{source}.{alias.name}", late) for alias in node.names)
        late = late or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        late = late or (isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test))
        for child in ast.iter_child_nodes(node):
            visit(child, late)

    visit(ast.parse(text), False)
    return found


def part(name: str) -> str:
    """The part of limitlaw a dotted name belongs to: a subpackage,
    a top-level module, or "" for its public names.
    """
    first = [*short(name).split("."), ""][1]
    return first if first in RANK or f"limitlaw.{first}" in SHORT else ""


def problems(found: list[Import]) -> Iterator[str]:
    """The imports that docs/architecture.md forbids."""
    for item in found:
        if item.target.split(".")[0] != "limitlaw":
            continue
        source, target = part(item.source), part(item.target)
        if (item.source, item.target, item.late) == (
            "limitlaw.laws.base",
            "limitlaw.figures.plot.plot",
            True,
        ):
            continue  # a law that draws itself, where it is asked to
        if source not in RANK or target not in RANK:
            yield f"{item}: give it a place in RANK"
        elif source in LEAVES or (source != target and RANK[source] <= RANK[target]):
            yield f"{item}: against the direction of imports"
        elif (item.source, target, item.late) == ("limitlaw.apps.cli.audit", "torch", True):
            continue  # the command that audits modules, where it is asked to
        elif source != target and (
            target == "torch" or (target == "cli" and source != "__main__")
        ):
            yield f"{item}: nothing imports {target}"
        elif source != target and source in ONLY and target not in ONLY[source]:
            yield f"{item}: {source} imports only {', '.join(sorted(ONLY[source]))}"
        elif source == target and source in INSIDE and not points_down(item, source):
            yield f"{item}: against the direction of imports inside {source}"
        elif (source, target) == ("engines", "language"):
            yield f"{item}: engines read the core language"
        elif (source == "paper" and target in ("figures", "reports")) and SHOWING.isdisjoint(
            item.source.split(".")
        ):
            yield f"{item}: no number depends on a picture"
        elif (
            "dense" in (here := {engine(item.source), engine(item.target)})
            and here & OTHER_ENGINES
        ):
            yield f"{item}: the dense engine and the others never meet"
        elif source in ("core", "language") and item.late and not item.target.startswith(PRINTING):
            yield f"{item}: late imports inside language are for printing only"


def room(name: str) -> str:
    """The file or folder (with a slash) of its part that a dotted name belongs to;
    "" for the part itself.
    """
    child = [*short(name).split("."), "", ""][2]
    whole = f"limitlaw.{part(name)}.{child}"
    if whole in map(short, PACKAGES):
        return f"{child}/"
    return child if whole in SHORT or part(name) not in INSIDE else ""


def points_down(item: Import, where: str) -> bool:
    """Whether a room of a part imports itself, a lower one, or the part's own name."""
    source, target = room(item.source), room(item.target)
    if (
        "" in (source, target)
        or source == target
        or (item.late and item.target.startswith(PRINTING))
    ):
        return True
    rank = INSIDE[where]
    above, below = rank.get(source, rank["*"]), rank.get(target, rank["*"])
    return above > below or (above == below and where not in APART)


OTHER_ENGINES = {"frames", "limit", "heads"}
PRINTING = "limitlaw.language.printing."


def engine(name: str) -> str:
    """The module of limitlaw.engines that a name belongs to."""
    parts = name.split(".")
    return parts[2] if parts[:2] == ["limitlaw", "engines"] and len(parts) > 2 else ""


Graph = dict[str, set[str]]


def of_files(name: str) -> str:
    """The module that a dotted name is, or is in."""
    return name if name in SOURCES else name.rpartition(".")[0]


def of_folders(name: str) -> str:
    """The folder of a module; where a folder has folders in it,
    its own files stand for themselves.
    """
    module = of_files(name)
    folder = module if module in PACKAGES else module.rpartition(".")[0]
    holds_folders = any(other.startswith(f"{folder}.") for other in PACKAGES)
    return module if holds_folders else folder


def graph(found: list[Import], node: Callable[[str], str] = of_files) -> Graph:
    """Who imports whom as modules load."""
    drawn: Graph = {}
    for item in found:
        source, target = node(item.source), node(item.target)
        if not item.late and source != target and item.target.split(".")[0] == "limitlaw":
            drawn.setdefault(source, set()).add(target)
    return drawn


def drawing(arrows: Graph) -> str:
    """One line for each room: what it imports."""
    short = "limitlaw."
    lines = [
        f"{a.removeprefix(short)} → {', '.join(sorted(b.removeprefix(short) for b in arrows[a]))}"
        for a in arrows
    ]
    return "\n".join(sorted(lines))


def cycle(found: list[Import], node: Callable[[str], str] = of_files) -> list[str]:
    """A cycle of files, or of folders, that import each other as they load, or nothing."""
    try:
        graphlib.TopologicalSorter(graph(found, node)).prepare()
    except graphlib.CycleError as error:
        return error.args[1]
    return []


def private_jax(text: str) -> set[str]:
    """Dotted names below jax that are not public:
    underscores, jax.interpreters, jax.core but for Tracer.
    """
    tree = ast.parse(text)
    alias = {"jax": "jax"}
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {name.name for name in node.names}
            alias |= {name.asname: name.name for name in node.names if name.asname}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names |= {f"{node.module}.{name.name}" for name in node.names}
            alias |= {
                name.asname or name.name: f"{node.module}.{name.name}" for name in node.names
            }
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            root, dot, rest = ast.unparse(node).partition(".")
            names.add(alias.get(root, "") + dot + rest)
    return {name for name in names if name.startswith("jax.") and not _public(name)}


def _public(name: str) -> bool:
    parts = name.split(".")
    private = any(piece.startswith("_") and not piece.startswith("__") for piece in parts)
    if private or parts[1] == "interpreters":
        return False
    return parts[1] != "core" or parts[2:3] in ([], ["Tracer"])


def everything() -> list[Import]:
    """All imports of the package."""
    return [item for module, text in SOURCES.items() for item in imports(module, text)]


def test_imports_point_one_way():
    """cli → paper → runs, figures → nn, engines,
    divergence → language → core, laws → phi → numerics.
    """
    assert list(problems(everything())) == []


def test_no_cycles():
    """Files load in an order, and so do folders."""
    assert cycle(everything()) == [], drawing(graph(everything()))
    assert cycle(everything(), of_folders) == [], drawing(graph(everything(), of_folders))


def test_the_drawing_shows_the_house():
    """Folders, and the files beside folders, with what they import."""
    lines = drawing(graph(everything(), of_folders)).splitlines()
    (frames,) = [line for line in lines if line.startswith("engines.frames →")]
    assert {"core", "engines.engine", "numerics"} <= set(frames.split("→ ")[1].split(", "))
    assert not any(
        "language" in line for line in lines if line.startswith(("core →", "engines.dense →"))
    )


def tables() -> dict[str, set[type[Instruction]]]:
    """The rules of every engine, by the name of its draws."""
    for module in SOURCES:
        if part(module) == "engines":
            importlib.import_module(module)
    found, kinds = {}, [Draw]
    while kinds:
        kind = kinds.pop()
        kinds += kind.__subclasses__()
        if kind is not Draw and part(kind.__module__) == "engines":
            found[kind.__name__] = set(kind.rules)
    return found


def incomplete(found: dict[str, set[type[Instruction]]]) -> dict[str, set[type[Instruction]]]:
    """The engines that lack a rule, or have one for what is no instruction, and for which."""
    lacking = {
        name: {kind for kind in INSTRUCTIONS if rules.isdisjoint(kind.__mro__)}
        for name, rules in found.items()
    }
    strange = {
        name: {kind for kind in rules if not issubclass(kind, Instruction)}
        for name, rules in found.items()
    }
    return {name: lacking[name] | strange[name] for name in found if lacking[name] | strange[name]}


def test_every_engine_has_a_rule_for_every_instruction():
    """An engine is a table, and the table is complete; one that lacks a rule is seen."""
    found = tables()
    assert {"DenseDraw", "FramesDraw"} <= set(found)
    assert incomplete(found) == {}
    first, *others = INSTRUCTIONS
    assert incomplete({"Half": set(others)}) == {"Half": {first}}


@pytest.mark.parametrize("package", sorted(PACKAGES))
def test_folders_say_what_they_hold(package):
    """Every folder has a docstring."""
    assert ast.get_docstring(ast.parse(SOURCES[package]))


@pytest.mark.parametrize("module", SOURCES)
def test_no_private_jax(module):
    """Only the public API of JAX."""
    assert private_jax(SOURCES[module]) == set()


# of the standard library, in spite of their names
PUBLIC = {"_asdict", "_exit", "_fields", "_replace"}


def privates(text: str) -> set[str]:
    """Attributes with an underscore in front that are asked of anything but `self` and `cls`."""
    found = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Attribute)]
    hidden = [
        node for node in found if node.attr.startswith("_") and not node.attr.startswith("__")
    ]
    foreign = [node for node in hidden if ast.unparse(node.value) not in ("self", "cls")]
    return {ast.unparse(node) for node in foreign if node.attr not in PUBLIC}


READERS = [
    module for module in SOURCES if part(module) in ("divergence", "cli", "figures", "experiments")
]


@pytest.mark.parametrize("module", READERS)
def test_laws_are_read_by_their_public_methods(module):
    """What divergences, the command line and pictures need of a law, every law says in public."""
    assert privates(SOURCES[module]) == set()


def test_each_file_name_stands_for_one_thing():
    """In the parts below the engines no two files have one name."""
    low = [
        name.split(".")[-1]
        for name in SOURCES
        if part(name) in ("numerics", "phi", "laws", "divergence")
    ]
    assert {name for name in low if low.count(name) > 1} == set()


@pytest.mark.parametrize("name", limitlaw.__all__)
def test_public_names(name):
    """Every public name exists and has a docstring."""
    assert inspect.getdoc(getattr(limitlaw, name))


def test_public_names_are_complete():
    """__all__ is sorted, without repetition, and holds every public object that
    public.py imports.
    """
    assert list(limitlaw.__all__) == sorted(set(limitlaw.__all__))
    found = imports("limitlaw.public", SOURCES["limitlaw.public"])
    imported = {
        item.target.split(".")[-1] for item in found if item.target.startswith("limitlaw.")
    }
    assert imported == set(limitlaw.__all__)


VIOLATIONS = [
    ("limitlaw.numerics.random", "from limitlaw.language import ops"),
    ("limitlaw.numerics.random", "def f():\n    from limitlaw.phi import relu"),
    ("limitlaw.phi.waves", "from ..laws import Law"),
    ("limitlaw.language.ops", "import limitlaw.engines.dense"),
    ("limitlaw.language.ops", "from limitlaw import initial"),
    ("limitlaw.language.ops", "import limitlaw"),
    ("limitlaw.language.ops", "def f():\n    from limitlaw.language.values import Wide"),
    ("limitlaw.laws.gaussian", "from limitlaw.core.space import n"),
    ("limitlaw.nn.attention", "from limitlaw.engines import limit"),
    ("limitlaw.arguments", "from limitlaw.numerics import random"),
    ("limitlaw.progress", "from limitlaw.arguments import positive_int"),
    ("limitlaw.engines.dense", "from limitlaw.engines import frames"),
    ("limitlaw.engines.dense", "from limitlaw.engines.limit import draw"),
    ("limitlaw.engines.frames", "from ..dense import evaluate"),
    ("limitlaw.figures.density", "from limitlaw.engines.limit import limit"),
    ("limitlaw.figures.density", "import limitlaw as ll"),
    ("limitlaw.figures.density", "from limitlaw.apps.paper.settings import Settings"),
    ("limitlaw.figures.density", "from limitlaw.runs import Table"),
    ("limitlaw.runs.chunks", "from limitlaw.figures import style"),
    ("limitlaw.runs.chunks", "from limitlaw.apps.paper import settings"),
    ("limitlaw.runs.chunks", "def f():\n    from limitlaw.engines.limit import limit"),
    ("limitlaw.runs.chunks", "import limitlaw as ll"),
    ("limitlaw.runs.chunks", "from limitlaw.laws import Law"),
    ("limitlaw.engines.limit", "from limitlaw.runs import run"),
    ("limitlaw.laws.base", "from limitlaw.figures.law import density_figure"),
    ("limitlaw.files", "from limitlaw.digits import short"),
    ("limitlaw.core.labelled", "from limitlaw.core.program import Program"),
    ("limitlaw.core.analysis", "from limitlaw.core.check import check"),
    ("limitlaw.core.labelled", "from limitlaw.engines.engine import Draw"),
    ("limitlaw.language.shapes", "from limitlaw.language.values import Wide"),
    ("limitlaw.engines.engine", "from limitlaw.engines.run import batched"),
    ("limitlaw.engines.run", "from limitlaw.engines.frames.draw import FramesDraw"),
    ("limitlaw.engines.frames.draw", "from limitlaw.engines.limit import limit"),
    ("limitlaw.engines.frames.draw", "from limitlaw.engines import coupled"),
    ("limitlaw.engines.frames.draw", "from limitlaw.language.values import Wide"),
    ("limitlaw.engines.run", "def f():\n    from limitlaw.language import ops"),
    ("limitlaw.apps.paper.reproduce", "from limitlaw.torch import convert"),
    ("limitlaw.apps.paper.reproduce", "from limitlaw.apps import cli"),
    ("limitlaw.apps.paper.reproduce", "from limitlaw.apps.studies import report"),
    ("limitlaw.apps.studies.noci", "from limitlaw.apps.studies.tails import network"),
    ("limitlaw.apps.studies.tracing", "from limitlaw.apps.studies import noci"),
    ("limitlaw.engines.limit", "from limitlaw.depth import Statistic"),
    ("limitlaw.apps.paper.fig2", "from limitlaw.apps.paper.fig1 import WIDTHS"),
    ("limitlaw.apps.paper.fig2.shown", "from limitlaw.apps.paper.fig1 import shown"),
    ("limitlaw.apps.paper.computed.tasks", "from limitlaw.apps.paper.fig1 import WIDTHS"),
    ("limitlaw.apps.paper.computed.tasks", "from limitlaw.apps.paper.shown import claims"),
    ("limitlaw.apps.paper.shown.look", "from limitlaw.apps.paper import catalogue"),
    (
        "limitlaw.apps.paper.fig1",
        "def f():\n    from limitlaw.apps.paper.catalogue import EXPERIMENTS",
    ),
    ("limitlaw.apps.paper.fig1", "from limitlaw.figures import style"),
    ("limitlaw.apps.paper.computed.tasks", "from limitlaw.figures.picture import Picture"),
    ("limitlaw", "from limitlaw.apps.cli import main"),
    ("limitlaw.apps.cli", "import limitlaw.torch"),
    ("limitlaw.apps.cli.audit", "import limitlaw.torch"),
    ("limitlaw.apps.cli.depth", "def f():\n    import limitlaw.torch"),
]


@pytest.mark.parametrize(("module", "text"), VIOLATIONS)
def test_the_checker_sees_violations(module, text):
    """The checker can fail: each forbidden import is one problem."""
    assert len(list(problems(imports(module, text)))) == 1


ALLOWED = [
    ("limitlaw.apps.cli", "from limitlaw.apps.paper import catalogue\nimport limitlaw as ll"),
    ("limitlaw.figures.density", "from limitlaw.laws import Law\nfrom . import style"),
    ("limitlaw.runs.store", "from limitlaw import files\nfrom limitlaw.runs.chunks import Chunk"),
    (
        "limitlaw.apps.paper.computed.tasks",
        "import limitlaw as ll\nfrom limitlaw.runs import Chunk",
    ),
    (
        "limitlaw.apps.paper.fig1",
        "from limitlaw.apps.paper.fig1 import shown\nimport limitlaw.apps.paper.computed.tasks",
    ),
    (
        "limitlaw.apps.paper.fig1.shown",
        "from limitlaw.figures import style\nfrom limitlaw.apps.paper.shown import look",
    ),
    (
        "limitlaw.apps.studies.noci",
        "import limitlaw as ll\nfrom limitlaw.apps.paper.experiment import Experiment",
    ),
    ("limitlaw.depth.figures", "from limitlaw.figures.panels import panels_of"),
    (
        "limitlaw.apps.paper.catalogue",
        "from limitlaw.apps import paper\nfrom limitlaw.apps.paper.experiment import Experiment",
    ),
    (
        "limitlaw.engines.finite",
        "from limitlaw.engines import conditional\nfrom .common import outputs",
    ),
    ("limitlaw.engines.agreement", "from limitlaw.engines import conditional, dense"),
    ("limitlaw.language.values", "def f():\n    from limitlaw.language.printing import text"),
    ("limitlaw.__main__", "from limitlaw.apps.cli import main"),
    ("limitlaw.apps.cli.audit", "def f():\n    import limitlaw.torch"),
    ("limitlaw.torch.convert", "import torch\nfrom limitlaw.nn.attention import attention"),
    ("limitlaw.numerics.random", "from limitlaw.arguments import positive_int\nimport jax"),
]


@pytest.mark.parametrize(("module", "text"), ALLOWED)
def test_the_checker_lets_good_imports_pass(module, text):
    """The checker can pass."""
    assert list(problems(imports(module, text))) == []


def test_the_checker_sees_cycles_and_private_names():
    """A cycle as modules load is one, a late import is not;
    private JAX is seen through aliases.
    """
    ops, values = "limitlaw.language.ops", "limitlaw.language.values"
    late = imports(values, f"def f():\n    import {ops}")
    there = imports("limitlaw.core.demand", "from limitlaw.language.lower import lowered")
    back = imports("limitlaw.language.shapes", "from limitlaw.core.labelled import Axis")
    assert cycle([*there, *back], of_folders)
    assert not cycle([*there, *back])
    assert cycle([*imports(ops, f"import {values}"), *imports(values, f"from {ops} import Op")])
    assert not cycle([*imports(ops, f"import {values}"), *late])
    assert privates("law._other\nself._other\nlaw.__class__") == {"law._other"}
    assert private_jax("import jax._src.core") == {"jax._src.core"}
    assert private_jax("from jax.interpreters import ad") == {"jax.interpreters.ad"}
    assert private_jax("import jax\njax.core.eval_jaxpr") == {"jax.core.eval_jaxpr"}
    assert private_jax("from jax import core\ncore.eval_jaxpr") == {"jax.core.eval_jaxpr"}
    assert private_jax("from jax import numpy as jnp\njnp._private.f")
    assert private_jax("import jax\njax.core.Tracer\njax.numpy.sum\njax.__version__") == set()
