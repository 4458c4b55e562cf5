"""What is refused before it is done, by how much it would take; and how true the estimates are."""

import os
import subprocess
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from typer.testing import CliRunner

import limitlaw as ll
from limitlaw import progress
from limitlaw.apps import cli
from limitlaw.apps.cli.running import bars
from limitlaw.engines import bounds, compiled, estimate
from limitlaw.engines.bounds import Call, calling, check_bytes, free_gib, later, reached, refuse
from limitlaw.engines.compiled import Compiled
from limitlaw.engines.effort import BUDGET
from limitlaw.progress import Watch

CALLED = Call("test", "ask for less")


def layer() -> ll.Wide:
    """One number of a small layer, which is drawn by every engine."""
    x = ll.initial((2,), cov=0.5 * np.eye(2) + 0.5)
    return ll.attention(ll.rmsnorm(x + ll.attention(x, 1)), 1)[0]


def blocks() -> ll.Wide:
    return ll.transformer(ll.initial((2,)), 2, 1, hidden=None)


def solved(force: bool = False) -> object:
    network = lambda c: ll.transformer(ll.initial((2,)), 2, 1, hidden=None, o_std=c)
    return ll.depth.solve(network, "correlation", 0.5, over=(0.1, 3), samples=8, force=force)


CALLS = {
    "limit": lambda **force: ll.limit(layer(), samples=64, **force),
    "kernel": lambda **force: ll.kernel(layer(), samples=64, **force),
    "average_law": lambda **force: ll.average_law(layer(), jnp.square, samples=64, **force),
    "finite": lambda **force: ll.finite(layer(), 8, 64, 0, **force),
    "finite_samples": lambda **force: ll.finite_samples(layer(), 8, 64, 0, **force),
    "simulate": lambda **force: ll.simulate(layer(), 8, 64, 0, **force),
    "trace": lambda **force: ll.trace(blocks(), "variance", samples=8, **force),
    "trace_at_width": lambda **force: ll.trace(blocks(), "variance", 8, 8, **force),
    "gradients": lambda **force: ll.gradients(blocks(), 8, 8, **force),
    "solve": solved,
    "attention_ntk": lambda **force: ll.attention_ntk(np.eye(2), 1, samples=8, **force),
}


@pytest.fixture
def no_time(monkeypatch):
    monkeypatch.setattr(BUDGET, "longest", 1e-12)
    ll.clear_cache()


# --- refusals ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CALLS)
def test_time_is_refused(no_time, name):
    """Every function says, before it draws or compiles, what its work would take."""
    function = name.removesuffix("_at_width")
    with pytest.raises(ValueError, match=rf"^{function} would take about .*force=True goes on$"):
        CALLS[name]()


@pytest.mark.parametrize("name", CALLS)
def test_memory_is_refused(monkeypatch, name):
    """And what memory."""
    monkeypatch.setattr(BUDGET, "noticed", 0)
    monkeypatch.setattr(bounds, "free_gib", lambda: 1e-9)
    ll.clear_cache()
    function = name.removesuffix("_at_width")
    with pytest.raises(
        ValueError, match=rf"^{function} would take .* GiB of memory, of 1e-09 GiB"
    ):
        CALLS[name]()


@pytest.mark.parametrize("name", ["limit", "simulate", "finite", "gradients", "attention_ntk"])
def test_force(no_time, monkeypatch, name):
    """With `force` it goes on, to the same numbers; and is refused again without."""
    monkeypatch.setattr(BUDGET, "noticed", 0)
    monkeypatch.setattr(bounds, "free_gib", lambda: 1e-9)
    CALLS[name](force=True)
    with pytest.raises(ValueError, match="force=True goes on"):
        CALLS[name]()


def test_wide_networks_are_refused_at_once(monkeypatch):
    """Ten draws of a layer at width 100,000, 4·10¹¹ numbers, without drawing one."""
    monkeypatch.setattr(estimate, "cores", lambda: 1)  # with more of them it takes minutes
    y = ll.attention(ll.initial((4,)), 2)
    start = time.process_time()
    with pytest.raises(ValueError, match=r"simulate would take about \d+ (hours|days)"):
        ll.simulate(y, width=100_000, samples=10, key=0)
    assert time.process_time() - start < 2


def test_large_matrices_are_refused_before_they_are_compiled(monkeypatch):
    """A product of 10¹¹ entries."""
    monkeypatch.setattr(compiled, "_waited_for", lambda compile: pytest.fail("compiled"))
    outer = Compiled(lambda x: jnp.sin(x[:, None] + x) @ jnp.cos(x[:, None] * x))
    with calling(CALLED), pytest.raises(ValueError, match="test would take 745 GiB of memory"):
        outer.check(1, jax.ShapeDtypeStruct((316_228,), float))


