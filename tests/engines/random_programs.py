"""Random small programs over all kinds of nodes, with shared matrices."""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np

import limitlaw as ll
from limitlaw.language.tree import ancestors

TOKENS = 2


class Writer:
    """Writes a program step by step; every step makes two vectors of R^n from earlier ones."""

    def __init__(self, seed: int):
        self.rng = np.random.default_rng(seed)
        self.pool: dict[tuple[Any, ...], list[ll.Matrix]] = {}
        self.values = [self.initial()]

    def program(self) -> ll.Wide:
        """A program of three to seven steps."""
        for _ in range(self.rng.integers(3, 8)):
            self.values.append(STEPS[self.rng.integers(len(STEPS))](self))
        y = self.values[-1]
        return y[: self.rng.integers(1, TOKENS + 1)] if self.chance(0.4) else y

    def chance(self, p: float) -> bool:
        return bool(self.rng.random() < p)

    def choose(self, *options: Any) -> Any:
        return options[self.rng.integers(len(options))]

    def old(self) -> ll.Wide:
        """An earlier value, recent ones more often."""
        return self.values[-min(int(self.rng.geometric(0.5)), len(self.values))]

    def matrix(self, shape: tuple[int, ...] = (), rows: Any = ll.n, cols: Any = ll.n) -> ll.Matrix:
        """A new matrix, or one that was used before."""
        known = self.pool.setdefault((shape, rows, cols), [])
        if known and self.chance(0.5):
            return self.choose(*known)
        known.append(ll.Matrix(self.choose(0.7, 1.0, 1.5), shape, rows, cols))
        return known[-1]

    # --- steps -----------------------------------------------------------------------------------

    def initial(self) -> ll.Wide:
        # rank 1 is a repeated token, up to scale
        a = self.rng.normal(size=(TOKENS, self.choose(1, TOKENS)))
        return ll.initial((TOKENS,), mean=self.choose(0.0, [0.5, -1.0]), cov=a @ a.T)

    def embedded(self) -> ll.Wide:
        return self.matrix(cols=3) @ ll.data(np.array([[1.0, 0.5, -1.0], [0.2, -0.3, 2.0]]))

    def matmul(self) -> ll.Wide:
        return self.matrix(self.choose((), (), (TOKENS,))) @ self.old()

    def nonlin(self) -> ll.Wide:
        w, v = self.old(), self.old()
        functions: list[Callable[[], ll.Wide]] = [
            lambda: ll.relu(w),
            lambda: ll.tanh(w) * v,
            lambda: ll.clip(w, 0.8) + ll.sin(v),
            lambda: ll.map(lambda a, b, p: jnp.tanh(a + p) - 0.5 * b, w, v, ll.average(w)),
            lambda: ll.abs(w - v),
            lambda: ll.sigmoid(w) * v / 2,
        ]
        return self.choose(*functions)()

    def attention(self) -> ll.Wide:
        d = self.choose(ll.n, ll.n, 1, 3)
        heads = self.choose((), (2, 1))
        q, k = (self.matrix(heads, rows=d) @ self.old() for _ in "qk")
        if self.chance(0.2) and d == 3:
            q, k = (
                ll.rotary(self.matrix(heads, rows=4) @ self.old(), [0.0, 1.0], base=10.0)
                for _ in "qk"
            )
        A = ll.softmax(
            ll.dot(q, k, self.choose("sqrt", "sqrt", "linear")), mask=self.choose(None, "causal")
        )
        v = self.matrix(heads, rows=d) @ self.old()
        out = (
            A @ (self.matrix(heads, cols=d) @ v)
            if self.chance(0.5)
            else self.matrix(heads, cols=d) @ (A @ v)
        )
        out = ll.normalised_sum(out, 0) if heads else out
        return out + self.old() if self.chance(0.4) else out

    def families(self) -> ll.Wide:
        """Queries, keys and values whose matrices differ along different axes."""
        d = self.choose(ll.n, 2)
        q, k, v = (
            self.matrix(self.choose((2, 1, 1), (1, 2, 1), (2, 2, 1), (3, 1), ()), rows=d)
            @ self.old()
            for _ in "qkv"
        )
        # 3 heads and 2 do not broadcast
        if len({size for w in (q, k, v) for size in w.shape[:-1] if size > 1}) > 1:
            k = v = self.matrix(rows=d) @ self.old()
        out = ll.softmax(ll.dot(q, k)) @ v
        if out.ndim > 1:
            out = ll.normalised_sum(out, tuple(range(out.ndim - 1)))
        return out if d is ll.n else self.matrix(cols=d) @ out

    def broadcast(self) -> ll.Wide:
        """One vector where the other operand has two."""
        w, v = (self.matrix(self.choose((), (TOKENS,))) @ self.old() for _ in "wv")
        return self.choose(
            lambda: ll.stack([w[0]]) * np.array([0.7, -1.2]),
            lambda: w[1:] + v,
            lambda: self.matrix((TOKENS,)) @ w[:1],
            lambda: np.array([[0.5], [1.0]]) @ w[:1],
            lambda: ll.tanh(ll.dot(w[:, None], v[:1][:, None])[:, 0, 0]) * self.old(),
            lambda: (np.array([[[0.6, 0.8]], [[1.0, -0.5]]]) @ ll.stack([w]))[:, 0],
        )()

    def norm(self) -> ll.Wide:
        return self.choose(ll.layernorm, ll.rmsnorm)(self.old(), eps=0.1)

    def combination(self) -> ll.Wide:
        return self.old() - 0.5 * self.old() + np.array([0.3, -0.2])

    def rearrangement(self) -> ll.Wide:
        w, v = self.old(), self.old()
        return self.choose(
            ll.stack([w[1], v[0]]),
            w[np.array([1, 0])],
            np.array([[0.6, 0.8], [1.0, -0.5]]) @ w,
            ll.stack([w, v]).transpose(1, 0).reshape(4)[1:3],
            ll.stack([w, v], axis=1).sum(axis=1),
            w[None, ::-1, None].sum(axis=(0, 2)),
        )

    def bottleneck(self) -> ll.Wide:
        narrow = self.matrix(rows=3) @ self.old()
        return self.matrix(cols=3) @ (ll.tanh(narrow) if self.chance(0.5) else narrow)

    def gate(self) -> ll.Wide:
        w, v = self.old(), self.old()
        gate = self.choose(
            ll.tanh(ll.average(w)),
            ll.apply(jnp.tanh, ll.dot(w, v, "linear")[0]),
            ll.tanh(ll.dot(w[0], v)),
            ll.average(w * v) / (1 + ll.average(w * w)),
        )
        return gate * v


