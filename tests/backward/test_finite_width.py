"""Transposes and gradients at finite width: the exact engine against the definition, by bounded
statistics of vectors and of numbers that join the forward and the backward half.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from eager import defined, exact

import limitlaw as ll
from limitlaw.backward.reverse import gradient
from limitlaw.backward.tangent import ntk
from limitlaw.core.program import Program
from limitlaw.engines.frames import forgetting
from limitlaw.engines.frames.finite import demanded_outputs
from statistics_of_samples import disagreement

DRAWS = {4: 4_000, 16: 2_500, 64: 1_000}
Net = Callable[[ll.Wide], ll.Wide]


def tokens(s: int = 2) -> ll.Wide:
    return ll.initial((s,), cov=np.eye(s) + 0.5)


def of_gradient(net: Net, s: int = 2) -> ll.Scalars:
    """Γ, b·x/√n, ‖f‖ and Θ of a random readout of the last token."""
    x = tokens(s)
    f = ll.dot(ll.initial(), net(x))[-1]
    b = gradient(f, x)
    own = ll.dot(b, b, "linear").reshape(-1)
    along = ll.dot(b, x).reshape(-1)
    return ll.stack([*own, *along, f, ntk(f)])


def chain() -> ll.Scalars:
    """W Wᵀ W x, and what it has with x."""
    x, W = tokens(), ll.Matrix(std=1.2, rows=2 * ll.n)
    y = W.T @ (W @ (W.T @ (W @ x)))
    return ll.stack([*ll.dot(y, x).reshape(-1), *ll.dot(y, y, "linear").reshape(-1)])


def hopfield() -> ll.Wide:
    """Wᵀ φ(W x), a vector."""
    x, W = tokens(), ll.Matrix()
    return W.T @ ll.tanh(W @ x) + x


def tied_logits() -> ll.Scalars:
    """A head that is the embedding: logits of two tokens among five."""
    E = ll.Matrix(rows=5)
    embedded = (E.T @ ll.data(np.eye(5)[[0, 3]])) * 0.7
    z = embedded + ll.mlp(embedded, phi=ll.gelu)
    logits = E @ z
    return ll.dot(logits, ll.data(np.eye(5))).reshape(-1)


def one_step() -> ll.Scalars:
    """Scores, outputs and f of narrow attention behind tanh, and how far a step moves them."""
    x = ll.tanh(ll.Matrix(1.5) @ tokens())
    q, k, v = (ll.Matrix(2.0, rows=2) for _ in range(3))
    p = ll.dot(q @ x, k @ x)
    y = ll.Matrix(cols=2) @ (ll.softmax(p) @ (v @ x))
    before = p.reshape(-1), ll.dot(y, y, "linear").reshape(-1), ll.dot(ll.initial(), y)
    after = ll.after_step(before, before[2], lambda f: 0.5 * (f - 1) ** 2, 0.5)
    return ll.stack([number for values in (before, after) for v in values for number in v])


def tied_heads(read: Callable[[ll.Wide], ll.Wide]) -> Net:
    """Three heads of scales of their own, the same in two layers; `read`: what is summed."""
    std = np.array([[1.0], [0.5], [1.5]])
    Q, K, V = (ll.Matrix(1.2, (3, 1), rows=2) for _ in range(3))
    O = ll.Matrix(std, (3, 1), cols=2)

    def net(x: ll.Wide) -> ll.Wide:
        for _ in range(2):
            h = x[None]
            A = ll.softmax(ll.dot(Q @ h, K @ h))
            x = x + read(A @ (O @ (V @ h))).sum(axis=0)
        return x

    return net


PROGRAMS: dict[str, Callable[[], ll.Wide | ll.Scalars]] = {
    "chain": chain,
    "hopfield": hopfield,
    "tied logits": tied_logits,
    "one step": one_step,
    "mlp": lambda: of_gradient(lambda x: ll.mlp(x, hidden=2 * ll.n, phi=ll.tanh)),
    "attention": lambda: of_gradient(lambda x: ll.attention(x, 2, q_std=2.0)),
    "two layers": lambda: of_gradient(
        lambda x: ll.attention(x + ll.attention(x, 1, mask="causal"), 1, head_dim=2, q_std=2.0)
    ),
    "relu on top": lambda: of_gradient(lambda x: ll.relu(ll.attention(x, 1))),
    "pre-norm": lambda: of_gradient(
        lambda x: ll.layernorm(ll.nn.block(x, 2, head_dim=2, hidden=2 * ll.n))
    ),
    "post-norm, gated": lambda: of_gradient(
        lambda x: ll.nn.block(
            x, 1, head_dim=2, norm="post", normalise=ll.rmsnorm, gated=True, hidden=ll.n
        )
    ),
    "rotary, grouped": lambda: of_gradient(
        lambda x: ll.attention(x, 2, head_dim=2, kv_heads=1, positions=ll.nn.Rotary())
    ),
    "tied heads": lambda: of_gradient(tied_heads(lambda y: y)),
    "heads one by one": lambda: of_gradient(tied_heads(ll.tanh)),
    "tied layers": lambda: of_gradient(
        lambda x: (lambda W: x + W @ ll.relu(W @ ll.tanh(W @ x)))(ll.Matrix())
    ),
}


@pytest.mark.usefixtures("as_user")
@pytest.mark.parametrize("width", [4, 16, pytest.param(64, marks=pytest.mark.long)])
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name: str, width: int) -> None:
    """Within 5 standard errors and by two-sample KS."""
    y, draws = PROGRAMS[name](), DRAWS[width]
    first, second = defined(y, width, draws, width), exact(y, width, 2 * draws, 1000 + width)
    assert disagreement(first, second) < 1


def test_heads_are_one_matrix() -> None:
    """Of queries, keys and values together, and of outputs; not where heads are read apart."""
    x = tokens()
    f = ll.dot(ll.initial(), ll.attention(x, 3, head_dim=2))[0]
    outputs = demanded_outputs((ll.average(gradient(f, x)).core,))
    families = Program(tuple(o.value for o in outputs)).families
    assert [W.rows.at(1) for W in families] == [18, 6]
    f = ll.dot(ll.initial(), tied_heads(ll.tanh)(x))[0]
    outputs = demanded_outputs((ll.average(gradient(f, x)).core,))
    families = Program(tuple(o.value for o in outputs)).families
    assert [W.axes[0].size if W.axes else W.rows.at(1) for W in families] == [18, 3]


@pytest.mark.usefixtures("as_user")
def test_axes_are_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nothing reads them any more: with the same law."""
    given: list[int] = []
    right = forgetting._shortened

    def shortened(held: Any, frame: Any, rho: int, r: int) -> None:
        given.append(frame.r - r)
        right(held, frame, rho, r)

    monkeypatch.setattr(forgetting, "FEWEST", 1)
    monkeypatch.setattr(forgetting, "_shortened", shortened)
    x = h = tokens()
    for _ in range(2):
        h = ll.rmsnorm(h + ll.attention(h, 2, head_dim=2, q_std=1.5))
    b = gradient(ll.dot(ll.initial(), h)[-1], x)
    y = ll.stack([*ll.dot(b, b, "linear").reshape(-1), *ll.dot(b, x).reshape(-1)])
    first, second = defined(y, 16, 2_500, 0), exact(y, 16, 5_000, 1)
    assert disagreement(first, second) < 1
    assert given
    assert min(given) >= 1
