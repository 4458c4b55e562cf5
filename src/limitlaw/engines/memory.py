"""How much memory a result may take, and what is refused before anything is drawn."""

import functools
import os

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
