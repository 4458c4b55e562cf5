"""`audit`: what is measured over re-initialisations lies on what limitlaw predicts."""

import pytest

pytest.importorskip("torch.nn", reason="limitlaw.torch is NOT tested: pip install torch==2.13.0 transformers")

import dataclasses

import torch
from handmade import GPT
from torch import nn

import limitlaw.torch as lt

pytestmark = pytest.mark.filterwarnings("ignore")

TOKENS = torch.tensor([[3, 7, 1, 4]])


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
    """Variance and token correlation of every layer within 5 standard errors, and small ones: a healthy module."""
    assert {row.layer for row in audited.rows} == {"tokens", "positions", "blocks.0", "norm", "head"}
    assert {row.statistic for row in audited.rows} == {"variance", "token correlation"}
    assert max(abs(row.z) for row in audited.rows) < 5
    (variance, correlation) = audited["blocks.0"]
    assert variance.measured[1] < 0.1 * variance.measured[0]
    assert correlation.measured[1] < 0.1
    assert audited.findings == ()


def test_a_difference_is_found(audited):
    """The table can fail: a variance that is twice the predicted one is a finding, and is printed."""
    (first, *rest) = audited["blocks.0"]
    value, error = first.predicted
    wrong = dataclasses.replace(first, measured=(2 * value, error))
    table = dataclasses.replace(audited, rows=(wrong, *rest))
    (finding,) = table.findings
    assert finding.startswith("blocks.0: variance is")
    assert f"! {finding}" in str(table)


def test_the_limit_and_given_layers():
    """A single module, its last layer only, with the limit."""
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 16, bias=False))
    nn.init.normal_(module[2].weight, std=0.25)
    table = lt.audit(module, torch.eye(4), seeds=200, samples=200, layers=["2"])
    assert len(table.rows) == 2
    assert max(abs(row.z) for row in table.rows) < 5
    (variance, _) = table["2"]
    assert variance.limit == pytest.approx(variance.predicted[0], abs=5 * variance.predicted[1])
    with pytest.raises(ValueError, match=r"layers must be paths .* got \['3'\]"):
        lt.audit(module, torch.eye(4), layers=["3"])
