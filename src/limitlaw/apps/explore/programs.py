"""The program of a choice, and the Python code that writes it.

The two are written side by side; tests/explore/test_code.py runs the code and compares its numbers
with the page's.
"""

import dataclasses
import json
from typing import Any

import numpy as np

import limitlaw as ll
from limitlaw.apps.explore.budget import (
    DIFFERENTIATED,
    FOLLOWED_DRAWS,
    HIDDEN_PER_WIDTH,
    simulated_networks,
)
from limitlaw.apps.explore.choice import Choice
from limitlaw.depth.network import PHIS
from limitlaw.engines.limit.conditions import Limit
from limitlaw.engines.limit.draw import variance
from limitlaw.float64 import in_float64
from limitlaw.laws import Law

LIMIT_SAMPLES = 2**14  # draws of the limit, where it has to be sampled
PREVIEW = 2**12  # draws of a preview, where the limit takes longer than a slider moves
FOLLOWED = ("variance", "correlation", "entropy", "kurtosis")
DRAWS_AT_ONCE = 256  # networks simulated at a time, between which a simulation can be stopped


def _tokens(choice: Choice) -> Any:
    s, c = choice.tokens, choice.correlation
    return ll.initial((s,), cov=(1 - c) * np.eye(s) + c)


def layer(choice: Choice) -> Any:
    """The output of the chosen token of an attention layer."""
    g = _tokens(choice)
    x = g if choice.phi == "identity" else PHIS[choice.phi](g)
    y = ll.attention(
        x, choice.heads, choice.head_dim or None, mask=_mask(choice), q_std=choice.scale
    )
    return y[choice.token]


def network(choice: Choice) -> Any:
    """The Transformer of the second tab."""
    return ll.transformer(
        _tokens(choice),
        choice.depth,
        choice.heads,
        choice.head_dim or None,
        choice.norm,
        _mask(choice),
        hidden=HIDDEN_PER_WIDTH * ll.n,
        phi=PHIS[choice.phi],
        q_std=choice.scale,
    )


def _mask(choice: Choice) -> str | None:
    return None if choice.mask == "none" else choice.mask


def takes_long(choice: Choice) -> bool:
    """Is the limit an integral over three scores? That takes up to a second."""
    seen = choice.token + 1 if choice.mask == "causal" else choice.tokens
    return seen == 4 and not choice.head_dim


@in_float64
def sampled_limit(choice: Choice) -> Law:
    """The limit by a few draws: heads are i.i.d., so that the variances of one head are enough."""
    one_head = dataclasses.replace(choice, heads=1)
    variances = Limit((layer(one_head).core,), variance).conditions(PREVIEW, 0).arrays
    return ll.HeadSum(variances, choice.heads, kind="sampled")


# --- as code -------------------------------------------------------------------------------------

_HEAD = """\
import numpy as np

import limitlaw as ll
"""


def _kernel_code(choice: Choice) -> str:
    s, c = choice.tokens, choice.correlation
    kernel = f"np.eye({s})" if c == 0 else f"{1 - c!r} * np.eye({s}) + {c!r}"
    return f"kernel = {kernel}  # of {s} tokens\n"


def _heads_code(choice: Choice, separator: str = ", ") -> str:
    parts = [f"heads={choice.heads}"]
    parts += [f"head_dim={choice.head_dim}"] * bool(choice.head_dim)
    parts += [f'mask="{choice.mask}"'] * (choice.mask != "none")
    return separator.join([*parts, f"q_std={choice.scale!r}"])


def layer_code(choice: Choice) -> str:
    """A script for the first tab; it defines y, limit, gaussian, exact and divergence."""
    g = f"ll.initial(({choice.tokens},), cov=kernel)"
    x = g if choice.phi == "identity" else f"ll.{choice.phi}({g})"
    return f"""{_HEAD}
{_kernel_code(choice)}x = {x}
y = ll.attention(x, {_heads_code(choice)})[{choice.token}]  # the output of one token

limit = ll.limit(y, samples={LIMIT_SAMPLES}, key=0)  # n → ∞; draws only where it has to
gaussian = ll.Gaussian(0.0, limit.variance())  # infinitely many heads
exact = ll.finite(y, width={choice.width}, samples={choice.samples}, key=0)
divergence = ll.divergence.kl(exact, limit)
for name, law in (("width {choice.width}", exact), ("limit", limit), ("infinite heads", gaussian)):
    print(name, law.variance(), law.kurtosis(), 2 * law.sf(3 * law.variance() ** 0.5))
print("KL of the law at this width from the limit:", divergence)
{_simulation_code(choice)}"""


def _simulation_code(choice: Choice) -> str:
    try:
        networks = simulated_networks(choice)
    except ValueError:
        return ""  # the page does not offer it either
    n, size, times = choice.width, DRAWS_AT_ONCE, max(1, networks // DRAWS_AT_ONCE)
    return f"""
# Every matrix of {times * size:,} networks drawn, for comparison:
# draws = np.concatenate([ll.simulate(y, {n}, {size}, key) for key in range({times})])
"""


def network_code(choice: Choice) -> str:
    """A script that prints the numbers of the second tab; it defines net and traces."""
    return f"""{_HEAD}
{_kernel_code(choice)}net = ll.transformer(
    ll.initial(({choice.tokens},), cov=kernel),
    depth={choice.depth},
    {_heads_code(choice, separator=f",{chr(10)}    ")},
    norm="{choice.norm}",
    hidden={HIDDEN_PER_WIDTH} * ll.n,
    phi=ll.{choice.phi},
)
{_traces_code(choice)}
for trace in traces:
    print(trace)
"""


def _traces_code(choice: Choice) -> str:
    widths = f"widths = {choice.widths}  # None: n → ∞"
    if choice.of_gradients:
        asked = f"ll.gradients(net, width, samples={DIFFERENTIATED}, key=0)"
        return f"{widths}\ntraces = [{asked} for width in widths]"
    return f"""statistics = {json.dumps(FOLLOWED)}
{widths}
traces = [ll.trace(net, statistics, width, samples={FOLLOWED_DRAWS}, key=0) for width in widths]"""
