"""Tables to CSV and back: every bit of a float,
every type, and bytes that depend on nothing else.
"""

import math

import numpy as np
import pytest

from limitlaw.runs import StoreError, read_csv, write_csv

TABLE = {
    "width": np.array([16, -256, 2**62]),
    "kl": np.array([0.1, -math.inf, math.nan]),
    "label": np.array(["plain", 'a "quoted", one', "n → ∞\nbelow"]),
}
TEXT = (
    'width,kl,label\n16,0.1,plain\n-256,-inf,"a ""quoted"", one"\n4611686018427387904,nan,"n → '
    '∞\nbelow"\n'
)


def assert_same(table, other):
    """Equal names in their order, types and bits."""
    assert list(table) == list(other)
    for name in table:
        assert table[name].dtype.kind == other[name].dtype.kind, name
        np.testing.assert_array_equal(table[name], other[name])
        if table[name].dtype == np.float64:
            np.testing.assert_array_equal(np.signbit(table[name]), np.signbit(other[name]))


def test_bytes_and_types(tmp_path):
    """A table has one text, and comes back from it."""
    write_csv(tmp_path / "table.csv", TABLE)
    assert (tmp_path / "table.csv").read_bytes() == TEXT.encode()
    assert_same(read_csv(tmp_path / "table.csv"), TABLE)
    assert [path.name for path in tmp_path.iterdir()] == ["table.csv"]


def test_every_float_comes_back(tmp_path):
    """Random bits, subnormals and both zeros."""
    bits = (
        np.random.default_rng(0).integers(0, 2**64, size=5_000, dtype=np.uint64).view(np.float64)
    )
    values = np.concatenate(
        [bits[~np.isnan(bits)], [0.0, -0.0, 5e-324, 1e16, 1e22, 1.0, 123456789.0, math.inf]]
    )
    write_csv(tmp_path / "floats.csv", {"x": values})
    assert_same(read_csv(tmp_path / "floats.csv"), {"x": values})


TEXTS = [
    ["1_000", "2"],
    ["", ""],
    ["infinity", "1.0"],
    ["1.", "2.0"],
    ["+1", "2"],
    [" 1", "2"],
    ["٣", "1"],
]


@pytest.mark.parametrize("texts", TEXTS, ids=map(repr, TEXTS))
def test_texts_stay_texts(tmp_path, texts):
    """What Python would take for a number, but `write_csv` never writes for one."""
    write_csv(tmp_path / "texts.csv", {"label": np.array(texts), "x": np.array([0.0, 1.0])})
    assert_same(
        read_csv(tmp_path / "texts.csv"), {"label": np.array(texts), "x": np.array([0.0, 1.0])}
    )


def test_no_rows(tmp_path):
    """A table without rows has its columns."""
    write_csv(tmp_path / "empty.csv", {"a": np.array([]), "b": np.array([])})
    assert_same(read_csv(tmp_path / "empty.csv"), {"a": np.array([]), "b": np.array([])})


REFUSED = [
    ({"a": np.array([1.0]), "b": np.array([1, 2])}, ValueError, "one length"),
    ({}, ValueError, "one length"),
    ({"a": np.eye(2)}, ValueError, "one axis"),
    ({"a": np.array(["16", "32"])}, ValueError, "numbers as text"),
    ({"a": np.array(["1.5", "inf"])}, ValueError, "numbers as text"),
    ({"a": np.array(["one\rtwo"])}, ValueError, "carriage return"),
    ({"a": np.array([1.0], dtype=np.float32)}, TypeError, "float32"),
    ({"a": np.array([True])}, TypeError, "bool"),
    ({"a": np.array([object()])}, TypeError, "object"),
]


@pytest.mark.parametrize(("table", "error", "message"), REFUSED)
def test_refused(tmp_path, table, error, message):
    """What would not come back is not written, and leaves what was there."""
    (tmp_path / "table.csv").write_text("before")
    with pytest.raises(error, match=message):
        write_csv(tmp_path / "table.csv", table)
    assert (tmp_path / "table.csv").read_text() == "before"
    assert len(list(tmp_path.iterdir())) == 1


def test_no_folder(tmp_path):
    """One line says which file cannot be read or written."""
    path = tmp_path / "absent" / "table.csv"
    with pytest.raises(
        StoreError, match=rf"^cannot write {path}: No such file or directory \(choose .*--out\)$"
    ):
        write_csv(path, TABLE)
    with pytest.raises(StoreError, match=f"^cannot read {path}: No such file"):
        read_csv(path)
