"""limitlaw against the reference, figure by figure:
is the stated error right, and is it not far too large?

|value − reference| ≤ 5 √(stated² + reference error²) + rounding stated ≤ 100 max(|value −
reference|, reference error, rounding)        in the median of a class of figures
"""

import collections
import dataclasses
import math
import statistics
from collections.abc import Iterable

import numpy as np

from adversary.cases import Case
from adversary.figures import Estimate, Figure
from adversary.library import REFUSED, Stated, reproduction
from adversary.reference import Answer

SIGMAS, OVERSTATED = 5.0, 100.0
ROUNDING = 2.0**-44  # of the natural scale of a figure: 256 units in the last place
STEEP = 1e4  # standard deviation of scores from which on draws see no two largest ones together
ENOUGH = 8  # figures of a class, for its median to say something


@dataclasses.dataclass(frozen=True)
class Verdict:
    """One figure of one case: what limitlaw states, what the reference says,
    and what is wrong with it, if anything.
    """

    case: Case
    figure: Figure
    jit: bool
    stated: Stated
    reference: Estimate
    answer: Answer
    z: float = 0.0
    overstatement: float = 0.0
    failure: str = ""

    @property
    def kind(self) -> tuple[str, str, str]:
        """The class of figures it is judged with where medians are taken."""
        return self.case.structure.asked, self.figure.method, "jit" if self.jit else "eager"

    def __str__(self) -> str:
        found, truth = self.stated, self.reference
        said = found.raised[:160] or f"{found.value:.12g} ± {found.error:.2g}"
        head = f"{'/'.join(self.kind)}: {said}, reference {truth.value:.12g} ± {truth.error:.2g}"
        code = reproduction(self.case, self.figure, self.answer.scale, self.answer.unit, self.jit)
        lines = [f"{head} ({self.failure or 'right'}, seed {self.case.seed})", *code.splitlines()]
        return "\n    ".join(lines)


def judged(
    case: Case,
    figure: Figure,
    stated: Stated,
    reference: Estimate,
    answer: Answer,
    jit: bool = False,
) -> Verdict:
    """The verdict on one figure."""
    verdict = Verdict(case, figure, jit, stated, reference, answer)
    if math.isnan(reference.value) or math.isnan(reference.error):
        return verdict  # the reference does not know
    if ROUNDING * cancelled(case, answer) >= 1:
        return verdict  # all digits cancel: what is left is rounding, or a point mass
    if stated.raised:
        singular = (
            answer.singular
            and figure.method in ("pdf", "logpdf", "entropy")
            and "ValueError" in stated.raised
        )
        refused = singular or (jit and REFUSED in stated.raised)
        return verdict if refused else dataclasses.replace(verdict, z=math.inf, failure="raised")
    if math.isnan(stated.value) or not stated.error >= 0:
        return dataclasses.replace(verdict, z=math.inf, failure="NaN")
    if stated.value == reference.value:
        return verdict
    away, rounding = (
        abs(stated.value - reference.value),
        rounding_of(case, figure, reference.value, answer),
    )
    error = math.hypot(stated.error, reference.error)
    z = max(away - rounding, 0.0) / error if error > 0 else math.inf if away > rounding else 0.0
    over = stated.error / max(away, reference.error, rounding)
    return dataclasses.replace(
        verdict, z=z, overstatement=over, failure="wrong" if z > SIGMAS else ""
    )


