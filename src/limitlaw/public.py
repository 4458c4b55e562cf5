"""All public names, which `limitlaw` exports."""

from limitlaw import depth, divergence, laws, nn
from limitlaw.backward.reverse import gradient
from limitlaw.backward.step import Rate, after_step
from limitlaw.backward.tangent import ntk, parameters
from limitlaw.core.space import n
from limitlaw.depth.coordinates import coordinate_check
from limitlaw.depth.gradients import gradients
from limitlaw.depth.trace import trace
from limitlaw.engines.averages import average_law
from limitlaw.engines.checking import check
from limitlaw.engines.dense.simulate import simulate
from limitlaw.engines.engine import clear_cache
from limitlaw.engines.frames.finite import finite, finite_samples
from limitlaw.engines.infinite_width import kernel, limit
from limitlaw.figures.plot import plot
from limitlaw.language.functions import (
    apply,
    average,
    data,
    dot,
    initial,
    map,
    matrices,
    normalised_sum,
    rotary,
    softmax,
    stack,
)
from limitlaw.language.matrices import Matrix
from limitlaw.language.named import (
    abs,
    clip,
    cos,
    erf,
    gelu,
    identity,
    leaky_relu,
    relu,
    rsqrt,
    sigmoid,
    sign,
    silu,
    sin,
    softplus,
    tanh,
)
from limitlaw.language.printing import mermaid
from limitlaw.language.repeating import repeat, scan
from limitlaw.language.values import Scalars, Wide
from limitlaw.laws import (
    Combination,
    Empirical,
    Gaussian,
    GaussianMixture,
    HeadSum,
    KernelMatrix,
    Law,
    Pushforward,
    RandomKernel,
    Tokens,
    load,
)
from limitlaw.learning.answer import Posterior
from limitlaw.learning.fit import Fitted, fit
from limitlaw.learning.kernels import Kernel
from limitlaw.learning.posterior import posterior
from limitlaw.learning.prediction import Prediction, predict
from limitlaw.learning.training import AttentionLayer, Training, train
from limitlaw.nn.attention import attention
from limitlaw.nn.convolution import conv1d, conv2d, readout
from limitlaw.nn.feedforward import dense, layernorm, mlp, rmsnorm
from limitlaw.nn.recurrent import gru, lstm, rnn
from limitlaw.nn.transformer import transformer
from limitlaw.presets import attention_law
from limitlaw.tangent import TangentKernel, attention_ntk

__all__ = [
    "AttentionLayer",
    "Combination",
    "Empirical",
    "Fitted",
    "Gaussian",
    "GaussianMixture",
    "HeadSum",
    "Kernel",
    "KernelMatrix",
    "Law",
    "Matrix",
    "Posterior",
    "Prediction",
    "Pushforward",
    "RandomKernel",
    "Rate",
    "Scalars",
    "TangentKernel",
    "Tokens",
    "Training",
    "Wide",
    "abs",
    "after_step",
    "apply",
    "attention",
    "attention_law",
    "attention_ntk",
    "average",
    "average_law",
    "check",
    "clear_cache",
    "clip",
    "conv1d",
    "conv2d",
    "coordinate_check",
    "cos",
    "data",
    "dense",
    "depth",
    "divergence",
    "dot",
    "erf",
    "finite",
    "finite_samples",
    "fit",
    "gelu",
    "gradient",
    "gradients",
    "gru",
    "identity",
    "initial",
    "kernel",
    "laws",
    "layernorm",
    "leaky_relu",
    "limit",
    "load",
    "lstm",
    "map",
    "matrices",
    "mermaid",
    "mlp",
    "n",
    "nn",
    "normalised_sum",
    "ntk",
    "parameters",
    "plot",
    "posterior",
    "predict",
    "readout",
    "relu",
    "repeat",
    "rmsnorm",
    "rnn",
    "rotary",
    "rsqrt",
    "scan",
    "sigmoid",
    "sign",
    "silu",
    "simulate",
    "sin",
    "softmax",
    "softplus",
    "stack",
    "tanh",
    "trace",
    "train",
    "transformer",
]
