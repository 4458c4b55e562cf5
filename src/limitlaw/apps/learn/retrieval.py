"""The retrieval task: the first token of a sequence asks for the value behind its key.

A sequence has a question and s − 1 pairs of a key and a value, the keys all different. Tokens are
vectors of D = keys + 2 coordinates of variance about one: the key, √keys e_k; the value; and
whether the token is the question. The target is the value of the pair with the question's key.
"""

import dataclasses
import math
from typing import Any

import numpy as np
from jaxtyping import Float

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

    def drawn(self) -> tuple[Float[np.ndarray, "m s D"], Float[np.ndarray, " m"]]:
        """Sequences, those for training first, and their targets without noise."""
        rng = np.random.default_rng(self.seed)
        m, pairs = self.train + self.test, self.tokens - 1
        keys = rng.permuted(np.tile(np.arange(self.keys), (m, 1)), axis=1)[:, :pairs]
        values, asked = rng.normal(size=(m, pairs)), rng.integers(0, pairs, m)
        X = np.zeros((m, self.tokens, self.keys + 2))
        rows, size = np.arange(m), 2 * math.sqrt(X.shape[-1])
        X[rows[:, None], 1 + np.arange(pairs), keys] = size
        X[rows, 0, keys[rows, asked]] = size
        X[:, 1:, self.keys] = values
        X[:, 0, self.keys + 1] = 1.0
        return X, values[rows, asked]

    def answer(self, heads: int | float, samples: int, key: Any) -> "Answer":
        """What a layer of attention with so many heads makes of the task."""
        X, values = self.drawn()
        rng = np.random.default_rng([self.seed, 1])
        t = values[: self.train] + self.noise * rng.normal(size=self.train)
        x = ll.Matrix(cols=X.shape[-1]) @ ll.data(X)
        y = ll.attention(x, heads, q_std=self.g)[..., 0]
        found = ll.posterior(y, slice(self.train), t, self.noise, samples=samples, key=key)
        mean = np.asarray(found.mean(slice(self.train, None)).value)
        value, error = found.log_evidence()
        return Answer(
            heads, float(np.mean((mean - values[self.train :]) ** 2)), value, error, found
        )


@dataclasses.dataclass(frozen=True)
class Answer:
    """The mean squared error on the test, and the log evidence with its error."""

    heads: int | float
    test_error: float
    log_evidence: float
    error: float
    posterior: ll.Posterior
