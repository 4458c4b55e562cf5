"""`audit(..., widths=[…])`: how layers change with the width."""

import pytest

pytest.importorskip(
    "torch.nn", reason="limitlaw.torch is NOT tested: pip install torch==2.13.0 transformers"
)

import dataclasses
import itertools

import numpy as np
import torch
from handmade import Explicit
from torch import nn

import limitlaw as ll
import limitlaw.torch as lt
from limitlaw.torch.growing import growth_of
from limitlaw.torch.health import growing

pytestmark = pytest.mark.filterwarnings("ignore")

WIDTHS = [32, 128, 64]
X = torch.eye(5)[:2]


class Stack(nn.Module):
    """Linear layers with variance 1/fan_in; `missing` has none of that."""

    def __init__(self, width: int, missing: str | None = None):
        super().__init__()
        sizes = [5, width, width, width]
        self.a, self.b, self.c = (
            nn.Linear(m, k, bias=False) for m, k in itertools.pairwise(sizes)
        )
        for name, layer in self.named_children():
            nn.init.normal_(layer.weight, std=1.0 if name == missing else layer.in_features**-0.5)

    def forward(self, x):
        return self.c(self.b(self.a(x)))


@pytest.fixture(scope="module")
def tables():
    """A healthy family, and one whose second layer lacks 1/√n; one compilation for both."""
    return [
        lt.audit(
            lambda n, m=m: Stack(n, m),
            lambda n: X,
            widths=WIDTHS,
            seeds=200,
            samples=200,
            limit=False,
        )
        for m in (None, "b")
    ]


def test_a_missing_root_of_the_width(tables):
    """Exponent 1/2 from that layer on, measured and predicted;
    it is named where it begins, and there alone.
    """
    healthy, wrong = tables
    assert healthy.findings == ()
    for table, exponents in ((healthy, [0, 0, 0]), (wrong, [0, 0.5, 0.5])):
        found = [one for one in table.growth if one.statistic == "variance"]
        assert [one.layer for one in found] == ["a", "b", "c"]
        for one, exponent in zip(found, exponents, strict=True):
            for value, error in (one.measured, one.predicted):
                assert value == pytest.approx(exponent, abs=5 * error)
                assert error < 0.05
    (finding,) = (f for f in wrong.findings if "grows with width" in f)
    assert finding.startswith("b: its scale grows with width as n^0.")
    assert finding.endswith("here a factor 1/√n is missing")
    assert f"! {finding}" in str(wrong)


def test_the_table_has_every_width(tables):
    """In order; measured points lie on their predictions;
    records and rows are found by the width.
    """
    table, _ = tables
    assert table.widths == (32, 64, 128)
    assert [row.differs for a in table.audits for row in a.rows] == [False] * 18
    assert table[128] is table.audits[-1]
    records = table.records()
    assert [r["width"] for r in records[:3]] == [32, 64, 128]
    assert len({r["exponent"] for r in records[:3]}) == 1
    with pytest.raises(KeyError, match="no width 9 in the audit; there are 32, 64, 128"):
        table[9]


