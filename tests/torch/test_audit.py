"""`audit`: what is measured over re-initialisations lies on what limitlaw predicts."""

import pytest

pytest.importorskip(
    "torch.nn", reason="limitlaw.torch is NOT tested: pip install torch==2.13.0 transformers"
)

import base64
import dataclasses
import json
import math
import re
import sys
import types

import torch
from handmade import GPT, Explicit, Fused
from scipy import stats
from torch import nn

import limitlaw.torch as lt
from limitlaw.torch.converted import computed
from limitlaw.torch.converting import conversion
from limitlaw.torch.exporting import runs
from limitlaw.torch.measuring import attention_statistics
from limitlaw.torch.subject import subject_of

pytestmark = pytest.mark.filterwarnings("ignore")

TOKENS = torch.tensor([[3, 7, 1, 4]])
OF_STREAM = {"variance", "token correlation"}
OF_ATTENTION = {"attention entropy / ln t", "score variance"}


def factory():
    """A hand-written GPT, all matrices N(0, 0.3²)."""
    module = GPT(width=8, heads=2, layers=1)
    for p in module.parameters():
        if p.ndim > 1:
            nn.init.normal_(p, std=0.3)
    return module


@pytest.fixture(scope="module")
def audited():
    """One audit for all tests."""
    return lt.audit(factory, TOKENS, seeds=300, samples=300, limit=False)


def test_every_layer_is_as_predicted(audited):
    """Every statistic of every layer within 5 standard errors, and small ones:
    a healthy module.
    """
    assert {row.layer for row in audited.rows} == {
        "tokens",
        "positions",
        "blocks.0",
        "norm",
        "head",
        "blocks.0.attention",
    }
    assert {row.statistic for row in audited["blocks.0"]} == OF_STREAM
    assert {row.statistic for row in audited["blocks.0.attention"]} == OF_ATTENTION
    assert max(abs(row.z) for row in audited.rows) < 5
    (variance, correlation) = audited["blocks.0"]
    assert variance.measured[1] < 0.1 * variance.measured[0]
    assert correlation.measured[1] < 0.1
    (entropy, scores) = audited["blocks.0.attention"]
    assert entropy.measured[1] < 0.02
    assert entropy.measured[0] < 0.99
    assert scores.measured[1] < 0.1 * scores.measured[0]
    assert audited.findings == ()


def test_a_difference_is_found(audited):
    """The table can fail: a variance that is twice the predicted one is a finding,
    and is printed.
    """
    (first, *rest) = audited["blocks.0"]
    value, error = first.predicted
    wrong = dataclasses.replace(first, measured=(2 * value, error))
    table = dataclasses.replace(audited, rows=(wrong, *rest))
    (finding,) = table.findings
    assert finding.startswith("blocks.0: variance is")
    assert f"! {finding}" in str(table)
    assert "class=differs" in table._repr_html_()
    assert "class=differs" not in audited._repr_html_()


def test_few_seeds_find_nothing_by_chance():
    """The error of two numbers is their own only by chance; what the draws spread counts."""
    row = lt.Row("a", "token correlation", (1.5, 0.01), (1.0, 0.01), None, 0.5, 2)
    assert abs(row.z) < 2
    assert dataclasses.replace(row, spread=0.01).z > 20
    assert dataclasses.replace(row, measured=(1.5, math.inf), seeds=1).z == pytest.approx(
        1.0, abs=0.01
    )


@pytest.mark.parametrize("z", [-3.0, 1.0, 4.5])
@pytest.mark.parametrize("freedom", [12, 200])
def test_mean_squares_have_the_tails_of_chi_squares(z, freedom):
    """What χ²_k/k exceeds as often as a normal number exceeds z has that z to 0.1;
    in deviations it is far off.
    """
    x = stats.chi2.ppf(stats.norm.cdf(z), freedom) / freedom
    row = lt.Row("a", "variance", (x, 0.0), (1.0, 0.0), None, math.sqrt(2 / freedom), 1)
    assert row.z == pytest.approx(z, abs=0.1)
    assert freedom > 12 or z < 4 or dataclasses.replace(row, statistic="other").z > z + 1.5
    lacking = dataclasses.replace(
        row, statistic="attention entropy / ln t", measured=(1 - x / 9, 0.0)
    )
    lacking = dataclasses.replace(lacking, predicted=(1 - 1 / 9, 0.0), spread=row.spread / 9)
    assert lacking.z == pytest.approx(-row.z)


def test_the_limit_and_given_layers():
    """A single module, its last layer only, with the limit and the kurtosis."""
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 16, bias=False))
    nn.init.normal_(module[2].weight, std=0.25)
    table = lt.audit(module, torch.eye(4), seeds=200, samples=200, layers=["2"], kurtosis=True)
    assert table.head[-3:] == ("predicted, n = 16", "z", "limit")
    assert [row.statistic for row in table.rows] == [
        "variance",
        "token correlation",
        "excess kurtosis",
    ]
    assert max(abs(row.z) for row in table.rows) < 5
    (variance, _, kurtosis) = table["2"]
    # of 16 normal numbers, given their mean square
    assert kurtosis.measured[0] == pytest.approx(-6 / 18, abs=0.1)
    limit, error = variance.limit
    assert limit == pytest.approx(variance.predicted[0], abs=5 * variance.predicted[1])
    assert error < 1e-6 * limit
    with pytest.raises(ValueError, match=r"layers must be paths .* got \['3'\]"):
        lt.audit(module, torch.eye(4), layers=["3"])


