"""Files that earlier versions wrote still load, to the same numbers."""

import json
import pathlib

import numpy as np
import pytest

from limitlaw.laws import load

FILES = pathlib.Path(__file__).parent / "saved"  # written at commit 716ad09; values by 224149a
VALUES = json.loads((FILES / "values.json").read_text())


@pytest.mark.parametrize("name", VALUES)
def test_old_files_load(name, tmp_path):
    """With the same description and the same numbers, and so does the file that is written anew."""
    law = load(FILES / f"{name}.npz")
    law.save(tmp_path / "again.npz")
    for found in (law, load(tmp_path / "again.npz")):
        assert repr(found) == VALUES[name]["repr"]
        np.testing.assert_allclose(found.variance(), VALUES[name]["variance"], rtol=1e-12)
        np.testing.assert_allclose(found.error.variance(), VALUES[name]["error"], rtol=1e-9, atol=1e-15)
        if "cdf" in VALUES[name]:
            np.testing.assert_allclose(found.cdf(np.array([-1.3, 0.2, 0.9])), VALUES[name]["cdf"], rtol=1e-12)


def test_poles_are_kept():
    """An infinite density stays infinite."""
    assert load(FILES / "pole.npz").pdf(0.0) == np.inf
    assert load(FILES / "narrow.npz").pdf(0.0) == np.inf
