"""Modules written by hand, as users write them."""

import math

import torch
from torch import nn
from torch.nn import functional as F


class Fused(nn.Module):
    """Causal attention with one matrix for queries, keys and values, by scaled_dot_product_attention."""

    def __init__(self, width: int, heads: int):
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x):
        B, T, C = x.shape
        q, k, v = (t.view(B, T, self.heads, C // self.heads).transpose(1, 2) for t in self.qkv(x).split(C, dim=2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).reshape(B, T, C))


class Explicit(nn.Module):
    """Causal attention with a buffer for its mask and the softmax written out."""

    def __init__(self, width: int, heads: int):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.out = (nn.Linear(width, width, bias=False) for _ in range(4))
        self.register_buffer("mask", torch.tril(torch.ones(16, 16)))

    def forward(self, x):
        B, T, C = x.shape
        q, k, v = (f(x).view(B, T, self.heads, -1).transpose(1, 2) for f in (self.q, self.k, self.v))
        p = q @ k.transpose(-2, -1) / math.sqrt(C // self.heads)
        p = p.masked_fill(self.mask[:T, :T] == 0, float("-inf"))
        y = F.softmax(p, dim=-1) @ v
        return self.out(y.transpose(1, 2).contiguous().view(B, T, C))


class Einsum(nn.Module):
    """Attention without a mask, by einsum."""

    def __init__(self, width: int, heads: int):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.out = (nn.Linear(width, width, bias=False) for _ in range(4))

    def forward(self, x):
        B, T, C = x.shape
        q, k, v = (f(x).view(B, T, self.heads, -1) for f in (self.q, self.k, self.v))
        A = torch.einsum("bihd,bjhd->bhij", q * (C // self.heads) ** -0.5, k).softmax(-1)
        return self.out(torch.einsum("bhij,bjhd->bihd", A, v).reshape(B, T, C))


class Block(nn.Module):
    """A pre-norm block."""

    def __init__(self, width: int, heads: int, attention):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = attention(width, heads)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width), nn.Dropout(0.1))

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    """Tokens and positions, blocks, and logits; `tied` uses the embedding again."""

    def __init__(self, width: int = 16, heads: int = 2, layers: int = 2, attention=Fused, tied: bool = False):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(20, width), nn.Embedding(16, width)
        self.blocks = nn.ModuleList(Block(width, heads, attention) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 20, bias=False)
        if tied:
            self.head.weight = self.tokens.weight

    def forward(self, tokens):
        x = self.tokens(tokens) + self.positions(torch.arange(tokens.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


class Attend(nn.Module):
    """nn.MultiheadAttention of a stream with itself, or with another; with masks."""

    def __init__(self, cross: bool = False, weights: bool = False, batch_first: bool = True, **kwargs):
        super().__init__()
        self.embed, self.other = nn.Linear(5, 16), nn.Linear(5, 16)
        self.cross, self.weights = cross, weights
        self.attention = nn.MultiheadAttention(16, 2, batch_first=batch_first, **kwargs)

    def forward(self, x, mask=None, padding=None):
        x, y = self.embed(x), self.other(x)
        other = y if self.cross else x
        result, weights = self.attention(
            x, other, other, attn_mask=mask, key_padding_mask=padding, need_weights=self.weights
        )
        return (result, weights) if self.weights else result


class Encoder(nn.Module):
    """nn.TransformerEncoder over embedded inputs."""

    def __init__(self, norm_first: bool, layers: int = 2):
        super().__init__()
        self.embed = nn.Linear(5, 16)
        layer = nn.TransformerEncoderLayer(16, 2, 32, norm_first=norm_first, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)

    def forward(self, x, mask):
        return self.encoder(self.embed(x), mask=mask, is_causal=True)
