"""Claims: each reads yes on good tables and no on wrong ones, or where the engine is broken."""

import csv
import math
import os
import subprocess
import sys

import numpy as np
import pytest

from limitlaw.apps.paper.catalogue import EXPERIMENTS
from limitlaw.apps.paper.fig1.shown import DIVERGENCES
from limitlaw.apps.paper.head_dim.shown import BY_HEAD_DIM
from limitlaw.apps.paper.heads.shown import HEAD_KURTOSIS, HEAD_VARIANCE
from limitlaw.apps.paper.shown.claims import claims
from limitlaw.apps.paper.shown.reading import KLCurve, agree, curve, row
from limitlaw.runs import rows

RULES = [rule for experiment in EXPERIMENTS.values() for rule in experiment.claims]

# --- tables --------------------------------------------------------------------------------------


def divergences(
    constant=11.04,
    power=-2.0,
    widths=(16, 64, 256, 1024, 65536),
    reference="limit",
    least=0.0,
    kde=4e-4,
):
    """A table of exact divergences with one per mille of error,
    and of the paper's, which end at a floor.
    """
    exact = {n: constant * n**power + least for n in widths}
    if constant == 11.04:
        exact |= {n: kl for n, (kl, _) in DIVERGENCES.items()}
    common = {"heads": 2, "samples": 1000}
    return rows(
        *(
            {
                **common,
                "width": n,
                "estimator": "exact",
                "reference": reference,
                "kl": kl,
                "error": 1e-3 * kl,
            }
            for n, kl in exact.items()
        ),
        *(
            {
                **common,
                "width": n,
                "estimator": "kde",
                "reference": "limit",
                "kl": exact[n] + kde,
                "error": 1e-5,
            }
            for n in widths
            if n <= 1024
        ),
    )


def joined(*tables):
    """One table below the other."""
    return {name: np.concatenate([table[name] for table in tables]) for name in tables[0]}


def narrow(constant=9.0, least=1.2e-6):
    """Figure 3: divergences from the n × n limit, which flatten,
    and from the one at fixed head dimension.
    """
    widths = (64, 256, 1024, 4096)
    fixed = divergences(0.3, widths=widths, reference="fixed_d")
    return joined(divergences(constant, widths=widths, least=least), fixed)


def few_and_many(own=1e-4, one=1e-2, many=1e-4):
    """Figure 2(b): divergences from the own limit and from the Gaussian."""
    points = [
        (1, "limit", own),
        (1, "gaussian", one),
        (256, "limit", 1e-5),
        (256, "gaussian", many),
    ]
    return rows(
        *(
            {"heads": h, "reference": r, "estimator": "exact", "kl": kl, "error": 0.01 * kl}
            for h, r, kl in points
        )
    )


def scores(sqrt=1.01, linear=1.01 / 256):
    """Figure 2(a): variances of the score."""
    return rows(
        {"scaling": "sqrt", "variance": sqrt, "error": 0.01},
        {"scaling": "linear", "variance": linear, "error": 0.01 / 256},
    )


def heads(variance=HEAD_VARIANCE, kurtosis=HEAD_KURTOSIS, rate=HEAD_KURTOSIS**2 / 48, power=1):
    """Figures of the law with 1, …, 1024 heads."""
    H = 4 ** np.arange(6)
    figures = {
        "variance": variance,
        "kurtosis": kurtosis / H.astype(float) ** power,
        "kl": rate / H.astype(float) ** 2,
    }
    return rows({"heads": H, **figures})


def head_dim(factor=1.0, kurtosis=1.0):
    """Figures of narrow heads."""
    figures = {
        d: {"variance": factor * v, "kurtosis": kurtosis * k} for d, (v, k) in BY_HEAD_DIM.items()
    }
    return rows(*({"head_dim": float(d), **each} for d, each in figures.items()))


def joint(correlation=0.3, points=41):
    """The density of a mixture of two covariances, or of one: then it is Gaussian."""
    axis = np.linspace(-3.5, 3.5, points)
    y1, y2 = (a.reshape(-1) for a in np.meshgrid(axis, axis, indexing="ij"))

    def gaussian(c):
        return np.exp(-(y1**2 - 2 * c * y1 * y2 + y2**2) / (2 * (1 - c**2))) / (
            2 * math.pi * math.sqrt(1 - c**2)
        )

    density = (gaussian(correlation) + gaussian(-correlation)) / 2
    return {"y1": y1, "y2": y2, "density": density, "gaussian": gaussian(0.0)}


def theorem(distances=(0.3, 0.1, 0.03, 0.01, 0.006), last=0.0101):
    """Distances from the limit at growing width, and variances; the last row is the limit."""
    width = np.append(4.0 ** np.arange(2, 7), math.inf)
    variance = np.array([0.03, 0.02, 0.013, 0.011, last, 0.01])
    return rows(
        {
            "width": width,
            "variance": variance,
            "distance": np.append(distances, 0.0),
            "samples": 20_000,
        }
    )


