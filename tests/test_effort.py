"""Default effort: how many draws there are where nobody says,
what the law says about it, and what a person sees.
"""

import io
import os
import subprocess
import sys
import threading
import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import limitlaw as ll
from limitlaw import progress
from limitlaw.engines import effort
from limitlaw.engines.bounds import most_gib
from limitlaw.engines.effort import BUDGET, Budget, Pace, default_draws

SAMPLES, LEAST, SECONDS = Budget.samples, Budget.least, Budget.seconds


def deep(tokens: int = 2, q_std: float = 1.0) -> ll.Wide:
    """Attention on the outputs of attention, whose kernel is random."""
    x = ll.initial((tokens,), cov=0.5 * np.eye(tokens) + 0.5)
    return ll.attention(ll.rmsnorm(x + ll.attention(x, 2, q_std=q_std)), 2)


def with_nodes() -> ll.Wide:
    """A user's function of outputs of attention:
    each batch of draws has its own quadrature nodes.
    """
    return ll.Matrix() @ ll.map(lambda y: y**3 / (1 + y * y), deep())


@pytest.fixture
def no_time(monkeypatch):
    """A budget that is spent after two batches."""
    monkeypatch.setattr(BUDGET, "seconds", 1e-9)
    monkeypatch.setattr(BUDGET, "sure", 0.0)


# --- the number of draws -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("per_second", "expected"),
    [(1.0, LEAST), (100.0, 1024), (1000.0, 16384), (SAMPLES / SECONDS, SAMPLES), (1e9, SAMPLES)],
)
def test_pace(monkeypatch, per_second, expected):
    """The largest power of two that takes the budget;
    compiling, before the first batch, is not drawing.
    """
    now = [0.0]
    monkeypatch.setattr(BUDGET, "seconds", SECONDS)
    monkeypatch.setattr(effort.time, "monotonic", lambda: now[0])
    pace, drawn = Pace(SAMPLES, at_most=True), 8
    now[0] += 3600.0
    pace.reached(drawn)
    while drawn < pace.samples:
        drawn += 8
        now[0] += 8 / per_second
        pace.reached(drawn)
        assert pace.samples in (SAMPLES, expected)
    assert pace.samples == expected
    text = f"{expected} of {SAMPLES} draws in a budget of 20 s"
    assert pace.effort == (text if expected < SAMPLES else "")


def test_pace_keeps_what_is_drawn(monkeypatch):
    """What has been drawn before the pace is known is not thrown away."""
    now = [0.0]
    monkeypatch.setattr(BUDGET, "seconds", SECONDS)
    monkeypatch.setattr(effort.time, "monotonic", lambda: now[0])
    pace = Pace(SAMPLES, at_most=True)
    pace.reached(600)
    now[0] = 100.0
    pace.reached(1200)
    assert pace.samples == 2048


def test_default_draws():
    """Memory decides where a law has many entries: 2^27 numbers,
    but no fewer than the least number of draws.
    """
    assert default_draws(0) == default_draws(1) == default_draws(45) == SAMPLES == 2**16
    assert default_draws(64) == 2**14
    assert default_draws(10**4) == LEAST


def test_cheap_programs_draw_all():
    """A program that is quick has as many draws as ever, and nothing to say."""
    law = ll.limit(deep()[0])
    assert law.effort == ""
    assert repr(law).startswith("GaussianMixture(65536 components, shape=(), sampled, beyond")


