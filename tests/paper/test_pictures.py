"""Tables become pictures: what each shows, before any library draws it."""

import numpy as np
import pytest

from limitlaw.apps.paper.report import FIGURES, checked, pictures
from limitlaw.apps.paper.shown.divergences import divergence_panel
from limitlaw.apps.paper.shown.reading import where
from limitlaw.figures.picture import Picture
from paper import synthetic

PAPER = ["fig1a", "fig1b", "fig2a", "fig2b", "fig3a", "fig3b", "fig4", "fig5a", "fig5b"]
BEYOND = ["heads", "head_dim", "joint", "theorem"]


def picture(name: str, **changed: object) -> Picture:
    """One figure, from tables some of which are changed."""
    found = FIGURES[name].picture(checked({**synthetic.tables(), **changed}))
    assert found is not None
    return found


def labels(name: str) -> list[str]:
    """Of the curves of the first panel."""
    return [curve.label for curve in picture(name).rows[0][0].curves]


def test_all_figures_in_order() -> None:
    """Each from its tables, none without them."""
    assert list(pictures(checked(synthetic.tables()))) == PAPER + BEYOND
    assert pictures({}) == {}


@pytest.mark.parametrize("name", FIGURES)
def test_missing_tables(name: str) -> None:
    """A figure is left out without its tables; those it can do without, it does without."""
    tables = synthetic.tables()
    entry = FIGURES[name]
    assert entry.picture({key: t for key, t in tables.items() if key not in entry.tables}) is None
    assert (
        entry.picture({key: t for key, t in tables.items() if key not in entry.optional})
        is not None
    )
    for key in entry.tables:
        found = entry.picture({k: t for k, t in tables.items() if k != key})
        assert (found is not None) == entry.any_of


@pytest.mark.parametrize("name", FIGURES)
def test_panels_are_complete(name: str) -> None:
    """Axes have labels, curves have points, and curves of one panel differ in more than colour."""
    for panel in (panel for row in picture(name).rows for panel in row):
        assert panel.x.label
        assert panel.y.label
        assert panel.curves or panel.field is not None
        looks = [
            (c.style.dash, c.style.marker, c.style.filled, c.style.width) for c in panel.curves
        ]
        wide = [look for look in looks if look[-1] > 3]
        assert len({*looks}) >= len(looks) - max(0, len(wide) - 1)
        for curve in panel.curves:
            assert len(curve.x) == len(curve.y)
            assert np.isfinite(curve.y).any()


def test_labels() -> None:
    """In the words of the paper."""
    assert labels("fig1a")[:3] == [
        "<i>n</i> = 16, exact",
        "<i>n</i> = 16, KDE",
        "<i>n</i> = 64, exact",
    ]
    assert labels("fig1a")[-1] == "limit <i>n</i> → ∞"
    assert labels("fig1b") == ["exact", "KDE (paper)", "slope −2", "noise floor of the KDE"]
    assert labels("fig2b")[-1] == "Gaussian, <i>H</i> → ∞"
    assert labels("fig3a") == [
        "exact",
        "KDE",
        "limit, <i>n</i> × <i>n</i> heads",
        "limit, fixed <i>d</i>",
    ]
    assert "exact, from fixed-<i>d</i> limit" in labels("fig3b")
    assert "slope −1" in labels("heads")
    assert labels("theorem")[-1] == "Gaussian theory: a constant"
    assert picture("fig3b").rows[0][0].x.label == "width <i>n</i> = 64 <i>H</i>"


def test_curves_are_the_data() -> None:
    """Exact curves as they are in the table, a limit that the table repeats once."""
    table = synthetic.tables()["fig1_density"]
    curves = {curve.label: curve for curve in picture("fig1a").rows[0][0].curves}
    wanted = where(table, width=64.0, curve="exact")
    np.testing.assert_array_equal(curves["<i>n</i> = 64, exact"].y, wanted["density"])
    assert len(curves["limit <i>n</i> → ∞"].x) == len(synthetic.GRID)
    assert len(curves["<i>n</i> = 64, KDE"].x) <= 25