def coupled(sigmas=1.0):
    """Variances of the limit by coupled draws, the last of them so many standard errors off."""
    points = zip((16, 64, 256), (0.0, -1.0, sigmas), strict=True)
    return rows(
        *(
            {"width": n, "variance": 0.4 + 1e-3 * off, "error": 1e-3, "limit": 0.4}
            for n, off in points
        )
    )


def good():
    """Tables of which every claim holds."""
    return {
        "fig1_kl": divergences(),
        "fig1_coupled": coupled(),
        "fig3_coupled": coupled(),
        "fig4_coupled": coupled(),
        "kde_floor": rows({"samples": 1000, "kl": 3e-4, "error": 1e-5}),
        "fig2a_variance": scores(),
        "fig2a_kl": rows({"scaling": "sqrt", "kl": 1e-4, "error": 1e-6}),
        "fig2b_kl": few_and_many(),
        "fig3_kl": narrow(),
        "fig4_kl": divergences(20.0),
        "fig5_kl": divergences(30.0),
        "heads": heads(),
        "head_dim": head_dim(),
        "joint": joint(),
        "theorem_figures": theorem(),
    }


def read(tables):
    """Whether each claim holds, by its text without figures."""
    found = claims(RULES, tables)
    assert list(found) == ["figure", "claim", "expected", "measured", "holds"]
    return list(zip(found["figure"], found["claim"], found["holds"], strict=True))


def test_all_hold():
    """On good tables there are all claims, and each reads yes."""
    found = read(good())
    assert len(found) == len(RULES)
    assert [claim for claim in found if claim[2] != "yes"] == []


noisy = divergences()
noisy["error"] = noisy["kl"] * 0.5
WRONG = [  # what is put in the place of a table, and which claims it breaks
    ({"fig1_kl": divergences(11.04, -1.0)}, ["n⁻²", "tends to a constant"]),
    ({"fig1_kl": divergences(12.0)}, ["tends to a constant", "independent calculation"]),
    ({"fig1_kl": noisy}, ["the law converges"]),
    ({"fig1_coupled": coupled(6.0)}, ["Two heads: the limit of the finite-width engine"]),
    ({"fig3_coupled": coupled(-6.0)}, ["dimension 64: the limit of the finite-width engine"]),
    ({"fig4_coupled": coupled(6.0)}, ["tokens: the limit of the finite-width engine"]),
    ({"fig1_kl": divergences(kde=1e-2)}, ["noise floor"]),
    ({"kde_floor": rows({"samples": 1000, "kl": 4e-6, "error": 1e-7})}, ["noise floor"]),
    ({"fig2a_variance": scores(sqrt=1.2)}, ["stays random"]),
    ({"fig2a_variance": scores(linear=1.0)}, ["tends to 0"]),
    ({"fig2a_kl": rows({"scaling": "sqrt", "kl": 0.1, "error": 1e-3})}, ["stays random"]),
    ({"fig2b_kl": few_and_many(own=1e-2)}, ["One head"]),
    ({"fig2b_kl": few_and_many(many=1e-2)}, ["256 heads"]),
    ({"fig3_kl": narrow(9.0, least=0.0)}, ["flatten"]),
    ({"fig3_kl": narrow(-9.0)}, ["the law converges", "flatten"]),
    (
        {"fig3_kl": joined(narrow(), divergences(1e-6, 0.0, (1024, 4096), "fixed_d"))},
        ["fixed head dimension", "flatten"],
    ),
    ({"fig4_kl": divergences(20.0, -1.0)}, ["n⁻²"]),
    ({"fig4_kl": divergences(1e-4, 0.1)}, ["the law converges", "n⁻²"]),
    ({"fig5_kl": divergences(30.0, -1.5)}, ["n⁻²"]),
    ({"fig5_kl": divergences(-30.0)}, ["the law converges", "n⁻²"]),
    ({"heads": heads(variance=HEAD_VARIANCE * (1 + 1e-8))}, ["the variance does not depend"]),
    ({"heads": heads(kurtosis=HEAD_KURTOSIS * 1.001)}, ["not Gaussian"]),
    ({"heads": heads(power=2)}, ["not Gaussian"]),
    ({"heads": heads(rate=1.02 * HEAD_KURTOSIS**2 / 48)}, ["falls as H⁻²"]),
    ({"head_dim": head_dim(factor=1.0001)}, ["Variance / excess kurtosis"]),
    ({"head_dim": head_dim(kurtosis=1.01)}, ["Variance / excess kurtosis"]),
    ({"joint": joint(0.0)}, ["not jointly Gaussian"]),
    ({"joint": {**joint(), "density": 2 * joint()["density"]}}, ["not jointly Gaussian"]),
    ({"theorem_figures": theorem((0.3, 0.1, 0.03, 0.01, 0.1))}, ["Theorem 3.1"]),
    ({"theorem_figures": theorem((0.3, 0.29, 0.28, 0.27, 0.26))}, ["Theorem 3.1"]),
    ({"theorem_figures": theorem(last=1e-4)}, ["not to a constant"]),
]


