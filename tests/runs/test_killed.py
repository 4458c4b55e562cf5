"""Runs that are killed and interrupted end with the same bytes as one that is left alone."""

import random
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import toy_chunks
from toy_chunks import computed, table_of, toys

from limitlaw.runs import Store, local, run, write_csv

COUNT = 24
KILLS = 3
SECONDS = 0.1  # that a chunk takes, where a run is to be interrupted


@pytest.fixture(scope="module")
def expected(tmp_path_factory) -> bytes:
    """The CSV of a run that nobody disturbs."""
    folder = tmp_path_factory.mktemp("undisturbed")
    with local(1) as executor:
        write_csv(
            folder / "toys.csv", table_of(run(toys(COUNT, 0), Store(folder / "chunks"), executor))
        )
    return (folder / "toys.csv").read_bytes()


def start(out: Path, jobs: int, **more: object) -> subprocess.Popen:
    """A run in another process."""
    environment = toy_chunks.environment(log=out / "log", **more)
    command = toy_chunks.command(out, jobs, COUNT)
    return subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


@pytest.fixture
def resume(tmp_path, monkeypatch) -> Callable[[int], None]:
    """The same run in this process, with a number of jobs, left alone."""
    monkeypatch.setenv("TOY_LOG", str(tmp_path / "log"))
    return lambda jobs: toy_chunks.main(str(tmp_path), str(jobs), str(COUNT), "0")


def assert_whole(out: Path, expected: bytes) -> None:
    """The CSV is the expected one, every chunk is good, and nothing else lies around."""
    assert (out / "toys.csv").read_bytes() == expected
    store = Store(out / "chunks", warn=pytest.fail)
    assert {path.name for path in store.folder.iterdir()} == {
        store.path(chunk).name for chunk in toys(COUNT, 0)
    }
    assert all(store.get(chunk) for chunk in toys(COUNT, 0))


@pytest.mark.parametrize("jobs", [1, 2, 3])
def test_killed_at_any_moment(tmp_path, expected, resume, jobs):
    """SIGKILL at random moments; the run that is left alone computes what is missing and ends with
    the same bytes.
    """
    moments = random.Random(jobs)
    for _ in range(KILLS):
        with start(tmp_path, jobs, seconds=SECONDS) as process:
            process.stdout.readline()  # the first chunk is there: work is going on
            time.sleep(moments.uniform(0, 0.15 * SECONDS * COUNT / jobs))
            process.kill()
        assert process.returncode == -signal.SIGKILL
        assert not (tmp_path / "toys.csv").exists()
    resume(jobs)
    assert_whole(tmp_path, expected)
    counts = computed(tmp_path)
    assert set(counts) == set(range(COUNT))
    assert counts[0] == 1  # was stored before the first kill
    assert sum(counts.values()) <= COUNT + KILLS * (2 * jobs)  # all but what was going on is kept


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_killed_while_writing(tmp_path, expected, resume, call):
    """SIGKILL at the worst moments: the draft is there, the chunk is not.
    The next run removes it.
    """
    with start(tmp_path, 1, die=call) as process:
        process.communicate()
    assert process.returncode == -signal.SIGKILL
    (draft,) = (tmp_path / "chunks").iterdir()
    assert draft.suffix == ".tmp"
    resume(2)
    assert_whole(tmp_path, expected)


def test_two_runs_at_once(tmp_path, expected):
    """Two runs in one folder disturb neither each other nor the result."""
    with start(tmp_path, 1, seconds=0.03) as one, start(tmp_path, 2, seconds=0.03) as other:
        ends = one.communicate()[1], one.returncode, other.communicate()[1], other.returncode
    assert ends == ("", 0, "", 0)
    assert_whole(tmp_path, expected)


def test_interrupted(tmp_path, expected, resume):
    """Ctrl-C ends a run once the chunks that are being computed are, and the next one goes on."""
    with start(tmp_path, 2, seconds=1.0) as process:
        process.stdout.readline()
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate()
    assert errors.rstrip().endswith("KeyboardInterrupt")
    assert len(computed(tmp_path)) < COUNT / 2
    resume(3)
    assert_whole(tmp_path, expected)
