"""Small modules of many kinds, each with its inputs: nothing is downloaded."""

import functools

import torch
from handmade import GPT, Alibi, Attend, Einsum, Encoder, Explicit, Pooled, Tied, Whole
from torch import nn

TOKENS = torch.tensor([[3, 7, 1, 7], [5, 2, 9, 4]])
IMAGE = functools.partial(torch.randn, generator=torch.Generator().manual_seed(0))
CAUSAL = torch.ones(4, 4, dtype=torch.bool).triu(1)
PADDING = torch.tensor([[False] * 4, [False, False, True, True]])
X = torch.randn(2, 4, 5, generator=torch.Generator().manual_seed(1))
ADDED = torch.zeros(4, 4).masked_fill(CAUSAL, float("-inf"))

PLAIN = {
    "linear": lambda: (nn.Linear(5, 8), (X,), {}),
    "mlp": lambda: (
        nn.Sequential(
            nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 16), nn.SiLU()
        ),
        (X,),
        {},
    ),
    "layer norm": lambda: (
        nn.Sequential(nn.Linear(5, 16), nn.LayerNorm(16), nn.Linear(16, 8)),
        (X,),
        {},
    ),
    "RMS norm": lambda: (
        nn.Sequential(nn.Linear(5, 16), nn.RMSNorm(16), nn.Linear(16, 8)),
        (X,),
        {},
    ),
    "GPT, fused": lambda: (GPT(), (TOKENS,), {}),
    "GPT, explicit": lambda: (GPT(attention=Explicit), (TOKENS,), {}),
    "GPT, einsum": lambda: (GPT(attention=Einsum), (TOKENS,), {}),
    "GPT, tied": lambda: (GPT(tied=True), (TOKENS,), {}),
    "MultiheadAttention": lambda: (Attend(), (X,), {}),
    "MultiheadAttention, weights": lambda: (Attend(weights=True), (X,), {}),
    "MultiheadAttention, causal": lambda: (Attend(), (X, CAUSAL), {}),
    "MultiheadAttention, added mask": lambda: (Attend(), (X, ADDED), {}),
    "MultiheadAttention, padding": lambda: (Attend(weights=True), (X, None, PADDING), {}),
    "MultiheadAttention, cross": lambda: (Attend(cross=True), (X,), {}),
    "MultiheadAttention, time first": lambda: (Attend(batch_first=False), (X,), {}),
    "encoder, pre-norm": lambda: (Encoder(True), (X, CAUSAL), {}),
    "encoder, post-norm": lambda: (Encoder(False), (X, CAUSAL), {}),
    "nn.Transformer": lambda: (Whole(), (X,), {}),
    "ALiBi": lambda: (Alibi(), (TOKENS,), {}),
    "tied in a loop": lambda: (Tied(), (X,), {}),
    "pooled": lambda: (Pooled(), (TOKENS,), {}),
    "GPT, one token": lambda: (GPT(), (TOKENS[:1, :1],), {}),
    "GPT, one head": lambda: (GPT(heads=1), (TOKENS,), {}),
    "decoder": lambda: (nn.TransformerDecoderLayer(5, 1, 12, batch_first=True), (X, X), {}),
}


def _hf(kind: str, config: str, **settings):
    def make():
        import transformers

        sizes = {
            "hidden_size": 16,
            "intermediate_size": 24,
            "num_hidden_layers": 1,
            "num_attention_heads": 4,
        }
        common = {
            "vocab_size": 20,
            "initializer_range": 0.2,
            "max_position_embeddings": 32,
            "pad_token_id": 0,
        }
        inputs = settings.get("inputs", {})
        own = {k: v for k, v in settings.items() if k not in ("inputs", "without")}
        chosen = {
            k: v
            for k, v in {**common, **sizes, **own}.items()
            if k not in settings.get("without", ())
        }
        module = getattr(transformers, kind)(getattr(transformers, config)(**chosen))
        given = dict(inputs) if "pixel_values" in inputs else {"input_ids": TOKENS, **inputs}
        return module, (), given

    return make


CACHE = {"use_cache": False}
GROUPS = {"num_key_value_heads": 2}
GPT2 = {
    "n_embd": 16,
    "n_layer": 2,
    "n_head": 2,
    "n_positions": 8,
    "without": ("hidden_size", "num_hidden_layers"),
    "inputs": CACHE,
}
OPTS = {
    "ffn_dim": 24,
    "word_embed_proj_dim": 16,
    "without": ("intermediate_size", "initializer_range"),
    "init_std": 0.2,
}
T5S = {"d_model": 16, "d_kv": 4, "d_ff": 24, "num_layers": 1, "num_heads": 4}
NO_SIZES = ("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads")
BARTS = {
    "d_model": 16,
    "encoder_layers": 1,
    "decoder_layers": 1,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 24,
    "decoder_ffn_dim": 24,
    "init_std": 0.2,
    "without": (*NO_SIZES, "initializer_range"),
    "inputs": {"decoder_input_ids": TOKENS.flip(0)[:, :3], **CACHE},
}
VITS = {
    "image_size": 8,
    "patch_size": 4,
    "num_channels": 3,
    "inputs": {"pixel_values": IMAGE(1, 3, 8, 8)},
}
DISTIL = {"dim": 16, "n_layers": 1, "n_heads": 2, "hidden_dim": 24, "without": NO_SIZES}
PADDED = {"attention_mask": torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0]])}

