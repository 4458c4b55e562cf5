"""Functions of one number, in plain NumPy: nonlinearities φ of the programs,
and ψ whose means are asked for.

Each φ carries the text that writes it with limitlaw, which only `library` evaluates.
"""

import dataclasses
import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.special import erf, expit, ndtr

Array = Any
DENSITY = 1 / math.sqrt(2 * math.pi)  # of N(0, 1) at 0
REACH = 1e13  # larger than any argument that has a probability


@dataclasses.dataclass(frozen=True)
class Function:
    """φ and φ', smooth and monotone between `breaks`,
    and bending on a length scale of 1 near those and near 0.
    """

    name: str
    source: str  # with limitlaw, of the vector w
    formula: Callable[[Array], Array]
    slope: Callable[[Array], Array]
    breaks: tuple[float, ...] = ()
    everywhere: bool = False  # bends everywhere, not only near its breaks

    def __call__(self, x: Array) -> Array:
        return self.formula(x)

    @property
    def jumps_at_zero(self) -> bool:
        """Does the smallest number of either sign matter?"""
        return bool(abs(self(np.float64(1e-300)) - self(np.float64(-1e-300))) > 1e-9)

    @property
    def pieces(self) -> list[tuple[float, float]]:
        """The intervals on which φ is monotone."""
        ends = (-REACH, *self.breaks, REACH)
        return list(itertools.pairwise(ends))

    def below(self, y: float) -> list[tuple[float, float]]:
        """{x: φ(x) ≤ y} as intervals, by bisection in every piece."""
        found = []
        for a, b in self.pieces:
            inner = (_just_above(a), _just_below(b))
            low, high = (bool(self(np.float64(x)) <= y) for x in inner)
            if low and high:
                found.append((a, b))
            elif low or high:
                x = self._crossing(y, *inner, low)
                found.append((a, x) if low else (x, b))
        return found

    def crossings(self, y: float) -> list[float]:
        """Where φ passes y while it is continuous: the points x with φ(x)
        = y that give Y = φ(X) a density there.
        """
        ends = {x for interval in self.below(y) for x in interval}
        return sorted(ends - {a for piece in self.pieces for a in piece})

    def _crossing(self, y: float, a: float, b: float, low: bool) -> float:
        """The point of (a, b) where φ ≤ y ends (`low`) or begins."""
        for _ in range(200):
            middle = _middle(a, b)
            if bool(self(np.float64(middle)) <= y) == low:
                a = middle
            else:
                b = middle
        return _middle(a, b)


def _middle(a: float, b: float) -> float:
    """Halfway on the scale of asinh(10⁹ x): bisection that is as quick far out as near 0."""
    s = 1e9
    middle = math.sinh((math.asinh(s * a) + math.asinh(s * b)) / 2) / s
    return middle if a < middle < b else (a + b) / 2


def _just_above(x: float) -> float:
    return math.nextafter(x, math.inf)


def _just_below(x: float) -> float:
    return math.nextafter(x, -math.inf)


