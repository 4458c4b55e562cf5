"""Files that earlier versions wrote still load, to the same numbers."""

import json
import pathlib

import numpy as np
import pytest

from limitlaw.laws import Gaussian, GaussianMixture, HeadSum, Law, Tokens, load, tokens

FILES = pathlib.Path(__file__).parent / "saved"  # written at commit 716ad09; values by 224149a
VALUES = json.loads((FILES / "values.json").read_text())


@pytest.mark.parametrize("name", VALUES)
def test_old_files_load(name, tmp_path):
    """With the same description and the same numbers,
    and so does the file that is written anew.
    """
    law = load(FILES / f"{name}.npz")
    law.save(tmp_path / "again.npz")
    for found in (law, load(tmp_path / "again.npz")):
        assert repr(found) == VALUES[name]["repr"]
        np.testing.assert_allclose(found.variance(), VALUES[name]["variance"], rtol=1e-12)
        np.testing.assert_allclose(
            found.error.variance(), VALUES[name]["error"], rtol=1e-9, atol=1e-15
        )
        if "cdf" in VALUES[name]:
            np.testing.assert_allclose(
                found.cdf(np.array([-1.3, 0.2, 0.9])), VALUES[name]["cdf"], rtol=1e-12
            )


def test_poles_are_kept():
    """An infinite density stays infinite."""
    assert load(FILES / "pole.npz").pdf(0.0) == np.inf
    assert load(FILES / "narrow.npz").pdf(0.0) == np.inf


def test_a_law_of_ones_own(tmp_path, monkeypatch):
    """A file whose law is not known says what to import; one whose constructor takes something
    else says what it is given.
    """
    monkeypatch.setattr(Law, "known", dict(Law.known))

    class Shifted(Gaussian):
        def __init__(self, centre, covariance):
            super().__init__(centre, covariance)

    Shifted(1.0, 2.0).save(tmp_path / "law")
    with pytest.raises(ValueError, match=r"Shifted\(…\) must take .* mean, covariance, .* kind"):
        load(tmp_path / "law")
    del Law.known["Shifted"]
    with pytest.raises(ValueError, match="knows no law Shifted: import the module that defines"):
        load(tmp_path / "law")


def test_two_laws_of_one_name(monkeypatch):
    """Refused: a file of one would be read as the other. The same one may be written again."""
    monkeypatch.setattr(Law, "known", dict(Law.known))
    body = {"__module__": "mine", "__qualname__": "Gaussian"}
    with pytest.raises(TypeError, match=r"Gaussian is there already, limitlaw\.laws\.gaussian"):
        type("Gaussian", (GaussianMixture,), body)
    again = {"__module__": Gaussian.__module__, "__qualname__": "Gaussian"}
    assert type("Gaussian", (GaussianMixture,), again) is Law.known["Gaussian"]


def test_joint_laws_of_tokens(tmp_path, monkeypatch):
    """The mixture and the laws of single tokens; where those are many, the mixture's."""
    joint = GaussianMixture(
        np.zeros((3, 2)), np.eye(2) * np.array([0.5, 1.0, 2.0])[:, None, None], kind="sampled"
    )
    entry = HeadSum(np.array([0.5, 1.0, 2.0]), 3, np.array([0.2, 0.3, 0.5]))
    law = Tokens((2,), lambda: joint, lambda i: entry, ("depth 2",), diverges=True)
    law.save(tmp_path / "tokens")
    again = load(tmp_path / "tokens")
    assert repr(again) == repr(law)
    assert again.logpdf(np.ones(2)) == np.inf
    np.testing.assert_array_equal(
        again.logpdf(np.array([0.3, 1.0])), law.logpdf(np.array([0.3, 1.0]))
    )
    np.testing.assert_array_equal(again.sample(3, 4), law.sample(3, 4))
    assert repr(again.marginal(1)) == repr(entry)
    np.testing.assert_array_equal(again.marginal(1).logsf(9.0), entry.logsf(9.0))
    assert repr(again.marginal([0, 1])) == repr(joint.marginal([0, 1]))
    monkeypatch.setattr(tokens, "SAVED", 1)
    law.save(tmp_path / "many")
    assert repr(load(tmp_path / "many").marginal(1)) == repr(joint.marginal(1))
