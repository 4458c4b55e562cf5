"""What all draws of a program share: moments of vectors that depend on nothing that is drawn.

A draw asks for them by name. They are computed before all draws, by a function of its own, and
handed to the function of a draw; one that is not handed over is computed by the draw itself.
"""

import contextlib
from collections.abc import Container, Iterator, Mapping
from typing import Any

from limitlaw.core.kinds import Value

Invariant = tuple[Any, ...]  # the name of one: what it is, and of which values


class Invariants:
    """Loop-invariant quantities by their names: those that are `known`, and those that were
    `asked` for by quantities that are drawn.
    """

    def __init__(
        self, random: Container[Value], known: Mapping[Invariant, Any] | None = None
    ) -> None:
        self._random, self._known = random, known or {}
        self.asked: dict[Invariant, None] = {}
        self._depth = 0  # inside how many invariants are we, which need no others by name?

    @property
    def are_known(self) -> bool:
        """Were they computed before?"""
        return bool(self._known)

    @contextlib.contextmanager
    def asked_for(self, name: Invariant, *values: Value) -> Iterator[tuple[Any, ...]]:
        """Where the quantity of that name is computed, which depends on `values`: the quantity
        where it is known, as the one entry of a tuple, else an empty one.
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
