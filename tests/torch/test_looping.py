"""Repeated layers are one `repeat` in a converted program."""

import pytest

pytest.importorskip(
    "torch.nn", reason="limitlaw.torch is NOT tested: pip install torch==2.13.0 transformers"
)

import jax
import numpy as np
import torch
from handmade import GPT, Einsum
from torch import nn

import limitlaw as ll
import limitlaw.torch as lt
from limitlaw.language import ops
from limitlaw.language.tree import ancestors
from limitlaw.torch.converting import conversion
from limitlaw.torch.layers import blocks_of, layer_of
from limitlaw.torch.subject import statistics, subject_of

pytestmark = pytest.mark.filterwarnings("ignore")

TOKENS = torch.tensor([[3, 7, 1, 4]])


class Residual(nn.Module):
    """x + tanh(W x)."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(16, 16, bias=False)

    def forward(self, x):
        return x + torch.tanh(self.inner(x))


class Stack(nn.Module):
    """Residual blocks of tanh, in a list; a scale for each of them."""

    def __init__(self, scales, skip=None):
        super().__init__()
        self.first = nn.Linear(5, 16, bias=False)
        self.blocks = nn.ModuleList(Residual() for _ in scales)
        self.skip = skip
        nn.init.normal_(self.first.weight, std=0.5)
        for block, scale in zip(self.blocks, scales, strict=True):
            nn.init.normal_(block.inner.weight, std=scale / 4)

    def forward(self, x):
        x, seen = self.first(x), []
        for block in self.blocks:
            x = block(x)
            seen.append(x)
        return x if self.skip is None else x + seen[self.skip]


def repeats(program):
    """How often the loops of a program turn."""
    return [v.op.times for v in ancestors([program.output]) if isinstance(v.op, ops.Scan)]


@pytest.mark.parametrize(
    ("scales", "skip", "times"),
    [
        ([1, 1, 1, 1], None, [4]),
        ([2, 1, 1, 1], None, [3]),  # the first is another one
        ([1, 1, 2, 1], None, []),
        ([1, 1], None, []),  # too few
        ([1, 1, 1, 1], 1, []),  # read elsewhere
    ],
)
def test_equal_blocks_are_a_loop(scales, skip, times):
    """Where all of them compute the same, numbers included,
    and what is inside is read by nobody else.
    """
    program = lt.program(lambda: Stack(scales, skip), torch.eye(5)[:2])
    assert repeats(program) == times


def test_attention_blocks_are_a_loop():
    """Those of a GPT from a factory; those of a module have measured scales, each its own;
    copies are no loop.
    """
    assert repeats(lt.program(lambda: GPT(layers=3), TOKENS)) == [3]
    assert repeats(lt.program(GPT(layers=3), TOKENS)) == []
    copied = GPT(layers=3)
    for block in copied.blocks[1:]:
        block.load_state_dict(copied.blocks[0].state_dict())
    assert repeats(lt.program(copied, TOKENS)) == []


def test_a_loop_has_the_limit_of_its_blocks():
    """The kernel of the loop is that of the blocks written out,
    and so are its statistics turn by turn.
    """
    done = conversion(lambda: Stack([1, 1, 1]), (torch.eye(5)[:2],), {})
    subject = subject_of(done, None, False)
    written_out = done.program.values[-1].value
    assert repeats(done.program) == [3]
    np.testing.assert_allclose(ll.kernel(done.program.output), ll.kernel(written_out), rtol=1e-9)
    assert [names for names, _ in subject.stages] == [
        ("first",),
        ("blocks.0", "blocks.1", "blocks.2"),
    ]
    turns = subject.in_the_limit()
    assert list(turns) == ["first", "blocks.0", "blocks.1", "blocks.2"]
    for name, item in subject.layers.items():
        kernel = np.asarray(ll.kernel(item.value))
        assert turns[name]["variance"][0] == pytest.approx(np.trace(kernel) / 2, rel=1e-9)


def test_an_attention_in_front_of_the_loop_has_its_scores():
    """On given data: the first layer reads fixed coordinates, and is no part of the loop."""
    data = torch.randn(1, 3, 8, generator=torch.Generator().manual_seed(0))
    done = conversion(lambda: nn.Sequential(*(Einsum(8, 2) for _ in range(4))), (data,), {})
    subject = subject_of(done, None, False)
    assert [names for names, _ in subject.stages] == [("0",), ("1", "2", "3")]
    turns = subject.predicted(512)
    draws = ll.finite_samples(subject.asked, width=8, samples=512, key=jax.random.key(1))
    whole = statistics({key: np.asarray(array) for key, array in draws.items()})
    assert set(whole) == set(turns)
    for name, found in whole.items():
        assert set(found) == set(turns[name])
        for statistic, y in found.items():
            x = turns[name][statistic]
            error = np.hypot(x.std(), y.std()) / np.sqrt(512)
            assert abs(x.mean() - y.mean()) < 5 * error + 1e-12, (name, statistic)


@pytest.mark.long
def test_a_loop_has_the_law_of_its_blocks():
    """At finite width: means and spreads of every statistic of a GPT,
    by turns and written out, 4,000 draws each.
    """

    def factory():
        module = GPT(width=16, heads=2, layers=4)
        for p in module.parameters():
            if p.ndim > 1:
                nn.init.normal_(p, std=0.2)
        return module

    subject = subject_of(conversion(factory, (TOKENS,), {}), None, False)
    assert subject.stages is not None
    turns = subject.predicted(4000)
    draws = ll.finite_samples(subject.asked, width=16, samples=4000, key=jax.random.key(1))
    whole = statistics({key: np.asarray(array) for key, array in draws.items()})
    assert set(whole) == set(turns)
    for name, found in whole.items():
        for statistic, y in found.items():
            x = turns[name][statistic]
            for a, b in ((x, y), ((x - x.mean()) ** 2, (y - y.mean()) ** 2)):
                error = np.hypot(a.std(), b.std()) / np.sqrt(len(a))
                assert abs(a.mean() - b.mean()) < 5 * error + 1e-12, (name, statistic)


def test_layers_are_found_at_any_depth_of_names():
    """Blocks inside nn.Sequential(embed, encoder) and in stages; leaves of an MLP are none."""
    paths = ["0", "1.layers.0", "1.layers.0.linear1", "1.layers.1", "1.layers.1.linear1"]
    blocks = blocks_of(paths)
    assert blocks == {"1.layers.0", "1.layers.1"}
    assert [layer_of(path, blocks)[0] for path in paths] == [
        "0", "1.layers.0", "1.layers.0", "1.layers.1", "1.layers.1",
    ]  # fmt: skip
    stages = [f"stages.{i}.blocks.{j}.{x}" for i in "01" for j in "01" for x in ("norm", "mlp.0")]
    assert layer_of("stages.1.blocks.0.mlp.0", blocks_of(stages)) == ["stages.1.blocks.0"]
    plain = [f"blocks.{i}.mlp.{j}" for i in "01" for j in "02"]
    assert layer_of("blocks.1.mlp.0", blocks_of(plain)) == ["blocks.1"]
    assert layer_of("tokens", blocks_of(plain)) == ["tokens"]
