"""Modules written by hand, as users write them."""

import math

import torch
from torch import nn
from torch.nn import functional as F


class Fused(nn.Module):
    """Causal attention with one matrix for queries,
    keys and values, by scaled_dot_product_attention.
    """

    def __init__(self, width: int, heads: int):
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x):
        B, T, C = x.shape
        q, k, v = (
            t.view(B, T, self.heads, C // self.heads).transpose(1, 2)
            for t in self.qkv(x).split(C, dim=2)
        )
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
        q, k, v = (
            f(x).view(B, T, self.heads, -1).transpose(1, 2) for f in (self.q, self.k, self.v)
        )
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
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width), nn.Dropout(0.1)
        )

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    """Tokens and positions, blocks, and logits; `tied` uses the embedding again."""

    def __init__(
        self, width: int = 16, heads: int = 2, layers: int = 2, attention=Fused, tied: bool = False
    ):
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

    def __init__(
        self, cross: bool = False, weights: bool = False, batch_first: bool = True, **kwargs
    ):
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


class Whole(nn.Module):
    """nn.Transformer, encoder and decoder."""

    def __init__(self):
        super().__init__()
        self.embed, self.transformer = (
            nn.Linear(5, 16),
            nn.Transformer(16, 2, 1, 1, 24, batch_first=True),
        )

    def forward(self, x):
        x = self.embed(x)
        return self.transformer(x, x[:, :3])


class Alibi(nn.Module):
    """Attention with given biases that fall with distance, at another rate in every head."""

    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(20, 16)
        self.q, self.k, self.v, self.out = (nn.Linear(16, 16) for _ in range(4))

    def forward(self, tokens):
        x = self.tokens(tokens)
        q, k, v = (f(x).unflatten(-1, (2, 8)).transpose(1, 2) for f in (self.q, self.k, self.v))
        place = torch.arange(x.shape[1])
        bias = -(place[:, None] - place).abs() * torch.tensor([0.5, 0.25])[:, None, None]
        return self.out(
            (torch.softmax(q @ k.mT / 8**0.5 + bias, -1) @ v).transpose(1, 2).flatten(2)
        )


class Tied(nn.Module):
    """One matrix used three times in a loop, then numbers added to vectors."""

    def __init__(self):
        super().__init__()
        self.embed, self.again = nn.Linear(5, 16), nn.Linear(16, 16)

    def forward(self, x):
        x = self.embed(x)
        for _ in range(3):
            x = torch.tanh(self.again(x))
        return x * torch.sigmoid(x) ** 2 + x.sum(-1, keepdim=True)


class Pooled(nn.Module):
    """A class token and positions as parameters, given positions as a buffer;
    one token, and a matrix over them all.
    """

    def __init__(self):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(20, 16), nn.Parameter(torch.randn(1, 8, 16))
        self.first, self.zero = (
            nn.Parameter(torch.randn(1, 1, 16)),
            nn.Parameter(torch.zeros(1, 1, 16)),
        )
        self.register_buffer("given", torch.randn(6, 16))
        self.out, self.all = nn.Linear(16, 6), nn.Linear(6 * 16, 6)

    def forward(self, tokens):
        x = self.tokens(tokens) * 4 + self.positions[:, : tokens.shape[1]]
        x = (
            torch.cat([self.first.expand(len(x), -1, -1), self.zero.expand(len(x), -1, -1), x], 1)
            + self.given
        )
        return self.out(x[:, 0]) + self.out(x.mean(1)) + self.all(x.flatten(1))
