"""Families of models beyond text: every value is the module's, and a broken rule is seen."""

import pytest

pytest.importorskip(
    "torch.nn", reason="limitlaw.torch is NOT tested: pip install torch==2.13.0 transformers"
)

import numpy as np
import torch
import vision
from torch import nn
from torch.nn import functional as F

import limitlaw.torch as lt

pytestmark = pytest.mark.filterwarnings("ignore")


def given(*shape):
    """Constants, the same in every run."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0))


X, IMAGE = given(2, 4, 5), given(1, 3, 8, 8)
TOKENS = torch.tensor([[3, 7, 1, 7], [5, 2, 9, 4]])


class Then(nn.Module):
    """A linear layer, and a function of what it gives."""

    def __init__(self, function, width=8):
        super().__init__()
        self.first, self.function = nn.Linear(5, width), function

    def forward(self, x):
        return self.function(self.first(x))


FAMILIES = {
    "ConvNeXt": (vision.ConvNeXt, IMAGE),
    "Swin": (vision.Windows, given(1, 3, 6, 6)),
    "Mixer": (vision.Mixer, IMAGE),
    "talking heads": (vision.TalkingHeads, X),
    "Whisper stem": (vision.WhisperStem, given(1, 4, 8)),
    "ResNet": (vision.Residual, IMAGE),
    "ResNeXt": (lambda: vision.Residual(groups=2), IMAGE),
    "depthwise": (vision.Depthwise, given(1, 3, 6, 4)),
    "interleaved rotary": (vision.Interleaved, X),
    "scaled rotary": (lambda: vision.Interleaved(scale=0.3), X),
    "complex rotary": (lambda: vision.Interleaved(complex_=True), X),
    "loss": (vision.Loss, TOKENS),
    "loss, untied": (lambda: vision.Loss(tied=False), TOKENS),
}


def written(x):
    """Slices that are overwritten."""
    y = x.clone()
    y[:, 1:3] = x[:, :2] * 2
    y[:, 0] = 1.0
    return y


FUNCTIONS = {
    "normalize": lambda x: F.normalize(x, dim=-1),
    "norm of order 1": lambda x: x / x.norm(1, dim=-1, keepdim=True),
    "pad coordinates": lambda x: F.pad(x, (1, 2), value=0.5),
    "pad tokens": lambda x: F.pad(x, (0, 0, 2, 1), value=-1.0),
    "crop": lambda x: F.pad(x, (0, 0, -1, 1)),
    "circular": lambda x: F.pad(x, (1, 1), mode="circular"),
    "concatenated": lambda x: torch.cat([x, -x, x.new_zeros(2, 4, 1)], -1).relu(),
    "cumulative": lambda x: torch.cumsum(x, 1),
    "running mean": lambda x: F.avg_pool1d(x.transpose(1, 2), 3, 1, 1),
    "resampled": lambda x: F.interpolate(x.transpose(1, 2), 6, mode="linear"),
    "nearest": lambda x: F.interpolate(x.transpose(1, 2), 8),
    "largest token": lambda x: x.amax(1),
    "largest coordinate": lambda x: x.max(-1).values,
    "several": lambda x: torch.maximum(x[:, :2], x[:, 2:]) + torch.minimum(x[:, 1:2], x[:, 2:3]),
    "written": written,
    "log-softmax": lambda x: F.log_softmax(x, -1),
    "huge logits": lambda x: F.log_softmax(x * 1e4, -1),
    "logsumexp": lambda x: torch.logsumexp(x, (1, 2)),
    "gathered": lambda x: x.gather(-1, torch.tensor([[[1], [0], [7], [3]]] * 2)),
    "PReLU": lambda x: F.prelu(x, torch.tensor([0.1], dtype=x.dtype)),
    "GLU": F.glu,
    "SELU": F.selu,
    "condition": lambda x: torch.where(x > 0.1, x, x * x),
    "given matrix": lambda x: x @ torch.arange(24).reshape(8, 3).to(x),
    "instance norm": lambda x: F.instance_norm(x.transpose(1, 2)),
    "group norm": lambda x: F.group_norm(x.transpose(1, 2), 4),
    "tiny": lambda x: F.gelu(x * 0.1 - 10.0),
    "masked twice": lambda x: (
        (x @ x.mT / 0.5)
        .masked_fill(~torch.ones(4, 4).tril().bool(), -torch.inf)
        .masked_fill(torch.eye(4).roll(1, 0).bool(), -1e30)
        .softmax(-1)
    ),
}


@pytest.mark.parametrize("name", FAMILIES)
def test_families(name):
    """Architectures convert; outputs are what torch returns."""
    torch.manual_seed(0)
    make, x = FAMILIES[name]
    _check(make(), x)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name):
    """Operations by themselves."""
    torch.manual_seed(0)
    _check(Then(FUNCTIONS[name]), X)


def _check(module, x):
    program = lt.program(module, x)
    exact = module.double().eval()(x.double() if x.is_floating_point() else x)
    exact = exact[0] if isinstance(exact, tuple) else exact
    last = program.values[-len(program.outputs)]
    assert last.expected.shape == exact.shape
    np.testing.assert_allclose(last.expected, exact.detach().numpy(), rtol=1e-5, atol=1e-8)
    return program
