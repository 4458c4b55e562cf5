"""What a result may cost. How many draws, where the user does not say: as many as a law is worth,
unless they take longer than one waits. How much memory: what is refused before anything is drawn.
"""

import functools
import math
import os
import time

SAMPLES = 2**16  # draws at most
MOST_NUMBERS = 2**27  # that they hold: 1 GiB
# of drawing: standard errors fall as draws^{−1/2}, so that one digit more would take half an hour
SECONDS = 20.0
SURE = 1.0  # seconds of drawing after which its pace is known
LEAST = 2**8  # draws: a standard error known to 1/√512 of itself


def default_draws(entries: int) -> int:
    """How many draws of a covariance of so many entries memory and a law are worth."""
    return max(LEAST, min(SAMPLES, 2 ** int(math.log2(max(1, MOST_NUMBERS / (1 + entries**2))))))


class Pace:
    """The number of draws of one calculation: `samples`,
    or fewer where `at_most` and time is short.

    Fewer are a power of two, `LEAST` or more. Only how many there are depends on the clock: the
    draws are the first ones that any larger number would give.
    """

    def __init__(self, samples: int, at_most: bool) -> None:
        self.most = self.samples = samples
        self._reason = ""
        self._open = at_most
        self._clock: tuple[int, float] | None = None

    def reached(self, drawn: int) -> bool:
        """`drawn` draws are finished; says whether that lowered the number.

        The first call starts the clock, since the draws before it waited for a compiler.
        """
        now = time.monotonic()
        if self._clock is None:
            self._clock = drawn, now
        first, start = self._clock
        if not self._open or now - start <= SURE or drawn == first:
            return False
        self._open = False
        affordable = SECONDS * (drawn - first) / (now - start)
        least = 2 ** math.ceil(math.log2(max(LEAST, drawn)))
        return self.lower(
            max(least, 2 ** math.floor(math.log2(affordable))), f"in a budget of {SECONDS:g} s"
        )

    def lower(self, samples: int, reason: str) -> bool:
        """Draw no more than `samples`; says whether that is fewer than before."""
        if samples >= self.samples:
            return False
        self.samples, self._reason = samples, reason
        return True

    @property
    def effort(self) -> str:
        """What decided, for a law's repr: nothing to say where all draws were made."""
        return f"{self.samples} of {self.most} draws {self._reason}" if self._reason else ""


MOST_GIB = 16.0  # that the draws of a result may take, on a large machine


def check_memory(samples: int, numbers: int, advice: str) -> None:
    """Refuse draws of so many numbers each that they do not fit into memory,
    before anything is drawn.
    """
    size, most = 8 * samples * numbers / 2**30, most_gib()
    if size > most:
        plural = "" if numbers == 1 else "s"
        raise ValueError(
            f"samples={samples} would take {size:,.0f} GiB, with {numbers} number{plural} a draw, "
            f"and a result may take {most:.3g} GiB on this machine: {advice}"
        )


def check_covariance(entries: int) -> None:
    """Refuse a covariance over so many entries that it does not fit into memory."""
    size = 8 * entries**2 / 2**30
    if size > most_gib():
        raise ValueError(
            f"y has {entries} entries, whose covariance would take {size:,.0f} GiB, of "
            f"{most_gib():.3g} GiB on this "
            "machine: ask for fewer of them, as y[0]"
        )


def check_draw(width: int, numbers: int, advice: str) -> None:
    """Refuse a width at which a single draw does not fit into memory."""
    size = 8 * numbers / 2**30
    if size > most_gib():
        raise ValueError(
            f"width={width} would take {size:,.0f} GiB for one draw, of {most_gib():.3g} GiB on "
            f"this machine: {advice}"
        )


@functools.cache
def most_gib() -> float:
    """That a result may take: half of this machine's memory, where known."""
    try:
        return min(
            MOST_GIB, 0.5 * os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30
        )
    except (AttributeError, OSError, ValueError):  # not on every system
        return MOST_GIB
