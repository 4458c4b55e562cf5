"""LayerNorm and RMSNorm as they start: scale 1, shift 0."""

from limitlaw.arguments import non_negative_number
from limitlaw.language.functions import average
from limitlaw.language.named import rsqrt
from limitlaw.language.values import Wide, wide


def layernorm(x: Wide, eps: float = 1e-5) -> Wide:
    """c / √(average(c²) + eps) with c = x − average(x), for each vector of the batch."""
    x = wide("x", x)
    return rmsnorm(x - average(x), eps)


def rmsnorm(x: Wide, eps: float = 1e-5) -> Wide:
    """x / √(average(x²) + eps), for each vector of the batch."""
    x = wide("x", x)
    return x * rsqrt(average(x * x) + non_negative_number("eps", eps))
