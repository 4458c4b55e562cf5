"""What a result may cost: how many draws, where the user does not say, and how much memory and
time. A call that takes more is refused (`bounds`).
"""

import dataclasses
import math
import os
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from limitlaw.numerics.replicates import Replicates


@dataclasses.dataclass
class Budget:
    """What the engines may spend where a user does not say: draws, nodes, time and memory."""

    samples: int = 2**16  # most draws of a result
    least: int = 2**8  # fewest: a standard error is then known to 1/√512 of itself
    numbers: int = 2**27  # most numbers that draws hold: 1 GiB
    # seconds of drawing: errors fall as draws^{−1/2}, so that one digit more takes half an hour
    seconds: float = 20.0
    sure: float = 1.0  # seconds of drawing after which its pace is known
    # relative errors of averages over draws, where the user names neither draws nor an error
    rtol: float = 0.01
    rtol_of_kernel: float = 1e-4
    few: int = 4  # fewest draws for such an average, however long they take
    gib: float = 16.0  # most GiB that the draws of a result take, on a large machine
    longest: float = 600.0  # seconds that a call may take, unless it was made with force=True
    known: float = 5.0  # seconds of drawing after which it is known what the rest takes
    noticed: int = 2**28  # bytes, below which a function may always have them

    # numbers of a covariance that is computed at once: 128 MiB
    covariance: int = 2**24
    # compiled programs that are kept, and the equations of all of them: on a CPU they take about
    # 7 kB each
    programs: int = 64
    equations: int = 2**16

    # draws computed together, and numbers they hold: about what the cache of a CPU has; a GPU
    # wants all of its threads busy
    together: int = 2**12
    held: int = 2**20
    together_elsewhere: int = 2**18
    held_elsewhere: int = 2**27  # at infinite width: 1 GiB
    coordinates_elsewhere: int = 2**29  # at finite width: 4 GiB
    optimised: int = 2**13  # operations of a program that is worth a compiler's optimisation
    traced_batches: int = 64  # at most by default inside `jit`, where nothing can be timed

    # nodes for nonlinearities, and for infinitely many heads: of a deterministic program; for each
    # draw of a random one, whose batches, so many at least, have new nodes; and for a batch of
    # draws that have them in common
    nodes: int = 2**14
    nodes_each: int = 2**10
    nodes_in_common: int = 2**12
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

    # iterations with tied weights are followed in stretches: at most so many, each of so many
    # vectors
    most_stretches: int = 4
    stretch: int = 2**8

    # the joint law of tokens: normals and draws at most, draws at least unless time is short; of
    # many heads, single ones in a pool, and draws from pools
    joint_numbers: int = 2**24
    joint_draws: int = 2**19
    least_joint: int = 2**10
    pool: int = 2**11
    pooled_draws: int = 2**13

    # entries of a random kernel whose means are found by quadrature, one for each pair
    integrated_entries: int = 4


BUDGET = Budget()


def default_draws(entries: int) -> int:
    """The default draws of a covariance of so many entries: fewer if they take more memory."""
    worth = max(1, BUDGET.numbers / (1 + entries**2))
    return max(BUDGET.least, min(BUDGET.samples, 2 ** int(math.log2(worth))))


Drawn = tuple[Any, "Replicates"]  # arrays with draws in front, and which draws are independent
# what has been drawn so far → its largest relative error, NaN where that is not known yet
RelativeError = Callable[[Drawn], float]


class Pace:
    """The number of draws of one calculation: `samples` or, with `at_most`, fewer where time is
    short or a relative error is reached.

    Where time decides, it is a power of two, at least `BUDGET.least` (with an `error`,
    `BUDGET.few`). Only the number depends on the clock: the draws are the first ones that any
    larger number would give. `error` gives the relative error of what has been drawn, by at least
    `BUDGET.replicates` replicates; drawing ends where it is below `rtol`.
    """

    def __init__(
        self, samples: int, at_most: bool, error: RelativeError | None = None, rtol: float = 0.0
    ) -> None:
        self.most = self.samples = samples
        self._effort = ""
        self._open = at_most
        self._clock: tuple[int, float] | None = None
        self._error, self._rtol = error, rtol
        self._look_at, self._least = 1.0, BUDGET.few if error else BUDGET.least

    def reached(self, drawn: int, found: Callable[[], Drawn] | None = None) -> bool:
        """Note that `drawn` draws, which `found()` gives, are finished: does that lower the number
        of draws? The first call, behind a compiler, starts the clock.
        """
        now = time.monotonic()
        if self._clock is None:
            self._clock = drawn, now
        if self._error and found and self._look_at <= drawn < self.samples:
            so_far = found()
            least = BUDGET.replicates * so_far[1].size
            error = self._error(so_far) if drawn >= least else math.nan
            if error <= self._rtol:
                return self.lower(drawn, f"{drawn} draws for errors below {self._rtol:.3g}")
            needed = least if math.isnan(error) else drawn * (error / self._rtol) ** 2
            self._look_at = min(needed, 2 * drawn)
        first, start = self._clock
        if not self._open or now - start <= BUDGET.sure or drawn == first:
            return False
        self._open = False
        affordable = max(1.0, BUDGET.seconds * (drawn - first) / (now - start))
        least = 2 ** math.ceil(math.log2(max(self._least, drawn)))
        samples = max(least, 2 ** math.floor(math.log2(affordable)))
        return self.lower(
            samples,
            f"{samples} of {self.most} draws in a budget of {BUDGET.seconds:g} s",
        )

    def lower(self, samples: int, effort: str) -> bool:
        """Draw no more than `samples`; says whether that is fewer than before."""
        if samples >= self.samples:
            return False
        self.samples, self._effort = samples, effort
        return True

    @property
    def effort(self) -> str:
        """Why fewer draws were made than asked for, for a law's repr; empty if all were."""
        return self._effort

    @property
    def certain(self) -> int:
        """The number of draws that are made however long they take."""
        return min(self.samples, self._least) if self._open else self.samples


def cores() -> float:
    """The speed over one core's that a calculation is taken to have: half the cores are busy."""
    return max(1.0, 0.5 * (os.cpu_count() or 1))
