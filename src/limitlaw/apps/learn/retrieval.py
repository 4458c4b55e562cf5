"""The retrieval task: the first token of a sequence asks for the value behind its key.

A sequence has a question and s − 1 pairs of a key and a value, the keys all different. Tokens are
vectors of D = keys + 2 coordinates: the key, 2√D e_k; the value, of variance one; and 2√D if the
token is the question. The target is the value of the pair with the question's key, without noise.
"""

import dataclasses
import math
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

import limitlaw as ll


@dataclasses.dataclass(frozen=True)
class Retrieval:
    """Sequences for training and for a test, of one seed; `g` is the scale of scores."""

    train: int = 120
    test: int = 200
    keys: int = 8
    tokens: int = 5
    g: float = 6.0
    noise: float = 0.1
    seed: int = 0

    def __post_init__(self) -> None:
        if not 2 <= self.tokens <= self.keys + 1:
            raise ValueError(f"tokens must be from 2 to keys + 1 = {self.keys + 1}")

    def drawn(self) -> "Sequences":
        """Sequences, those for training first, with their targets without noise."""
        rng = np.random.default_rng(self.seed)
        m, pairs, D = self.train + self.test, self.tokens - 1, self.keys + 2
        keys = rng.permuted(np.tile(np.arange(self.keys), (m, 1)), axis=1)[:, :pairs]
        values, asked = rng.normal(size=(m, pairs)), rng.integers(0, pairs, m)
        X, rows, size = np.zeros((m, self.tokens, D)), np.arange(m), 2 * math.sqrt(D)
        X[rows[:, None], 1 + np.arange(pairs), keys] = size
        X[rows, 0, keys[rows, asked]] = size
        X[:, 1:, self.keys] = values
        X[:, 0, self.keys + 1] = size
        return Sequences(X, values[rows, asked], 1 + asked)

    def answer(self, heads: int | float, samples: int, key: Any) -> "Answer":
        """What the posterior of a layer of attention with so many heads makes of the task."""
        tokens, values, where = self.drawn()
        x = ll.Matrix(cols=tokens.shape[-1]) @ ll.data(tokens)
        y = ll.attention(x, heads, q_std=self.g)[..., 0]
        t = values[: self.train]
        found = ll.posterior(y, slice(self.train), t, self.noise, samples=samples, key=key)
        mean = found.mean(slice(self.train, None)).value
        error = float(np.mean((mean - values[self.train :]) ** 2))
        attention = None
        if heads != math.inf:
            A = found.attention().mean().reshape(len(tokens), int(heads), self.tokens)
            attention = float(A[np.arange(len(A)), :, where].mean())
        return Answer(heads, error, *found.log_evidence(), attention, found)


class Sequences(NamedTuple):
    """Tokens, the value that is asked for, and the place of its token."""

    tokens: Float[np.ndarray, "m s D"]
    values: Float[np.ndarray, " m"]
    where: Int[np.ndarray, " m"]


@dataclasses.dataclass(frozen=True)
class Answer:
    """The mean squared error on the test, the log evidence with its error, and the mean attention
    that a head pays to the token with the answer, given the targets; before, it is 1/s. None where
    it is not random.
    """

    heads: int | float
    test_error: float
    log_evidence: float
    error: float
    attention: float | None
    posterior: ll.Posterior
