"""Findings: what is wrong is named at its layer, and a healthy module gives none."""

import pytest

pytest.importorskip(
    "torch.nn", reason="limitlaw.torch is NOT tested: pip install torch==2.13.0 transformers"
)

import dataclasses

import numpy as np
import torch
from architectures import PLAIN, TRANSFORMERS
from handmade import GPT, Encoder, Explicit
from torch import nn
from torch.nn import functional as F

import limitlaw.torch as lt
from limitlaw.torch.health import ailments
from limitlaw.torch.references import copies, misfits
from limitlaw.torch.scales import Parameters

pytestmark = pytest.mark.filterwarnings("ignore")

TOKENS = torch.tensor([[3, 7, 1, 4]])


class Unscaled(Explicit):
    """Attention whose author forgot 1/√d."""

    def forward(self, x):
        B, T, C = x.shape
        q, k, v = (
            f(x).view(B, T, self.heads, -1).transpose(1, 2) for f in (self.q, self.k, self.v)
        )
        p = (q @ k.mT).masked_fill(self.mask[:T, :T] == 0, float("-inf"))
        return self.out((F.softmax(p, dim=-1) @ v).transpose(1, 2).reshape(B, T, C))


def arrays(module):
    return {name: p.detach().double().numpy() for name, p in module.named_parameters()}


@pytest.mark.parametrize(
    ("kinds", "name"),
    [
        (PLAIN, "GPT, fused"),
        (PLAIN, "GPT, explicit"),
        (TRANSFORMERS, "GPT-2"),
        (TRANSFORMERS, "Llama"),
        (TRANSFORMERS, "T5"),
    ],
)
def test_a_healthy_module_gives_none(kinds, name):
    """Also residual projections that are all smaller (GPT-2),
    and small queries in place of 1/√d (T5).
    """
    torch.manual_seed(0)
    module, inputs, kwargs = kinds[name]()
    assert lt.check(module, *inputs, **kwargs) == ()


def test_what_a_small_module_lacks_is_named():
    """An embedding of N(0, 1) that is tied to the head, and a mask."""
    torch.manual_seed(0)
    module, inputs, _ = PLAIN["GPT, tied"]()
    (finding,) = lt.check(module, *inputs)
    assert finding.place == "tokens"
    assert "the head is tied to it" in finding
    module, inputs, _ = PLAIN["GPT, einsum"]()
    (finding,) = lt.check(module, *inputs)
    assert "attention has no mask, and head gives logits of the next token" in finding


@pytest.mark.parametrize("layers", [2, 4])
def test_a_doubled_layer_is_named(layers):
    """In every one of 100 modules the doubled layer and no other,
    and nothing before it is doubled.
    """
    for seed in range(100):
        torch.manual_seed(seed)
        found = arrays(GPT(layers=layers))
        parameters = Parameters(found)
        assert list(misfits(found, parameters)) == []
        found["blocks.1.mlp.0.weight"] = 2 * found["blocks.1.mlp.0.weight"]
        (finding,) = misfits(found, parameters)
        assert finding.startswith("blocks.1.mlp.0: its weights are ")
        assert 1.6 < float(finding.split()[4]) < 2.5


def test_a_doubled_layer_of_a_module_is_named():
    """From the module to the words."""
    torch.manual_seed(0)
    module = GPT(layers=3)
    with torch.no_grad():
        module.blocks[2].attention.out.weight.mul_(2)
    (finding,) = lt.check(module, TOKENS)
    assert finding.startswith(
        "blocks.2.attention.out: its weights are 2 times as large as those of its siblings"
    )


def test_a_scale_that_falls_with_depth_is_meant():
    """Steadily by 1/√l it gives no finding; with one layer out of line it does,
    and a layer of zeros does.
    """
    torch.manual_seed(0)
    module = nn.ModuleList(nn.Linear(64, 64, bias=False) for _ in range(5))
    found = {name: a / np.sqrt(1 + i) for i, (name, a) in enumerate(arrays(module).items())}
    assert list(misfits(found, Parameters(found))) == []
    same = arrays(module) | {"3.weight": np.zeros((64, 64))}
    (finding,) = misfits(same, Parameters(same))
    assert finding.startswith("3: its weights are 0 times as large")


def test_siblings_are_of_one_class():
    """An embedding and a Linear of the same shape,
    one after the other, are no siblings; two Linears are.
    """
    torch.manual_seed(0)
    mixed = nn.Sequential(nn.Embedding(16, 16), nn.Linear(16, 16), nn.Linear(16, 16))
    assert lt.check(mixed, TOKENS) == ()
    with torch.no_grad():
        mixed[2].weight.mul_(2)
    (finding,) = lt.check(mixed, TOKENS)
    assert finding.startswith("2: its weights are 2")


