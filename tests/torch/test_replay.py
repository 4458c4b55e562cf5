"""Modules of many kinds become programs that compute the same numbers; a wrong rule is seen."""

import pytest

pytest.importorskip(
    "torch.nn", reason="limitlaw.torch is NOT tested: pip install torch==2.13.0 transformers"
)

import numpy as np
import torch
from architectures import ALL, MORE, PLAIN, TRANSFORMERS

import limitlaw as ll
import limitlaw.torch as lt
from limitlaw.core.space import as_dim
from limitlaw.torch import converting, making, rotations, rules
from limitlaw.torch.converted import Converted
from limitlaw.torch.nodes import Tensor

pytestmark = pytest.mark.filterwarnings("ignore")  # those of torch and transformers

TURNED = {"Llama", "Qwen2", "Qwen3", "Mistral", "GPT-NeoX", "Phi", "Phi3", "Gemma", "OLMo2"}


def made(name):
    """A module of the catalogue with its inputs, the same in every run."""
    if name not in PLAIN:
        pytest.importorskip(
            "transformers", reason="limitlaw.torch is NOT tested on transformers: install them"
        )
    torch.manual_seed(0)
    return ALL[name]()


def convert(name) -> Converted:
    """The program of a module of the catalogue."""
    module, args, kwargs = made(name)
    return lt.program(module, *args, **kwargs)


@pytest.mark.parametrize(
    "name", [*PLAIN, *TRANSFORMERS, *(pytest.param(m, marks=pytest.mark.long) for m in MORE)]
)
def test_replay(name):
    """Every value is that of the module, and the outputs have torch's shapes."""
    module, args, kwargs = made(name)
    module.train()
    program = lt.program(module, *args, **kwargs)
    assert module.training
    replayed = lt.replay(program)
    assert replayed.worst < (1e-7 if name in {*TURNED, *MORE} else 1e-13)
    with torch.no_grad():
        result = module.double().eval()(
            *(_double(a) for a in args), **{k: _double(a) for k, a in kwargs.items()}
        )
    first = result if isinstance(result, torch.Tensor) else result[0]
    expected = program.values[-len(program.outputs)].expected
    np.testing.assert_allclose(first.numpy(), expected, rtol=1e-5, atol=1e-6)
    assert program.output.shape in (first.shape[:-1], first.shape)
    paths = {name for name, _ in module.named_modules()}
    assert all(v.label.module in paths for v in program.values)


def _double(value):
    return (
        value.double() if isinstance(value, torch.Tensor) and value.is_floating_point() else value
    )


def transposed_mask(monkeypatch):
    """Masks of scores, the wrong way round."""
    right = making.masked

    def wrong(x, visible):
        square = visible is not None and visible.shape[-1] == visible.shape[-2]
        return right(x, visible.swapaxes(-1, -2) if square else visible)

    monkeypatch.setattr(making, "masked", wrong)


def lost_rotary(monkeypatch):
    """Queries and keys as they were before they were turned."""

    def wrong(a, b):
        turned = rotations.rotation(a, b)
        return turned and turned.node.x

    monkeypatch.setattr(rules, "rotation", wrong)


def slow_rotary(monkeypatch):
    """A rotary table read with half its positions."""
    right = rotations._angles
    monkeypatch.setattr(rotations, "_angles", lambda *args: (right(*args)[0] / 2, right(*args)[1]))


def swapped_heads(monkeypatch):
    """The heads of keys in the opposite order."""
    right = making.attention_weights

    def wrong(q, k, *rest):
        return right(q, k.moved(lambda ids: ids.flip(-3)) if isinstance(k, Tensor) else k, *rest)

    monkeypatch.setattr(making, "attention_weights", wrong)


def lost_bias(monkeypatch):
    """Sums without their last term."""
    right = making.combine
    wrong = lambda *terms: right(
        *(terms[:-1] if len(terms) > 1 and isinstance(terms[0][1], Tensor) else terms)
    )
    monkeypatch.setattr(making, "combine", wrong)


MUTATIONS: list = [
    (transposed_mask, "GPT, fused"),
    (transposed_mask, "GPT, explicit"),
    (transposed_mask, "MultiheadAttention, causal"),
    (transposed_mask, "encoder, pre-norm"),
    (transposed_mask, "GPT-2"),
    (transposed_mask, "Llama"),
    (lost_rotary, "Llama"),
    (lost_rotary, "GPT-NeoX"),
    (slow_rotary, "Qwen3"),
    (slow_rotary, "Phi"),
    (swapped_heads, "BERT"),
    (swapped_heads, "GPT-2"),
    (swapped_heads, "T5"),
    (swapped_heads, "ViT"),
    (swapped_heads, "encoder, post-norm"),
    (lost_bias, "mlp"),
    (lost_bias, "ALBERT"),
]
SEEN = {name for _, name in MUTATIONS}
MUTATIONS += [
    pytest.param(lost_rotary if name in TURNED else swapped_heads, name, marks=pytest.mark.long)
    for name in TRANSFORMERS
    if name not in {*SEEN, "GPT-2, eager"}
]


@pytest.mark.parametrize(("mutation", "name"), MUTATIONS)
def test_a_wrong_rule_is_seen(monkeypatch, mutation, name):
    """A mutation of one rule: no program is returned, and the first wrong value is named."""
    mutation(monkeypatch)
    with pytest.raises(
        lt.ReplayError, match=r"aten\.\w+.* in .*: the program gives other numbers than the module"
    ):
        convert(name)


def test_replay_compares_the_weights_it_is_given():
    """A weight changed behind the program's back is seen, and its value is named."""
    program = convert("mlp")
    matrix = next(
        m for m in program.weights if isinstance(m, ll.Matrix) and m.cols == as_dim("cols", 5)
    )
    program.weights[matrix] = program.weights[matrix] * (1 + 1e-9)
    with pytest.raises(lt.ReplayError, match=r"linear\.default in 0"):
        lt.replay(program)


def test_nothing_unreplayed_is_returned(monkeypatch):
    """`program` replays by itself."""
    seen = []
    monkeypatch.setattr(converting, "replay", seen.append)
    assert seen == [convert("linear")]
