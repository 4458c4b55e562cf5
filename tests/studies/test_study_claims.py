"""Claims of studies hold in a world where what was published is true,
and each of them fails in another world.
"""

import numpy as np
import pytest

from limitlaw.apps.paper.shown.claims import claims
from limitlaw.apps.studies import report
from limitlaw.apps.studies.report import STUDIES, chosen
from limitlaw.figures.picture import Picture
from studies.published import true_tables

# They disagree with others: a limit with a theory, a library with its users.
CONTRARY = {
    (
        "The limit of infinite width is nearer to the measured correlation than the published "
        "theory, at every layer"
    ),
    "Unit scaling: the attention output has standard deviation 1 in every layer (to 10 %)",
    "The closed form is right to 13.3 % for independent tokens at σ_Q = 0.6",
}


def verdicts(tables) -> dict[str, bool]:
    """Of all studies, by claim."""
    found = claims((rule for study in STUDIES.values() for rule in study.claims), tables)
    assert len(set(found["claim"])) == len(found["claim"])
    return dict(zip(found["claim"].tolist(), (found["holds"] == "yes").tolist(), strict=True))


def test_what_was_published():
    """All hold there, but for those that deny others."""
    assert {claim for claim, holds in verdicts(true_tables()).items() if not holds} == CONTRARY


CHANGES = [
    ("giorlandino", "correlation", 0.02, "The published theory, "),
    (
        "participation",
        "participation",
        0.01,
        "Participation of 512 tokens is that of the random energy model, β = 3",
    ),
    ("cowsik", "measured", 0.01, "Nearly parallel tokens "),
    ("cowsik_deep", "growth", 0.01, "Almost orthogonal tokens "),
    ("cowsik_edge", "edge", 0.001, "The edge of chaos σ_w*, where the printed λ is 0, α → 0"),
    ("noci", "correlation", 1e-8, "Uniform attention: the formula"),
    ("noci", "correlation", 0.02, "Uniform attention describes scores of standard deviation 2 "),
    ("nait_saada", "excess", 0.005, "Stable rank of A Aᵀ − 1 is "),
    ("nait_saada", "second", 0.5, "The second singular value has reached its edge"),
    ("unit_scaling", "std", 1.0, "Standard deviation of the attention output in layer 11"),
    ("kedia", "drawn", 0.15, "Without dropout the closed form errs by no more than"),
    ("kedia", "limit", 0.3, "The limit n → ∞ is within 13.3 % of networks"),
    ("kedia", "limit", 0.05, "For independent tokens the limit is (1 + 2 g²) e^{g²}"),
    ("alekseev_published", "jacobian", 0.001, "The recursion gives the published"),
    ("alekseev", "jacobian", 0.1, "The published numbers describe uniform attention"),
    ("alekseev", "variance", 0.2, "The published numbers describe attention with σ_Q = σ_K = 2"),
    ("query_gradients", "gradient", 0.001, "The gradient of W_Q is that of the random energy"),
]
# of query gradients some claims compare rows of one table with each other
ROWS = [
    (1.0, 32, -0.1, "At β = 1 < √2 the gradient of W_Q falls with more tokens"),
    (3.0, 32, 0.01, "At β = 3 > √2 the gradient of W_Q does not depend"),
    (0.5, 512, 0.2, "The gradient of W_Q is largest for a β between √2 and 4"),
]


@pytest.mark.parametrize(("table", "column", "shift", "claim"), CHANGES)
def test_each_claim_can_fail(table, column, shift, claim):
    """Numbers a little off."""
    tables = true_tables()
    tables[table][column] = tables[table][column] + shift
    found = [holds for text, holds in verdicts(tables).items() if text.startswith(claim)]
    assert found
    assert not any(found)


@pytest.mark.parametrize(("beta", "count", "shift", "claim"), ROWS)
def test_each_comparison_can_fail(beta, count, shift, claim):
    """One number of a table a little off."""
    tables = true_tables()
    table = tables["query_gradients"]
    at = (table["beta"] == beta) & (table["tokens"] == count) & (table["block"] == 0)
    table["gradient"] = table["gradient"] + shift * at
    (verdict,) = (holds for text, holds in verdicts(tables).items() if text.startswith(claim))
    assert not verdict


def test_the_other_claims():
    """Measured correlations are nearer to themselves than a theory;
    outputs of unit scale are; tails that fall fail.
    """
    tables = true_tables()
    table = tables["giorlandino"]
    table["correlation"] = np.interp(
        table["layer"], *(tables["giorlandino_published"][n] for n in ("layer", "measured"))
    )
    tables["unit_scaling"]["std"] = np.ones(12)
    tables["kedia"]["drawn"] = np.ones(len(tables["kedia"]["drawn"]))
    tables["tails"]["kurtosis"] = -tables["tails"]["kurtosis"]
    tables["participation"]["participation"] = tables["participation"]["participation"][
        ::-1
    ].copy()
    found = verdicts(tables)
    assert all(found[claim] for claim in CONTRARY)
    assert not any(
        holds for claim, holds in found.items() if claim.startswith("Depth makes tails heavier")
    )
    assert not found[
        "With more tokens participation approaches the random energy model, from above"
    ]


def test_pictures_and_report(tmp_path):
    """Every study has a picture with data in every panel;
    the page says which claims hold, with links to figures.
    """
    tables = true_tables()
    drawn = report.shown.drawn(tables, report.STUDY_FIGURES)
    assert [figure.key for figure, _ in drawn] == list(STUDIES)
    for _, picture in drawn:
        assert isinstance(picture, Picture)
        panels = [panel for row in picture.rows for panel in row]
        assert all(any(np.isfinite(curve.y).any() for curve in panel.curves) for panel in panels)
    rules = (rule for study in STUDIES.values() for rule in study.claims)
    report.report(
        tables, claims(rules, tables), {"command": "limitlaw studies"}, tmp_path / "report.html"
    )
    page = (tmp_path / "report.html").read_text()
    assert f"{report.STUDIES_LEAD}, computed again by <code>limitlaw studies</code>" in page
    assert page.count("✗ does not hold") == len(CONTRARY)
    assert page.index('id="claims"') < page.index(f">{report.STUDIES_HEADING}<")
    assert all(f'<a href="#{key}">' in page for key in STUDIES)
    assert "Beyond the paper" not in page


def test_chosen():
    """By name in the order of the report; a wrong name lists the right ones."""
    assert [study.name for study in chosen(["tails", "noci"])] == ["noci", "tails"]
    assert [study.name for study in chosen([])] == list(STUDIES)
    with pytest.raises(
        ValueError, match=r"there is no study 'vaswani'; there are giorlandino, participation, "
    ):
        chosen(["vaswani"])