def test_laws_keep_the_leave_of_their_call():
    """What a law computes later is forced where the law was."""
    with calling(Call("limit", "ask for less", force=True)):
        forced = later(lambda: refuse("too much"))
    free = later(lambda: refuse("too much"))
    forced()
    with pytest.raises(ValueError, match="too much; force=True goes on"):
        free()
    with calling(Call("outer", "", force=True)):
        free()


def test_calls_inside_calls():
    """The outermost call is the one that the user knows."""
    with calling(Call("trace", "ask for fewer blocks")), calling(Call("limit", "never seen")):
        with pytest.raises(
            ValueError, match=r"trace would take 1e\+06 GiB .* fewer blocks; force"
        ):
            check_bytes(10**6 * 2**30)
        with pytest.raises(ValueError, match="trace would take about 2 years, longer than"):
            bounds.check_seconds(2 * 365.25 * 86400)


def test_the_first_draws_tell_how_long_the_rest_takes(monkeypatch):
    """Once a few seconds have gone by; and once only."""
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])

    def drawn(per_step: float, first: int = 4) -> None:
        watch = Watch("test")
        watch.reached(0, 1000)
        for done in range(first, 1001, first):
            now[0] += first * per_step
            reached(watch, done, 1000)

    with calling(CALLED):
        with pytest.raises(ValueError, match=r"17 minutes \(the first 8 of 1,000 took 8 s\)"):
            drawn(1.0)
        drawn(0.5)
    with calling(Call("test", "", force=True)):
        drawn(1.0)


def test_free_memory(monkeypatch, tmp_path):
    """What the system says is available, unless a container has less."""
    memory, limit, use = (tmp_path / name for name in ("meminfo", "max", "current"))
    memory.write_text("MemTotal: 8388608 kB\nMemAvailable:    2097152 kB\n")
    monkeypatch.setattr(bounds, "MEMINFO", memory)
    monkeypatch.setattr(bounds, "CGROUPS", ((limit, use),))
    assert free_gib() == 2.0
    limit.write_text("max\n")
    use.write_text(f"{2**29}\n")
    assert free_gib() == 2.0
    limit.write_text(f"{2**30}\n")
    assert free_gib() == 0.5
    memory.unlink()
    limit.unlink()
    assert free_gib() > 0.1


# --- how true the estimates are ------------------------------------------------------------------


TIME = """
import time
import jax, jax.numpy as jnp, numpy as np
jax.config.update("jax_enable_x64", True)
import limitlaw as ll
from limitlaw.engines import compiled
from limitlaw.engines.estimate import work_of

def processor_seconds(function):
    jax.block_until_ready(function())  # compiles
    start = time.process_time()
    jax.block_until_ready(function())
    return time.process_time() - start

def random(x):
    key = jax.random.key(0)
    one = lambda i: jax.random.normal(jax.random.fold_in(key, i), (512, 512)) @ x
    return jax.lax.map(one, jnp.arange(100))

products = lambda x: jax.lax.fori_loop(0, 20, lambda _, y: x @ y / 30, x)
functions = lambda x: jax.lax.fori_loop(
    0, 100, lambda _, y: jnp.exp(-y * y) + jnp.log(1 + y * y), x
)
for f, shape in ((random, (512,)), (products, (1000, 1000)), (functions, (500_000,))):
    x, jitted = np.random.default_rng(0).standard_normal(shape), jax.jit(f)
    print(f.__name__, work_of(jitted.trace(x)).seconds, processor_seconds(lambda: jitted(x)))

check, found = compiled.Work.check, []
compiled.Work.check = lambda w, calls: (found.append(calls * w.seconds), check(w, calls))
y = ll.transformer(ll.initial((4,)), 2, 2)[0]
seconds = processor_seconds(lambda: ll.simulate(y, 1024, 8, 0))
print("simulate", found[-1], seconds)
y = ll.attention(ll.initial((4,)), 2)[0]
seconds = processor_seconds(lambda: ll.finite_samples(y, 256, 300_000, 0))
print("finite", found[-1], seconds)
"""


@pytest.mark.long  # and where others use the processor it fails
def test_time():
    """Within a factor of three of the processor's seconds, for functions and for engines."""
    for line in run(TIME).splitlines():
        name, estimate, seconds = line.split()
        assert 1 / 3 < float(estimate) / float(seconds) < 3, name


