"""What a user can choose about the studies."""

import dataclasses
from typing import TypeVar

T = TypeVar("T")


@dataclasses.dataclass(frozen=True)
class StudySettings:
    """A seed, and whether a first look is enough."""

    seed: int = 0
    quick: bool = False

    def either(self, whole: T, quick: T) -> T:
        """What a whole run takes, or what a first look takes."""
        return quick if self.quick else whole
