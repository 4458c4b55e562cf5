"""A module as it is, one step ahead: each layer given what the layers before it have computed."""

import pytest

pytest.importorskip(
    "torch.nn", reason="limitlaw.torch is NOT tested: pip install torch==2.13.0 transformers"
)

import numpy as np
import torch
from handmade import GPT
from torch import nn

import limitlaw.torch as lt
from limitlaw.torch.auditing import given_inputs
from limitlaw.torch.converting import conversion
from limitlaw.torch.subject import subject_of

pytestmark = pytest.mark.filterwarnings("ignore")

X = torch.randn(3, 64, generator=torch.Generator().manual_seed(0))


def stack(seed: int = 0) -> nn.Sequential:
    """Two matrices, all N(0, 1/64)."""
    torch.manual_seed(seed)
    module = nn.Sequential(nn.Linear(64, 64, bias=False), nn.ReLU(), nn.Linear(64, 64, bias=False))
    for i in (0, 2):
        nn.init.normal_(module[i].weight, std=1 / 8)
    return module


def test_the_law_given_the_input():
    """Mean and spread of the mean square are v tr K / T and v √(2 tr K² / D)
    / T for the module's own K = X Xᵀ.
    """
    module = stack()
    table = lt.audit(module, X, samples=2000, limit=False)
    assert table.head[2:4] == ("this module", "one step ahead, ± spread")
    assert table.findings == ()
    with torch.no_grad():
        inputs = {"0": X, "2": torch.relu(module[0](X))}
        own = {"0": module[0](X), "2": module[2](inputs["2"])}
    for layer, x in inputs.items():
        variance, correlation = (row for row in table[layer])
        v, K = float((module[int(layer)].weight ** 2).mean()), (x @ x.T).numpy()
        mean, spread = v * np.trace(K) / 3, v * np.sqrt(2 * (K**2).sum() / 64) / 3
        assert variance.measured == (pytest.approx(float((own[layer] ** 2).mean()), rel=1e-5), 0.0)
        assert variance.predicted[0] == pytest.approx(mean, abs=5 * variance.predicted[1])
        assert variance.spread == pytest.approx(spread, rel=0.1)  # √(1/4000) = 0.016, and a tail
        root = np.sqrt(np.diag(K))
        expected = (K / root / root[:, None])[~np.eye(3, dtype=bool)].mean()
        assert correlation.predicted[0] == pytest.approx(expected, abs=0.03)


def test_a_layer_that_reads_its_own_weights_is_named():
    """W_2 = W_1ᵀ: every entry is normal, no other rule sees it,
    and the variance is off at that layer alone.
    """
    module = stack(1)
    wide = nn.Sequential(*(nn.Linear(64, 64, bias=False) for _ in range(2)))
    with torch.no_grad():
        wide[0].weight.copy_(module[0].weight)
        wide[1].weight.copy_(module[0].weight.T)
    assert lt.check(wide, X) == ()
    (finding,) = lt.audit(wide, X, samples=200, limit=False).findings
    assert finding.startswith("1: variance is ")
    assert "given what it reads" in finding


def test_every_layer_reads_data():
    """A GPT given its layers: the program is replayed,
    layers without weights are left out, attentions stay.
    """
    torch.manual_seed(0)
    done = conversion(GPT(width=8, layers=2), (torch.tensor([[3, 7, 1, 4]]),), {})
    given = given_inputs(subject_of(done, None, False))
    assert list(given.layers) == ["tokens", "positions", "blocks.0", "blocks.1", "head"]
    assert list(given.attentions) == ["blocks.0.attention", "blocks.1.attention"]
    whole = {v.label.name: v for v in done.program.values}
    for item in given.layers.values():
        np.testing.assert_array_equal(item.expected, whole[item.label.name].expected)