def test_a_stream_that_starts_with_data():
    """Where the input has the width of the module, a layer's vectors are those of the stream,
    not of its branch.
    """
    layer = nn.TransformerEncoderLayer(16, 2, 32, norm_first=True, batch_first=True)
    x = torch.randn(1, 4, 16, generator=torch.Generator().manual_seed(0))
    stack = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)
    subject = subject_of(conversion(stack, (x,), {}), None, False)
    item = subject.layers["layers.0"]
    table = lt.Audit((), subject.done.program, subject.width, 8)
    # the stream is given, its MLP is wide
    assert table.head[3:] == ("predicted, n = 16", "z", "limit, 32 → ∞")
    with torch.no_grad():
        assert item.expected.reshape(-1) == pytest.approx(
            stack.double().eval()(x.double()).numpy().reshape(-1)
        )


@pytest.mark.parametrize("kind", [Explicit, Fused])
def test_attention_is_measured_as_torch_has_it(kind):
    """Entropy and mean square of visible scores, fused or not,
    from the matrices of the module; so in the program.
    """
    torch.manual_seed(0)
    written = GPT(layers=1, attention=kind)
    done = conversion(written, (TOKENS,), {})
    (run,) = runs(done.exported, done.parameters, lambda: written, [0])
    (attention,) = done.program.attentions
    found = subject_of(done, None, False).measured(run)["scores", "blocks.0.attention"]
    block = written.double().blocks[0]
    x = block.norm1(written.tokens(TOKENS) + written.positions(torch.arange(4)))
    a = block.attention
    both = a.qkv(x).split(16, dim=-1)[:2] if kind is Fused else (a.q(x), a.k(x))
    q, k = (y.view(4, 2, 8).transpose(0, 1) for y in both)
    p = q @ k.mT / math.sqrt(8)
    seen = torch.ones(4, 4).tril().bool()
    rows = [
        torch.distributions.Categorical(logits=p[h, i, : i + 1]).entropy() / math.log(i + 1)
        for h in range(2)
        for i in range(1, 4)
    ]
    assert found[0] == pytest.approx(float(sum(rows) / len(rows)), rel=1e-9)
    assert found[1] == pytest.approx(float((p[:, seen] ** 2).mean()), rel=1e-9)
    (in_the_program,) = computed(done.program, [attention_statistics(attention)])
    assert in_the_program == pytest.approx(found, rel=1e-9)


def test_other_seeds():
    """A range of seeds gives other numbers, and those of the first seeds are those of so many."""
    done = conversion(factory, (TOKENS,), {})
    numbers = [
        next(iter(runs(done.exported, done.parameters, factory, s)))["linear"]
        for s in ([0], [1], range(2))
    ]
    assert torch.equal(numbers[0], numbers[2])
    assert not torch.equal(numbers[0], numbers[1])
    with pytest.raises(
        TypeError,
        match="seeds must be a positive integer or a sequence of integers, got str 'all'",
    ):
        lt.audit(factory, TOKENS, seeds="all")


# --- the table -----------------------------------------------------------------------------------


def test_the_page_reads_nothing_else(audited, tmp_path):
    """Findings, picture and table in one file."""
    wrong = dataclasses.replace(audited, references=("blocks.0: a < b",))
    wrong.to_html(tmp_path / "page.html", "mine")
    page = (tmp_path / "page.html").read_text()
    assert "<li>blocks.0: a &lt; b</li>" in page
    assert all(row.cells[2] in page for row in audited.rows)
    assert not re.search(r"https?:|<link|<script|src=\"(?!data:)", page)
    assert "color-scheme:light dark" in page  # the reader's
    picture = base64.b64decode(re.search(r"base64,([^\"]+)", page)[1])
    assert picture.startswith(b"\x89PNG")


def test_json_has_all(audited):
    """Findings with their parts, what was read, and every row."""
    wrong = lt.Finding("blocks.0", "a < b", "it shrinks", "b = a", "fault")
    found = json.loads(dataclasses.replace(audited, references=(wrong,)).to_json())
    assert found["findings"] == [
        {
            "level": "fault",
            "place": "blocks.0",
            "what": "a < b",
            "does": "it shrinks",
            "change": "b = a",
        }
    ]
    assert len(found["rows"]) == len(audited.rows)
    assert "1 blocks, width 8, 2 heads of 4" in found["read"]
    assert "    change: b = a" in str(dataclasses.replace(audited, references=(wrong,)))


def test_the_picture_has_a_panel_for_each_statistic(audited):
    """The curve is the prediction, the points are measured, and a band lies around the curve."""
    panels = [panel for panel in audited.plot("mine").axes if panel.get_visible()]
    assert {panel.get_title() for panel in panels} == OF_STREAM | OF_ATTENTION
    rows = [row for row in audited.rows if row.statistic == "variance"]
    curve, points = panels[0].get_lines()[:2]
    assert list(curve.get_ydata()) == [row.predicted[0] for row in rows]
    assert list(points.get_ydata()) == [row.measured[0] for row in rows]
    assert len(panels[0].collections) == 2  # the band, and error bars


def test_a_data_frame(audited, monkeypatch):
    """One line a row; without pandas a line that says how to get it."""
    first = audited.records()[0]
    assert (first["layer"], first["measured"]) == ("tokens", audited.rows[0].measured[0])
    monkeypatch.setitem(
        sys.modules, "pandas", types.SimpleNamespace(DataFrame=lambda records: ("frame", records))
    )
    assert audited.to_pandas() == ("frame", audited.records())
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match=r"limitlaw\[pandas\]"):
        audited.to_pandas()