STEPS = (
    Writer.embedded,
    Writer.matmul,
    Writer.matmul,
    Writer.nonlin,
    Writer.attention,
    Writer.attention,
    Writer.families,
    Writer.broadcast,
    Writer.norm,
    Writer.combination,
    Writer.rearrangement,
    Writer.bottleneck,
    Writer.gate,
)


class BothSides(Writer):
    """The same with transposes of matrices that were used, and at the end perhaps a gradient."""

    def program(self) -> ll.Wide:
        """A program of two to four steps, or the backward vector of one of its vectors."""
        for _ in range(self.rng.integers(2, 5)):
            step = BothSides.back if self.chance(0.4) else STEPS[self.rng.integers(len(STEPS))]
            self.values.append(step(self))
        y = self.values[-1]
        if self.chance(0.3):
            return y
        f = ll.dot(ll.initial(), y).sum()
        if self.chance(0.3):
            f = f + ll.apply(jnp.tanh, ll.average(y * self.old())).sum()
        read = set(ancestors([f]))
        return ll.gradient(f, self.choose(*[v for v in self.values if v in read]))

    def back(self) -> ll.Wide:
        """Wᵀ of a matrix that made an earlier vector, or of a new one."""
        known = [M for found in self.pool.values() for M in found if M.rows == M.cols]
        known = [M for M in known if len(M.shape) < 2]
        W = self.choose(*known) if known and self.chance(0.8) else self.matrix()
        y = W.T @ (self.old() if self.chance(0.7) else W @ self.old())
        return y if self.chance(0.6) else y + self.old()
