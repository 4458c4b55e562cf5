"""What the comparison sees: errors that are too small, too large, NaN, and what is raised."""

import math

import numpy as np
import pytest

from adversary.cases import Case, Numbers, Structure, case, structure
from adversary.compare import ENOUGH, Report, Verdict, judged
from adversary.figures import Estimate, Figure
from adversary.library import Stated, program, raising, reproduction
from adversary.reference import Answer, answer

VARIANCE, PDF = Figure("variance"), Figure("pdf", 0.5)
ONE = Estimate(1.0, 0.0)
CASE = Case(
    Structure("marginal", 2, (VARIANCE, PDF)), Numbers(np.eye(2), dict.fromkeys("qkvo", 1.0)), 0
)


def verdict(
    value: float, error: float, reference: Estimate = ONE, figure: Figure = VARIANCE
) -> Verdict:
    """On one figure of a law of scale 1."""
    return judged(
        CASE, figure, Stated(value, error), reference, Answer(1.0, (reference,), "quadrature")
    )


def test_five_errors() -> None:
    """Four are right, six are wrong; errors of the reference count, and so does rounding."""
    assert not verdict(1.004, 0.001).failure
    assert verdict(1.006, 0.001).failure == "wrong"
    assert verdict(1.006, 0.001).z == pytest.approx(6)
    assert not verdict(1.006, 0.001, Estimate(1.0, 0.001)).failure
    assert verdict(1 + 1e-9, 0.0).failure == "wrong"
    assert not verdict(1 + 1e-15, 0.0).failure


def test_what_is_no_number() -> None:
    """NaN, negative errors and exceptions fail; infinity is a value;
    what the reference does not know is left out.
    """
    assert verdict(math.nan, 0.1).failure == "NaN"
    assert verdict(1.0, math.nan).failure == "NaN"
    assert verdict(1.0, -1.0).failure == "NaN"
    assert not verdict(-math.inf, 0.0, Estimate(-math.inf, 0.0)).failure
    assert verdict(1.0, 1.0, Estimate(math.inf, 0.0)).failure == "wrong"
    assert not verdict(7.0, 0.0, Estimate(math.nan, 0.0)).failure
    refused = raising(ValueError("the law has no density"))
    for figure, singular, failure in (
        (PDF, True, ""),
        (PDF, False, "raised"),
        (VARIANCE, True, "raised"),
    ):
        found = Answer(1.0, (), "quadrature", singular=singular)
        assert judged(CASE, figure, refused, Estimate(1.0, 0.1), found).failure == failure


def test_overstated_errors() -> None:
    """A class of figures whose errors are a thousand times too large;
    a single one may be so by accident.
    """
    honest = [verdict(1 + 1e-6, 1e-6) for _ in range(ENOUGH)]
    assert not Report([*honest, verdict(1 + 1e-6, 1.0)]).overstated()
    large = Report([verdict(1 + 1e-6, 1e-3) for _ in range(ENOUGH)])
    assert large.overstated() == {("marginal", "variance", "eager"): pytest.approx(1000)}
    z, over = Report([verdict(1 + 3e-6, 1e-6), verdict(1 + 1e-6, 1e-4)]).worst()
    assert (z.z, over.overstatement) == (pytest.approx(3, rel=1e-3), pytest.approx(100, rel=1e-3))


def test_a_report_reproduces() -> None:
    """The code of a failure gives its figure again."""
    bad = verdict(0.5, 0.0)
    space: dict = {}
    exec(
        "import numpy as np, jax.numpy as jnp, limitlaw as ll\n"
        + reproduction(CASE, VARIANCE, 1.0, 1.0, False),
        space,
    )
    assert space["figure"] == pytest.approx(answer(CASE, 1000).estimates[0].value, rel=1e-6)
    assert "law = ll.attention_law(K, heads=1" in str(Report([bad]))


def test_random_cases_cover_everything() -> None:
    """Every question, function and size in 400 structures;
    kernels are covariances of every scale and rank.
    """
    shapes = [structure(seed) for seed in range(400)]
    assert {s.asked for s in shapes} == {"marginal", "limit", "joint", "kernel", "average"}
    assert {s.heads for s in shapes} >= {1, 2, 8, 1000, 10**6, math.inf}
    assert {s.head_dim for s in shapes} == {None, 1, 2, 8, 64}
    assert {s.tokens for s in shapes} == {1, 2, 3, 4, 5, 6}
    assert len({s.front for s in shapes} & {s.behind for s in shapes}) == 17
    assert all(program(s) for s in shapes)
    kernels = [case(shapes[seed], seed).numbers.kernel for seed in range(400)]
    eigenvalues = [np.linalg.eigvalsh(K) for K in kernels]
    assert all(e[0] >= -1e-12 * e[-1] for e in eigenvalues)
    assert any(len(e) > 1 and e[0] < 1e-12 * e[-1] for e in eigenvalues)
    tops = [np.diag(K).max() for K in kernels]
    assert min(tops) < 1e-5
    assert max(tops) > 1e6
