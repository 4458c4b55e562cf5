"""Recurrent networks over the last batch axis (time), with state 0 before the first step."""

from collections.abc import Callable, Iterator
from typing import Any

from limitlaw.language.activations import activated
from limitlaw.language.functions import stack
from limitlaw.language.matrices import Matrix
from limitlaw.language.named import sigmoid, tanh
from limitlaw.language.values import Wide, wide
from limitlaw.nn.feedforward import with_bias


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
    for u in _steps(x, (), input_std, bias_std):
        states.append(activated(phi, u + W @ states[-1] if states else u))
    return stack(states, axis=-1)


def lstm(x: Wide, std: object = 1.0, input_std: object = 1.0, bias_std: float = 0.0) -> Wide:
    """The states h_t = o ⊙ tanh(c_t), c_t = f ⊙ c_{t−1} + i ⊙ g: (…, T) → (…, T).

    Gates i, f, o = sigmoid(·) and g = tanh(·) of W h_{t−1} + U x_t + b, each with its own W, U and
    b.
    """
    W = _gates(4, std, wide("x", x).ndim - 1)
    states: list[Wide] = []
    c = None
    for u in _steps(x, (4,), input_std, bias_std):
        i, f, g, o = u + W @ states[-1] if states else u
        new = sigmoid(i) * tanh(g)
        c = new if c is None else sigmoid(f) * c + new
        states.append(sigmoid(o) * tanh(c))
    return stack(states, axis=-1)


def gru(x: Wide, std: object = 1.0, input_std: object = 1.0, bias_std: float = 0.0) -> Wide:
    """h_t = (1 − z) ⊙ g + z ⊙ h_{t−1}: (…, T) → (…, T), as in PyTorch.

    z, r = sigmoid(W h_{t−1} + U x_t + b), g = tanh(U x_t + b + r ⊙ (W h_{t−1})), each with its own
    W, U and b.
    """
    W = _gates(3, std, wide("x", x).ndim - 1)
    states: list[Wide] = []
    for z, r, g in _steps(x, (3,), input_std, bias_std):
        if not states:
            states.append((1 - sigmoid(z)) * tanh(g))
            continue
        h = states[-1]
        of_z, of_r, of_g = W @ h
        update = sigmoid(z + of_z)
        candidate = tanh(g + sigmoid(r + of_r) * of_g)
        states.append((1 - update) * candidate + update * h)
    return stack(states, axis=-1)


def _gates(count: int, std: object, ndim: int) -> Matrix:
    """One family with a matrix for each gate, so that facts about all gates are found at once."""
    return Matrix(std, (count, *(1,) * ndim))


def _steps(x: Wide, gates: tuple[int, ...], input_std: object, bias_std: float) -> Iterator[Wide]:
    """The inputs U x_t + b of all gates, for each time step."""
    x = wide("x", x)
    if not x.ndim:
        raise ValueError(
            "x must have a last batch axis of time steps, got a single vector; stack([x]) makes "
            "it one step"
        )
    shape = (*gates, *(1,) * x.ndim) if gates else ()
    u = with_bias(Matrix(input_std, shape, cols=x.dim) @ x, bias_std, shape)
    for t in range(int(x.shape[-1])):
        yield u[..., t]
