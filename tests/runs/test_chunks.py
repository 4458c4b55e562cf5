"""Chunks have one identity everywhere, and another wherever anything differs that
their arrays depend on.
"""

import itertools
import math
import pickle
import subprocess
import sys

import numpy as np
import pytest
import toy_chunks
from toy_chunks import toy

from limitlaw.runs import Chunk, chunks, versions

CHUNK = Chunk.of(toy, index=1, seed=0)
OTHER = Chunk.of(toy, index=2, seed=0)


def test_name_and_arguments():
    """A chunk prints itself; the order of its arguments does not matter,
    NumPy's numbers are numbers.
    """
    assert CHUNK.name == "toy_chunks.toy(index=1, seed=0)"
    same = Chunk.of(toy, seed=np.int64(0), index=1)
    assert (same, same.name, same.arguments) == (CHUNK, CHUNK.name, CHUNK.arguments)
    assert (
        Chunk.of(toy, heads=[1, (2, math.inf)], phi=None).name
        == "toy_chunks.toy(heads=(1, (2, inf)), phi=None)"
    )
    assert len({CHUNK, OTHER, Chunk.of(toy, index=1, seed=0)}) == 2


def test_identity_depends_on_all(monkeypatch):
    """Function, each argument, its type, each version."""
    different = [
        Chunk.of(toy, index=value, seed=0) for value in (1, 2, 1.0, True, "1", None, (1,))
    ]
    different += [
        Chunk.of(toy, index=1, seed=1),
        Chunk.of(toy, index=1),
        Chunk.of(toy_chunks.failing, index=1, seed=0),
    ]
    assert len({chunk.identity for chunk in different}) == len(different)
    assert all(one != other for one, other in itertools.combinations(different, 2))
    assert set(versions()) == {"limitlaw", "jax", "jaxlib", "numpy", "scipy", "python", "source"}
    for name in versions():
        changed = {**versions(), name: "other"}
        monkeypatch.setattr(chunks, "versions", lambda changed=changed: changed)
        assert Chunk.of(toy, index=1, seed=0).identity != CHUNK.identity


def test_identity_is_the_same_elsewhere():
    """Another process has the same identities, with another hash seed;
    a pickled chunk leaves its own behind.
    """
    code = "from toy_chunks import *; print(Chunk.of(toy, index=1, seed=0).identity)"
    found = subprocess.check_output(
        [sys.executable, "-c", code], env=toy_chunks.environment(), text=True
    )
    assert found.strip() == CHUNK.identity
    copy = pickle.loads(pickle.dumps(CHUNK))
    assert "identity" not in vars(copy)
    assert copy == CHUNK


def test_source_is_a_version(tmp_path, monkeypatch):
    """A changed engine or experiment changes the hash, a changed picture or claim does not."""
    for part in ("runs", "engines", "figures", "paper/fig1", "paper/shown"):
        (tmp_path / part).mkdir(parents=True)
        (tmp_path / part / "module.py").write_text("x = 1\n")
    monkeypatch.setattr(chunks, "__file__", str(tmp_path / "runs" / "chunks.py"))
    before = chunks._source_hash()
    (tmp_path / "figures" / "module.py").write_text("x = 2\n")
    (tmp_path / "paper" / "shown" / "module.py").write_text("x = 2\n")
    (tmp_path / "paper" / "fig1" / "shown.py").write_text("x = 2\n")
    (tmp_path / "paper" / "report.py").write_text("x = 2\n")
    assert chunks._source_hash() == before
    (tmp_path / "engines" / "module.py").write_text("x = 2\n")
    changed = chunks._source_hash()
    (tmp_path / "paper" / "fig1" / "module.py").write_text("x = 2\n")
    assert len({before, changed, chunks._source_hash()}) == 3


def test_refused_chunks():
    """What another process could not find, JSON not write, or 32 bits have spoiled."""
    with pytest.raises(ValueError, match="by name"):
        Chunk.of(lambda: {})
    with pytest.raises(TypeError, match="kernel must be made of"):
        Chunk.of(toy, kernel=np.eye(2))
    with pytest.raises(
        TypeError, match="x must be an array of float64, int64 or text, got float32"
    ):
        Chunk.of(_narrow).run()


def _narrow():
    return {"x": np.zeros(3, dtype=np.float32)}