def test_point_mass() -> None:
    """The limit of a score under 1/n is an arrow at 0."""
    arrow, head = picture("fig2a").rows[0][1].curves[-2:]
    assert arrow.label == head.label == "limit: point mass at 0"
    np.testing.assert_array_equal(arrow.x, [0, 0])
    assert head.style.marker == "triangle"


def test_ticks_are_plain() -> None:
    """Powers of four without exponents."""
    assert [text for _, text in picture("fig1b").rows[0][0].x.ticks][:3] == ["16", "64", "256"]
    assert picture("fig1b").rows[0][0].x.ticks[-1] == (65_536, "65,536")


def test_error_bars_on_a_log_axis() -> None:
    """They end at the bottom of the panel where they reach zero;
    values that do become upper bounds.
    """
    panel = picture("fig1b").rows[0][0]
    exact = panel.curves[0]
    assert exact.low is not None
    assert (exact.low > 0).all()
    assert exact.low[-1] < exact.y[-1]
    table = {name: column.copy() for name, column in synthetic.tables()["fig1_kl"].items()}
    last = (table["estimator"] == "exact") & (table["width"] == 65_536)
    table["kl"][last] = -1e-9
    curves = {curve.label: curve for curve in divergence_panel(table).curves}
    assert np.isnan(curves["exact"].y[-1])
    bound = curves["upper bound (value + 2 errors)"]
    assert np.nanmax(bound.y) == pytest.approx(-1e-9 + 2 * table["error"][last][0])


def test_one_trial_has_no_error() -> None:
    """Its standard deviation is not a number."""
    table = {name: column.copy() for name, column in synthetic.tables()["fig1_kl"].items()}
    table["error"][table["estimator"] == "kde"] = np.nan
    curve = divergence_panel(table).curves[1]
    np.testing.assert_array_equal(curve.low, curve.y)


def test_noise_floor() -> None:
    """Only at the sample count of the estimates."""
    floor = synthetic.tables()["kde_floor"]
    assert picture("fig5b").rows[0][0].curves[-1].y[0] == pytest.approx(2.4e-4)
    fewer = {name: column[:1] for name, column in floor.items()}
    assert picture("fig5b", kde_floor=fewer).rows[0][0].bands == ()
    (band,) = picture("fig1b").rows[0][0].bands
    assert (band.low, band.high) == pytest.approx((3e-4, 5e-4))


def test_joint_grid() -> None:
    """The square is put together whatever the order of its rows."""
    table = synthetic.tables()["joint"]
    order = np.random.default_rng(0).permutation(len(table["y1"]))
    mixed = {name: column[order] for name, column in table.items()}
    first, second = (
        picture("joint").rows[0][0].field,
        picture("joint", joint=mixed).rows[0][0].field,
    )
    assert first is not None
    assert second is not None
    np.testing.assert_array_equal(first.values, second.values)


def test_infinite_joint_density() -> None:
    """Points where it is infinite are as high as their neighbours."""
    table = {**synthetic.tables()["joint"]}
    table["density"] = np.where(table["y1"] == table["y2"], np.inf, table["density"])
    field = picture("joint", joint=table).rows[0][0].field
    assert field is not None
    assert np.isfinite(field.values).all()
    assert field.values[20, 20] == max(
        field.values[19, 20], field.values[21, 20], field.values[20, 19]
    )


def test_theorem_without_densities() -> None:
    """Where no density is given, the distribution functions alone."""
    table = {**synthetic.tables()["theorem"]}
    assert len(picture("theorem").rows[0]) == 2
    assert (
        len(
            picture("theorem", theorem={**table, "pdf": np.full_like(table["pdf"], np.nan)}).rows[
                0
            ]
        )
        == 1
    )


def test_wrong_tables() -> None:
    """A missing column and columns of different lengths are named."""
    table = synthetic.tables()["heads"]
    with pytest.raises(
        ValueError, match="heads must have the columns heads, kurtosis, kl; it lacks kl"
    ):
        checked({"heads": {"heads": table["heads"], "kurtosis": table["kurtosis"]}})
    with pytest.raises(ValueError, match="equally long"):
        checked({"heads": {**table, "kl": table["kl"][1:]}})
    assert (
        checked({"heads": {name: column[:0] for name, column in table.items()}, "other": table})
        == {}
    )
