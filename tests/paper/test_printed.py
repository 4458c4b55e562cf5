"""Pictures on paper: files that are complete, repeatable, and have nothing outside their frame."""

import hashlib
from pathlib import Path

import matplotlib
import numpy as np
import pytest

from limitlaw.apps.paper import report as paper
from limitlaw.apps.paper.report import FIGURES, checked
from limitlaw.apps.reports import printed
from paper import synthetic

SOME = ("fig1_kl", "kde_floor", "joint")


def digests(folder: Path) -> dict[str, str]:
    """Of the files of a folder."""
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}


def test_some_tables(tmp_path: Path) -> None:
    """PDF and PNG for the figures whose tables are there,
    with the same bytes each time, settings put back.
    """
    before = dict(matplotlib.rcParams)
    tables = {name: synthetic.tables()[name] for name in SOME}
    paths = paper.draw(tables, tmp_path / "a" / "b")
    assert [path.name for path in paths] == ["fig1b.pdf", "fig1b.png", "joint.pdf", "joint.png"]
    assert dict(matplotlib.rcParams) == before
    paper.draw(tables, tmp_path / "c")
    assert digests(tmp_path / "a" / "b") == digests(tmp_path / "c")
    assert {path.name for path in paths} == {*digests(tmp_path / "c")}
    for path in paths:
        assert path.read_bytes().startswith(b"%PDF" if path.suffix == ".pdf" else b"\x89PNG")
        assert b"CreationDate" not in path.read_bytes()


def test_no_tables(tmp_path: Path) -> None:
    """Nothing is drawn."""
    assert paper.draw({}, tmp_path) == []


@pytest.mark.parametrize("name", FIGURES)
def test_every_figure_fits(name: str) -> None:
    """Labels are there and inside the frame, legends do not overlap axes,
    and PNGs are not blank.
    """
    picture = FIGURES[name].picture(checked(synthetic.tables()))
    assert picture is not None
    with matplotlib.rc_context(printed._SETTINGS):
        figure = printed.draw(picture)
        box = figure.get_tightbbox()
        legends = [legend.get_window_extent() for legend in figure.legends]
    assert 0 <= box.x0 < box.x1 <= figure.get_figwidth()
    assert 0 <= box.y0 < box.y1 <= figure.get_figheight()
    for axes in figure.axes[: sum(map(len, picture.rows))]:
        assert axes.get_xlabel()
        assert axes.get_ylabel()
        frame = axes.get_tightbbox()
        assert frame is not None
        assert not any(frame.overlaps(legend) for legend in legends)
        for line in axes.lines:
            assert line.get_color().startswith("#") or line.get_color() == "white"


def test_log_axes_and_legend_order() -> None:
    """Plain ticks, curves in the order of the legend, bars that stay positive."""
    picture = FIGURES["fig1b"].picture(checked(synthetic.tables()))
    assert picture is not None
    (axes,) = printed.draw(picture).axes
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    assert [text.get_text() for text in axes.get_xticklabels()][:3] == ["16", "64", "256"]
    assert axes.get_ylabel() == r"$D_{\mathrm{KL}}$(finite ‖ limit)"
    texts = [text.get_text() for text in axes.get_legend().get_texts()]
    assert texts == ["exact", "KDE (paper)", "slope −2", "noise floor of the KDE"]
    for bars in axes.collections:
        assert all(
            (path.vertices[:, 1] > 0).all()
            for path in bars.get_paths()
            if np.isfinite(path.vertices).all()
        )
