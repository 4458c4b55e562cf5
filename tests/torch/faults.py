"""Realistic faults of initialisation, planted in small modules as people write them.

`FAULTS`: by name, a function that makes the module, its inputs, where the fault is, and a word
that the finding must say. `HEALTHY`: the modules without a fault.
"""

import copy
import math

import torch
from torch import nn
from torch.nn import functional as F

TOKENS = torch.randperm(100, generator=torch.Generator().manual_seed(0))[None, :12]
IMAGES = torch.randn(2, 3, 16, 16, generator=torch.Generator().manual_seed(0))
VECTORS = torch.randn(2, 12, 64, generator=torch.Generator().manual_seed(0))
D, H, L, V = 64, 4, 4, 100


class Attention(nn.Module):
    """Causal attention; subclasses plant faults in its steps."""

    def __init__(self, bias=True):
        super().__init__()
        self.q, self.k, self.v, self.proj = (nn.Linear(D, D, bias=bias) for _ in range(4))

    def scores(self, q, k):
        return q @ k.transpose(-2, -1) / math.sqrt(D // H)

    def mask(self, T):
        return torch.ones(T, T, dtype=torch.bool).tril()

    def hidden(self, scores, T):
        mask = self.mask(T)
        return scores if mask is None else scores.masked_fill(~mask, float("-inf"))

    def weights(self, scores, T):
        return self.hidden(scores, T).softmax(-1)

    def rotated(self, q, k):
        return q, k

    def forward(self, x):
        B, T, _ = x.shape
        q, k, v = (f(x).view(B, T, H, -1).transpose(1, 2) for f in (self.q, self.k, self.v))
        q, k = self.rotated(q, k)
        y = self.weights(self.scores(q, k), T) @ v
        return self.proj(y.transpose(1, 2).reshape(B, T, D))


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc, self.proj = nn.Linear(D, 4 * D), nn.Linear(4 * D, D)

    def forward(self, x):
        return self.proj(F.gelu(self.fc(x)))


class Block(nn.Module):
    def __init__(self, attention=Attention, mlp=Mlp):
        super().__init__()
        self.ln1, self.attn, self.ln2, self.mlp = (
            nn.LayerNorm(D), attention(), nn.LayerNorm(D), mlp(),
        )  # fmt: skip

    def forward(self, x):
        x = x + self.attn(self.ln1(x))
        return x + self.mlp(self.ln2(x))


class PostNorm(Block):
    def forward(self, x):
        x = self.ln1(x + self.attn(x))
        return self.ln2(x + self.mlp(x))


class NoResidual(Block):
    def forward(self, x):
        x = x + self.attn(self.ln1(x))
        return self.mlp(self.ln2(x))


class NoNorm(Block):
    def forward(self, x):
        x = x + self.attn(x)
        return x + self.mlp(x)


class Doubling(Block):
    def forward(self, x):
        x = x + x + self.attn(self.ln1(x))
        return x + x + self.mlp(self.ln2(x))


class GPT(nn.Module):
    """GPT-2 in small, with its initialisation."""

    def __init__(self, block=Block, blocks=L, tied=True, last_norm=True, positions=True):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(V, D), nn.Embedding(32, D)
        self.h = nn.ModuleList(
            (block[i] if isinstance(block, list) else block)() for i in range(blocks)
        )
        self.ln_f = nn.LayerNorm(D) if last_norm else nn.Identity()
        self.lm_head = nn.Linear(D, V, bias=False)
        self.positions = positions
        self.apply(self.start)
        for name, p in self.named_parameters():
            if name.endswith("proj.weight"):
                nn.init.normal_(p, std=0.02 / math.sqrt(2 * blocks))
        if tied:
            self.lm_head.weight = self.wte.weight

    def start(self, module):
        if isinstance(module, nn.Linear | nn.Embedding):
            nn.init.normal_(module.weight, std=0.02)
        if isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)

    def forward(self, tokens):
        x = self.wte(tokens)
        if self.positions:
            x = x + self.wpe(torch.arange(tokens.shape[1]))
        for block in self.h:
            x = block(x)
        return self.lm_head(self.ln_f(x))