@pytest.mark.parametrize("write", [deep, with_nodes], ids=["plain", "with_nodes"])
def test_budget_is_a_number_of_samples(no_time, write):
    """Where time is short the law is, bit for bit,
    that of the number of samples that its repr gives.
    """
    y = write()[0]
    law = ll.limit(y)
    count = len(law._components)
    assert LEAST <= count < SAMPLES
    assert count == 2 ** int(np.log2(count))
    assert f"{count} of {SAMPLES} draws in a budget of 1e-09 s" in repr(law)
    asked = ll.limit(y, samples=count)
    assert asked.effort == ""
    for ours, theirs in zip(law._components.parameters, asked._components.parameters, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_samples_are_obeyed(no_time):
    """A number that the user gives is never cut."""
    law = ll.limit(deep()[0], samples=3 * 4096)
    assert len(law._components) == 3 * 4096
    assert law.effort == ""


@pytest.mark.parametrize(
    "law",
    [
        lambda: ll.kernel(deep()),
        lambda: ll.average_law(deep(), jnp.square),
        lambda: ll.limit(deep()),
        lambda: ll.limit(ll.softmax(ll.dot(deep(), deep()))),
        lambda: ll.limit(ll.attention(ll.initial((9,)), 3)[0]),
        lambda: ll.limit(ll.attention(ll.initial((3,)), 3)).joint,
        lambda: ll.limit(ll.attention(ll.rmsnorm(deep()), 20)[0]),
        lambda: ll.attention_law(np.eye(3), 2, width=16).marginal(0),
        lambda: ll.attention_law(np.eye(3), 2, width=16).joint,
    ],
    ids=[
        "kernel",
        "average_law",
        "joint",
        "numbers",
        "mixing",
        "tokens",
        "many_heads",
        "width",
        "width_joint",
    ],
)
def test_every_default_has_a_budget(no_time, law):
    """Everything that is drawn without a number being given keeps to the budget, and says so."""
    assert "draws in a budget of" in repr(law())


def test_effort_stays(no_time, tmp_path):
    """Marginals, images and files keep what decided the number of draws."""
    joint = ll.limit(ll.tanh(deep()))
    assert joint.effort
    for law in (joint, ll.kernel(deep()), ll.limit(deep())):
        assert law.marginal(0).effort == law.effort
    joint.save(tmp_path / "law.npz")
    assert repr(ll.load(tmp_path / "law.npz")) == repr(joint)
    tokens = ll.limit(ll.attention(ll.initial((3,)), 3))
    assert tokens.joint.effort == tokens.effort != ""


def test_traced_effort():
    """Under jax.jit nothing can be timed, and every batch is compiled:
    their number is bounded, and the law says so.
    """
    said = []

    def mean(q_std):
        law = ll.kernel(deep(24, q_std))
        said.append(repr(law))
        return law.mean()

    assert jax.eval_shape(mean, 1.0).shape == (24, 24)
    assert "draws under jax.jit or jax.grad" in said[0]


# --- memory --------------------------------------------------------------------------------------


def test_memory_of_this_machine():
    """A result may take half of the memory there is."""
    assert 0 < most_gib() <= 16


# --- what a person sees --------------------------------------------------------------------------

PROGRAM = """
import time
from limitlaw.engines.bounds import bounded
from limitlaw.progress import watched

@bounded("ask for less")
def kernel():
    time.sleep(1.4)
    with watched("limit") as watch:
        for i in range(4):
            time.sleep({step})
            watch.reached(8 * i, 32)

kernel()
print("result")
"""


def on_terminal(program: str) -> tuple[str, str]:
    """Standard output of a program, and what it shows on a terminal."""
    ours, theirs = os.openpty()
    try:
        output = subprocess.check_output(
            [sys.executable, "-c", program], stderr=theirs, text=True, timeout=60
        )
        os.close(theirs)
        os.set_blocking(ours, False)
        try:
            return output, os.read(ours, 100_000).decode()
        except OSError:  # nothing to read
            return output, ""
    finally:
        os.close(ours)


@pytest.mark.skipif(os.name != "posix", reason="needs a pseudo-terminal")
def test_terminal():
    """A line while compiling, then one with the share done and the time left; wiped at the end."""
    output, seen = on_terminal(PROGRAM.format(step=0.4))
    assert output == "result\n"
    lines = [line for line in seen.split("\r") if line.strip()]
    assert lines[0].startswith("kernel: compiling … 0:01")
    assert any("━" in line and "25% of 32" in line and "left" in line for line in lines)
    assert seen.endswith("\r") and not seen.split("\r")[-2].strip()  # noqa: PT018


@pytest.mark.skipif(os.name != "posix", reason="needs a pseudo-terminal")
def test_quick_work_is_silent():
    """Nothing is shown of what takes less than a second."""
    output, seen = on_terminal(PROGRAM.replace("1.4", "0.1").format(step=0.05))
    assert (output, seen) == ("result\n", "")


class Notebook(io.StringIO):
    """The standard error of a notebook's kernel, which is no terminal."""

    encoding = "utf-8"


Notebook.__module__ = "ipykernel.iostream"


def watch_a_while() -> None:
    with progress.watched("kernel") as watch:
        time.sleep(0.1)
        watch.reached(1, 4)
        time.sleep(0.1)


@pytest.mark.parametrize(
    ("stream", "shown"), [(Notebook, True), (io.StringIO, False)], ids=["notebook", "elsewhere"]
)
def test_notebook(monkeypatch, stream, shown):
    """The line is shown in a notebook, without IPython being imported here;
    and not in a log file.
    """
    monkeypatch.setattr(progress, "FIRST", 0.01)
    monkeypatch.setattr(progress, "AGAIN", 0.01)
    monkeypatch.setattr(sys, "stderr", stream())
    watch_a_while()
    text = sys.stderr.getvalue()
    assert ("kernel: compiling … 0:00" in text) == ("25% of 4" in text) == shown
    assert "IPython" not in sys.modules


def test_other_threads_are_silent(monkeypatch):
    """One line at a time: what another thread computes meanwhile is not shown."""
    monkeypatch.setattr(progress, "FIRST", 0.01)
    monkeypatch.setattr(progress, "AGAIN", 0.01)
    monkeypatch.setattr(sys, "stderr", Notebook())
    with progress.watched("limit"):
        thread = threading.Thread(target=watch_a_while)
        thread.start()
        thread.join()
    text = sys.stderr.getvalue()
    assert "limit: compiling" in text
    assert "kernel" not in text


INTERRUPTED = """
import os, signal, threading, time
from limitlaw.engines.compiled import _waited_for

signal.signal(signal.SIGINT, signal.default_int_handler)  # which a parent may have switched off
ended = threading.Event()
threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
start = time.monotonic()
try:
    _waited_for(lambda: ended.wait(30))
except KeyboardInterrupt:
    print(time.monotonic() - start)
ended.set()
"""


@pytest.mark.skipif(os.name != "posix", reason="sends a signal")
def test_interrupt():
    """Ctrl-C is heard while a compiler is busy in another thread."""
    waited = float(
        subprocess.check_output([sys.executable, "-c", INTERRUPTED], text=True, timeout=60)
    )
    assert waited < 10


def test_errors_of_a_compiler():
    """What fails in the other thread is raised in this one."""
    from limitlaw.engines.compiled import _waited_for

    with pytest.raises(ZeroDivisionError):
        _waited_for(lambda: 1 / 0)
