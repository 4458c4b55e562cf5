"""Functions of numbers are recognised by their values, and only those that are what they seem."""

import pytest

pytest.importorskip(
    "torch.nn", reason="limitlaw.torch is NOT tested: pip install torch==2.13.0 transformers"
)

import torch
from torch import nn

import limitlaw.torch as lt
from limitlaw.language import ops
from limitlaw.language.tree import ancestors

pytestmark = pytest.mark.filterwarnings("ignore")


class GeluByHand(nn.Module):
    """The tanh form of GELU in eight operations, as GPT-2 writes it."""

    def forward(self, x):
        return (
            0.5
            * x
            * (1.0 + torch.tanh((2 / torch.pi) ** 0.5 * (x + 0.044715 * torch.pow(x, 3.0))))
        )


class Swish(nn.Module):
    """x·sigmoid(x), which is SiLU."""

    def forward(self, x):
        return x * torch.sigmoid(x)


class Scaled(nn.Module):
    """A straight line, which is no function of coordinates."""

    def forward(self, x):
        return 2 * x - 3 * x / 4


NAMES = [
    (nn.ReLU(), ["relu"]),
    (nn.GELU(), ["gelu"]),
    (nn.GELU(approximate="tanh"), ["gelu_tanh"]),
    (GeluByHand(), ["gelu_tanh"]),
    (nn.SiLU(), ["silu"]),
    (Swish(), ["silu"]),
    (nn.Softplus(), ["softplus"]),
    (nn.ReLU6(), ["φ"]),
    (nn.ELU(), ["φ"]),
    (nn.Hardswish(), ["φ"]),
    (Scaled(), []),
]


@pytest.mark.parametrize(("phi", "names"), NAMES)
def test_one_nonlinearity(phi, names):
    """A chain of operations on one vector is one φ; relu6 is not relu."""
    torch.manual_seed(0)
    program = lt.program(nn.Sequential(nn.Linear(5, 8), phi), torch.ones(3, 5))
    found = [v.op.phi.name for v in ancestors([program.output]) if isinstance(v.op, ops.Map)]
    assert found == names


class Filled(nn.Module):
    """Given numbers in place of the vectors of some tokens."""

    def forward(self, x):
        mask = torch.tensor([True, False, True])[:, None]
        return torch.where(mask, x.masked_fill(~mask, 0.0), 0.5)


def test_given_numbers_beside_vectors():
    """masked_fill and where with a number for the other side: the module's own values."""
    torch.manual_seed(0)
    program = lt.program(nn.Sequential(nn.Linear(5, 8), Filled()), torch.ones(3, 5))
    assert lt.replay(program).worst < 1e-13
