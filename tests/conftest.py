"""What all tests share: JAX in 64-bit mode, and a way to see the library's own error messages."""

import gc
import importlib.util
import itertools
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import jax
import jaxtyping
import pytest

# Most of the suite is compilation, of programs that run once: no effort of the compiler pays. With
# these flags it takes half the processor's time.
CHEAP = (
    "--xla_backend_optimization_level=0",
    "--xla_llvm_disable_expensive_passes=true",
    "--xla_cpu_parallel_codegen_split_count=1",
)
if tuple(map(int, jax.__version__.split(".")[:2])) < (0, 11):  # later ones end at a flag unknown
    CHEAP += ("--xla_cpu_use_fusion_emitters=false",)
os.environ["XLA_FLAGS"] = " ".join([os.environ.get("XLA_FLAGS", ""), *CHEAP])
jax.config.update("jax_enable_x64", True)
# Tracing makes objects by the million, most of which JAX keeps: the garbage collector's default,
# to look through them after every 700, takes a sixth of the processor's time.
gc.set_threshold(50_000, 10, 10)
MOST_MAPPINGS, MOST_BYTES, CHECKED = 45_000, 3 * 2**30, 10  # looked at after every tenth test
SLOW, QUICK = (Path(__file__).with_name(f"{name}.txt") for name in ("slow", "quick"))
_count = itertools.count()
_allowed: list[float] = [MOST_BYTES]
UNCHECKED = {"adversary", "explore", "paper", "phi", "studies", "torch"}
ARRAYS = re.compile(r"^from (jaxtyping|limitlaw\.numerics) import", re.MULTILINE)


def _with_arrays() -> list[str]:
    """The modules of limitlaw that annotate arrays. What the others say of their arguments mypy
    checks; at run time it would be a third of a test that compiles many programs.
    """
    spec = importlib.util.find_spec("limitlaw")
    assert spec is not None
    assert spec.origin is not None
    root = Path(spec.origin).parent
    files = [file for file in root.rglob("*.py") if file.name != "__init__.py"]
    names = {f: ".".join(f.relative_to(root.parent).with_suffix("").parts) for f in files}
    return [names[f] for f in files if ARRAYS.search(f.read_text(encoding="utf-8"))]


jaxtyping.install_import_hook(_with_arrays(), "beartype.beartype")


def pytest_configure(config: pytest.Config) -> None:
    """What one process of this run has compiled, no other compiles again. The next run does,
    unless JAX_COMPILATION_CACHE_DIR names a folder in which it is kept.
    """
    if not (hasattr(config, "workerinput") or os.environ.get("JAX_COMPILATION_CACHE_DIR")):
        folder = tempfile.mkdtemp(prefix="limitlaw-compiled-")
        os.environ["JAX_COMPILATION_CACHE_DIR"] = folder
        config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))
    os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
    os.environ["JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES"] = "-1"
    for name in ("COMPILATION_CACHE_DIR", "PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"):
        value = os.environ[f"JAX_{name}"]
        jax.config.update(f"jax_{name.lower()}", float(value) if name.endswith("SECS") else value)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests of which quicker ones check the same code are marked as long (`slow.txt`), and those
    of quick files as quick (`quick.txt`).
    """
    slow, quick = map(_named, (SLOW, QUICK))
    for item in items:
        name = item.nodeid.removeprefix("tests/")
        if name.startswith(slow):
            item.add_marker(pytest.mark.long)
        elif name.startswith(quick) and not item.get_closest_marker("long"):
            item.add_marker(pytest.mark.quick)


def _named(file: Path) -> tuple[str, ...]:
    """The lines of a file that are no comments."""
    lines = file.read_text(encoding="utf-8").splitlines()
    return tuple(line for line in lines if line and not line.startswith("#"))


@pytest.fixture(autouse=True)
def checked_types(request: pytest.FixtureRequest) -> Iterator[None]:
    """Types and shapes are checked while tests run,
    but where many programs are compiled: there others do it.
    """
    before = jaxtyping.config.jaxtyping_disable
    jaxtyping.config.update("jaxtyping_disable", before or request.path.parent.name in UNCHECKED)
    yield
    jaxtyping.config.update("jaxtyping_disable", before)


@pytest.fixture(autouse=True, scope="session")
def patience() -> None:
    """A slow machine changes no number that is tested:
    defaults draw all that they would on a fast one.
    """
    from limitlaw.engines.effort import BUDGET

    BUDGET.seconds = 1e6


@pytest.fixture(autouse=True)
def bounded_process() -> Iterator[None]:
    """Compiled programs are forgotten before there are so many that a process may map no more
    memory (65,530 areas), or that the processes of a run do not fit beside each other.
    """
    from limitlaw import clear_cache

    yield
    process = Path("/proc/self")
    if next(_count) % CHECKED or not process.exists():
        return
    mappings = (process / "maps").read_bytes().count(b"\n")
    if mappings > MOST_MAPPINGS or _resident() > _allowed[0]:
        clear_cache()
        jax.clear_caches()
        gc.collect()
        _allowed[0] = max(MOST_BYTES, 1.5 * _resident())  # what an allocator keeps is no reason


def _resident() -> int:
    """The bytes of memory that this process holds."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


@pytest.fixture
def as_user() -> Iterator[None]:
    """Runtime type checks off, as users run the library:
    a wrong type meets our message, not beartype's.
    """
    before = jaxtyping.config.jaxtyping_disable
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", before)