# --- a Llama in small ----------------------------------------------------------------------------


def turned(x, positions):
    """Rotary, by halves; `positions` runs along the last axis but one, or is broadcast."""
    half = x.shape[-1] // 2
    angle = positions[..., None] * 10_000.0 ** (-torch.arange(half) / half)
    cos, sin = (torch.cat([f(angle)] * 2, -1) for f in (torch.cos, torch.sin))
    return x * cos + torch.cat([-x[..., half:], x[..., :half]], -1) * sin


class RotaryAttention(Attention):
    def __init__(self):
        super().__init__(bias=False)

    def rotated(self, q, k):
        places = torch.arange(q.shape[-2])
        return turned(q, places), turned(k, places)


class Gated(nn.Module):
    def __init__(self):
        super().__init__()
        self.w1, self.w3 = nn.Linear(D, 3 * D, bias=False), nn.Linear(D, 3 * D, bias=False)
        self.w2 = nn.Linear(3 * D, D, bias=False)

    def forward(self, x):
        return self.w2(F.silu(self.w1(x)) * self.w3(x))


class LlamaBlock(Block):
    def __init__(self, attention=RotaryAttention, mlp=Gated):
        super().__init__(attention, mlp)
        self.ln1, self.ln2 = nn.RMSNorm(D), nn.RMSNorm(D)


class Llama(GPT):
    """torchtitan's Llama 3 in small, with its initialisation but for the depth scale of w3."""

    def __init__(self, block=LlamaBlock, blocks=L, up=False):
        super().__init__(block, blocks, tied=False, positions=False)
        self.ln_f = nn.RMSNorm(D)
        del self.wpe
        nn.init.normal_(self.wte.weight)
        nn.init.trunc_normal_(self.lm_head.weight, std=D**-0.5, a=-3 * D**-0.5, b=3 * D**-0.5)
        for i, one in enumerate(self.h):
            std = 0.02 / math.sqrt(2 * (i + 1))
            for m in (one.attn.q, one.attn.k, one.attn.v, one.mlp.w1, one.mlp.w3):
                nn.init.trunc_normal_(m.weight, std=0.02)
            for m in (one.attn.proj, one.mlp.w2, *([one.mlp.w3] if up else [])):
                nn.init.trunc_normal_(m.weight, std=std)


# --- a vision Transformer and an encoder ---------------------------------------------------------


class Free(Attention):
    def mask(self, T):
        return None


class ViT(nn.Module):
    def __init__(self, block=lambda: Block(Free), blocks=L):
        super().__init__()
        self.patch = nn.Conv2d(3, D, 4, 4)
        self.cls, self.pos = (
            nn.Parameter(torch.zeros(1, 1, D)),
            nn.Parameter(torch.zeros(1, 17, D)),
        )
        self.blocks = nn.Sequential(*[block() for _ in range(blocks)])
        self.norm, self.head = nn.LayerNorm(D), nn.Linear(D, 10)
        for p in self.parameters():
            if p.ndim > 1:
                nn.init.trunc_normal_(p, std=0.02)
        for m in self.modules():
            if isinstance(m, nn.Linear | nn.Conv2d):
                nn.init.zeros_(m.bias)

    def forward(self, x):
        x = self.patch(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls.expand(len(x), -1, -1), x], 1) + self.pos
        return self.head(self.norm(self.blocks(x))[:, 0])


def encoder():
    """The layers as they should be: made one by one."""
    layers = [nn.TransformerEncoderLayer(D, H, 2 * D, 0, batch_first=True, norm_first=True)
              for _ in range(3)]  # fmt: skip
    return nn.Sequential(nn.Linear(D, D), nn.Sequential(*layers))


def copied():
    """A prototype that is copied, inside nn.Sequential(embed, encoder)."""
    layer = nn.TransformerEncoderLayer(D, H, 2 * D, 0, batch_first=True, norm_first=True)
    stack = nn.TransformerEncoder(layer, 3, enable_nested_tensor=False)
    return nn.Sequential(nn.Linear(D, D), stack)


