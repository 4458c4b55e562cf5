"""Files are whole or absent, whoever writes them: what was there stays until all of the new is."""

import os
import re
import stat
from pathlib import Path

import numpy as np
import pytest

import limitlaw as ll
from limitlaw import files

ROOT = Path(ll.__file__).parent
WRITES = re.compile(r'\.write_(text|bytes)\(|open\([^()]*"[wax]b?\+?"')


def names(folder: Path) -> list[str]:
    """What lies in a folder."""
    return sorted(path.name for path in folder.iterdir())


def fill_and_fail(path: Path) -> None:
    """Half of a file, and then an error."""
    with files.replacing(path) as file:
        file.write(b"half")
        file.flush()
        raise OSError("full")


def test_an_error_leaves_the_old_file(tmp_path):
    """A file that cannot be finished leaves the old one, or none, and no other behind."""
    with pytest.raises(OSError, match="full"):
        fill_and_fail(tmp_path / "file")
    assert names(tmp_path) == []
    files.write(tmp_path / "file", b"old")
    with pytest.raises(OSError, match="full"):
        fill_and_fail(tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == b"old"
    assert names(tmp_path) == ["file"]


def test_a_law_that_cannot_be_finished(tmp_path, monkeypatch):
    """`law.save` leaves the law that was there, whole; a new one takes its place at once."""
    path = tmp_path / "law.npz"
    ll.Gaussian(1.0, 2.0).save(path)
    before = path.read_bytes()
    savez = np.savez

    def half(file, **arrays):
        savez(file, **arrays)
        file.truncate(file.tell() // 2)
        raise OSError("No space left on device")

    monkeypatch.setattr(np, "savez", half)
    with pytest.raises(OSError, match="No space left"):
        ll.Gaussian(3.0, 4.0).save(path)
    assert path.read_bytes() == before
    assert names(tmp_path) == ["law.npz"]
    monkeypatch.undo()
    ll.Gaussian(3.0, 4.0).save(str(path))
    assert float(ll.load(path).mean()) == 3.0


def test_links_and_modes(tmp_path):
    """A link stays a link, a file keeps its mode, and a new one has that of any other new file."""
    (tmp_path / "target").write_bytes(b"old")
    (tmp_path / "target").chmod(0o640)
    (tmp_path / "link").symlink_to("target")
    files.write(tmp_path / "link", b"new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "target").read_bytes() == b"new"
    assert stat.S_IMODE((tmp_path / "target").stat().st_mode) == 0o640
    files.write(tmp_path / "made", b"")
    (tmp_path / "plain").touch()
    assert (tmp_path / "made").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_a_protected_file_stays(tmp_path, monkeypatch):
    """A file that may not be written is not replaced either, though its folder would allow it."""
    path = tmp_path / "file"
    path.write_bytes(b"mine")
    monkeypatch.setattr(os, "access", lambda *_: False)  # root may write anything
    with pytest.raises(PermissionError, match=f"Permission denied: '{path}'"):
        files.write(path, b"new")
    assert path.read_bytes() == b"mine"
    assert names(tmp_path) == ["file"]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes")
def test_what_is_no_file_stays(tmp_path):
    """A pipe or a device is written to, not replaced."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        files.write(pipe, b"through")
        assert os.read(reader, 100) == b"through"
    finally:
        os.close(reader)
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert names(tmp_path) == ["pipe"]


def test_long_names(tmp_path):
    """As long as the file system allows."""
    path = tmp_path / ("x" * 250)
    files.write(path, b"data")
    assert path.read_bytes() == b"data"


def test_nothing_else_writes():
    """No other module opens a file to write it; the pattern sees those that would."""
    found = [
        path.relative_to(ROOT).as_posix()
        for path in ROOT.rglob("*.py")
        if WRITES.search(path.read_text())
    ]
    assert found == ["files.py"]
    for line in (
        'open(path, "w")',
        "path.write_text(text)",
        'path.open("wb")',
        'open(path, mode="a")',
    ):
        assert WRITES.search(line)
    assert not WRITES.search('open(path, "rb")')