def rounding_of(case: Case, figure: Figure, value: float, answer: Answer) -> float:
    """A rounding of the natural scale of a figure."""
    method, c = figure
    scale = answer.scale
    if method == "entry":
        return ROUNDING * scale
    fourier = (
        0.02 if 1 < case.structure.heads < math.inf else 0.0
    )  # the reference's tails of sums are Fourier integrals
    natural = {
        "mean": scale if answer.unit == 1.0 else answer.unit,
        "variance": (scale if answer.unit == 1.0 else answer.unit) ** 2,
        "kurtosis": 3.0,
        "pdf": 1 / scale,
        "logpdf": max(1.0, fourier * math.exp(min(-value, 700)) / scale)
        if method == "logpdf"
        else 1.0,
        "cdf": max(40 * abs(value), fourier),  # x moved by a rounding moves a tail by x² of them
        "sf": max(40 * abs(value), fourier),
        "ppf": max(scale, math.sqrt(answer.variance)) if answer.unit == 1.0 else answer.unit,
        "cf": 1.0,
        "expect": 1.0,
        "entropy": 1.0,
        "atom": 1.0,
        "covariance": scale**2,
        "products": scale**4,
        "moment": scale**c if method == "moment" and answer.unit == 1.0 else 0.0,
    }
    relative = ROUNDING * cancelled(case, answer) + (
        unseen_by_draws(case, answer.score_scale) if answer.how == "drawn" else 0.0
    )
    return relative * max(natural.get(method, 0.0), abs(value)) if math.isfinite(value) else 0.0


def cancelled(case: Case, answer: Answer) -> float:
    """How much larger the kernel of the tokens is than that of what they are mixed to,
    which it is rounded with.
    """
    shape, numbers = case.structure, case.numbers
    if (
        shape.front is not None
        or not shape.depth
        or shape.asked not in ("limit", "marginal", "joint")
    ):
        return 1.0
    gain = float(np.max(numbers.stds["v"]) * np.max(numbers.stds["o"])) ** (2 * shape.depth)
    return max(
        1.0, gain * float(np.diag(numbers.kernel).max()) / (answer.variance or answer.scale**2)
    )


def unseen_by_draws(case: Case, size: float) -> float:
    """The chance that the two largest of very large scores, of this size, are near each other:
    draws hardly see it, and say 0 ± 0.
    """
    shape = case.structure
    steep = shape.depth > 0 and shape.scaling != "linear" and size > STEEP
    return 8 * shape.tokens / size if steep else 0.0


class Report:
    """All verdicts, and what stands out among them."""

    def __init__(self, verdicts: Iterable[Verdict] = ()) -> None:
        self.verdicts = list(verdicts)

    @property
    def failures(self) -> list[Verdict]:
        return [v for v in self.verdicts if v.failure]

    def overstated(self) -> dict[tuple[str, str, str], float]:
        """Classes of figures whose stated errors are too large in the median."""
        classes = collections.defaultdict(list)
        for v in self.verdicts:
            if not v.failure and not v.stated.raised:
                classes[v.kind].append(v.overstatement)
        medians = {
            kind: statistics.median(found)
            for kind, found in classes.items()
            if len(found) >= ENOUGH
        }
        return {kind: median for kind, median in medians.items() if median > OVERSTATED}

    def worst(self) -> tuple[Verdict | None, Verdict | None]:
        """The largest z among figures that came out, and the largest overstatement."""
        known = [v for v in self.verdicts if math.isfinite(v.z) and not v.stated.raised]
        return (
            max(known, key=lambda v: v.z, default=None),
            max(known, key=lambda v: v.overstatement, default=None),
        )

    def table(self) -> str:
        """For every class: how many figures and failures,
        the worst z, and the median and worst overstatement.
        """
        classes = collections.defaultdict(list)
        for v in self.verdicts:
            classes[v.kind].append(v)
        lines = [
            (
                f"{'class':32} {'figures':>8} {'failures':>8} {'worst z':>9} "
                f"{'overstated: median':>18} {'worst':>9}"
            )
        ]
        for kind, found in sorted(classes.items()):
            over = [v.overstatement for v in found]
            numbers = (
                f"{max(v.z for v in found):9.3g} {statistics.median(over):18.3g} {max(over):9.3g}"
            )
            lines.append(
                f"{'/'.join(kind):32} {len(found):8} {sum(bool(v.failure) for v in found):8} "
                f"{numbers}"
            )
        return "\n".join(lines)

    def __str__(self) -> str:
        over = [
            f"overstated in the median: {'/'.join(kind)} by {x:.3g}"
            for kind, x in self.overstated().items()
        ]
        return "\n".join([*map(str, self.failures), *over, self.table()])
