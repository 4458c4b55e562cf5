"""The cost of an answer, estimated from its sizes alone: one that takes minutes is refused at
once.
"""

from limitlaw.apps.explore.choice import Choice
from limitlaw.digits import duration

ANSWER_SECONDS = 30.0  # seconds that an answer may take
NORMALS = 2e7  # numbers a second that an ordinary core draws and uses, measured with a margin
SIMULATED, FEWEST_NETWORKS = 4096, 256  # networks of a histogram: as many as fit, and not fewer
SIMULATING = 8.0  # seconds that a histogram may take
HIDDEN_PER_WIDTH = 4  # n, units of an MLP
FOLLOWED_DRAWS = 256  # draws of a network in depth
DIFFERENTIATED = 64  # networks that gradients are taken of
COMPILING, COMPILING_LIMIT = 9.0, 14.0  # seconds for gradients, at a width and as n → ∞


def check_law(choice: Choice) -> None:
    """Raise where the exact law takes too long: tokens that are not Gaussian are drawn whole."""
    numbers = choice.heads * (choice.tokens + 4) + choice.tokens**2
    if choice.phi != "identity":
        numbers += choice.tokens * choice.width
    _check(
        choice.samples * numbers,
        f"{choice.samples:,} draws of {numbers:,} numbers",
        "draws or tokens, or less width",
    )


def simulated_networks(choice: Choice) -> int:
    """The number of networks in a histogram."""
    weights = weights_of(choice)
    affordable = int(SIMULATING * NORMALS / weights)
    if affordable < FEWEST_NETWORKS:
        raise ValueError(
            f"a simulation draws all {weights:,} weights of each network, and fewer than "
            f"{FEWEST_NETWORKS} networks fit into {SIMULATING:g} s: choose a smaller "
            "width, or fewer heads"
        )
    return min(SIMULATED, affordable)


def weights_of(choice: Choice) -> int:
    """The number of weights in the four matrices of all heads."""
    return 4 * choice.heads * choice.width * (choice.head_dim or choice.width)


def check_depth(choice: Choice) -> None:
    """Raise where the statistics of all layers would take too long."""
    s = choice.tokens
    numbers = choice.depth * s * (choice.heads * s + s + _wide(choice))
    _check(
        8 * FOLLOWED_DRAWS * numbers,
        f"{FOLLOWED_DRAWS} draws of {numbers:,} numbers",
        "blocks or tokens, or less width",
    )


def check_gradients(choice: Choice) -> None:
    """Raise where compiling the way back, or draws, would take too long: as n → ∞ these are in
    frames of s axes for each token and head.
    """
    s, limit = choice.tokens, None in choice.widths
    in_frames = 1.3 * choice.heads * s**2 + 60 * s + 2000 if limit else 0.0
    numbers = choice.depth * s * (choice.heads * s + in_frames + _wide(choice))
    compiling = COMPILING_LIMIT * limit + COMPILING * (choice.widths != (None,))
    what = f"gradients of {choice.depth} blocks"
    fewer = "blocks, heads or tokens" if limit else "blocks or tokens, or less width"
    _check(16 * DIFFERENTIATED * numbers + compiling * NORMALS, what, fewer)


def _wide(choice: Choice) -> int:
    """Coordinates of a token and its hidden units at a width, if curves of one are wanted."""
    return (1 + HIDDEN_PER_WIDTH) * choice.width * (choice.widths != (None,))


def _check(cost: float, what: str, fewer: str) -> None:
    seconds = cost / NORMALS
    if seconds > ANSWER_SECONDS:
        raise ValueError(
            f"this would take about {duration(seconds)} ({what}): choose fewer {fewer}"
        )
