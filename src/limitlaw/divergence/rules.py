"""Laws by quadrature: their divergence once more, between the same laws by another rule."""

import functools
import math
from collections.abc import Callable
from typing import Any

from limitlaw.divergence.result import Divergence
from limitlaw.laws import Law


def compared(divergence: Callable[..., Divergence]) -> Callable[..., Divergence]:
    """`divergence`, with what laws of one number by another rule change about it in its error."""

    @functools.wraps(divergence)
    def with_rules(p: Law, q: Law, *options: Any, **named: Any) -> Divergence:
        d = divergence(p, q, *options, **named)
        if p is q or p.shape or (p.other is None and q.other is None) or not math.isfinite(d.value):
            return d
        others = [law.other or law for law in (p, q)]
        return Divergence(d.value, math.hypot(d.error, d.value - divergence(*others, *options, **named).value))

    return with_rules
