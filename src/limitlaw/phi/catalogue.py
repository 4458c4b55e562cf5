"""The nonlinearities that files know by name, and the functions of NumPy and JAX that they are."""

import dataclasses
from collections.abc import Callable
from typing import Any

from limitlaw.phi.nonlinearity import Nonlinearity

Rebuild = Callable[[Any], Nonlinearity]  # parameter (None for a φ without one) → φ

_families: dict[str, Rebuild] = {}
_same: list[tuple[Callable[..., Any], Nonlinearity]] = []


def add(phi: Nonlinearity, *same: Callable[..., Any]) -> Nonlinearity:
    """φ, registered by name for files; `same`: functions of arrays that equal φ."""
    phi = dataclasses.replace(phi, saved=(phi.name, None))
    add_family(phi.name, lambda _: phi)
    _same.extend((function, phi) for function in same)
    return phi


def add_family(name: str, make: Rebuild) -> None:
    """Register a family: make(parameter) is the φ whose field `saved` is (name, parameter)."""
    if name in _families:
        raise ValueError(f"there is a nonlinearity of the name {name} already")
    _families[name] = make


def rebuild(family: str, parameter: float | None) -> Nonlinearity:
    """The nonlinearity whose field `saved` is (family, parameter)."""
    return _families[family](parameter)


def add_same(function: Callable[..., Any], phi: Nonlinearity) -> None:
    """Register a function of arrays that equals φ."""
    _same.append((function, phi))


def find(function: object) -> Nonlinearity | None:
    """The nonlinearity that a function of arrays is, compared by identity; None for all others."""
    return next((phi for known, phi in _same if known is function), None)
