"""How parameters start: watched, measured, the same; and laws that hold."""

import subprocess
import sys

import pytest

pytest.importorskip(
    "torch.nn", reason="limitlaw.torch is NOT tested: pip install torch==2.13.0 transformers"
)

import jax
import numpy as np
import torch
from handmade import GPT, Encoder
from torch import nn

import limitlaw as ll
import limitlaw.torch as lt
from limitlaw.language.ops import matrices_of
from limitlaw.language.tree import ancestors
from limitlaw.torch.converting import conversion

pytestmark = pytest.mark.filterwarnings("ignore")

X = torch.ones(2, 4, 5)
TOKENS = torch.tensor([[3, 7, 1]])


def stds(program):
    """The std of each matrix, which is the root of variance × fan-in."""
    return [float(m.std) for m in matrices_of(ancestors([program.output]))]


def test_watched_scales():
    """nn.Linear is uniform with variance × fan-in 1/3; what a factory draws last counts."""

    def factory():
        module = nn.Sequential(
            nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 6, bias=False), nn.Linear(6, 4, bias=False)
        )
        nn.init.normal_(module[2].weight, std=0.5)
        nn.init.xavier_uniform_(module[3].weight)
        return module

    program = lt.program(factory, X)
    np.testing.assert_allclose(
        stds(program), [3**-0.5, 0.5 * 8**0.5, (2 / 10 * 6) ** 0.5], rtol=1e-6
    )
    assert any("uniform" in note for note in program.notes)


def test_copies_and_padding_are_followed():
    """Layers that nn.TransformerEncoder copies, and a table with a row of zeros."""

    class Padded(Encoder):
        def __init__(self):
            super().__init__(True)
            self.table = nn.Embedding(9, 16, padding_idx=0)

        def forward(self, tokens):
            return self.encoder(self.table(tokens))

    done = conversion(Padded, (torch.tensor([[1, 0, 3]]),), {})
    drawn = {name: (p.drawn, p.variance) for name, p in done.parameters.random.items()}
    assert drawn["table.weight"] == ("normal", 1.0)
    assert drawn["encoder.layers.1.linear1.weight"] == ("uniform", pytest.approx(1 / 48))
    assert drawn["encoder.layers.1.self_attn.in_proj_weight"] == ("uniform", pytest.approx(2 / 64))
    assert {law for law, _ in drawn.values()} == {"normal", "uniform"}


def test_measured_scales():
    """Of a module as it is: the second moment of its entries."""
    module = nn.Linear(5, 400, bias=False)
    nn.init.normal_(module.weight, std=0.3)
    (std,) = stds(lt.program(module, X))
    assert std == pytest.approx(float((module.weight**2).mean() * 5) ** 0.5)


def test_a_scale_that_was_changed_is_seen():
    """What the factory declared and what is measured must agree; a factor is followed."""

    def factory(change):
        module = nn.Linear(5, 400, bias=False)
        with torch.no_grad():
            change(module.weight)
        return module

    (std,) = stds(lt.program(lambda: factory(lambda w: w.mul_(3)), X))
    assert std == pytest.approx(3**0.5, rel=1e-6)
    with pytest.raises(
        lt.ConversionError, match="weight was drawn from a uniform law of variance"
    ):
        lt.program(lambda: factory(lambda w: w.data.numpy().__imul__(3)), X)


def test_orthogonal_is_refused():
    """By its name in a factory, and by its numbers in a module."""

    def factory():
        module = nn.Linear(5, 8)
        nn.init.orthogonal_(module.weight)
        return module

    with pytest.raises(lt.ConversionError, match="orthogonal_"):
        lt.program(factory, X)
    with pytest.raises(lt.ConversionError, match="weight is orthogonal"):
        lt.program(factory(), X)


def test_identical_layers_are_one_matrix():
    """nn.TransformerEncoder copies its layer: said in the notes,
    and the matrices of both layers are the same.
    """
    program = lt.program(Encoder(True, layers=2), X, torch.ones(4, 4, dtype=torch.bool).triu(1))
    assert any("encoder.layers.1.linear1.weight" in n and "one matrix" in n for n in program.notes)
    assert len(stds(program)) == 1 + 6  # the embedding; q, k, v, out, two of the MLP


def test_separate_layers_are_not():
    """Two blocks of their own have matrices of their own."""
    assert len(stds(lt.program(GPT(layers=2), TOKENS))) == 2 * 6 + 1


def test_the_law_is_that_of_the_module():
    """Finite width: variance and token covariance of the logits within 5 standard
    errors of 1500 modules.
    """
    torch.manual_seed(0)

    def factory():
        module = GPT(width=8, heads=2, layers=1)
        for p in module.parameters():
            if p.ndim > 1:
                nn.init.normal_(p, std=0.3)
        return module

    program = lt.program(factory, TOKENS)
    draws = np.asarray(
        ll.finite_samples(program.output, width=8, samples=1000, key=jax.random.key(0))
    )[:, 0]
    with torch.no_grad():
        measured = np.stack([factory().eval()(TOKENS)[0, :, 0].numpy() for _ in range(1500)])
    for i, j in ((0, 0), (2, 2), (0, 2), (1, 2)):
        a, b = draws[:, i] * draws[:, j], measured[:, i] * measured[:, j]
        error = (a.var() / len(a) + b.var() / len(b)) ** 0.5
        assert abs(a.mean() - b.mean()) < 5 * error
        assert i != j or error < 0.15 * a.mean()


def test_the_limit_reads_it():
    """The same program has a limit."""
    program = lt.program(GPT(width=8, heads=2, layers=1), TOKENS)
    kernel = ll.kernel(program.output[0], samples=32)
    assert np.asarray(kernel.mean()).shape == (3, 3)


def test_limitlaw_does_not_import_torch():
    """Only limitlaw.torch does."""
    code = (
        "import sys, limitlaw; assert 'torch' not in sys.modules and 'limitlaw.torch' not in "
        "sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


class Sines(nn.Module):
    """A table that is drawn, as that of every Embedding, and then overwritten."""

    def __init__(self):
        super().__init__()
        self.tokens, self.places = nn.Embedding(9, 16), nn.Embedding(8, 16)
        angle = torch.arange(8.0)[:, None] * 100.0 ** -(torch.arange(16) / 16)
        self.places.weight = nn.Parameter(angle.sin())

    def forward(self, tokens):
        return self.tokens(tokens) + self.places(torch.arange(tokens.shape[1]))


def test_what_is_the_same_at_every_call_is_given():
    """A table of sines is no random parameter; where a factory seeds PyTorch, all are the same,
    and none is given.
    """
    done = conversion(Sines, (TOKENS,), {})
    assert set(done.parameters.random) == {"tokens.weight"}
    assert any("are the same at every call" in note for note in done.program.notes)
    assert "given" in str(lt.read(Sines, TOKENS))

    def seeded():
        torch.manual_seed(0)
        return Sines()

    before = torch.random.get_rng_state()
    assert set(conversion(seeded, (TOKENS,), {}).parameters.random) == {
        "tokens.weight",
        "places.weight",
    }
    torch.random.set_rng_state(before)
    torch.manual_seed(3)
    Sines()
    expected = torch.rand(1)
    torch.manual_seed(3)
    lt.read(Sines, TOKENS)
    assert torch.equal(torch.rand(1), expected)  # the second call leaves no trace