def test_a_missing_root_is_named():
    """At the layer that lacks it; small queries make up for it."""
    torch.manual_seed(0)
    module = GPT(layers=2, attention=Explicit)
    module.blocks[1].attention = Unscaled(16, 2)
    (finding,) = lt.check(module, TOKENS)
    assert finding.startswith(
        "blocks.1.attention: q·k is multiplied by 1, expected 1/√d = 0.354 with d = 8"
    )
    one = GPT(layers=1, attention=Unscaled)
    with torch.no_grad():
        one.blocks[0].attention.q.weight.div_(8**0.5)
    assert lt.check(one, TOKENS) == ()


def test_a_copied_layer_is_named():
    """At the copy; nn.TransformerEncoder copies its layer."""
    torch.manual_seed(0)
    module = GPT(layers=3)
    module.blocks[2].load_state_dict(module.blocks[0].state_dict())
    (finding,) = lt.check(module, TOKENS)
    assert finding.startswith(
        "blocks.2: all its weights equal those of blocks.0, expected independent draws"
    )
    found = arrays(Encoder(True))
    assert [f.split(":")[0] for f in copies(Parameters(found))] == ["encoder.layers.1"]


def test_what_the_user_expects():
    """Standard deviations and variances by fan-in,
    of Linear and of GPT-2's Conv1D; biases only by name.
    """
    torch.manual_seed(0)
    module = GPT(layers=1)
    right = {"blocks.*.mlp.*": "0.3333/fan_in", "tokens": 1.0, "blocks.*.mlp.0.bias": 3**-0.5 / 4}
    assert lt.check(module, TOKENS, expected=right) == ()
    (finding,) = lt.check(module, TOKENS, expected={"*.mlp.2": "1/fan_in"})
    assert finding.startswith("blocks.0.mlp.2: its standard deviation is 0.07")
    assert "expected 0.125 and 1" in finding
    gpt2, _, kwargs = TRANSFORMERS["GPT-2"]()
    assert lt.check(gpt2, **kwargs, expected={"h.*.mlp.c_fc": f"{0.04 * 16}/fan_in"}) == ()
    with pytest.raises(ValueError, match=r"no parameter is named 'nothing'"):
        lt.check(module, TOKENS, expected={"nothing": 1.0})
    with pytest.raises(
        ValueError, match=r"must be a standard deviation, or a variance as \"2/fan_in\", got"
    ):
        lt.check(module, TOKENS, expected={"tokens": "large"})


# --- health --------------------------------------------------------------------------------------


def rows(statistic, values):
    """Rows of an embedding and of blocks.0, …"""
    names = ["embed", *(f"blocks.{i}" for i in range(len(values) - 1))]
    return [
        lt.Row(n, statistic, (v, 0.0), (v, 0.0), None) for n, v in zip(names, values, strict=True)
    ]


@pytest.mark.parametrize(
    ("statistic", "healthy", "ill", "said"),
    [
        (
            "token correlation",
            [0.1, 0.5, 0.94],
            [0.1, 0.5, 0.96],
            "blocks.1: the token correlation is 0.96",
        ),
        ("attention entropy / ln t", [0.9, 0.06], [0.9, 0.04], "blocks.0: attention is one-hot"),
        (
            "attention entropy / ln t",
            [0.9, 0.99999],
            [0.9, 1 - 1e-9],
            "blocks.0: attention is uniform",
        ),
        (
            "variance",
            [1e-4, 1.0, 3.0, 11.0],
            [1e-4, 1.0, 5.0, 25.0],
            "blocks.2: the variance is 25 times that of blocks.0",
        ),
    ],
)
def test_health(statistic, healthy, ill, said):
    """Each rule on either side of its bound, and the layer that breaks it."""
    assert ailments(rows(statistic, healthy)) == ()
    (finding,) = ailments(rows(statistic, ill))
    assert finding.startswith(said)
    assert "expected" in finding
    noisy = [
        dataclasses.replace(row, measured=(row.measured[0], row.measured[0] / 4))
        for row in rows(statistic, ill)
    ]
    assert ailments(noisy) == ()


def test_given_tokens_that_are_alike_do_not_collapse():
    """A correlation that is as high from the start is the input's."""
    assert ailments(rows("token correlation", [0.97, 0.97, 0.98])) == ()