@pytest.mark.parametrize(("wrong", "broken"), WRONG)
def test_wrong_numbers(wrong, broken):
    """Each wrong table makes exactly the claims that it contradicts read no;
    every claim is among them somewhere.
    """
    failed = [claim for claim in read(good() | wrong) if claim[2] == "no"]
    assert len(failed) == len(broken)
    for (_, claim, _), part in zip(failed, broken, strict=True):
        assert part in claim


def test_every_claim_can_fail():
    """No claim is always true."""
    failed = {
        claim for wrong, _ in WRONG for _, claim, holds in read(good() | wrong) if holds == "no"
    }
    assert failed == {claim for _, claim, _ in read(good())}


def test_missing_tables():
    """Claims whose figures were not run are left out,
    and the others stay; without tables there are none.
    """
    everything = good()
    assert read({}) == []
    without = {name: table for name, table in everything.items() if name != "kde_floor"}
    assert len(read(without)) == len(RULES) - 1
    for name in everything:
        alone = {claim for _, claim, _ in read({name: everything[name]})}
        assert alone == {rule(everything).claim for needed, rule in RULES if needed == (name,)}


def test_curves_and_rows():
    """A curve is in the order of widths, of one estimator and reference;
    a row holds numbers only.
    """
    table = {name: column[::-1] for name, column in divergences(20.0).items()}
    found = curve(table)
    assert list(found.width) == [16, 64, 256, 1024, 65536]
    assert found.falls
    assert found.slope.value == pytest.approx(-2, abs=1e-9)
    assert math.isnan(KLCurve(found.width, -found.kl, found.error).slope.value)
    assert str(found.since(1024)) == "1.907(2)e-5, 4.657(5)e-9"
    assert row(table, width=64, estimator="exact")["kl"] == pytest.approx(20 / 64**2)
    assert "estimator" not in row(table, width=64)
    assert agree(1.0, 0.1, 1.5)
    assert not agree(1.0, 0.1, 1.51)
    assert agree(1.0, 0.1, 1.51, 0.1)


# --- the engine, broken --------------------------------------------------------------------------

BREAK = """
import sys
from pathlib import Path

import numpy as np

from limitlaw.engines import coupled
from limitlaw.engines.heads import laws as head_laws
from limitlaw.apps.paper import catalogue
from limitlaw.apps.paper.computed import networks
from limitlaw.apps.paper.computed.settings import Settings
from limitlaw.apps.paper.reproduce import Listener, reproduce
from limitlaw.runs import local


def run(name, *figures):
    settings = Settings(seed=1, trials=2, samples=1000, blocks=8, draws=2**12, quick=True)
    listener = Listener(lambda name: None, lambda tables: None, sys.exit)
    with local(2) as executor:
        experiments, folder = catalogue.chosen(list(figures)), Path(sys.argv[1]) / name
        reproduce(experiments, settings, folder, executor, listener)


def forget():
    for function in vars(networks).values():
        for cell in getattr(function, "__closure__", None) or ():
            if isinstance(cell.cell_contents, dict):
                cell.cell_contents.clear()


def louder(rule, z, factor):
    return np.where(rule.stays & np.isinf(rule.df), factor * z, z)


def wrong_mixing(*arguments):
    found = mixing_law(*arguments)
    return found._replace(variances=found.variances**1.001)


run("right", "fig1", "heads")
rule, numbers, limit = coupled._Rule, coupled._Rule.numbers, coupled._Rule.limit
rule.numbers = lambda self, z: numbers(self, louder(self, z, 1.1))  # at width n and in the limit
run("both", "fig1")
rule.numbers = lambda self, z: numbers(self, louder(self, z, 1.03))  # at width n only
rule.limit = lambda self, z: limit(self, louder(self, z, 1 / 1.03))
run("scores", "fig1")
rule.numbers, rule.limit = numbers, limit
forget()
mixing_law = head_laws.mixing_law
head_laws.mixing_law = wrong_mixing
run("limit", "heads")
"""


def test_broken_engine(tmp_path):
    """A real run says yes to all; with scores or the limit a little wrong it says no
    to what that touches.
    """
    command = [sys.executable, "-W", "error::RuntimeWarning", "-c", BREAK, str(tmp_path)]
    subprocess.run(command, check=True, timeout=300, env={**os.environ, "JAX_PLATFORMS": "cpu"})
    broken = {}
    for name, count in {"right": 9, "both": 6, "scores": 6, "limit": 3}.items():
        with (tmp_path / name / "data" / "claims.csv").open(newline="") as file:
            found = list(csv.DictReader(file))
        assert len(found) == count
        broken[name] = {row["claim"] for row in found if row["holds"] == "no"}
    assert broken["right"] == set()
    assert any("the limit of the finite-width engine" in claim for claim in broken["both"])
    assert {claim.split(" (")[0] for claim in broken["scores"]} == {
        "Two heads: D falls as n⁻²",
        "n²·D tends to a constant",
        "D at n = 16, 64, 256, 1024 is that of an independent calculation",
    }
    assert {claim.split(":")[0] for claim in broken["limit"]} == {
        "Remark 3.2",
        "The law is not Gaussian",
    }
