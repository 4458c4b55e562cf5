"""Realistic faults are named at their place, and healthy modules give no finding."""

import pytest

pytest.importorskip(
    "torch.nn", reason="limitlaw.torch is NOT tested: pip install torch==2.13.0 transformers"
)

import torch
from architectures import ALL
from faults import FAULTS, HEALTHY, VECTORS, D, H

import limitlaw.torch as lt

pytestmark = pytest.mark.filterwarnings("ignore")

# a mask is absent, an embedding of N(0, 1) is tied, a default of transformers lacks 1/√d
MEANT = {"GPT, einsum": "no mask", "GPT, tied": "ln V", "Granite": "expected 1/√d"}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_named_at_its_place(name):
    """With a word that says what it is, and code that ends it."""
    make, inputs, where, word = FAULTS[name]
    torch.manual_seed(0)
    found = lt.check(make, *inputs)
    named = [f for f in found if where in f.place and word in f]
    assert named, found
    assert all(f.change and f.does and f.level in ("fault", "warning") for f in named)


@pytest.mark.parametrize("name", HEALTHY)
def test_a_healthy_module_gives_none(name):
    make, inputs = HEALTHY[name]
    torch.manual_seed(0)
    assert lt.check(make, *inputs) == ()


@pytest.mark.parametrize("name", ALL)
def test_a_published_module_gives_none(name):
    """But for those whose configuration has a fault."""
    torch.manual_seed(0)
    module, inputs, kwargs = ALL[name]()
    found = lt.check(module, *inputs, **kwargs)
    assert [word in f for f, word in zip(found, [MEANT.get(name, "none")], strict=False)] == [
        True
    ] * len(found)
    assert len(found) == (name in MEANT)


def test_what_is_read():
    """Blocks, heads, mask, scale, norms, ties, roles beside fan-in, and the closest recipe."""
    torch.manual_seed(0)
    make, inputs = HEALTHY["GPT"]
    text = str(lt.quick_audit(make, *inputs))
    for said in (
        "4 blocks, width 64, 4 heads of 16, MLP 256, vocabulary 100",
        "mask causal, q·k × 1/√d",
        "pre (8 branches), and before the head",
        "the head is the embedding (wte)",
        "closest recipe: GPT-2",
    ):
        assert said in text
    roles = [line.split()[0] for line in text.splitlines() if line.startswith("  ")]
    assert roles[-9:] == ["embedding", "positions", "q", "k", "v", "out", "up", "down", "head"]


def test_rotary_embeddings_are_read():
    """Their axis, pairs and base."""
    make, inputs = HEALTHY["Llama"]
    torch.manual_seed(0)
    reading = lt.read(make, *inputs)
    found = {str(rotary) for (_, role), rotary in reading.rotary.items() if role in "qk"}
    assert found == {"along tokens (halves, base 10000)"}
    assert {rotary for (_, role), rotary in reading.rotary.items() if role == "v"} == {None}


def test_fused_rows_are_told_apart():
    """The rows of one matrix that are queries, keys and values, whatever their order."""

    class Fused(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.vqk, self.out = torch.nn.Linear(D, 3 * D), torch.nn.Linear(D, D)

        def forward(self, x):
            heads = self.vqk(x).unflatten(-1, (3, H, -1)).transpose(1, 3)
            v, q, k = heads.unbind(2)
            y = torch.nn.functional.scaled_dot_product_attention(q, k, v)
            return x + self.out(y.transpose(1, 2).flatten(2))

    reading = lt.read(Fused(), VECTORS)
    whole = dict(reading.exported.arrays)["vqk.weight"]
    for i, role in enumerate("vqk"):
        (piece,) = reading.of(role)
        assert torch.equal(piece.weight, whole[i * D : (i + 1) * D])
