"""Layers: short functions that write programs."""

from limitlaw.nn import masks
from limitlaw.nn.attention import attention
from limitlaw.nn.convolution import conv1d, conv2d, readout
from limitlaw.nn.feedforward import dense, gated_mlp, layernorm, mlp, rmsnorm, with_bias
from limitlaw.nn.positions import Alibi, Rotary, embedding, learned_positions, sinusoidal_positions
from limitlaw.nn.recurrent import gru, lstm, rnn
from limitlaw.nn.transformer import block, residual, transformer

__all__ = [
    "Alibi",
    "Rotary",
    "attention",
    "block",
    "conv1d",
    "conv2d",
    "dense",
    "embedding",
    "gated_mlp",
    "gru",
    "layernorm",
    "learned_positions",
    "lstm",
    "masks",
    "mlp",
    "readout",
    "residual",
    "rmsnorm",
    "rnn",
    "sinusoidal_positions",
    "transformer",
    "with_bias",
]
