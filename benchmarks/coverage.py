"""How many models of others convert and replay: one line for each, and what stops the rest.

python benchmarks/coverage.py                 every model that can be built here
python benchmarks/coverage.py hf:Llama swin   those whose name contains one of these

transformers' own classes from small configs, and (where they can be imported; the environment
variable COVERAGE_SITE may name a folder of packages) x-transformers, vit-pytorch, litgpt and
torchtune; families of timm and torchvision as small modules by hand (`vision.py`).
"""

import importlib
import importlib.abc
import importlib.machinery
import inspect
import os
import sys
import time
import types
import unittest.mock
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import nn

import limitlaw.torch as lt

sys.path.append(str(Path(__file__).parents[1] / "tests" / "torch"))
if os.environ.get("COVERAGE_SITE"):
    sys.path.append(os.environ["COVERAGE_SITE"])

Case = tuple[nn.Module, tuple[Any, ...], dict[str, Any]]
TOKENS = torch.tensor([[3, 7, 1, 7, 5], [5, 2, 9, 4, 2]])


def image(*shape: int) -> torch.Tensor:
    """A given image, the same in every run."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0))


# --- transformers --------------------------------------------------------------------------------

# sizes by the names that configs have for them
SMALL: dict[str, Any] = {
    **dict.fromkeys(("hidden_size", "d_model", "n_embd", "dim", "embed_dim", "emb_dim"), 32),
    **dict.fromkeys(("word_embed_proj_dim", "embedding_size", "projection_dim"), 32),
    **dict.fromkeys(("encoder_hidden_size", "decoder_hidden_size", "text_embed_dim"), 32),
    **dict.fromkeys(("intermediate_size", "d_ff", "ffn_dim", "n_inner", "hidden_dim"), 48),
    **dict.fromkeys(("encoder_ffn_dim", "decoder_ffn_dim", "d_inner", "dim_feedforward"), 48),
    **dict.fromkeys(("num_hidden_layers", "n_layer", "n_layers", "num_layers"), 2),
    **dict.fromkeys(("encoder_layers", "decoder_layers", "num_decoder_layers"), 1),
    **dict.fromkeys(("num_encoder_layers", "num_block_repeats"), 1),
    **dict.fromkeys(("num_attention_heads", "n_head", "n_heads", "num_heads"), 4),
    **dict.fromkeys(("encoder_attention_heads", "decoder_attention_heads"), 4),
    **dict.fromkeys(("encoder_num_attention_heads", "decoder_num_attention_heads"), 4),
    "num_key_value_heads": 2,
    "head_dim": 8,
    "d_kv": 8,
    "rotary_dim": 4,
    "vocab_size": 20,
    "vocab_size_per_layer_input": 20,
    **dict.fromkeys(("max_position_embeddings", "n_positions", "n_ctx", "max_seq_len"), 32),
    **dict.fromkeys(("max_target_positions", "max_source_positions", "seq_length"), 32),
    **dict.fromkeys(("pad_token_id", "bos_token_id", "eos_token_id"), 0),
    "decoder_start_token_id": 1,
    "image_size": 16,
    "patch_size": 4,
    "num_channels": 3,
    "use_cache": False,
}


def hf(kind: str, inputs: Any = None, **settings: Any) -> Callable[[], Case]:
    """A class of transformers, from its config with every size made small."""

    def make() -> Case:
        transformers: Any = importlib.import_module("transformers")
        cls = getattr(transformers, kind)
        config = cls.config_class()
        known = config.to_dict()
        chosen = {k: v for k, v in SMALL.items() if known.get(k) is not None} | settings
        chosen = {k: v for k, v in chosen.items() if v is not None}
        config = cls.config_class(**chosen)
        module = cls(config)
        given = (
            {"input_ids": TOKENS} if inputs is None else inputs() if callable(inputs) else inputs
        )
        return module, (), given

    return make


PIXELS = {"pixel_values": image(1, 3, 16, 16)}
BOTH = {"input_ids": TOKENS, "decoder_input_ids": TOKENS[:, :4]}
PYRAMID = {"depths": [1, 1], "num_stages": 2}

TEXT = """
GPT2Model GPT2LMHeadModel OpenAIGPTModel GPTNeoModel GPTNeoXModel GPTJModel GPTBigCodeModel
CodeGenModel OPTModel BloomModel FalconModel MptModel XGLMModel BioGptModel LlamaModel
LlamaForCausalLM MistralModel MinistralModel Qwen2Model Qwen3Model Phi3Model PhiModel GemmaModel
Gemma2Model Gemma3TextModel Gemma3nTextModel OlmoModel Olmo2Model Olmo3Model CohereModel
Cohere2Model StableLmModel Starcoder2Model GraniteModel GlmModel Glm4Model SmolLM3Model
NemotronModel PersimmonModel HeliumModel Exaone4Model ArceeModel ApertusModel SeedOssModel
Ernie4_5Model DiffLlamaModel BitNetModel HunYuanDenseV1Model VaultGemmaModel CpmAntModel
CTRLModel ModernBertModel ModernBertDecoderModel BertModel BertForMaskedLM
BertForSequenceClassification RobertaModel RobertaPreLayerNormModel XLMRobertaModel
XLMRobertaXLModel XmodModel CamembertModel DistilBertModel AlbertModel ElectraModel MPNetModel
DebertaModel DebertaV2Model ConvBertModel SqueezeBertModel MobileBertModel FNetModel
NystromformerModel RoFormerModel LongformerModel BigBirdModel YosoModel CanineModel FunnelModel
XLNetModel XLMModel FlaubertModel MegatronBertModel ErnieModel EsmModel LukeModel IBertModel
RemBertModel SplinterModel CLIPTextModel SiglipTextModel BertGenerationEncoder NomicBertModel
EuroBertModel JetMoeModel MixtralModel GptOssModel DeepseekV3Model DeepseekV2Model MambaModel
RwkvModel RecurrentGemmaModel MiniMaxModel JinaEmbeddingsV3Model DogeModel Llama4TextModel
ZambaModel Data2VecTextModel Qwen2MoeModel T5EncoderModel MT5EncoderModel UMT5EncoderModel
HeliumForCausalLM YoutuModel NanoChatModel Lfm2Model AfmoeModel CwmModel
""".split()  # noqa: SIM905

TEXT_SETTINGS: dict[str, dict[str, Any]] = {
    "GPTNeoModel": {"attention_types": [[["global", "local"], 1]], "window_size": 3},
    "GPTNeoXModel": {"rotary_pct": 0.5},
    "MptModel": {"attn_config": None},
    "CodeGenModel": {"n_embd": 32, "n_head": 4},
    "Gemma3nTextModel": {},
    "ConvBertModel": {"conv_kernel_size": 3, "head_ratio": 2},
    "AlbertModel": {"embedding_size": 16},
    "ElectraModel": {"embedding_size": 16},
    "EsmModel": {"mask_token_id": 1, "token_dropout": False},
    "FlaubertModel": {"emb_dim": 32},
    "XLNetModel": {"d_head": 8},
    "Cohere2Model": {},
    "GPTBigCodeModel": {},
    "MobileBertModel": {"embedding_size": 32, "intra_bottleneck_size": 16},
    "RemBertModel": {"input_embedding_size": 16},
    "CLIPTextModel": {"eos_token_id": 2},
}

SEQ2SEQ = """
T5Model MT5Model BartModel MBartModel PegasusModel BlenderbotModel BlenderbotSmallModel
M2M100Model MarianModel PLBartModel LEDModel FSMTModel ProphetNetModel UMT5Model NllbMoeModel
LongT5Model SwitchTransformersModel BigBirdPegasusModel T5GemmaModel
""".split()  # noqa: SIM905

VISION = """
ViTModel DeiTModel BeitModel Dinov2Model Dinov2WithRegistersModel CLIPVisionModel
SiglipVisionModel ViTMAEModel ViTMSNModel YolosModel DPTModel Data2VecVisionModel VivitModel
IJepaModel SwinModel Swinv2Model ConvNextModel ConvNextV2Model ResNetModel RegNetModel BitModel
PoolFormerModel SegformerModel PvtModel PvtV2Model LevitModel CvtModel MobileNetV1Model
MobileNetV2Model MobileViTModel EfficientNetModel FocalNetModel HieraModel DonutSwinModel
GLPNModel DINOv3ViTModel TimesformerModel VideoMAEModel AIMv2VisionModel PixtralVisionModel
SwiftFormerModel VanModel DinatModel Siglip2VisionModel ViTHybridModel
""".split()  # noqa: SIM905

VISION_SETTINGS: dict[str, dict[str, Any]] = {
    "SwinModel": {
        "embed_dim": 16,
        "depths": [2, 1],
        "num_heads": [2, 4],
        "window_size": 2,
        "patch_size": 2,
    },
    "Swinv2Model": {
        "embed_dim": 16,
        "depths": [2, 1],
        "num_heads": [2, 4],
        "window_size": 2,
        "patch_size": 2,
    },
    "DonutSwinModel": {
        "embed_dim": 16,
        "depths": [2, 1],
        "num_heads": [2, 4],
        "window_size": 2,
        "patch_size": 2,
    },
    "ConvNextModel": {
        "hidden_sizes": [16, 24],
        "depths": [1, 1],
        "num_stages": 2,
        "patch_size": 2,
    },
    "ConvNextV2Model": {
        "hidden_sizes": [16, 24],
        "depths": [1, 1],
        "num_stages": 2,
        "patch_size": 2,
    },
    "ResNetModel": {"embedding_size": 8, "hidden_sizes": [16, 24], "depths": [1, 1]},
    "RegNetModel": {
        "embedding_size": 8,
        "hidden_sizes": [16, 24],
        "depths": [1, 1],
        "groups_width": 8,
    },
    "BitModel": {"embedding_size": 8, "hidden_sizes": [16, 24], "depths": [1, 1], "num_groups": 2},
    "PoolFormerModel": {
        "hidden_sizes": [16, 24],
        "depths": [1, 1],
        "num_encoder_blocks": 2,
        "patch_sizes": [3, 3],
        "strides": [2, 2],
        "padding": [1, 1],
    },
    "SegformerModel": {
        "hidden_sizes": [16, 24],
        "depths": [1, 1],
        "num_encoder_blocks": 2,
        "sr_ratios": [2, 1],
        "num_attention_heads": [2, 2],
        "patch_sizes": [3, 3],
        "strides": [2, 2],
        "mlp_ratios": [2, 2],
    },
    "GLPNModel": {
        "hidden_sizes": [16, 24],
        "depths": [1, 1],
        "num_encoder_blocks": 2,
        "sr_ratios": [2, 1],
        "num_attention_heads": [2, 2],
        "patch_sizes": [3, 3],
        "strides": [2, 2],
        "mlp_ratios": [2, 2],
    },
    "PvtModel": {
        "hidden_sizes": [16, 24],
        "depths": [1, 1],
        "num_encoder_blocks": 2,
        "sequence_reduction_ratios": [2, 1],
        "num_attention_heads": [2, 2],
        "patch_sizes": [4, 2],
        "strides": [4, 2],
        "mlp_ratios": [2, 2],
    },
    "PvtV2Model": {
        "hidden_sizes": [16, 24],
        "depths": [1, 1],
        "num_encoder_blocks": 2,
        "sr_ratios": [2, 1],
        "num_attention_heads": [2, 2],
        "patch_sizes": [3, 3],
        "strides": [2, 2],
        "mlp_ratios": [2, 2],
    },
    "CvtModel": {
        "embed_dim": [16, 24],
        "depth": [1, 1],
        "num_heads": [1, 2],
        "patch_sizes": [3, 3],
        "patch_stride": [2, 2],
        "patch_padding": [1, 1],
        "mlp_ratio": [2.0, 2.0],
        "cls_token": [False, True],
        "drop_rate": [0.0, 0.0],
        "attention_drop_rate": [0.0, 0.0],
        "drop_path_rate": [0.0, 0.0],
        "qkv_bias": [True, True],
        "qkv_projection_method": ["dw_bn", "dw_bn"],
        "kernel_qkv": [3, 3],
        "padding_kv": [1, 1],
        "stride_kv": [2, 2],
        "padding_q": [1, 1],
        "stride_q": [1, 1],
    },
    "MobileNetV1Model": {"depth_multiplier": 0.25, "image_size": 32, "min_depth": 4},
    "FocalNetModel": {
        "embed_dim": 16,
        "depths": [1, 1],
        "hidden_sizes": [16, 24],
        "focal_levels": [1, 1],
        "focal_windows": [3, 3],
    },
    "HieraModel": {
        "embed_dim": 16,
        "depths": [1, 1],
        "num_heads": [1, 2],
        "image_size": [16, 16],
        "patch_size": [3, 3],
        "patch_stride": [2, 2],
        "patch_padding": [1, 1],
        "num_query_pool": 1,
        "masked_unit_size": [2, 2],
    },
    "DPTModel": {"is_hybrid": False, "backbone_out_indices": [0, 1], "neck_hidden_sizes": [8, 8]},
    "VideoMAEModel": {"num_frames": 2, "tubelet_size": 2},
    "TimesformerModel": {"num_frames": 2},
    "VivitModel": {"num_frames": 2, "tubelet_size": [2, 4, 4]},
    "YolosModel": {"image_size": [16, 16], "num_detection_tokens": 2},
    "ViTMAEModel": {"mask_ratio": 0.0},
    "VanModel": {
        "hidden_sizes": [16, 24],
        "depths": [1, 1],
        "patch_sizes": [3, 3],
        "strides": [2, 2],
        "mlp_ratios": [2, 2],
    },
    "SwiftFormerModel": {"depths": [1, 1], "embed_dims": [16, 24]},
    "EfficientNetModel": {
        "width_coefficient": 0.1,
        "depth_coefficient": 0.1,
        "image_size": 32,
        "hidden_dim": 16,
    },
}
VIDEO = {"VideoMAEModel", "TimesformerModel", "VivitModel"}


def vision_inputs(kind: str) -> dict[str, torch.Tensor]:
    """An image, larger for networks that halve it often; a film of two."""
    if kind in VIDEO:
        return {"pixel_values": image(1, 2, 3, 16, 16)}
    side = 32 if "Mobile" in kind or kind == "EfficientNetModel" else 16
    return {"pixel_values": image(1, 3, side, side)}


def _whisper() -> dict[str, torch.Tensor]:
    return {"input_features": image(1, 8, 16), "decoder_input_ids": TOKENS[:1, :4]}


OTHER: dict[str, Callable[[], Case]] = {
    "WhisperModel": hf("WhisperModel", _whisper, num_mel_bins=8, max_source_positions=8),
    "Speech2TextModel": hf(
        "Speech2TextModel",
        lambda: {"input_features": image(1, 16, 8), "decoder_input_ids": TOKENS[:1, :4]},
        input_feat_per_channel=8,
        conv_channels=16,
    ),
    "Wav2Vec2Model": hf(
        "Wav2Vec2Model",
        lambda: {"input_values": image(1, 400)},
        conv_dim=[8, 8],
        conv_kernel=[10, 4],
        conv_stride=[5, 4],
        num_conv_pos_embeddings=4,
        num_conv_pos_embedding_groups=2,
        num_feat_extract_layers=2,
    ),
    "ASTModel": hf(
        "ASTModel",
        lambda: {"input_values": image(1, 16, 16)},
        max_length=16,
        num_mel_bins=16,
        frequency_stride=4,
        time_stride=4,
    ),
    "DecisionTransformerGPT2Model": hf("DecisionTransformerGPT2Model"),
    "LlamaModel, llama3 rope": hf(
        "LlamaModel",
        rope_parameters={
            "rope_type": "llama3",
            "rope_theta": 1e4,
            "factor": 8.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 16,
        },
    ),
    "LlamaModel, yarn": hf(
        "LlamaModel",
        rope_parameters={
            "rope_type": "yarn",
            "rope_theta": 1e4,
            "factor": 4.0,
            "original_max_position_embeddings": 8,
        },
    ),
    "LlamaModel, linear rope": hf(
        "LlamaModel",
        rope_parameters={"rope_type": "linear", "rope_theta": 1e4, "factor": 4.0},
    ),
}


def transformers_cases() -> Iterator[tuple[str, Callable[[], Case]]]:
    """The classes of transformers."""
    for kind in TEXT:
        yield f"hf:{kind}", hf(kind, **TEXT_SETTINGS.get(kind, {}))
    for kind in SEQ2SEQ:
        yield f"hf:{kind}", hf(kind, BOTH)
    for kind in VISION:
        yield f"hf:{kind}", hf(kind, vision_inputs(kind), **VISION_SETTINGS.get(kind, {}))
    for name, make in OTHER.items():
        yield f"hf:{name}", make


# --- packages that need torch only ---------------------------------------------------------------


class _Absent(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """What packages import and their models do not use: names that are there, and no more."""

    NAMES = (
        "torchvision",
        "lightning",
        "torchao",
        "torchdata",
        "datasets",
        "tiktoken",
        "sentencepiece",
        "tensordict",
        "kornia",
    )

    def find_spec(self, name: str, path: object = None, target: object = None) -> Any:
        if name.split(".")[0] in self.NAMES:
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec: Any) -> Any:
        found: Any = types.ModuleType(spec.name)
        found.__path__ = []
        found.__getattr__ = lambda name: _absent(name)
        return found

    def exec_module(self, module: object) -> None:
        pass


def _absent(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    return unittest.mock.MagicMock(name=name)


VITS = {
    "image_size": 16,
    "patch_size": 4,
    "num_classes": 5,
    "dim": 32,
    "depth": 2,
    "heads": 4,
    "mlp_dim": 48,
    "dim_head": 8,
    "emb_dropout": 0.0,
    "channels": 3,
}
VIT_PYTORCH: dict[str, tuple[str, dict[str, Any]]] = {
    "vit.ViT": ("", {}),
    "simple_vit.SimpleViT": ("", {}),
    "deepvit.DeepViT": ("", {}),
    "cait.CaiT": ("", {"cls_depth": 1}),
    "parallel_vit.ViT": ("", {"num_parallel_branches": 2}),
    "normalized_vit.nViT": ("", {}),
    "simple_vit_with_qk_norm.SimpleViT": ("", {}),
    "simple_vit_with_register_tokens.SimpleViT": ("", {"num_register_tokens": 2}),
    "simple_vit_with_fft.SimpleViT": ("", {"freq_patch_size": 4}),
    "simple_vit_with_value_residual.SimpleViT": ("", {}),
    "simple_vit_with_hyper_connections.SimpleViT": ("", {"num_residual_streams": 2}),
    "vit_for_small_dataset.ViT": ("", {}),
    "vit_with_patch_merger.ViT": ("", {"patch_merge_layer": 1, "patch_merge_num_tokens": 3}),
    "learnable_memory_vit.ViT": ("", {}),
    "vit_1d.ViT": ("sequence", {}),
    "simple_uvit.SimpleUViT": ("", {"num_register_tokens": 2}),
    "t2t.T2TViT": ("", {"t2t_layers": ((3, 2), (3, 2))}),
    "pit.PiT": ("", {"depth": (1, 1)}),
    "levit.LeViT": ("", {"stages": 2, "mlp_mult": 2}),
    "cvt.CvT": ("large", {}),
    "xcit.XCiT": ("", {"cls_depth": 1, "local_patch_kernel_size": 3}),
    "rvt.RvT": ("", {}),
    "nest.NesT": ("", {"num_hierarchies": 2, "block_repeats": (1, 1)}),
    "vit_with_keel_post_ln.ViT": ("", {}),
    "vit_5.ViT": ("", {}),
    "jumbo_vit.JumboViT": ("", {"num_jumbo_cls": 1, "jumbo_cls_k": 2, "jumbo_ff_mult": 1}),
    "looped_vit.LoopedViT": ("", {}),
}


def vit_pytorch(path: str, form: str, settings: dict[str, Any]) -> Callable[[], Case]:
    """A class of vit-pytorch."""

    def make() -> Case:
        file, kind = path.split(".")
        cls = getattr(importlib.import_module(f"vit_pytorch.{file}"), kind)
        known = inspect.signature(cls.__init__).parameters
        given = {**VITS, "seq_len": 16, **settings}
        open_ended = any(p.kind == p.VAR_KEYWORD for p in known.values())
        chosen = {k: v for k, v in given.items() if k in known or (open_ended and k in settings)}
        x = image(1, 3, 16) if form == "sequence" else image(1, 3, 16, 16)
        if form == "large":
            x = image(1, 3, 64, 64)
        return cls(**chosen), (x,), {}

    return make


def x_transformers(encoder: bool = False, **settings: Any) -> Callable[[], Case]:
    """A language model of x-transformers."""

    def make() -> Case:
        package: Any = importlib.import_module("x_transformers")
        layers = package.Encoder if encoder else package.Decoder
        own = {"dim": 32, "depth": 2, "heads": 4, "attn_dim_head": 8, **settings}
        model = package.TransformerWrapper(
            num_tokens=20, max_seq_len=16, attn_layers=layers(**own)
        )
        return model, (TOKENS,), {}

    return make


X_TRANSFORMERS: dict[str, dict[str, Any]] = {
    "decoder": {},
    "encoder": {"encoder": True},
    "rotary": {"rotary_pos_emb": True},
    "xpos": {"rotary_pos_emb": True, "rotary_xpos": True},
    "alibi": {"alibi_pos_bias": True},
    "T5 bias": {"rel_pos_bias": True},
    "dynamic bias": {"dynamic_pos_bias": True},
    "qk norm": {"attn_qk_norm": True},
    "qk norm, scaled": {"attn_qk_norm": True, "attn_qk_norm_dim_scale": True},
    "talking heads": {"attn_pre_talking_heads": True, "attn_post_talking_heads": True},
    "GLU": {"ff_glu": True, "ff_swish": True},
    "ReLU²": {"ff_relu_squared": True},
    "RMSNorm": {"use_rmsnorm": True},
    "scale norm": {"use_scalenorm": True},
    "sandwich norm": {"sandwich_norm": True},
    "post-norm": {"pre_norm": False},
    "DeepNorm": {"residual_attn": True},
    "macaron": {"macaron": True},
    "one kv head": {"attn_one_kv_head": True},
    "grouped kv": {"attn_kv_heads": 2},
    "gate residual": {"gate_residual": True},
    "shift tokens": {"shift_tokens": 1},
    "gated values": {"attn_gate_values": True},
    "memory": {"attn_num_mem_kv": 3},
    "sparse top-k": {"attn_sparse_topk": 2},
    "parallel": {"attn_on_attn": True},
    "gate heads": {"attn_gate_value_heads": True},
}


def litgpt(**settings: Any) -> Callable[[], Case]:
    """A GPT of litgpt."""

    def make() -> Case:
        package: Any = importlib.import_module("litgpt.model")
        config = importlib.import_module("litgpt.config").Config(
            **{
                "block_size": 16,
                "vocab_size": 20,
                "padded_vocab_size": 20,
                "n_layer": 2,
                "n_head": 4,
                "n_embd": 32,
                "intermediate_size": 48,
                **settings,
            }
        )
        model = package.GPT(config)
        model.apply(model._init_weights)
        return model, (TOKENS,), {}

    return make


LLAMA_LIKE = {
    "norm_class_name": "RMSNorm",
    "mlp_class_name": "LLaMAMLP",
    "bias": False,
    "rotary_percentage": 1.0,
    "parallel_residual": False,
    "n_query_groups": 2,
}
LITGPT: dict[str, dict[str, Any]] = {
    "Pythia": {"rotary_percentage": 0.25},
    "Llama": LLAMA_LIKE,
    "Llama 3 rope": {
        **LLAMA_LIKE,
        "rope_adjustments": {
            "factor": 8.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_seq_len": 16,
        },
    },
    "Gemma": {**LLAMA_LIKE, "mlp_class_name": "GemmaMLP", "scale_embeddings": True},
    "qk norm": {**LLAMA_LIKE, "norm_qk": True},
}


def torchtune(family: str, builder: str, **settings: Any) -> Callable[[], Case]:
    """A model of torchtune."""

    def make() -> Case:
        package: Any = importlib.import_module(f"torchtune.models.{family}")
        sizes = {
            "vocab_size": 20,
            "num_layers": 2,
            "num_heads": 4,
            "num_kv_heads": 2,
            "embed_dim": 32,
            "max_seq_len": 16,
            "intermediate_dim": 48,
            **settings,
        }
        return getattr(package, builder)(**sizes), (TOKENS,), {}

    return make


GEMMA = {"head_dim": 8}
TORCHTUNE = {
    "llama2": torchtune("llama2", "llama2"),
    "llama3": torchtune("llama3", "llama3"),
    "llama3.1": torchtune("llama3_1", "llama3_1"),
    "mistral": torchtune("mistral", "mistral"),
    "qwen2": torchtune("qwen2", "qwen2"),
    "gemma": torchtune("gemma", "gemma", **GEMMA),
    "gemma2": torchtune("gemma2", "gemma2", **GEMMA, sliding_window_size=3),
    "phi3": torchtune("phi3", "phi3"),
}


def hand(kind: Callable[[], nn.Module], given: torch.Tensor) -> Callable[[], Case]:
    """A module of vision.py."""

    def make() -> Case:
        return kind(), (given,), {}

    return make


def by_hand() -> Iterator[tuple[str, Callable[[], Case]]]:
    """Families of timm and torchvision, from tests/torch/vision.py."""
    vision: Any = importlib.import_module("vision")
    x = torch.randn(2, 4, 5, generator=torch.Generator().manual_seed(0))
    square = image(1, 3, 8, 8)
    made: dict[str, tuple[Callable[[], nn.Module], torch.Tensor]] = {
        "ConvNeXt": (vision.ConvNeXt, square),
        "Swin windows": (vision.Windows, image(1, 3, 6, 6)),
        "Mixer": (vision.Mixer, square),
        "talking heads": (vision.TalkingHeads, x),
        "Whisper stem": (vision.WhisperStem, image(1, 4, 8)),
        "ResNet": (vision.Residual, square),
        "ResNeXt": (lambda: vision.Residual(groups=2), square),
        "separable": (vision.Depthwise, image(1, 3, 6, 4)),
        "interleaved rotary": (vision.Interleaved, x),
        "complex rotary": (lambda: vision.Interleaved(complex_=True), x),
        "tied loss": (vision.Loss, TOKENS),
    }
    for name, (make, given) in made.items():
        yield f"hand: {name}", hand(make, given)


def package_cases() -> Iterator[tuple[str, Callable[[], Case]]]:
    """The packages that can be imported."""
    sys.meta_path.append(_Absent())
    for name, settings in X_TRANSFORMERS.items():
        yield f"x: {name}", x_transformers(**settings)
    for path, (form, settings) in VIT_PYTORCH.items():
        yield f"vit: {path}", vit_pytorch(path, form, settings)
    for name, settings in LITGPT.items():
        yield f"litgpt: {name}", litgpt(**settings)
    for name, make in TORCHTUNE.items():
        yield f"torchtune: {name}", make


# --- the table -----------------------------------------------------------------------------------


def outcome(make: Callable[[], Case]) -> tuple[str, str]:
    """What became of a model, in one word, and why."""
    torch.manual_seed(0)
    try:
        module, args, kwargs = make()
        with torch.no_grad():
            module.eval()(*args, **kwargs)
    except Exception as error:
        return "not built", f"{type(error).__name__}: {error}".splitlines()[0]
    try:
        program = lt.program(module, *args, **kwargs)
    except lt.ReplayError as error:
        return "replay differs", str(error)
    except lt.ConversionError as error:
        leaked = "does not cover these arguments" in str(error) or not str(error)
        return ("leaked" if leaked else "refused"), str(error).splitlines()[0]
    except Exception as error:
        return "crashed", f"{type(error).__name__}: {error}".splitlines()[0]
    return "converted", f"{len(program.values)} values"


def cases() -> Iterator[tuple[str, Callable[[], Case]]]:
    """All models with their names."""
    yield from transformers_cases()
    yield from package_cases()
    yield from by_hand()


def main(wanted: list[str]) -> None:
    """Print the table and its sums."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    counts: Counter[str] = Counter()
    for name, make in cases():
        if wanted and not any(w.lower() in name.lower() for w in wanted):
            continue
        start = time.process_time()
        what, why = outcome(make)
        counts[what] += 1
        print(
            f"{what:15s} {name:34s} {time.process_time() - start:5.1f} s  {why[:230]}", flush=True
        )
    tried = sum(counts.values()) - counts["not built"]
    print(f"{tried} models: " + ", ".join(f"{n} {what}" for what, n in counts.most_common()))


if __name__ == "__main__":
    main(sys.argv[1:])
