"""Finished chunks on disk: found again, never mixed up, and damage of any kind noticed."""

import io
import json
import math
import os
import subprocess
import sys
import zipfile

import numpy as np
import pytest
from toy_chunks import toy

from limitlaw import files
from limitlaw.runs import Chunk, Store, local, run, store, versions

CHUNK = Chunk.of(toy, index=1, seed=0)
OTHER = Chunk.of(toy, index=2, seed=0)


def assert_same(arrays, expected):
    """Equal names, types, shapes and bits."""
    assert list(arrays) == list(expected)
    for name in arrays:
        assert arrays[name].dtype == expected[name].dtype
        np.testing.assert_array_equal(arrays[name], expected[name], strict=True)


ARRAYS = {
    "matrix": np.arange(6.0).reshape(2, 3).T,
    "number": np.array(math.nan),
    "count": np.array([2**62]),
    "none": np.zeros((0, 3)),
    "label": np.array(["", "n → ∞"]),
}


def test_round_trip(tmp_path):
    """Arrays come back, by another store too; the bytes depend on them alone;
    nothing else is in the folder.
    """
    first = Store(tmp_path)
    assert first.get(CHUNK) is None
    first.put(CHUNK, ARRAYS)
    data = first.path(CHUNK).read_bytes()
    assert_same(Store(tmp_path, warn=pytest.fail).get(CHUNK), ARRAYS)
    first.put(CHUNK, {name: array.copy() for name, array in ARRAYS.items()})
    assert first.path(CHUNK).read_bytes() == data
    assert [path.name for path in tmp_path.iterdir()] == [f"{CHUNK.identity}.chunk"]
    archive = zipfile.ZipFile(io.BytesIO(data.partition(b"\n")[2]))
    # no time of writing
    assert {member.date_time for member in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}
    header = json.loads(data.partition(b"\n")[0])
    assert header["arguments"] == {"index": 1, "seed": 0}
    assert header["versions"] == versions()


def flipped(data: bytes, at: float) -> bytes:
    """One bit is wrong, somewhere between the start (0) and the end (1)."""
    place = min(int(at * len(data)), len(data) - 1)
    return data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]


def forged(payload: bytes) -> bytes:
    """A payload with the header that proves it."""
    return store._header(CHUNK, payload) + b"\n" + payload


class Trap:
    """Fails the test when it is unpickled."""

    def __reduce__(self):
        return pytest.fail, ("code in a chunk was run",)


def pickled() -> bytes:
    """An archive of objects, which only unpickling would read."""
    member, archive = io.BytesIO(), io.BytesIO()
    np.save(member, np.array([Trap()], dtype=object), allow_pickle=True)
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("x.npy", member.getvalue())
    return archive.getvalue()


DAMAGE = {
    **{
        f"bit flipped at {at:.3f}": lambda data, at=at: flipped(data, at)
        for at in np.linspace(0, 1, 12)
    },
    "bit of the header flipped": lambda data: flipped(data, 0.5 * data.index(b"\n") / len(data)),
    "empty": lambda data: b"",
    "half": lambda data: data[: len(data) // 2],
    "last byte lost": lambda data: data[:-1],
    "header alone": lambda data: data.partition(b"\n")[0],
    "a byte more": lambda data: data + b"\0",
    "garbage header": lambda data: b"\xff{]" + data[3:],
    "not a header": lambda data: b"null\n" + data,
    "zeros": lambda data: bytes(len(data)),
    "forged pickle": lambda data: forged(pickled()),
    "forged text": lambda data: forged(b"text"),
    "forged emptiness": lambda data: forged(b""),
}


@pytest.fixture(scope="module")
def computed():
    """The arrays of the two chunks."""
    return {chunk: chunk.run() for chunk in (CHUNK, OTHER)}


def assert_computed_again(folder, damaged, computed):
    """One line names the file, the chunk is computed again,
    the file is as before, and others are untouched.
    """
    said = []
    one = Store(folder, said.append)
    path = one.path(CHUNK)
    right = path.read_bytes()
    path.write_bytes(damaged(right))
    with local(1) as executor:
        results = run([CHUNK, OTHER], one, executor)
    assert said == [f"{path} is damaged: {CHUNK.name} is computed again"]
    assert_same(results[CHUNK], computed[CHUNK])
    assert path.read_bytes() == right
    assert_same(Store(folder, pytest.fail).get(CHUNK), computed[CHUNK])


@pytest.mark.parametrize("kind", DAMAGE)
def test_damage_is_noticed(tmp_path, computed, kind):
    """Any change of a stored chunk is seen, said, and repaired."""
    one = Store(tmp_path)
    for chunk, arrays in computed.items():
        one.put(chunk, arrays)
    assert_computed_again(tmp_path, DAMAGE[kind], computed)


def test_chunks_are_not_mixed_up(tmp_path, computed):
    """A chunk in another's place is foreign, and so is one of other versions."""
    one = Store(tmp_path)
    for chunk, arrays in computed.items():
        one.put(chunk, arrays)
    foreign = one.path(OTHER).read_bytes()
    assert_computed_again(tmp_path, lambda _: foreign, computed)
    old = versions()["jax"].encode()
    assert_computed_again(
        tmp_path, lambda data: data.replace(b'"jax":"' + old, b'"jax":"0.0.1', 1), computed
    )


def test_manifest(tmp_path):
    """Settings, versions and chunks; checksums of those that are finished,
    whether computed now or before.
    """
    one = Store(tmp_path)
    one.write_manifest({"seed": 0, "figures": ["fig1"], "heads": math.inf}, [CHUNK, OTHER, CHUNK])
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    assert manifest["settings"] == {"seed": 0, "figures": ["fig1"], "heads": math.inf}
    assert manifest["versions"] == versions()
    assert [item["sha256"] for item in manifest["chunks"]] == [None, None]
    one.put(CHUNK, ARRAYS)
    again = Store(tmp_path)
    again.get(CHUNK)
    for each in (one, again):
        each.write_manifest({"seed": 0}, [CHUNK, OTHER])
        finished, absent = json.loads((tmp_path / "manifest.json").read_text())["chunks"]
        header = json.loads(one.path(CHUNK).read_bytes().partition(b"\n")[0])
        assert finished == {
            "name": CHUNK.name,
            "identity": CHUNK.identity,
            "sha256": header["sha256"],
        }
        assert absent["sha256"] is None


def test_leftovers(tmp_path):
    """Drafts of dead processes are removed as a store opens;
    those of live ones and of other machines stay.
    """
    Store(tmp_path)
    host = files._host()
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        dead, live, foreign = (
            f".x.chunk.{host}.{other.pid}.0.tmp",
            f".x.chunk.{host}.{os.getpid()}.0.tmp",
            ".x.y.1.0.tmp",
        )
        for name in (dead, live, foreign):
            (tmp_path / name).touch()
        Store(tmp_path)
        assert {path.name for path in tmp_path.iterdir()} == {dead, live, foreign}
        other.communicate(b"\n")
    Store(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {live, foreign}
