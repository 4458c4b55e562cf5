"""The picture of a law: its axes, lines, labels and ranges."""

import math
from pathlib import Path

import numpy as np
import pytest

import limitlaw as ll
from limitlaw.figures import law as drawing

MIXTURE = ll.GaussianMixture(np.zeros(2), np.array([0.5, 1.5]))
LAWS = {"two widths": MIXTURE, "Gaussian": ll.Gaussian(0.0, 1.0), "narrow": ll.Gaussian(0.0, 0.25)}


def test_axes_lines_and_labels() -> None:
    """Two panels with one line for each law, the same in both,
    told apart by colour and by dashes.
    """
    figure = drawing.density_figure(LAWS, "a title", "z")
    left, right = figure.axes
    assert [line.get_label() for line in left.lines] == list(LAWS)
    assert [line.get_label() for line in right.lines] == list(LAWS)
    for axes in (left, right):
        assert len({line.get_color() for line in axes.lines}) == 3
        assert len({str(line._dash_pattern) for line in axes.lines}) == 3
        assert axes.get_xlabel() == "$z$"
    assert (left.get_ylabel(), right.get_ylabel()) == ("density", "density, log scale")
    assert (left.get_yscale(), right.get_yscale()) == ("linear", "log")
    assert figure.get_suptitle() == "a title"
    assert [text.get_text() for text in figure.legends[0].get_texts()] == list(LAWS)


def test_curves_and_ranges() -> None:
    """The curves are the densities; the tails reach seven standard deviations of the first law,
    all of it visible.
    """
    left, right = drawing.density_figure(LAWS, "").axes
    for axes in (left, right):
        for line, law in zip(axes.lines, LAWS.values(), strict=True):
            x, p = line.get_data()
            np.testing.assert_allclose(p, law.pdf(x), rtol=1e-12)
    assert left.get_xlim() == pytest.approx((-3.5, 3.5))
    assert right.get_xlim() == pytest.approx((-7, 7))
    bottom, top = right.get_ylim()
    assert 0 < bottom < float(MIXTURE.pdf(7.0))
    assert top > 1 / math.sqrt(2 * math.pi * 0.25)


def test_a_law_that_is_not_centred() -> None:
    """Ranges follow the mean."""
    _, right = drawing.density_figure({"law": ll.Gaussian(10.0, 4.0)}, "").axes
    assert right.get_xlim() == pytest.approx((-4, 24))


@pytest.mark.parametrize("suffix", ["png", "pdf", "svg"])
def test_formats(tmp_path: Path, suffix: str) -> None:
    """It can be written, with nothing outside its frame and no warning."""
    figure = drawing.density_figure(LAWS, "n → ∞")
    figure.savefig(tmp_path / f"law.{suffix}")
    assert (tmp_path / f"law.{suffix}").stat().st_size > 5_000
    box = figure.get_tightbbox()  # in inches
    assert 0 <= box.x0 < box.x1 <= figure.get_figwidth()
    assert 0 <= box.y0 < box.y1 <= figure.get_figheight()


def test_long_labels_are_not_cut_off() -> None:
    """What does not fit into one line of the legend goes into the next."""
    labels = ["1 head, n → ∞", "2 heads, n → ∞", "16 heads, n → ∞"]
    labels += ["Gaussian: infinitely many heads", "Gaussian: scores scaled by 1/n"]
    figure = drawing.density_figure(dict.fromkeys(labels, MIXTURE), "")
    figure.draw_without_rendering()
    (legend,) = figure.legends
    box = legend.get_window_extent()
    assert 0 <= box.x0 < box.x1 <= figure.bbox.width
    assert [text.get_text() for text in legend.get_texts()] == labels


def test_wrong_laws() -> None:
    """None, or one without a width; there may be many."""
    with pytest.raises(ValueError, match="laws must be one law at least"):
        drawing.density_figure({}, "")
    assert len(drawing.density_figure({str(i): MIXTURE for i in range(5)}, "").axes[0].lines) == 5
    with pytest.raises(ValueError, match="positive variance"):
        drawing.density_figure({"point": ll.Empirical(np.zeros(3))}, "")
