"""What a result may cost. How many draws, where the user does not say: as many as a law is worth,
unless they take longer than one waits. How much memory: what is refused before anything is drawn.
"""

import dataclasses
import functools
import math
import os
import time


@dataclasses.dataclass
class Budget:
    """What the engines may spend where a user does not say: draws, nodes, time and memory."""

    samples: int = 2**16  # draws at most
    least: int = 2**8  # and at least: a standard error known to 1/√512 of itself
    numbers: int = 2**27  # that they hold: 1 GiB
    # of drawing: errors fall as draws^{−1/2}, so that one digit more would take half an hour
    seconds: float = 20.0
    sure: float = 1.0  # seconds of drawing after which its pace is known
    gib: float = 16.0  # that the draws of a result may take, on a large machine

    # draws computed together, and numbers they hold: about what the cache of a CPU has; a GPU
    # wants all of its threads busy
    together: int = 2**12
    held: int = 2**20
    together_elsewhere: int = 2**18
    held_elsewhere: int = 2**27  # at infinite width: 1 GiB
    coordinates_elsewhere: int = 2**29  # at finite width: 4 GiB
    traced_batches: int = 64  # at most by default inside `jit`, where nothing can be timed

    # nodes for nonlinearities, and for infinitely many heads: of a deterministic program, and for
    # each draw of a random one, whose batches, so many at least, have new nodes
    nodes: int = 2**14
    nodes_each: int = 2**10
    heads: int = 2**14
    heads_each: int = 2**10
    batches: int = 32
    replicates: int = 8  # independent scramblings, whose spread is the error of a kernel

    # points of each block for the variance of one head: fewer where a point has `many` numbers
    # or more, and where derivatives are taken
    head_nodes: int = 2**16
    head_nodes_of_many: int = 2**15
    head_nodes_traced: int = 2**10
    many: int = 32
    groups: int = 2**10  # draws of a random kernel of many heads

    # the joint law of tokens: normals and draws at most, draws at least unless time is short; of
    # many heads, single ones in a pool, and draws from pools
    joint_numbers: int = 2**24
    joint_draws: int = 2**19
    least_joint: int = 2**10
    pool: int = 2**11
    pooled_draws: int = 2**13


BUDGET = Budget()


def default_draws(entries: int) -> int:
    """How many draws of a covariance of so many entries memory and a law are worth."""
    worth = max(1, BUDGET.numbers / (1 + entries**2))
    return max(BUDGET.least, min(BUDGET.samples, 2 ** int(math.log2(worth))))


class Pace:
    """The number of draws of one calculation: `samples`,
    or fewer where `at_most` and time is short.

    Fewer are a power of two, `least` or more. Only how many there are depends on the clock: the
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
        if not self._open or now - start <= BUDGET.sure or drawn == first:
            return False
        self._open = False
        affordable = BUDGET.seconds * (drawn - first) / (now - start)
        least = 2 ** math.ceil(math.log2(max(BUDGET.least, drawn)))
        return self.lower(
            max(least, 2 ** math.floor(math.log2(affordable))),
            f"in a budget of {BUDGET.seconds:g} s",
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
            f"{most_gib():.3g} GiB on this machine: ask for fewer of them, as y[0]"
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
            BUDGET.gib, 0.5 * os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30
        )
    except (AttributeError, OSError, ValueError):  # not on every system
        return BUDGET.gib
