"""Laws by quadrature: their divergence once more, between the same laws by another rule."""

import functools
import math
from collections.abc import Callable
from typing import Any

from limitlaw.divergence.accepted import as_law
from limitlaw.divergence.result import Divergence


def compared(divergence: Callable[..., Divergence]) -> Callable[..., Divergence]:
    """`divergence` of whatever is a law, with what laws of one number by another rule change about
    it in its error.
    """

    @functools.wraps(divergence)
    def with_rules(p: object, q: object, *options: Any, **named: Any) -> Divergence:
        first = as_law("p", p)
        p, q = first, first if q is p else as_law("q", q)
        d = divergence(p, q, *options, **named)
        if (
            p is q
            or p.shape
            or (p.other is None and q.other is None)
            or not math.isfinite(d.value)
        ):
            return d
        others = [law.other or law for law in (p, q)]
        return Divergence(
            d.value, math.hypot(d.error, d.value - divergence(*others, *options, **named).value)
        )

    return with_rules