class Staged(nn.Module):
    """Blocks in stages, the second stage a copy of the first."""

    def __init__(self):
        super().__init__()
        stage = nn.ModuleDict({"blocks": nn.ModuleList([Block(Free) for _ in range(2)])})
        self.stages = nn.ModuleList([stage, copy.deepcopy(stage)])

    def forward(self, x):
        for stage in self.stages:
            for block in stage["blocks"]:
                x = block(x)
        return x


class Lora(nn.Module):
    """A Linear with an adapter of rank 4."""

    def __init__(self, base, a, b):
        super().__init__()
        self.base, self.a, self.b = base, nn.Linear(D, 4, bias=False), nn.Linear(4, D, bias=False)
        nn.init.normal_(self.a.weight, std=a)
        nn.init.normal_(self.b.weight, std=b)

    def forward(self, x):
        return self.base(x) + self.b(self.a(x))


def adapted(a, b):
    def make():
        model = GPT()
        for block in model.h:
            block.attn.q = Lora(block.attn.q, a, b)
        return model

    return make


# --- what is planted -----------------------------------------------------------------------------


def planted(change, base=GPT):
    """A module whose weights are changed once it is made."""

    def make():
        model = base()
        with torch.no_grad():
            change(model)
        return model

    return make


def every(path, change, base=GPT):
    """The same change of one submodule of every block."""

    def all_of(model):
        for block in model.h:
            change(block.get_submodule(path))

    return planted(all_of, base)


def normal(std):
    return lambda m: m.weight.normal_(0, std)


def fill(number):
    return lambda m: m.weight.fill_(number)


def variant(base=Attention, **methods):
    """A class of attention with other steps."""
    return type("Attention", (base,), methods)


def gpt(attention=Attention, block=Block, base=GPT, **settings):
    return lambda: base(lambda: block(attention), **settings)


def by_hand(change):
    """A GPT whose initialisation is replaced by that of `change` for each matrix."""

    def all_of(model):
        for block in model.h:
            for m in block.modules():
                if isinstance(m, nn.Linear):
                    change(m.weight)

    return planted(all_of)


class Defaults(GPT):
    def __init__(self):
        super().__init__(tied=False)
        for m in self.modules():
            if isinstance(m, nn.Linear | nn.Embedding):
                m.reset_parameters()