def _where(condition: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """The indicator of a condition."""
    return lambda x: np.where(condition(x), 1.0, 0.0)


def _normal(x: Array) -> Array:
    return DENSITY * np.exp(-(x**2) / 2)


def _zero(x: Array) -> Array:
    return 0.0 * x


def _stairs(x: Array) -> Array:
    return np.floor(np.clip(x, -2.0, 2.0))


def _user(name: str, text: str, *rest: Any) -> Function:
    return Function(name, f"ll.map(lambda z: {text}, w)", *rest)


FUNCTIONS = {
    f.name: f
    for f in (
        Function(
            "relu", "ll.relu(w)", lambda x: np.maximum(x, 0), _where(lambda x: x > 0), (0.0,)
        ),
        Function("abs", "ll.abs(w)", np.abs, np.sign, (0.0,)),
        Function("sign", "ll.sign(w)", np.sign, _zero, (0.0,)),
        Function(
            "clip",
            "ll.clip(w, 0.8)",
            lambda x: np.clip(x, -0.8, 0.8),
            _where(lambda x: abs(x) < 0.8),
            (-0.8, 0.8),
        ),
        Function("tanh", "ll.tanh(w)", np.tanh, lambda x: 1 / np.cosh(np.clip(x, -350, 350)) ** 2),
        Function("erf", "ll.erf(w)", erf, lambda x: 2 / math.sqrt(math.pi) * np.exp(-(x**2))),
        Function(
            "sin",
            "ll.sin(w)",
            np.sin,
            np.cos,
            tuple(
                (k + 0.5) * math.pi for k in range(-160, 160)
            ),  # 15 standard deviations where K = 1000
            True,
        ),
        Function(
            "gelu",
            "ll.gelu(w)",
            lambda x: x * ndtr(x),
            lambda x: ndtr(x) + x * _normal(x),
            (-0.7517915246935645,),
        ),
        Function(
            "silu",
            "ll.silu(w)",
            lambda x: x * expit(x),
            lambda x: expit(x) * (1 + x * expit(-x)),
            (-1.2784645427610738,),
        ),
        _user(
            "hinge",
            "jnp.maximum(z - 0.3, 0.0)",
            lambda x: np.maximum(x - 0.3, 0),
            _where(lambda x: x > 0.3),
            (0.3,),
        ),
        _user("step", "jnp.where(z > 0.5, 1.0, 0.0)", _where(lambda x: x > 0.5), _zero, (0.5,)),
        _user(
            "hat",
            "jnp.maximum(1 - jnp.abs(z), 0.0)",
            lambda x: np.maximum(1 - abs(x), 0),
            lambda x: np.where(abs(x) < 1, -np.sign(x), 0.0),
            (-1.0, 0.0, 1.0),
        ),
        _user(
            "stairs", "jnp.floor(jnp.clip(z, -2.0, 2.0))", _stairs, _zero, (-1.0, 0.0, 1.0, 2.0)
        ),
        _user(
            "leap",
            "jnp.where(z > 1.0, z, 0.0)",
            lambda x: np.where(x > 1, x, 0.0),
            _where(lambda x: x > 1),
            (1.0,),
        ),
        _user(
            "bell",
            "jnp.exp(-(z**2))",
            lambda x: np.exp(-(x**2)),
            lambda x: -2 * x * np.exp(-(x**2)),
            (0.0,),
        ),
        _user(
            "soft",
            "jnp.sign(z) * jnp.maximum(jnp.abs(z) - 1, 0.0)",
            lambda x: np.sign(x) * np.maximum(abs(x) - 1, 0),
            _where(lambda x: abs(x) > 1),
            (-1.0, 1.0),
        ),
    )
}


@dataclasses.dataclass(frozen=True)
class Psi:
    """ψ, its text with jnp, and E ψ(z) for z ~ N(0, u)."""

    name: str
    source: str  # of the numbers z
    formula: Callable[[Array], Array]
    mean: Callable[[Array], Array]


def _over(a: float, u: Array) -> Array:
    """a/√u, at u = 0 too."""
    with np.errstate(divide="ignore"):
        return a / np.sqrt(u)


PSIS = {
    psi.name: psi
    for psi in (
        Psi("cos", "jnp.cos(z)", np.cos, lambda u: np.exp(-u / 2)),
        Psi(
            "step",
            "jnp.where(z > 0.5, 1.0, 0.0)",
            _where(lambda z: z > 0.5),
            lambda u: ndtr(-_over(0.5, u)),
        ),
        Psi(
            "hinge",
            "jnp.maximum(z - 0.5, 0.0)",
            lambda z: np.maximum(z - 0.5, 0),
            lambda u: np.sqrt(u) * _normal(_over(0.5, u)) - 0.5 * ndtr(-_over(0.5, u)),
        ),
        Psi("abs", "jnp.abs(z)", np.abs, lambda u: np.sqrt(2 * u / math.pi)),
        Psi("square", "z**2", np.square, lambda u: u),
        Psi(
            "bell",
            "jnp.exp(-(z**2) / 2)",
            lambda z: np.exp(-(z**2) / 2),
            lambda u: 1 / np.sqrt(1 + u),
        ),
    )
}
