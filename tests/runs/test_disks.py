"""Disks that are full or cannot be written: one clear line, and nothing half-written."""

import shutil
import subprocess

import numpy as np
import pytest
import toy_chunks
from toy_chunks import toy

from limitlaw.runs import Chunk, Store, StoreError

CHUNK = Chunk.of(toy, index=1, seed=0)
ARRAYS = {"x": np.arange(3.0)}


def test_folder_that_cannot_be_written(tmp_path):
    """One line with the path, the reason and the way out.
    Root may write anywhere, but not below a file.
    """
    (tmp_path / "file").touch()
    for folder in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(
            StoreError, match=rf"^cannot write {folder}: .* \(choose another folder with --out\)$"
        ):
            Store(folder)
    with pytest.raises(StoreError, match=r"^cannot write /proc/limitlaw: "):
        Store("/proc/limitlaw")
    one = Store(tmp_path / "chunks")
    (tmp_path / "chunks").rmdir()
    with pytest.raises(
        StoreError, match=f"^cannot write {one.path(CHUNK)}: No such file or directory"
    ):
        one.put(CHUNK, ARRAYS)
    one = Store(tmp_path / "chunks")
    one.path(CHUNK).mkdir()
    with pytest.raises(StoreError, match=f"^cannot read {one.path(CHUNK)}: Is a directory"):
        one.get(CHUNK)
    with pytest.raises(StoreError, match=f"^cannot write {one.path(CHUNK)}: Is a directory"):
        one.put(CHUNK, ARRAYS)
    assert list((tmp_path / "chunks").iterdir()) == [one.path(CHUNK)]


def run_toys(command: list[str], **more: object) -> tuple[list[str], str]:
    """The lines that toys print on standard output, and the one that ends them."""
    done = subprocess.run(
        command, env=toy_chunks.environment(**more), capture_output=True, text=True
    )
    assert done.stderr.count("\n") == 1, done.stderr
    return done.stdout.splitlines(), done.stderr


def test_file_too_large(tmp_path):
    """A real refusal in the middle of a file: one line, and nothing half-written."""
    _, line = run_toys(toy_chunks.command(tmp_path, 2, 3), largest=50_000)
    assert line.startswith(f"toys: cannot write {tmp_path}/chunks/")
    assert line.endswith(": File too large (free some, or choose another folder with --out)\n")
    assert list((tmp_path / "chunks").iterdir()) == []


def run_toys_on(tmp_path, mount: str) -> tuple[list[str], str]:
    """Toys in a file system of their own, made in a namespace that ends with them;
    prints which files they leave.
    """
    enter = ["unshare", "--mount", "--map-root-user", "sh", "-c"]
    if (
        not shutil.which("unshare")
        or subprocess.run([*enter, mount], capture_output=True).returncode
    ):
        pytest.skip(
            "this machine lets no test mount a file system; test_file_too_large covers the same "
            "code"
        )
    script = f"{mount} && \"$@\"; echo code $?; ls -A '{tmp_path}/chunks'"
    return run_toys([*enter, script, "sh", *toy_chunks.command(tmp_path, 1, 4)])


def test_full_disk(tmp_path):
    """A real file system of 400 kB, which has room for two chunks: these are kept."""
    lines, line = run_toys_on(tmp_path, f"mount -t tmpfs -o size=400k tmpfs '{tmp_path}'")
    assert line.startswith(f"toys: cannot write {tmp_path}/chunks/")
    assert line.endswith(
        ": No space left on device (free some, or choose another folder with --out)\n"
    )
    assert lines[2] == "code 1"
    assert sorted(lines[3:]) == sorted(
        f"{chunk.identity}.chunk" for chunk in toy_chunks.toys(2, 0)
    )


def test_read_only_disk(tmp_path):
    """A real file system that cannot be written, by root neither."""
    mount = (
        f"mount -t tmpfs tmpfs '{tmp_path}' && mkdir '{tmp_path}/chunks' && mount -o remount,ro "
        f"'{tmp_path}'"
    )
    lines, line = run_toys_on(tmp_path, mount)
    assert line.startswith(f"toys: cannot write {tmp_path}/chunks/")
    assert line.endswith(": Read-only file system (choose another folder with --out)\n")
    assert lines == ["code 1"]