class Sine(GPT):
    """A given table in an Embedding, beside tokens of 0.02."""

    def __init__(self):
        super().__init__()
        m = torch.arange(D // 2)
        angle = torch.arange(32)[:, None] * 10_000.0 ** (-m / (D // 2))
        self.wpe.weight = nn.Parameter(torch.cat([angle.sin(), angle.cos()], -1), False)


class Misplaced(GPT):
    def forward(self, tokens):
        x = self.wte(tokens) + self.wpe(torch.arange(tokens.shape[0]))[:, None]
        for block in self.h:
            x = block(x)
        return self.lm_head(self.ln_f(x))


class TokenNorm(Block):
    def forward(self, x):
        x = x + self.attn(self.ln1(x))
        return x + self.mlp((x - x.mean(1, keepdim=True)) / x.std(1, keepdim=True))


class Linear(Mlp):
    def forward(self, x):
        return self.proj(self.fc(x))


def equal_heads(m):
    m.weight.copy_(m.weight[: D // H].repeat(H, 1))


def heads_turned(self, q, k):
    places = torch.arange(q.shape[1])[:, None]
    return turned(q, places), turned(k, places)


def soft(self, scores, T):
    return scores - (~self.mask(T)).float()


def scale_by_depth(*names, power=0.5):
    """GPT's depth scale on other matrices than those that end branches."""

    def change(model):
        for block in model.h:
            for path in ("attn.proj", "mlp.proj"):
                block.get_submodule(path).weight.normal_(0, 0.02)
            for path in names:
                block.get_submodule(path).weight.normal_(0, 0.02 / (2 * L) ** power)

    return planted(change)


T, X, I = (TOKENS,), (VECTORS,), (IMAGES,)
FAULTS = {
    # depth
    "no depth scale": (scale_by_depth(), T, "mlp.proj", "lacks"),
    "down lacks it": (scale_by_depth("attn.proj"), T, "mlp.proj", "lacks"),
    "out lacks it": (scale_by_depth("mlp.proj"), T, "attn.proj", "lacks"),
    "on up": (scale_by_depth("mlp.fc"), T, "mlp.fc", "belongs on"),
    "on v": (scale_by_depth("attn.v"), T, "attn.v", "belongs on"),
    "on w3 too": (lambda: Llama(up=True), T, "mlp.w3", "belongs on"),
    "twice": (scale_by_depth("attn.proj", "mlp.proj", power=1.0), T, "mlp.proj", "twice"),
    "times √(2L)": (scale_by_depth("attn.proj", "mlp.proj", power=-0.5), T, "mlp.proj", "factor"),
    "post-norm": (lambda: GPT(PostNorm), T, "mlp.proj", "post-norm"),
    "one block post-norm": (lambda: GPT([Block, Block, PostNorm, Block]), T, "h.2", "norm"),
    "no last norm": (lambda: GPT(last_norm=False), T, "lm_head", "last norm"),
    "no norm": (lambda: GPT(NoNorm, 6), T, "h.", "norm"),
    "no residual": (lambda: GPT(NoResidual), T, "mlp.proj", "not added"),
    "doubled residual": (lambda: GPT(Doubling, 6), T, "h.5", "variance"),
    "one block larger": (planted(lambda m: m.h[2].mlp.fc.weight.mul_(3)), T, "h.2.mlp.fc", "3"),
    "no nonlinearity": (lambda: GPT(lambda: Block(mlp=Linear)), T, "mlp.fc", "nonlinearity"),
    # scales
    "nn.Linear's default": (Defaults, T, "h.0", "default"),
    "biases left": (
        planted(lambda m: [x.bias.uniform_(-(x.in_features**-0.5), x.in_features**-0.5)
                           for x in m.h.modules() if isinstance(x, nn.Linear)]),
        T, "bias", "uniform",
    ),
    "fan-out": (
        by_hand(lambda w: nn.init.kaiming_normal_(w, mode="fan_out", nonlinearity="linear")),
        T, "mlp", "fan-out",
    ),
    "variance for deviation": (by_hand(lambda w: w.normal_(0, 0.02**0.5)), T, "attn", "variance"),
    "deviation squared": (by_hand(lambda w: w.normal_(0, 0.02**2)), T, "attn", "0.02"),
    "1/n for 1/√n": (by_hand(lambda w: w.normal_(0, 1 / w.shape[1])), T, "mlp", "fan-in²"),
    "N(0, 1)": (by_hand(lambda w: w.normal_()), T, "attn", "standard deviation"),
    "fp16 underflow": (every("mlp.fc", normal(2e-5)), T, "mlp.fc", "float16"),
    "fp16 overflow": (planted(lambda m: m.h[1].mlp.proj.weight.normal_(0, 3e4)), T, "h.1.mlp",
                      "65504"),
    "q, k ten times": (
        planted(lambda m: [x.weight.mul_(10) for b in m.h for x in (b.attn.q, b.attn.k)]),
        T, "attn.q", "times as large as v",
    ),
    "NaN": (planted(lambda m: m.h[0].mlp.proj.weight.div_(0.0)), T, "h.0.mlp.proj", "NaN"),
    # zeros and equal numbers
    "zero q": (every("attn.q", fill(0)), T, "attn.q", "is 0"),
    "zero up and down": (
        planted(lambda m: [x.weight.zero_() for b in m.h for x in (b.mlp.fc, b.mlp.proj)]),
        T, "mlp.fc", "never train",
    ),
    "constant": (every("mlp.fc", fill(0.02)), T, "mlp.fc", "all entries"),
    "equal heads": (every("attn.q", equal_heads), T, "attn.q", "rows"),
    "q = k": (
        planted(lambda m: [b.attn.k.weight.copy_(b.attn.q.weight) for b in m.h]),
        T, "attn.k", "q = k",
    ),
    "copied layers": (copied, X, "1.layers.1", "equal those of"),
    "copied stage": (Staged, X, "stages.1", "equal those of"),
    "copied block": (
        planted(lambda m: m.h[3].load_state_dict(m.h[1].state_dict())), T, "h.3", "equal those of"
    ),
    "dead LoRA": (adapted(0.0, 0.0), T, "attn.q", "never train"),
    "LoRA B not 0": (adapted(0.02, 0.02), T, "attn.q.b", "adapter"),
    # attention
    "no 1/√d": (gpt(variant(scores=lambda s, q, k: q @ k.mT)), T, "attn", "1/√d"),
    "1/√n": (gpt(variant(scores=lambda s, q, k: q @ k.mT / D**0.5)), T, "attn", "width"),
    "times √d": (
        gpt(variant(scores=lambda s, q, k: q @ k.mT * (D // H) ** 0.5)), T, "attn", "1/√d"
    ),
    "mask sees the next": (
        gpt(variant(mask=lambda s, T: torch.ones(T, T, dtype=torch.bool).tril(1))),
        T, "attn", "next",
    ),
    "mask hides itself": (
        gpt(variant(mask=lambda s, T: torch.ones(T, T, dtype=torch.bool).tril(-1)
                    | torch.eye(T, dtype=torch.bool) & (torch.arange(T) == 0))),
        T, "attn", "itself",
    ),
    "no mask": (gpt(variant(mask=lambda s, T: None)), T, "attn", "no mask"),
    "mask inverted": (
        gpt(variant(mask=lambda s, T: torch.ones(T, T, dtype=torch.bool).triu())),
        T, "attn", "follows",
    ),
    "one block without mask": (
        lambda: GPT([Block, Block, lambda: Block(Free), Block]), T, "h.2.attn", "mask"
    ),
    "soft mask": (gpt(variant(hidden=soft)), T, "attn", "-1"),
    "softmax over queries": (
        gpt(variant(weights=lambda s, p, T: s.hidden(p, T).softmax(-2))), T, "attn", "softmax"
    ),
    "mask behind softmax": (
        gpt(variant(weights=lambda s, p, T: p.softmax(-1) * s.mask(T))), T, "attn", "behind"
    ),
    "norm over tokens": (lambda: GPT(TokenNorm), T, "h.0", "leaks"),
    "rotary along heads": (
        lambda: Llama(lambda: LlamaBlock(variant(RotaryAttention, rotated=heads_turned))),
        T, "attn", "heads",
    ),
    "rotary on q alone": (
        lambda: Llama(lambda: LlamaBlock(variant(
            RotaryAttention, rotated=lambda s, q, k: (turned(q, torch.arange(q.shape[-2])), k)))),
        T, "attn", "rotated",
    ),
    # both ends
    "tied, std 1": (planted(lambda m: m.wte.weight.normal_()), T, "wte", "ln V"),
    "large head": (
        lambda: planted(lambda m: m.lm_head.weight.normal_(0, 0.5), lambda: GPT(tied=False))(),
        T, "lm_head", "ln V",
    ),
    "loud positions": (planted(lambda m: m.wpe.weight.normal_()), T, "wpe", "drown"),
    "loud sine table": (Sine, T, "wpe", "drown"),
    "positions by batch": (Misplaced, T, "wpe", "same position"),
    "no positions": (
        lambda: GPT(lambda: Block(Free), positions=False, tied=False, last_norm=True),
        T, "wte", "bag of words",
    ),
    "ViT, q = 0 in one block": (
        planted(lambda m: m.blocks[2].attn.q.weight.zero_(), ViT), I, "blocks.2.attn.q", "0"
    ),
    "ViT, large head": (planted(lambda m: m.head.weight.normal_(0, 1.0), ViT), I, "head", "ln V"),
}  # fmt: skip
HEALTHY = {
    "GPT": (GPT, T), "Llama": (Llama, T), "ViT": (ViT, I), "encoder": (encoder, X),
    "GPT, one block": (lambda: GPT(blocks=1), T), "GPT, 8 blocks": (lambda: GPT(blocks=8), T),
    "LoRA": (adapted(0.02, 0.0), T),
    "GPT, zero ends": (
        planted(lambda m: [x.weight.zero_() for b in m.h for x in (b.attn.proj, b.mlp.proj)]), T
    ),
}  # fmt: skip