TRANSFORMERS = {
    "GPT-2": _hf("GPT2Model", "GPT2Config", **GPT2),
    "GPT-2, eager": _hf("GPT2LMHeadModel", "GPT2Config", **GPT2, attn_implementation="eager"),
    "BERT": _hf("BertModel", "BertConfig"),
    "BERT, padded": _hf("BertModel", "BertConfig", inputs=PADDED),
    "Llama": _hf("LlamaModel", "LlamaConfig", **GROUPS, inputs=CACHE),
    "Qwen2": _hf("Qwen2Model", "Qwen2Config", **GROUPS, inputs=CACHE),
    "Qwen3": _hf("Qwen3Model", "Qwen3Config", **GROUPS, head_dim=8, inputs=CACHE),
    "Mistral": _hf("MistralModel", "MistralConfig", **GROUPS, inputs=CACHE),
    "OPT": _hf("OPTModel", "OPTConfig", **OPTS, inputs=CACHE),
    "GPT-NeoX": _hf("GPTNeoXModel", "GPTNeoXConfig", inputs=CACHE, hidden_size=32, rotary_pct=0.5),
    "Phi": _hf("PhiModel", "PhiConfig", inputs=CACHE, hidden_size=32, partial_rotary_factor=0.5),
    "Phi3": _hf("Phi3Model", "Phi3Config", **GROUPS, inputs=CACHE),
    "Gemma": _hf("GemmaModel", "GemmaConfig", **GROUPS, head_dim=8, inputs=CACHE),
    "OLMo2": _hf("Olmo2Model", "Olmo2Config", **GROUPS, inputs=CACHE),
    "T5": _hf("T5EncoderModel", "T5Config", **T5S, without=NO_SIZES),
    "BART": _hf("BartModel", "BartConfig", **BARTS),
    "ViT": _hf("ViTModel", "ViTConfig", **VITS),
    "DistilBERT": _hf("DistilBertModel", "DistilBertConfig", **DISTIL),
    "RoBERTa": _hf("RobertaModel", "RobertaConfig"),
    "ALBERT": _hf("AlbertModel", "AlbertConfig", embedding_size=8, num_hidden_layers=2),
    "ELECTRA": _hf("ElectraModel", "ElectraConfig", embedding_size=8),
    "CLIPText": _hf("CLIPTextModel", "CLIPTextConfig"),
}

NO_FF = ("intermediate_size",)
GPTJ = {
    "n_embd": 16,
    "n_layer": 1,
    "n_head": 2,
    "rotary_dim": 4,
    "without": NO_SIZES,
    "inputs": CACHE,
}
BLOOM = {"n_layer": 1, "n_head": 4, "without": NO_SIZES[1:], "inputs": CACHE}
BOTH = {"decoder_input_ids": TOKENS.flip(0)[:, :3], **CACHE}

MORE = {  # as above: tried by the long tests
    "T5, both": _hf("T5Model", "T5Config", **T5S, without=NO_SIZES, inputs=BOTH),
    "Falcon": _hf("FalconModel", "FalconConfig", without=NO_FF, inputs=CACHE),
    "Bloom": _hf("BloomModel", "BloomConfig", **BLOOM),
    "GPT-J": _hf("GPTJModel", "GPTJConfig", **GPTJ),
    "Cohere": _hf("CohereModel", "CohereConfig", **GROUPS, inputs=CACHE),
    "ModernBERT": _hf("ModernBertModel", "ModernBertConfig"),
    "Gemma2": _hf("Gemma2Model", "Gemma2Config", **GROUPS, head_dim=8, inputs=CACHE),
    "Gemma3": _hf("Gemma3TextModel", "Gemma3TextConfig", **GROUPS, head_dim=8, inputs=CACHE),
    "Starcoder2": _hf("Starcoder2Model", "Starcoder2Config", **GROUPS, inputs=CACHE),
    "Granite": _hf("GraniteModel", "GraniteConfig", **GROUPS, inputs=CACHE),
    "OLMo": _hf("OlmoModel", "OlmoConfig", inputs=CACHE),
    "GLM": _hf("GlmModel", "GlmConfig", **GROUPS, head_dim=8, inputs=CACHE),
    "SmolLM3": _hf("SmolLM3Model", "SmolLM3Config", **GROUPS, inputs=CACHE),
    "DeiT": _hf("DeiTModel", "DeiTConfig", **VITS),
    "CLIPVision": _hf("CLIPVisionModel", "CLIPVisionConfig", **VITS),
    "BEiT": _hf("BeitModel", "BeitConfig", **VITS),
    "DINOv2": _hf("Dinov2Model", "Dinov2Config", **VITS),
    "MPNet": _hf("MPNetModel", "MPNetConfig"),
    "DeBERTa-v2": _hf("DebertaV2Model", "DebertaV2Config"),
    "BERT, masked language": _hf("BertForMaskedLM", "BertConfig"),
    "Llama, logits": _hf("LlamaForCausalLM", "LlamaConfig", **GROUPS, inputs=CACHE),
}

ALL = {**PLAIN, **TRANSFORMERS, **MORE}
