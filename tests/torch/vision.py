"""Blocks of families that need packages which are not here (timm, torchvision), by hand."""

import torch
from torch import nn
from torch.nn import functional as F


class ConvNeXt(nn.Module):
    """Liu et al. 2022: patch stem, depthwise 7 × 7, norm over channels, MLP, layer scale."""

    def __init__(self, width: int = 8):
        super().__init__()
        self.stem = nn.Conv2d(3, width, 2, 2)
        self.depthwise = nn.Conv2d(width, width, 7, padding=3, groups=width)
        self.norm, self.up = nn.LayerNorm(width), nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)
        self.scale = nn.Parameter(torch.full((width,), 0.1))

    def forward(self, x):
        x = self.stem(x)
        y = self.norm(self.depthwise(x).permute(0, 2, 3, 1))
        y = self.scale * self.down(F.gelu(self.up(y)))
        return x + y.permute(0, 3, 1, 2)


class Windows(nn.Module):
    """Swin's shifted windows (Liu et al. 2021) with padding and a table of biases of scores."""

    def __init__(self, width: int = 8, heads: int = 2, window: int = 2):
        super().__init__()
        self.heads, self.window = heads, window
        self.stem, self.qkv = nn.Conv2d(3, width, 2, 2), nn.Linear(width, 3 * width)
        self.out, self.table = nn.Linear(width, width), nn.Parameter(torch.randn(9, heads))
        places = torch.stack(torch.meshgrid(*[torch.arange(window)] * 2, indexing="ij")).flatten(1)
        between = (places[:, :, None] - places[:, None]) + window - 1
        self.register_buffer("index", between[0] * (2 * window - 1) + between[1])

    def forward(self, x):
        x = self.stem(x).permute(0, 2, 3, 1)
        w = self.window
        x = torch.roll(F.pad(x, (0, 0, 0, 1, 0, 1)), (-1, -1), (1, 2))
        B, H, W, C = x.shape
        windows = x.view(B, H // w, w, W // w, w, C).transpose(2, 3).reshape(-1, w * w, C)
        q, k, v = self.qkv(windows).view(-1, w * w, 3, self.heads, C // self.heads).unbind(2)
        p = torch.einsum("bihd,bjhd->bhij", q, k) + self.table[self.index].permute(2, 0, 1)
        y = torch.einsum("bhij,bjhd->bihd", p.softmax(-1), v).reshape(-1, w * w, C)
        y = self.out(y).view(B, H // w, W // w, w, w, C).transpose(2, 3).reshape(B, H, W, C)
        return torch.roll(y, (1, 1), (1, 2))[:, : H - 1, : W - 1]


class Mixer(nn.Module):
    """MLP-Mixer (Tolstikhin et al. 2021): matrices over tokens and over channels."""

    def __init__(self, width: int = 8, tokens: int = 4):
        super().__init__()
        self.stem, self.norm = nn.Conv2d(3, width, 4, 4), nn.LayerNorm(width)
        self.first, self.second = nn.Linear(tokens, 6), nn.Linear(6, tokens)
        self.up, self.down = nn.Linear(width, 16), nn.Linear(16, width)

    def forward(self, x):
        x = self.stem(x).flatten(2).transpose(1, 2)
        x = x + self.second(F.gelu(self.first(self.norm(x).transpose(1, 2)))).transpose(1, 2)
        return x + self.down(F.gelu(self.up(self.norm(x))))


class TalkingHeads(nn.Module):
    """Shazeer et al. 2020: matrices over heads before and after the softmax."""

    def __init__(self, width: int = 8, heads: int = 2):
        super().__init__()
        self.heads, self.embed = heads, nn.Linear(5, width)
        self.qkv, self.out = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width)
        self.before, self.after = (nn.Conv2d(heads, heads, 1, bias=False) for _ in range(2))

    def forward(self, x):
        x = self.embed(x)
        q, k, v = (
            t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in self.qkv(x).chunk(3, -1)
        )
        weights = self.after(self.before(q @ k.transpose(-1, -2)).softmax(-1))
        return self.out((weights @ v).transpose(1, 2).flatten(2))


class WhisperStem(nn.Module):
    """Radford et al. 2022: two convolutions over time, one of stride 2."""

    def __init__(self, width: int = 8):
        super().__init__()
        self.first = nn.Conv1d(4, width, 3, padding=1)
        self.second = nn.Conv1d(width, width, 3, 2, padding=1)

    def forward(self, x):
        return F.gelu(self.second(F.gelu(self.first(x)))).transpose(1, 2)


class Residual(nn.Module):
    """He et al. 2016 in eval mode: stem, max pooling, a block with batch norm, mean, head."""

    def __init__(self, width: int = 8, groups: int = 1):
        super().__init__()
        self.stem, self.norm = nn.Conv2d(3, width, 3, 2, 1, bias=False), nn.BatchNorm2d(width)
        self.first = nn.Conv2d(width, width, 3, padding=1, bias=False, groups=groups)
        self.second = nn.Conv2d(width, 2 * width, 3, 2, 1, bias=False)
        self.short = nn.Conv2d(width, 2 * width, 1, 2, bias=False)
        self.last, self.head = nn.BatchNorm2d(2 * width), nn.Linear(2 * width, 5)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.norm(self.stem(x))), 3, 2, 1)
        y = self.last(self.second(F.relu(self.norm(self.first(x)))))
        x = F.relu(y + self.short(x))
        return self.head(F.adaptive_avg_pool2d(x, 1).flatten(1))


