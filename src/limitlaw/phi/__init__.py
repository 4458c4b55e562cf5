"""Nonlinearities φ: a file for each family, with what is known of its members (the rest is found
by quadrature); the catalogue; Gaussian moments.
"""

from limitlaw.phi import catalogue, moments
from limitlaw.phi.catalogue import rebuild
from limitlaw.phi.erf import erf, gelu
from limitlaw.phi.logistic import sigmoid, silu, softplus, tanh
from limitlaw.phi.nonlinearity import Kink, Nonlinearity, looked_at, user_function
from limitlaw.phi.piecewise import abs_, clip, divide, identity, leaky_relu, multiply, relu, sign
from limitlaw.phi.validity import validate
from limitlaw.phi.waves import cos, sin

__all__ = [
    "Kink",
    "Nonlinearity",
    "abs_",
    "catalogue",
    "clip",
    "cos",
    "divide",
    "erf",
    "gelu",
    "identity",
    "leaky_relu",
    "looked_at",
    "moments",
    "multiply",
    "rebuild",
    "relu",
    "sigmoid",
    "sign",
    "silu",
    "sin",
    "softplus",
    "tanh",
    "user_function",
    "validate",
]
