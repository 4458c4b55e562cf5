"""What a notebook shows: laws, programs and checks,
escaped and in the reader's colours; pictures and data frames.
"""

import re
import sys
import types
import xml.etree.ElementTree as ET

import matplotlib
import numpy as np
import pytest

import limitlaw as ll
from limitlaw import notebook
from limitlaw import phi as nl

matplotlib.use("Agg")
MIXTURE = ll.GaussianMixture(np.array([-0.5, 1.0]), np.array([1.0, 0.3]), np.array([0.4, 0.6]))
RELU = ll.Pushforward(nl.relu, MIXTURE)
JOINT = ll.Gaussian(np.zeros(2), np.eye(2))


def parsed(text: str) -> ET.Element:
    """As XML, which every tag that is closed and every text that is escaped is."""
    assert "#" not in text  # no colour of its own
    return ET.fromstring(f"<body>{text}</body>")


def test_laws() -> None:
    """The printed table, a curve where there is a density, and no more."""
    page = parsed(MIXTURE._repr_html_())
    cells = [cell.text for cell in page.iter("td")]
    printed = [
        word
        for line in str(MIXTURE).splitlines()[1:]
        for word in re.split(r"\s{2,}", line.strip())
    ]
    assert cells == printed
    assert "GaussianMixture(2 components" in "".join(page.itertext())
    (line,) = page.iter("polyline")
    assert len(line.attrib["points"].split()) == 121
    assert not list(parsed(JOINT._repr_html_()).iter("svg"))
    assert not list(parsed(ll.Empirical(np.arange(30.0))._repr_html_()).iter("svg"))


def test_a_median_is_not_a_rounding() -> None:
    """0 where it is 0, whatever the search for it left; other quantiles have all their digits."""
    variances = np.random.default_rng(0).chisquare(3, 2000)
    law = ll.GaussianMixture(np.zeros(2000), variances)
    _, *lines = str(law).splitlines()
    shown = dict(re.split(r"\s{2,}", line.strip()) for line in lines)
    assert shown["ppf(0.5)"] == "0"
    assert shown["ppf(0.9)"].startswith(f"{float(law.ppf(0.9)):.3f} ± ")


def test_programs_and_checks() -> None:
    """The same text as printed; names that a user chose are escaped."""

    def sneaky(x):
        return x * 2

    sneaky.__name__ = "<script>alert(1)</script>"
    y = ll.map(sneaky, ll.Matrix() @ ll.initial((2,)))
    for value in (y, ll.check(y)):
        text = value._repr_html_()
        assert "<script" not in text
        assert "&lt;script&gt;" in text
        cells = [cell.text for cell in parsed(text).iter("td") if cell.text]
        assert all(cell.split()[0] in str(value) for cell in cells)
    assert repr(ll.check(y)) == str(ll.check(y))


def test_pictures() -> None:
    """Any number of laws, told apart; curves are densities;
    atoms are stems of their mass; samples are steps.
    """
    many = {f"variance {v}": ll.Gaussian(0.0, v) for v in range(1, 10)}
    axes = ll.plot(many, samples=ll.Empirical(np.random.default_rng(0).normal(size=200)))
    assert [text.get_text() for text in axes.get_legend().get_texts()] == [*many, "samples"]
    assert len({(line.get_color(), str(line._dash_pattern)) for line in axes.lines}) == len(many)
    x, p = axes.lines[3].get_data()
    np.testing.assert_allclose(p, ll.Gaussian(0.0, 4.0).pdf(x), rtol=1e-12)
    assert len(axes.patches) == 1
    curve, stem = RELU.plot().lines
    assert stem.get_ydata()[1] == pytest.approx(float(RELU.atoms().masses[0]))
    assert curve.get_ydata()[-1] > 0
    below = MIXTURE.plot(log=True)
    assert below.get_yscale() == "log"
    assert below.get_xlim()[0] < float(MIXTURE.ppf(1e-9))
    same = MIXTURE.plot(ax=below, label="again")
    assert same is below
    assert ll.plot(MIXTURE, MIXTURE).get_legend() is not None
    matplotlib.pyplot.close("all")


def test_wrong_pictures(as_user: None) -> None:
    for laws, message in (
        ((), "one law at least"),
        ((3.0,), "plot takes laws"),
        ((JOINT,), r"marginal\(i\)"),
    ):
        with pytest.raises((TypeError, ValueError), match=message):
            ll.plot(*laws)


def test_data_frames_without_pandas(monkeypatch: pytest.MonkeyPatch) -> None:
    """What pandas is given; and without it a line that says how to get it."""
    fake = types.SimpleNamespace(DataFrame=lambda *records, **_: records)
    monkeypatch.setitem(sys.modules, "pandas", fake)
    (records,) = MIXTURE.to_pandas()
    assert [record["quantity"] for record in records][:3] == ["mean", "variance", "kurtosis"]
    assert records[1]["value"] == pytest.approx(float(MIXTURE.variance()))
    assert [record["entry"] for record in JOINT.to_pandas()[0]][:2] == [0, 1]
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match=r"limitlaw\[pandas\]"):
        MIXTURE.to_pandas()


def test_data_frames() -> None:
    pytest.importorskip("pandas")
    frame = MIXTURE.to_pandas()
    assert list(frame.columns) == ["quantity", "value", "error"]
    assert frame.set_index("quantity").loc["variance", "value"] == float(MIXTURE.variance())
    joint = JOINT.to_pandas()
    assert list(joint["entry"]) == [0, 1] * 3
    assert list(ll.check(ll.initial()).to_pandas().columns) == ["rule", "verdict", "why"]


def test_flat_curves_are_left_out() -> None:
    assert notebook.curve(np.zeros(3), np.ones(3), "") == ""
    assert notebook.curve(np.arange(3.0), np.full(3, np.nan), "") == ""
