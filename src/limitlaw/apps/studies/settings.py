"""The settings of the studies."""

import dataclasses
from typing import TypeVar

T = TypeVar("T")


@dataclasses.dataclass(frozen=True)
class StudySettings:
    """A seed, and whether a first look is enough."""

    seed: int = 0
    quick: bool = False

    def either(self, whole: T, quick: T) -> T:
        """The value for a whole run, or that for a first look."""
        return quick if self.quick else whole
