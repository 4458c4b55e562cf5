"""`validate` finds every fact of a nonlinearity that is wrong, and none in the catalogue."""

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest

from limitlaw import phi as nl
from limitlaw.phi import Kink, Nonlinearity, validate
from limitlaw.phi.branches import Branch, line, listed, same

CATALOGUE = (
    *(nl.relu, nl.sign, nl.clip(1 / 3), nl.leaky_relu(-0.5)),
    *(nl.abs_, nl.identity, nl.tanh, nl.sigmoid, nl.silu, nl.softplus),
    *(nl.gelu, nl.erf, nl.sin, nl.cos, nl.clip(1.0), nl.leaky_relu(0.1)),
)
QUICK = 4


@pytest.mark.parametrize(
    "phi",
    [
        pytest.param(phi, marks=() if i < QUICK else pytest.mark.long)
        for i, phi in enumerate(CATALOGUE)
    ],
    ids=lambda phi: phi.name,
)
def test_the_catalogue(phi: Nonlinearity) -> None:
    """Nothing that it says is wrong."""
    validate(phi)


def test_what_says_nothing() -> None:
    """What is found by looking is right; facts that are None are not asked about."""
    validate(nl.looked_at(lambda x: jnp.where(x > 0.3, jnp.sin(x), 0.0)))
    validate(Nonlinearity("bare", jnp.arctan, None, None))


def product(factor: float):
    """That of relu, times a factor."""

    def form(*given):
        value = nl.relu.product(*given)
        return None if value is None else factor * value

    return form


RAMP = listed(Branch(-np.inf, 0.0, 0.0, 0.0), Branch(0.0, np.inf, 0.0, np.inf, same))
WRONG = {
    "linear": (nl.relu, {"linear": True}, "linear"),
    "not linear": (nl.identity, {"linear": False}, "linear"),
    "bounded": (nl.relu, {"bounded": True}, "bounded"),
    "unbounded": (nl.sign, {"bounded": False}, "bounded"),
    "jumps": (nl.sign, {"pseudo_lipschitz": True}, "pseudo_lipschitz"),
    "a kink is missing": (nl.relu, {"kinks": ()}, "kinks: φ is not smooth at 0"),
    "its size": (nl.relu, {"kinks": (Kink(0.0, slope_jump=2.0),)}, "slope_jump at 0 is 1"),
    "a jump": (nl.sign, {"kinks": (Kink(0.0, jump=1.0),)}, "jump at 0 is 2"),
    "cuts": (nl.relu, {"kinks": None, "cuts": (-1.0, 0.5)}, "no polynomial between -1 and 0.5"),
    "oscillates": (nl.relu, {"oscillates": True}, "oscillates"),
    "mean": (nl.relu, {"mean": nl.abs_.mean}, "mean: at"),
    "mean of numbers": (nl.relu, {"mean": lambda m, k: jnp.sum(m + k)}, "arrays that broadcast"),
    "accuracy": (nl.relu, {"accuracy": -1.0}, "accuracy"),
    "a little": (nl.relu, {"mean": lambda m, k: nl.relu.mean(m, k) * (1 + 1e-8)}, "mean: at"),
    "product": (nl.relu, {"product": product(1.0 + 1e-8)}, "product: at"),
    "of another": (nl.relu, {"products": ((nl.abs_, product(1.0)),)}, "product with abs: at"),
    "branches": (
        nl.relu,
        {"branches": line(-np.inf, np.inf, same)},
        "is flat in part|branches: that from -inf",
    ),
    "half": (nl.relu, {"branches": lambda lo, hi: RAMP(lo, hi)[:1]}, "do not cover"),
    "inverse": (nl.leaky_relu(-0.5), {"branches": RAMP}, "no inverse, and is not flat|leaves"),
    "log_slope": (nl.leaky_relu(-0.5), {"log_slope": jnp.zeros_like}, "not log"),
    "saved": (nl.relu, {"saved": ("abs", None)}, "saved"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_fact(name: str) -> None:
    """It is named."""
    phi, fact, said = WRONG[name]
    with pytest.raises(ValueError, match=said):
        validate(dataclasses.replace(phi, **fact))


def test_growth() -> None:
    """exp is no pseudo-Lipschitz function, nor is a root."""
    for function in (jnp.exp, lambda x: jnp.sqrt(jnp.abs(x))):
        with pytest.raises(ValueError, match="pseudo_lipschitz"):
            validate(Nonlinearity("mine", function, True, None))


def test_a_mean_that_cancels() -> None:
    """It may not call itself accurate."""
    mean = lambda m, k: (m + 1e6) ** 2 + k - 2e6 * m - 1e12
    square = Nonlinearity("square", jnp.square, True, False, kinks=(), mean=mean)
    validate(square)
    with pytest.raises(ValueError, match="square: mean: at"):
        validate(dataclasses.replace(square, accuracy=0.0))


@pytest.mark.parametrize("function", [lambda x: x / x.sum(), lambda x, y: x, lambda x: x[0]])
def test_what_is_no_function_of_one_number(function) -> None:
    """It is said what it must be."""
    with pytest.raises(ValueError, match="act on each number by itself"):
        validate(Nonlinearity("mine", function, None, None))
    with pytest.raises(TypeError, match="must be a Nonlinearity"):
        validate(function)
