"""Recurrent networks over the last batch axis (time), with state 0 before the first step."""

from collections.abc import Callable, Iterator
from typing import Any

from limitlaw.language.activations import activated
from limitlaw.language.functions import stack
from limitlaw.language.named import sigmoid, tanh
from limitlaw.language.ops import Matrix
from limitlaw.language.values import Wide, wide
from limitlaw.nn.feedforward import dense


def rnn(
    x: Wide,
    phi: Callable[[Any], Any] = tanh,
    std: object = 1.0,
    input_std: object = 1.0,
    bias_std: float = 0.0,
) -> Wide:
    """h_t = φ(W h_{t−1} + U x_t + b): (…, T) → (…, T); φ acts on vectors or on arrays."""
    W = Matrix(std)
    states: list[Wide] = []
    for (u,) in _steps(x, 1, input_std, bias_std):
        states.append(activated(phi, u + W @ states[-1] if states else u))
    return stack(states, axis=-1)


def lstm(x: Wide, std: object = 1.0, input_std: object = 1.0, bias_std: float = 0.0) -> Wide:
    """The states h_t = o ⊙ tanh(c_t), c_t = f ⊙ c_{t−1} + i ⊙ g: (…, T) → (…, T).

    Gates i, f, o = sigmoid(·) and g = tanh(·) of W h_{t−1} + U x_t + b, each with its own W, U and
    b.
    """
    Wi, Wf, Wg, Wo = (Matrix(std) for _ in range(4))
    states: list[Wide] = []
    c = None
    for i, f, g, o in _steps(x, 4, input_std, bias_std):
        if c is None:
            c = sigmoid(i) * tanh(g)
        else:
            h = states[-1]
            c = sigmoid(f + Wf @ h) * c + sigmoid(i + Wi @ h) * tanh(g + Wg @ h)
            o = o + Wo @ h
        states.append(sigmoid(o) * tanh(c))
    return stack(states, axis=-1)


def gru(x: Wide, std: object = 1.0, input_std: object = 1.0, bias_std: float = 0.0) -> Wide:
    """h_t = (1 − z) ⊙ g + z ⊙ h_{t−1}: (…, T) → (…, T), as in PyTorch.

    z, r = sigmoid(W h_{t−1} + U x_t + b), g = tanh(U x_t + b + r ⊙ (W h_{t−1})), each with its own
    W, U and b.
    """
    Wz, Wr, Wg = (Matrix(std) for _ in range(3))
    states: list[Wide] = []
    for z, r, g in _steps(x, 3, input_std, bias_std):
        if not states:
            states.append((1 - sigmoid(z)) * tanh(g))
            continue
        h = states[-1]
        update = sigmoid(z + Wz @ h)
        candidate = tanh(g + sigmoid(r + Wr @ h) * (Wg @ h))
        states.append((1 - update) * candidate + update * h)
    return stack(states, axis=-1)


def _steps(x: Wide, gates: int, input_std: object, bias_std: float) -> Iterator[list[Wide]]:
    """For each time step the inputs U x_t + b of every gate."""
    x = wide("x", x)
    if not x.ndim:
        raise ValueError(
            "x must have a last batch axis of time steps, got a single vector; stack([x]) makes "
            "it one step"
        )
    inputs = [dense(x, input_std, bias_std) for _ in range(gates)]
    for t in range(int(x.shape[-1])):
        yield [u[..., t] for u in inputs]
