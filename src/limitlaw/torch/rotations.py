"""Rotary embeddings that are written out, x·cos + cat(−x₂, x₁)·sin, recognised by their tables."""

import numpy as np

from limitlaw.torch import nodes
from limitlaw.torch.nodes import Tensor

TABLE_ERROR = 1e-5  # largest error of float32 tables
LAST_POSITION = 1 << 17


def rotation(a: Tensor, b: Tensor) -> Tensor | None:
    """a + b as a rotation; None where it is none."""
    for straight, crossed in ((a, b), (b, a)):
        first, second = _times_table(straight), _times_table(crossed)
        if first is None or second is None:
            continue
        (x, cos), (turned, sin) = first, second
        if _is_turned(turned, x):
            found = _angles(cos, sin, x.shape[-1])
            return None if found is None else _turned(x, *found, straight, crossed)
    return None


def _turned(
    x: Tensor, positions: np.ndarray, base: float, straight: Tensor, crossed: Tensor
) -> Tensor:
    plain = nodes.WeightedSum(x.shape, ((1.0, straight), (1.0, crossed))).whole()
    return nodes.Rotation(x.shape, x, positions, base, plain).whole()


def _times_table(tensor: Tensor) -> tuple[Tensor, np.ndarray] | None:
    """A tensor and the constants that it is multiplied by; None for other products."""
    node = tensor.node
    if not isinstance(node, nodes.Times) or not tensor.is_whole:
        return None
    for x, table in ((node.a, node.b), (node.b, node.a)):
        if isinstance(table.node, nodes.Fixed):
            return x, table.node.array.reshape(-1)[table.ids.numpy()]
    return None


def _is_turned(turned: Tensor, x: Tensor) -> bool:
    """Is this (−x₂, x₁), the halves of x along its last axis?"""
    node, half = turned.node, x.shape[-1] // 2
    if not isinstance(node, nodes.Concatenation) or not turned.is_whole or len(node.parts) != 2:
        return False
    minus, first = node.parts
    if not isinstance(minus.node, nodes.WeightedSum) or not minus.is_whole or minus.node.shift:
        return False
    if [c for c, _ in minus.node.terms] != [-1.0] or node.axis != len(x.shape) - 1:
        return False
    second = minus.node.terms[0][1]
    return first.same(x.moved(lambda ids: ids[..., :half])) and second.same(
        x.moved(lambda ids: ids[..., half:])
    )


def _angles(cos: np.ndarray, sin: np.ndarray, D: int) -> tuple[np.ndarray, float] | None:
    """The positions and the base of tables of cos and sin of position·base^{-2m/D}; None for
    other tables, as scaled and interpolated ones.
    """
    half = D // 2
    turns = (cos + 1j * sin)[..., :half]
    positions = _positions(turns[..., 0])
    base = _base(turns.reshape(-1, half), positions.reshape(-1), D)
    if base is None:
        return None
    angle = positions[..., None] * base ** (-2 * np.arange(half) / D)
    table = np.exp(1j * np.concatenate([angle, angle], axis=-1))
    size = np.maximum(1.0, np.abs(positions))[..., None]
    if (np.abs(table - (cos + 1j * sin)) > TABLE_ERROR * size).any():
        return None
    return positions, base


def _positions(turns: np.ndarray) -> np.ndarray:
    """Whole positions p with e^{ip} = turn, the frequency of m = 0 being 1."""
    every = np.exp(1j * np.arange(LAST_POSITION))
    unique, inverse = np.unique(np.round(turns, 7), return_inverse=True)
    found = np.array([np.argmin(np.abs(every - turn)) for turn in unique])
    return found[inverse].reshape(turns.shape).astype(float)


def _base(turns: np.ndarray, positions: np.ndarray, D: int) -> float | None:
    """The base, from the slowest frequency and two neighbouring positions; None without these."""
    if D == 2:
        return 10_000.0
    order = np.argsort(positions, kind="stable")
    steps = np.flatnonzero(np.diff(positions[order]) == 1)
    if not len(steps):
        return None
    first, second = order[steps[0]], order[steps[0] + 1]
    last = D // 2 - 1
    angle = np.angle(turns[second, last] / turns[first, last])
    if not angle > 0:
        return None
    base = float(angle ** (-D / (2 * last)))
    near = float(f"{base:.3g}")
    return near if abs(base - near) < TABLE_ERROR * base * D else base
