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

import limitlaw as ll
import limitlaw.torch as lt
from limitlaw.torch import complexes, gridding, making

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


def zero_norms(x):
    """Norms whose weights and biases are zero, as at the end of branches that start as nothing."""
    none = torch.zeros(x.shape[1]).to(x)
    given = [torch.ones_like(none), none + 1, none, none]
    last = torch.zeros(x.shape[-1]).to(x)
    return x + F.batch_norm(x, *given) + F.layer_norm(x, last.shape, last, last)


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
    "norms of zero": zero_norms,
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


def wrong_sign(monkeypatch):
    """Complex products with re re + im im."""
    monkeypatch.setattr(complexes, "_sum", lambda a, b, sign=1.0: _right_sum(a, b))


def first_alone(monkeypatch):
    """The first term for the largest."""
    monkeypatch.setattr(making, "maximum", lambda terms: terms[0])


def late_windows(monkeypatch):
    """Convolutions padded on one side only."""
    right = gridding._margins
    monkeypatch.setattr(gridding, "_margins", lambda *a: [0, *right(*a)[1:-1], sum(right(*a)[:2])])


def other_classes(monkeypatch):
    """A loss without its normalisation."""
    monkeypatch.setattr(making, "log_softmax", lambda x, axis: x)


_right_sum = complexes._sum


@pytest.mark.parametrize(
    ("mutation", "name"),
    [
        (wrong_sign, "complex rotary"),
        (first_alone, "largest token"),
        (late_windows, "Whisper stem"),
        (other_classes, "log-softmax"),
    ],
)
def test_a_wrong_rule_is_seen(monkeypatch, mutation, name):
    """A mutation of one rule: no program is returned."""
    mutation(monkeypatch)
    torch.manual_seed(0)
    module, x = (Then(FUNCTIONS[name]), X) if name in FUNCTIONS else FAMILIES[name]
    module = module if isinstance(module, Then) else module()
    with pytest.raises(lt.ReplayError, match="the program gives other numbers than the module"):
        lt.program(module, x)


def test_a_parameter_read_in_two_ways_is_refused():
    """Over coordinates and over tokens: a program would draw two independent matrices."""

    class Both(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.both = nn.Linear(5, 4), nn.Linear(4, 4, bias=False)

        def forward(self, x):
            x = self.first(x)
            return self.both(x) + self.both(x.transpose(1, 2)).transpose(1, 2)

    with pytest.raises(lt.ConversionError, match=r"both\.weight is read in two ways"):
        lt.program(Both(), X)


def test_one_matrix_met_with_different_batch_axes_is_one():
    """Heads of tokens, and of one token by itself."""

    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.again = nn.Linear(5, 8), nn.Linear(8, 8, bias=False)

        def heads(self, x):
            return self.again(x).unflatten(-1, (2, 4)).tanh()

        def forward(self, x):
            x = self.first(x)
            y = self.heads(x)
            return y, y[0, 0] @ self.heads(x[0]).transpose(-1, -2)

    program = lt.program(Twice(), X)
    assert len([m for m in program.weights if isinstance(m, ll.Matrix)]) == 2


def test_a_head_of_zeros():
    """Nothing random is returned: the program is that of the last random values."""
    module = nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 3))
    nn.init.zeros_(module[2].weight)
    nn.init.zeros_(module[2].bias)
    program = lt.program(module, X)
    assert program.output.shape == (2, 4)
    assert any("a head of zeros" in note and "tanh" in note for note in program.notes)


def test_parameters_without_numbers_are_named():
    """On the meta device, or not finite."""
    with pytest.raises(lt.ConversionError, match="weight is on the meta device"):
        lt.program(nn.Linear(5, 8, device="meta"), X)
    module = nn.Linear(5, 8)
    with torch.no_grad():
        module.weight[0, 0] = torch.nan
    with pytest.raises(lt.ConversionError, match="weight has entries that are not finite"):
        lt.program(module, X)


@pytest.mark.parametrize("weight", [0.0, None])
def test_the_weight_of_a_norm(weight):
    """Zero, or random."""
    module = nn.Sequential(nn.Linear(5, 8), nn.LayerNorm(8), nn.Linear(8, 3))
    with torch.no_grad():
        module[1].weight.normal_() if weight is None else module[1].weight.fill_(weight)
        module[1].bias.normal_()
    _check(module, X)
