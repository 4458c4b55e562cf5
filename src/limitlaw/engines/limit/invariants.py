"""Loop-invariant quantities: moments of vectors that depend on no latent variable, so that all
draws of a program share them.

A draw asks for them by name. They are computed before all draws, by a function of their own, and
handed to the function of a draw; one that is not handed over is computed by the draw itself.
"""

import contextlib
from collections.abc import Container, Iterator, Mapping
from typing import Any

from limitlaw.core.kinds import Value

Invariant = tuple[Any, ...]  # the name of an invariant: the quantity, and the values it is of


class Invariants:
    """Invariants of a loop by name: those `known`, and those `asked` for by what is drawn."""

    def __init__(
        self, random: Container[Value], known: Mapping[Invariant, Any] | None = None
    ) -> None:
        self._random, self._known = random, known or {}
        self.asked: dict[Invariant, None] = {}
        self._depth = 0  # of nested invariants: inside one, no others are asked for

    @property
    def are_known(self) -> bool:
        """Were they computed beforehand?"""
        return bool(self._known)

    @contextlib.contextmanager
    def asked_for(self, name: Invariant, *values: Value) -> Iterator[tuple[Any, ...]]:
        """A context to compute the quantity of that name, which depends on `values`: it gives (the
        quantity,) where it is known, else ().
        """
        if any(v in self._random for v in values):
            yield ()
        elif name in self._known:
            yield (self._known[name],)
        else:
            if not self._depth:
                self.asked.setdefault(name)
            self._depth += 1
            try:
                yield ()
            finally:
                self._depth -= 1