def test_the_picture_and_the_page(tables, tmp_path):
    """Curves and points of each width, and one curve of the limit."""
    healthy, wrong = tables
    last = healthy.audits[-1]
    limited = dataclasses.replace(
        last, rows=tuple(dataclasses.replace(r, limit=(0.5, 0.0)) for r in last.rows)
    )
    healthy = dataclasses.replace(healthy, audits=(*healthy.audits[:-1], limited))
    panels = healthy.plot("mine").axes
    assert [panel.get_title() for panel in panels] == ["variance", "token correlation"]
    _, labels = panels[0].get_legend_handles_labels()
    assert {f"{kind}, width {n}" for kind in ("predicted", "measured") for n in (32, 64, 128)} | {
        "n → ∞"
    } == set(labels)
    wrong.to_html(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert "grows with width" in page
    assert "<th>scale ∝ n^</th>" in page


def rows(layer, statistic, squares, error=0.01):
    """One row for each width."""
    return [lt.Row(layer, statistic, (s, error * s), (s, error * s), None) for s in squares]


def test_growth_begins_again():
    """A second layer without its root is named, too;
    one behind a norm grows from 0 again; scores have a line.
    """
    n = np.array([16.0, 32.0, 64.0])
    family = {"a": n, "b": n, "c": n**2, "norm": n**0, "d": n, "e": 1 / n, "f": n**0.4}
    growth = [
        growth_of((16, 32, 64), rows(name, "variance", squares))
        for name, squares in family.items()
    ]
    growth += [growth_of((16, 32, 64), rows(f"h{i}", "score variance", n**2)) for i in range(5)]
    growth += [growth_of((16, 32, 64), rows("h", "token correlation", n))]
    assert [one.measured and round(one.measured[0], 6) for one in growth[:6]] == [
        0.5,
        0.5,
        1.0,
        0.0,
        0.5,
        -0.5,
    ]
    assert growth[-1].measured is None
    found = growing(growth)
    assert [f.split(":")[0] for f in found] == ["a", "c", "d", "h0, h1, h2, … (5 in all)"]
    # not beyond chance
    assert growing([growth_of((16, 32, 64), rows("a", "variance", n, 0.5))]) == ()


@pytest.mark.parametrize(
    ("module", "widths", "said"),
    [
        (Stack(8), [8, 16], "module must be a function of the width where widths are given, got"),
        (
            lambda: Stack(8),
            [8, 16],
            "module must be a function of the width where widths are given, got",
        ),
        (Stack, [8], r"widths must be two or more different integers, got list \[8\]"),
        (Stack, 8, "widths must be a sequence of two or more integers, got 8"),
        (Stack, [8, 0], "widths must be a positive integer, got 0"),
    ],
)
def test_bad_widths(module, widths, said):
    """One line."""
    with pytest.raises((TypeError, ValueError), match=said):
        lt.audit(module, X, widths=widths)


# --- which sizes grow ----------------------------------------------------------------------------


class OneLayer(torch.nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.tokens = torch.nn.Embedding(4, width)
        self.attention = Explicit(width, heads)
        for weight in self.parameters():
            std = 1.0 if weight is self.tokens.weight else weight.shape[1] ** -0.5
            torch.nn.init.normal_(weight, std=std)

    def forward(self, ids):
        return self.attention(self.tokens(ids))


@pytest.mark.parametrize(
    ("heads", "head_dim"),
    [(lambda width: 2, None), (lambda width: width // 4, 4)],
    ids=["wide heads", "narrow heads"],
)
def test_sizes_that_differ_between_widths_grow(heads, head_dim):
    """Two heads of dimension n/2 have the limit of n × n heads,
    heads of dimension 4 that of fixed ones.
    """
    ids = torch.tensor([[0, 1, 2]])
    found = lt.program(lambda width: OneLayer(width, heads(width)), ids, widths=(8, 16))
    assert found.width == 16
    own = ll.limit(found.output[0, 2])
    H = heads(16)
    same = ll.attention(ll.initial((3,)), heads=H, head_dim=head_dim, mask="causal")
    here = ll.limit(same[2])
    for name in ("variance", "kurtosis"):
        error = np.hypot(getattr(own.error, name)(), getattr(here.error, name)())
        assert getattr(own, name)() == pytest.approx(
            getattr(here, name)(), abs=max(1e-9, 5 * error)
        )
    assert any("grows with the width" in note for note in found.notes) == (head_dim is not None)


def test_families_that_are_none():
    ids = torch.tensor([[0, 1]])
    with pytest.raises(lt.ConversionError, match="neither fixed nor a multiple of the width"):
        lt.program(lambda width: OneLayer(4 * (width // 5), 2), ids, widths=(10, 17))
    with pytest.raises(TypeError, match="module must be a function of the width"):
        lt.program(OneLayer(8, 2), ids, widths=(8, 16))
