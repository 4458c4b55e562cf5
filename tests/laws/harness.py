"""The laws that the harness runs over, small ones, and the references it holds them against."""

import dataclasses
import functools
from typing import Any

import numpy as np

from limitlaw import phi as nl
from limitlaw.laws import Empirical, Gaussian, GaussianMixture, HeadSum, Law, Pushforward

COMPONENTS = 64  # one number for all, so that compiled code is shared


@functools.cache
def mixture(
    seed: int = 0, centred: bool = False, shape: tuple[int, ...] = (), components: int = COMPONENTS
) -> Any:
    """A mixture of random means and variances; as quadrature,
    since sampled laws take biases from their own figures.
    """
    random = np.random.default_rng(seed)
    m = int(np.prod(shape))
    mean = random.normal(size=(components, *shape)) * (not centred)
    root = random.normal(size=(components, m, m)) if shape else random.exponential(size=components)
    covariance = root @ root.transpose(0, 2, 1) / m + 0.1 * np.eye(m) if shape else 0.2 + root
    return GaussianMixture(mean, covariance, kind="quadrature")


@functools.cache
def narrow() -> GaussianMixture:
    """A mixture that erf leaves away from ±1, where double precision ends."""
    wide = mixture()
    mean, variance = wide._given
    return GaussianMixture(0.3 * mean, 0.1 * variance, kind="quadrature")


def weighted() -> GaussianMixture:
    """Very different variances and weights."""
    random = np.random.default_rng(2)
    return GaussianMixture(
        random.normal(size=COMPONENTS),
        np.geomspace(0.05, 9, COMPONENTS),
        random.exponential(size=COMPONENTS),
    )


@dataclasses.dataclass(frozen=True)
class Case:
    """A law of one number and where its density has kinks or poles."""

    name: str
    law: Law
    kinks: tuple[float, ...] = ()
    density: bool = True

    def __str__(self) -> str:
        return self.name


def _pushed(phi: nl.Nonlinearity, *kinks: float) -> Case:
    return Case(phi.name, Pushforward(phi, mixture()), kinks)


# relatives of others
LIGHT = ("centred mixture", "identity", "leaky_relu(0.1)", "sigmoid", "cos", "silu", "erf")
RELATIVES = (*LIGHT, "weighted mixture", "marginal", "leaky_relu(-0.5)", "softplus")


@functools.cache
def cases() -> list[Case]:
    """One of each kind."""
    random = np.random.default_rng(1)
    return [
        Case("gaussian", Gaussian(0.5, 4.0)),
        Case("mixture", mixture()),
        Case("centred mixture", mixture(centred=True)),
        Case("weighted mixture", weighted()),
        Case("marginal", mixture(shape=(3,)).marginal(1)),
        Case("few heads", HeadSum(0.2 + random.exponential(size=64), 3)),
        Case(
            "groups of heads",
            HeadSum(0.2 + random.exponential(size=(3, 64)), 999, random.exponential(size=(3, 64))),
        ),
        Case(
            "shared heads",
            HeadSum(0.2 + random.exponential(size=(9, 16)), 64, kind="quadrature", shared=4),
        ),
        Case("heads with an atom", HeadSum(np.arange(4.0), 2, np.full(4, 0.25)), density=False),
        Case("empirical", Empirical(random.normal(size=500)), density=False),
        _pushed(nl.identity),
        _pushed(nl.relu, 0.0),
        _pushed(nl.clip(1 / 3), -1 / 3, 1 / 3),
        _pushed(nl.leaky_relu(0.1), 0.0),
        _pushed(nl.leaky_relu(-0.5), 0.0),
        _pushed(nl.abs_, 0.0),
        _pushed(nl.sign, -1.0, 1.0),
        _pushed(nl.tanh, -1.0, 1.0),
        _pushed(nl.sigmoid, 0.0, 1.0),
        Case("erf", Pushforward(nl.erf, narrow()), (-1.0, 1.0)),
        _pushed(nl.softplus, 0.0),
        Case("sin", Pushforward(nl.sin, narrow()), (-1.0, 1.0)),
        Case("cos", Pushforward(nl.cos, narrow()), (-1.0, 1.0)),
        _pushed(nl.gelu, float(Pushforward(nl.gelu, mixture()).ppf(0.0)), 0.0),
        _pushed(nl.silu, float(Pushforward(nl.silu, mixture()).ppf(0.0)), 0.0),
    ]


def integral(
    case: Case, psi: Any, lo: float = -np.inf, hi: float = np.inf, beyond: float = 1e-15
) -> Any:
    """∫ ψ pdf from lo to hi, tanh-sinh on each piece:
    nodes crowd at the ends, where densities may be infinite. `beyond`: the mass left out.
    """
    far = np.asarray([case.law.ppf(beyond), case.law.isf(beyond)])
    edges = np.clip(
        np.unique([*far, *case.kinks, *case.law.ppf(np.array([0.1, 0.35, 0.65, 0.9]))]), lo, hi
    )
    edges = np.unique(
        [*edges, *[end for end in (lo, hi) if np.isfinite(end) and far[0] < end < far[1]]]
    )
    t = np.linspace(-4, 4, 257)
    u = 0.5 * np.pi * np.sinh(t)
    w = 0.5 * np.pi * np.cosh(t) / np.cosh(u) ** 2 / 2 * (t[1] - t[0])
    share = 1 / (1 + np.exp(-2 * u))  # of the way from the left end
    rest = 1 / (1 + np.exp(2 * u))
    length = np.diff(edges)[:, None]
    x = np.where(
        share < 0.5, edges[:-1, None] + length * share, edges[1:, None] - length * rest
    ).reshape(-1)
    p = np.asarray(case.law.pdf(x))
    poles = np.array([kink for kink in case.kinks if kink] or [np.inf])
    near = np.abs(x[:, None] - poles).min(1) < 1e-14
    p = np.where(near, 0.0, p)  # a pole at its own rounding: 1e-7 of the mass
    values = np.asarray(psi(x))
    return ((length * w).reshape(-1) * p * values).sum(-1)
