"""What has no rule stops with an error that names it."""

import pytest

pytest.importorskip(
    "torch.nn", reason="limitlaw.torch is NOT tested: pip install torch==2.13.0 transformers"
)

import torch
from torch import nn
from torch.nn import functional as F

import limitlaw.torch as lt
from limitlaw.torch import laying, nodes

pytestmark = pytest.mark.filterwarnings("ignore")

X = torch.ones(2, 4, 5)


class Then(nn.Module):
    """A linear layer, and a function of what it gives."""

    def __init__(self, function):
        super().__init__()
        self.first, self.function = nn.Linear(5, 8), function

    def forward(self, x):
        return self.function(self.first(x))


def branch(x):
    """Data-dependent control flow."""
    return x if x.sum() > 0 else -x


def written(x):
    """A scatter write."""
    y = x.clone()
    y[torch.tensor([0]), torch.tensor([1])] = x[0, 0]
    return y


def scattered(x):
    """Another."""
    return torch.zeros_like(x).scatter(-1, torch.zeros(2, 4, 1, dtype=torch.long), x)


REFUSED = [
    (lambda x: F.dropout(x, 0.5, training=True), "train mode"),
    (lambda x: torch.topk(x, 2).values, "top-k routing"),
    (branch, "data-dependent control flow"),
    (written, "scatter writes"),
    (scattered, "scatter writes"),
    (lambda x: torch.cumprod(x, -1), r"aten\.cumprod.* has no rule. Write the line with"),
    (lambda x: torch.linalg.inv(x[:, :, :4]), "linalg_inv.* has no rule"),
    (lambda x: F.batch_norm(x, None, None, training=True), "batch norm in train mode"),
]


@pytest.mark.parametrize(("function", "message"), REFUSED)
def test_refused(function, message):
    """By name, with the operation, the module and the line where there is one."""
    with pytest.raises(lt.ConversionError, match=message) as caught:
        lt.program(Then(function), X)
    assert "data-dependent" in message or "test_refused.py" in str(caught.value)


def test_arguments(as_user):
    """What is no module, and a factory that makes none."""
    with pytest.raises(
        TypeError, match=r"module must be a torch\.nn\.Module or a function that makes one, got 3"
    ):
        lt.program(3, X)
    with pytest.raises(TypeError, match=r"the factory must return a torch\.nn\.Module, got str"):
        lt.program(lambda: "linear", X)
    with pytest.raises(lt.ConversionError, match="depends on a random parameter"):
        lt.program(nn.LayerNorm(5), X)


def test_too_deep():
    """More operations behind one another than can be followed: words, and the place."""
    layers = [layer for _ in range(120) for layer in (nn.Linear(5, 5), nn.Tanh())]
    with pytest.raises(lt.ConversionError, match=r"^aten\.\S+ in \d+ .*: too many operations lie"):
        lt.program(nn.Sequential(*layers), X[:1, 0])


def test_a_node_without_axes(monkeypatch):
    """A rule of axes that fails says where, and nothing of Python."""
    monkeypatch.setitem(laying.LAYOUT_RULES, nodes.Elementwise, lambda layouts, node: ()[0])
    message = r"^aten\.tanh\S* in the module itself .*: there is no rule for which of its axes"
    with pytest.raises(lt.ConversionError, match=message) as caught:
        lt.program(Then(torch.tanh), X)
    assert "tuple" not in str(caught.value)
