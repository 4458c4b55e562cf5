"""Recipes: named ones, those of a configuration, those written in a few lines."""

import pytest

pytest.importorskip(
    "torch.nn", reason="limitlaw.torch is NOT tested: pip install torch==2.13.0 transformers"
)

import json
import math

import torch
from faults import FAULTS, GPT, HEALTHY, TOKENS, Llama, planted
from scipy import stats

import limitlaw.torch as lt
from limitlaw.torch.recipes.recipe import shrunk

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.mark.parametrize("cut", [0.5, 2.0, 3.0, 10.0])
def test_a_cut_makes_smaller(cut):
    """As the variance of a truncated normal law."""
    assert shrunk(cut) == pytest.approx(stats.truncnorm.std(-cut, cut), rel=1e-9)


def test_a_module_that_is_as_meant_passes():
    """By name, by configuration, by a mapping, by a Recipe."""
    torch.manual_seed(0)
    end = lt.Std(0.02, depth="2L")
    own = {"linear": 0.02, "embedding": 0.02, "out": end, "down": end}
    for recipe in ("gpt2", {"model_type": "gpt2", "initializer_range": 0.02}, own):
        lt.assert_initialised(GPT, TOKENS, recipe=recipe)
    lt.assert_initialised(Llama, TOKENS, recipe="torchtitan-gate")


def test_a_module_that_is_not_as_meant_raises():
    """With the place, the number, the recipe and code; the level and what is accepted count."""
    torch.manual_seed(0)
    with pytest.raises(AssertionError) as error:
        lt.assert_initialised(GPT, TOKENS, recipe="transformers")
    text = str(error.value)
    assert "h.*.attn.proj (all 4, h.0.attn.proj first): out has standard deviation 0.00" in text
    assert "expected 0.02 = 0.02 (transformers' default), 0.35 times as large" in text
    assert "torch.nn.init.normal_(p, std=0.02)" in text
    lt.assert_initialised(GPT, TOKENS, recipe="transformers", accept=("out has", "down has"))
    large = planted(lambda m: m.wpe.weight.normal_())
    with pytest.raises(AssertionError, match="closest recipe: GPT-2, but positions is 5"):
        lt.assert_initialised(large, TOKENS)
    lt.assert_initialised(large, TOKENS, level="fault")
    with pytest.raises(ValueError, match="level must be one of"):
        lt.assert_initialised(GPT, TOKENS, level="all")


def test_what_was_meant_is_no_finding():
    """The scale of torchtitan's w3, where its own recipe is given."""
    torch.manual_seed(0)
    make, inputs, *_ = FAULTS["on w3 too"]
    assert [f.place.split(" ")[0] for f in lt.check(make, *inputs)] == ["h.*.mlp.w3"]
    assert lt.check(make, *inputs, recipe="torchtitan") == ()


def test_the_closest_recipe():
    """Of a healthy module by its name; of a faulty one with what differs."""
    torch.manual_seed(0)
    for name, said in (("GPT", "GPT-2"), ("Llama", "torchtitan's Llama 3, up without depth")):
        make, inputs = HEALTHY[name]
        text = str(lt.quick_audit(make, *inputs))
        assert f"closest recipe: {said}\n" in text
    make, inputs, *_ = FAULTS["down lacks it"]
    assert "closest recipe: GPT-2, but down is 2.8 times 0.02/√(2L)" in str(
        lt.quick_audit(make, *inputs)
    )


def test_configurations(tmp_path):
    """Their standard deviation, and a depth scale for GPT-2; others are refused."""
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"model_type": "llama", "initializer_range": 0.01}))
    assert lt.from_config(path).std("down") == lt.Std(0.01)
    assert lt.from_config({"model_type": "gpt2", "initializer_range": 0.1}).std("down") == lt.Std(
        0.1, depth="2L"
    )
    for config in ({"model_type": "t5", "initializer_factor": 1.0}, {"model_type": "llama"}):
        with pytest.raises(ValueError, match="write a Recipe"):
            lt.from_config(config)


def test_where_numbers_are_cut():
    """As trunc_normal_ was told: at ±2, which is 100 standard deviations and cuts nothing."""
    torch.manual_seed(0)
    text = str(lt.read(Llama, TOKENS))
    assert "±100 std and more (28 parameters): it cuts nothing" in text
    assert "±3 std (1 parameters)" in text


def test_wrong_recipes():
    """One clear line each."""
    with pytest.raises(ValueError, match="a recipe has no role 'mpl'"):
        lt.Recipe("ours", mpl=0.02)
    with pytest.raises(ValueError, match="depth must be one of"):
        lt.Std(0.02, depth="L")
    with pytest.raises(ValueError, match="std must be a number of at least 0"):
        lt.Std(-1.0)
    with pytest.raises(ValueError, match=r"recipe must be one of .* got 'gpt5'"):
        lt.check(GPT, TOKENS, recipe="gpt5")


def test_named_recipes_say_what_codebases_do():
    """Numbers of the table of recipes, at d = 64, f = 256, block 2 of 4."""
    torch.manual_seed(0)
    reading = lt.read(GPT, TOKENS)
    down = reading.of("down")[2]
    cut = shrunk(3.0)
    for name, std in {
        "gpt2": 0.02 / 8**0.5,
        "torchtitan": 0.02 / 6**0.5,
        "lingua": cut / 16,
        "lingua-global": cut / 16 / 10**0.5,
        "olmo-mitchell": cut * (2 * 256 * 3) ** -0.5,
        "pytorch": (3 * 256) ** -0.5,
        "xavier": math.sqrt(2 / 320),
    }.items():
        assert lt.NAMED[name].std("down").of(down) == pytest.approx(std)
