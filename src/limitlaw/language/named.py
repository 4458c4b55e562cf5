"""The named nonlinearities, of vectors (by coordinates) and of numbers (by entries)."""

from jax import lax

from limitlaw import phi
from limitlaw.language.values import Kind, Scalars, Wide, coordinatewise, elementwise
from limitlaw.phi import Nonlinearity


def _write(function: Nonlinearity, w: Kind) -> Kind:
    if isinstance(w, Wide):
        return coordinatewise(function, w)
    if isinstance(w, Scalars):
        return elementwise(function.name, function, w, pseudo_lipschitz=function.pseudo_lipschitz)
    raise TypeError(
        f"{function.name} acts on a Wide or on Scalars of a program, got {type(w).__name__}"
    )


def identity(w: Kind) -> Kind:
    """w, written as a Nonlin."""
    return _write(phi.identity, w)


def relu(w: Kind) -> Kind:
    """max(w, 0)."""
    return _write(phi.relu, w)


def leaky_relu(w: Kind, slope: float = 0.01) -> Kind:
    """w where w ≥ 0, slope·w elsewhere."""
    return _write(phi.leaky_relu(slope), w)


def abs(w: Kind) -> Kind:
    """|w|."""
    return _write(phi.abs_, w)


def sign(w: Kind) -> Kind:
    """The sign of w: −1, 0 or 1. It is not pseudo-Lipschitz."""
    return _write(phi.sign, w)


def erf(w: Kind) -> Kind:
    """The error function 2π^{-1/2} ∫₀^w exp(−t²) dt."""
    return _write(phi.erf, w)


def gelu(w: Kind) -> Kind:
    """w Φ(w), the exact form of GELU."""
    return _write(phi.gelu, w)


def tanh(w: Kind) -> Kind:
    """The hyperbolic tangent tanh w."""
    return _write(phi.tanh, w)


def sigmoid(w: Kind) -> Kind:
    """The logistic function 1 / (1 + e^{−w})."""
    return _write(phi.sigmoid, w)


def silu(w: Kind) -> Kind:
    """w / (1 + e^{−w}), also called swish."""
    return _write(phi.silu, w)


def softplus(w: Kind) -> Kind:
    """log(1 + e^w)."""
    return _write(phi.softplus, w)


def sin(w: Kind) -> Kind:
    """sin w."""
    return _write(phi.sin, w)


def cos(w: Kind) -> Kind:
    """cos w."""
    return _write(phi.cos, w)


def clip(w: Kind, bound: float) -> Kind:
    """w clipped to [−bound, bound]."""
    return _write(phi.clip(bound), w)


def rsqrt(p: Scalars) -> Scalars:
    """p^{-1/2} of numbers, for norms: `c * rsqrt(average(c * c) + eps)`."""
    if not isinstance(p, Scalars):
        raise TypeError(f"rsqrt acts on Scalars, got {type(p).__name__}")
    # on numbers that stay away from 0
    return elementwise("rsqrt", lax.rsqrt, p, pseudo_lipschitz=True)