class Depthwise(nn.Module):
    """A separable convolution with GroupNorm, PReLU and average pooling."""

    def __init__(self, width: int = 8):
        super().__init__()
        self.stem, self.norm = nn.Conv2d(3, width, 1), nn.GroupNorm(2, width)
        self.depth = nn.Conv2d(width, width, 3, groups=width, bias=False, dilation=2, padding=2)
        self.point, self.act = nn.Conv2d(width, width, 1), nn.PReLU(width)

    def forward(self, x):
        x = self.act(self.norm(self.stem(x)))
        return F.avg_pool2d(self.point(self.depth(x)), 2)


class Interleaved(nn.Module):
    """Attention with rotary embeddings of neighbouring pairs, by real or complex products."""

    def __init__(self, width: int = 8, heads: int = 2, complex_: bool = False, scale: float = 1.0):
        super().__init__()
        self.heads, self.complex = heads, complex_
        self.embed, self.q, self.k = (nn.Linear(i, width) for i in (5, width, width))
        D = width // heads
        angles = torch.outer(torch.arange(8.0), 100.0 ** (-torch.arange(0, D, 2) / D)) * scale
        self.register_buffer("angles", angles)

    def turned(self, x):
        if self.complex:
            z = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
            turns = torch.polar(torch.ones_like(self.angles), self.angles)[: x.shape[-2]]
            return torch.view_as_real(z * turns).flatten(-2).type_as(x)
        angles = self.angles[: x.shape[-2]]
        a, b = x[..., ::2], x[..., 1::2]
        c, s = angles.cos(), angles.sin()
        return torch.stack([a * c - b * s, a * s + b * c], -1).flatten(-2)

    def forward(self, x):
        x = self.embed(x)
        q, k = (
            self.turned(f(x).unflatten(-1, (self.heads, -1)).transpose(1, 2))
            for f in (self.q, self.k)
        )
        return F.scaled_dot_product_attention(q, k, k).transpose(1, 2).flatten(2)


class Loss(nn.Module):
    """The cross-entropy of a tied language model; a class that is ignored."""

    def __init__(self, width: int = 8, tied: bool = True):
        super().__init__()
        self.tokens, self.head = nn.Embedding(11, width), nn.Linear(width, 11, bias=False)
        self.mix = nn.Linear(width, width)
        if tied:
            self.head.weight = self.tokens.weight

    def forward(self, tokens):
        x = self.tokens(tokens)
        logits = self.head(F.layer_norm(x + self.mix(x), x.shape[-1:]))
        targets = tokens.roll(-1, 1).clone()
        targets[:, -1] = -100
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten()), logits
