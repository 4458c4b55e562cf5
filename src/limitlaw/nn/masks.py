"""Masks for `attention` and `softmax`: arrays of booleans, True where a token is seen."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool

from limitlaw.arguments import positive_int

Mask = Bool[np.ndarray, "tokens tokens"]


def causal(tokens: int) -> Mask:
    """The mask by which token i sees tokens j ≤ i."""
    return np.tri(positive_int("tokens", tokens), dtype=bool)


def sliding_window(tokens: int, window: int) -> Mask:
    """The mask by which token i sees tokens j with i − window < j ≤ i (as in Mistral)."""
    s = positive_int("tokens", tokens)
    return np.tri(s, dtype=bool) & ~np.tri(s, k=-positive_int("window", window), dtype=bool)


def padding(lengths: Sequence[int], tokens: int) -> Bool[np.ndarray, "sequences tokens tokens"]:
    """The masks by which all places of sequence b see its first lengths[b] tokens only."""
    s = positive_int("tokens", tokens)
    counts = np.asarray(
        [positive_int(f"lengths[{b}]", length) for b, length in enumerate(lengths)]
    )
    if not len(counts):
        raise ValueError("lengths must have an entry for each sequence, got none")
    if (counts > s).any():
        raise ValueError(
            f"lengths must be at most the {s} tokens of a sequence, got {int(counts.max())}"
        )
    seen = np.arange(s) < counts[:, None]
    return np.broadcast_to(seen[:, None, :], (len(counts), s, s))