MEMORY = """
import resource
import jax
jax.config.update("jax_enable_x64", True)
import limitlaw as ll
from limitlaw.engines import compiled
check, found = compiled.Work.check, []
compiled.Work.check = lambda w, calls: (found.append(w.bytes), check(w, calls))
x = ll.initial(())
W = ll.Matrix()
ll.simulate(W @ ll.relu(W @ x), 16, 1, 0)
before = int(open("/proc/self/statm").read().split()[1]) * resource.getpagesize()
ll.simulate(W @ ll.relu(W @ x), 10_000, 1, 0)
# ru_maxrss would be that of the process that started this one
peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(found[-1], 1024 * int(peak.split()[1]) - before)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_memory():
    """Within a factor of two of what is taken by a matrix that is used twice, 763 MiB."""
    estimate, taken = map(float, run(MEMORY).split())
    assert taken > 700 * 2**20
    assert 1 / 2 < estimate / taken < 2


def run(program: str) -> str:
    """What a program prints that is compiled as outside of tests."""
    environment = {name: text for name, text in os.environ.items() if name != "XLA_FLAGS"}
    return subprocess.check_output(
        [sys.executable, "-c", program], text=True, timeout=300, env=environment
    )


# --- what a log file shows -----------------------------------------------------------------------

REDIRECTED = """
import time
from limitlaw import progress
from limitlaw.engines.bounds import bounded
progress.EVERY = 0.2

@bounded("ask for less")
def kernel():
    time.sleep(0.5)
    with progress.watched("limit") as watch:
        watch.reached(0, 32)
        time.sleep(0.5)
        watch.reached(8, 32)
        time.sleep(0.5)

kernel()
print("result")
"""


def test_lines_in_a_file(tmp_path):
    """Where standard error is a file or a pipe, plain lines: compiling, at work, how far."""
    log = tmp_path / "log"
    with log.open("w") as file:
        output = subprocess.check_output(
            [sys.executable, "-c", REDIRECTED], stderr=file, text=True, timeout=60
        )
    assert output == "result\n"
    text = log.read_text()
    lines = text.splitlines()
    assert "\r" not in text
    assert 4 <= len(lines) <= 8
    assert lines[0].startswith("kernel: compiling … 0:00")
    assert any(line.startswith("kernel:   0% of 32, 0:") for line in lines)
    assert lines[-1].startswith("kernel:  25% of 32, 0:")


def test_tests_are_not_flooded(monkeypatch, capsys):
    """Nothing is written where a test reads standard error."""
    monkeypatch.setattr(progress, "EVERY", 0.01)
    with progress.watched("limit"):
        time.sleep(0.1)
    assert capsys.readouterr() == ("", "")


COMMAND = """
import time
from limitlaw import progress
from limitlaw.apps.cli.running import bars
progress.EVERY = 0.2
with bars({"fig1": 2, "fig3": 4}) as advance:
    advance("fig1")
    time.sleep(0.5)
    advance("fig3", 2)
    time.sleep(0.5)
"""


def test_lines_of_a_command():
    """The same for commands that run experiments: one line for all of them."""
    found = subprocess.run(
        [sys.executable, "-c", COMMAND], capture_output=True, text=True, timeout=60, check=True
    )
    assert found.stdout == ""
    assert found.stderr.splitlines()[-1].startswith("fig1, fig3:  50% of 6, 0:0")


# --- commands ------------------------------------------------------------------------------------

DEEP = ("--depth", "1", "--heads", "1", "--tokens", "2", "--hidden", "0", "--samples", "8")
COMMANDS = {
    "law": ("law", "--heads", "2", "--width", "8", "--samples", "64"),
    "depth": ("depth", *DEEP, "--statistics", "variance"),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_commands(no_time, name):
    """One line, which names the option that goes on."""
    found = CliRunner().invoke(cli.app, list(COMMANDS[name]))
    assert found.exit_code == 2
    (line,) = found.stderr.splitlines()
    assert "would take about" in line
    assert line.endswith("--force goes on")
    assert CliRunner().invoke(cli.app, [*COMMANDS[name], "--force"]).exit_code == 0


def test_phase(no_time, tmp_path):
    """Threads that compute the points of a diagram go on where the command does."""
    axes = ("--x", "q_std=0.5:1:2", "--y", "v_std=0.5:1:2", "--out", str(tmp_path))
    command = ["phase", "variance", *axes, *DEEP]
    found = CliRunner().invoke(cli.app, command)
    assert found.exit_code == 1
    assert "phase would take about" in found.stderr
    assert not (tmp_path / "phase.csv").exists()
    assert CliRunner().invoke(cli.app, [*command, "--force"]).exit_code == 0


def test_long_commands_end_early(monkeypatch):
    """Where the first minute shows that all would take too long."""
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])

    def command() -> None:
        with bars({"fig1": 100}) as advance:
            for done in range(100):
                now[0] += 60.0
                advance("fig1")
                assert done < 3

    with (
        calling(Call("reproduce", "--quick is a first look")),
        pytest.raises(ValueError, match=r"reproduce would take about 2 hours .*: --quick is a"),
    ):
        command()
