"""Every law of one number, against itself: density,
distribution function, quantiles, moments and samples agree.
"""

from collections.abc import Iterable

import jax.numpy as jnp
import numpy as np
import pytest

from laws.harness import LIGHT, RELATIVES, Case, cases, integral
from limitlaw.laws import Law, Pushforward, load


def each(chosen: Iterable[Case]) -> pytest.MarkDecorator:
    """A test for each of these laws; those that are relatives of others run with the long ones."""
    marked = [
        pytest.param(case, marks=pytest.mark.long if case.name in RELATIVES else ())
        for case in chosen
    ]
    return pytest.mark.parametrize("case", marked, ids=str)


ALL = each(cases())
CORE = each(case for case in cases() if case.name not in LIGHT)
WITH_DENSITY = each(case for case in cases() if case.density)
# densities 1/√(y − end), which double precision resolves to its square root
POLES = ("sin", "cos", "gelu", "silu")
CORE_WITH_DENSITY = each(case for case in cases() if case.density and case.name not in LIGHT)
# the first law of each class, of images one with an atom
FIRST = {type(case.law): case for case in reversed(cases()) if case.density}
FIRST[Pushforward] = next(case for case in cases() if case.name == "relu")
ONE_OF_EACH = pytest.mark.parametrize("case", list(FIRST.values()), ids=str)
LEVELS = np.array([1e-9, 1e-3, 0.02, 0.15, 0.33, 0.5, 0.71, 0.9, 0.99, 0.9995, 1 - 1e-9])


def tolerance(case: Case) -> float:
    return 1e-6 if case.name in POLES else 1e-9


@WITH_DENSITY
def test_density_and_atoms_have_mass_one(case):
    """∫ pdf + Σ masses = 1."""
    total = integral(case, np.ones_like) + float(case.law.atoms().masses.sum())
    assert total == pytest.approx(1, abs=tolerance(case))


@CORE_WITH_DENSITY
def test_cdf_is_the_integral(case):
    """cdf(b) − cdf(a) = ∫ pdf + the atoms between."""
    a, b = (float(x) + 1e-3 for x in case.law.ppf(np.array([0.2, 0.8])))
    points, masses = case.law.atoms()
    between = float(masses[(points > a) & (points <= b)].sum())
    increase = float(case.law.cdf(b) - case.law.cdf(a))
    assert integral(case, np.ones_like, a, b) + between == pytest.approx(
        increase, abs=tolerance(case)
    )


@WITH_DENSITY
def test_logpdf(case):
    """logpdf is the logarithm, also far out."""
    x = np.asarray(case.law.ppf(LEVELS))
    np.testing.assert_allclose(np.exp(case.law.logpdf(x)), case.law.pdf(x), rtol=1e-11)


@ALL
def test_quantiles(case):
    """ppf(q) is the smallest x with cdf(x) ≥ q; the ends are those of the support."""
    x = case.law.ppf(LEVELS)
    near_pole = 2e-7 if case.name in POLES else 0.0
    slack = 1e-12 + 1e-9 * np.minimum(LEVELS, 1 - LEVELS) + near_pole
    assert (np.asarray(case.law.cdf(x)) >= LEVELS - slack).all()
    points, _ = case.law.atoms()
    smooth = ~np.isin(np.asarray(x), np.asarray(points))
    np.testing.assert_allclose(
        case.law.cdf(x)[smooth], LEVELS[smooth], rtol=1e-9, atol=1e-13 + near_pole
    )
    assert (np.diff(x) >= 0).all()
    assert case.law.ppf(0.0) <= x[0]
    assert case.law.ppf(1.0) >= x[-1]
    assert np.isnan(case.law.ppf(np.nan))


@ALL
def test_tails_are_complementary(case):
    """cdf + sf = 1, and both lie in [0, 1]."""
    x = np.asarray(case.law.ppf(LEVELS))
    F, S = np.asarray(case.law.cdf(x)), np.asarray(case.law.sf(x))
    np.testing.assert_allclose(F + S, 1, rtol=4e-15)
    assert ((F >= 0) & (F <= 1) & (S >= 0) & (S <= 1)).all()


@ALL
def test_samples_follow(case):
    """Kolmogorov–Smirnov at 5 σ: P(√n D > 2.7) is 1e-6."""
    n = 5_000
    y = np.sort(np.asarray(case.law.sample(7, (n,))))
    points, index = np.unique(y, return_index=True)
    F = np.asarray(case.law.cdf(points))
    after = np.append(index[1:], n) / n
    left = np.asarray(case.law.cdf(points - 1e-13 * (1 + np.abs(points))))
    assert np.sqrt(n) * np.abs(F - after).max() < 2.7
    assert np.sqrt(n) * np.abs(left - index / n).max() < 2.7


@CORE_WITH_DENSITY
def test_moments(case):
    """mean, variance, kurtosis, moment(k), cf and expect are integrals against
    density and atoms.
    """
    law = case.law
    points, masses = (np.asarray(part) for part in law.atoms())

    def reference(psi):
        return integral(case, psi) + (masses * np.asarray(psi(points))).sum()

    rtol = 1e-6 if case.name in POLES else 1e-8
    mean = reference(lambda y: y)
    variance = reference(lambda y: (y - mean) ** 2)
    close = lambda value, expected: np.testing.assert_allclose(
        value, expected, rtol=rtol, atol=rtol
    )
    close(law.mean(), mean)
    close(law.variance(), variance)
    close(law.covariance(), variance)
    close(law.kurtosis(), reference(lambda y: (y - mean) ** 4) / variance**2 - 3)
    for k in (3,) if isinstance(law, Pushforward) else (0, 1, 2, 3, 6):
        close(law.moment(k), reference(lambda y, k=k: y**k))
    close(law.cf(np.array([0.0, 1.5])), [1, reference(lambda y: np.exp(1.5j * y))])
    close(law.expect(lambda y: jnp.cos(y - 1)), reference(lambda y: np.cos(y - 1)))


def _reference(case, psi, beyond):
    """E ψ(Y) by density and atoms."""
    points, masses = (np.asarray(part) for part in case.law.atoms())
    return integral(case, psi, beyond=beyond) + (masses * np.asarray(psi(points))).sum()


@ONE_OF_EACH
def test_moments_under_other_names(case):
    """std, skewness and a high moment are integrals, too; no stated error is less than the
    actual one.
    """
    law = case.law
    mean = _reference(case, lambda y: y, 1e-15)
    central = lambda k: _reference(case, lambda y: (y - mean) ** k, 1e-30)
    for name, expected, *args in (
        ("mean", mean),
        ("variance", central(2)),
        ("std", np.sqrt(central(2))),
        ("skewness", central(3) / central(2) ** 1.5),
        ("kurtosis", central(4) / central(2) ** 2 - 3),
        ("moment", _reference(case, lambda y: y**12, 1e-60), 12),
    ):
        found = np.asarray(getattr(law, name)(*args))
        stated = np.asarray(getattr(law.error, name)(*args))
        assert stated.shape == found.shape, name
        assert stated >= 0, name
        # that of draws is one of the law that they were drawn from, not of these draws
        allowed = 1e-8 * (1 + np.abs(expected)) + (0 if law.kind == "sampled" else stated)
        assert np.abs(found - expected) <= allowed, (name, found, expected, stated)


@ONE_OF_EACH
def test_quantiles_under_other_names(case):
    """isf, the interval and logarithms of tails, also where those underflow."""
    law = case.law
    x = np.asarray(law.isf(LEVELS))
    smooth = ~np.isin(x, np.asarray(law.atoms().points))
    np.testing.assert_allclose(law.sf(x)[smooth], LEVELS[smooth], rtol=1e-9, atol=1e-13)
    c = np.array([0.5, 0.9])
    for end, level in zip(law.interval(c), ((1 - c) / 2, (1 + c) / 2), strict=True):
        np.testing.assert_allclose(end, law.ppf(level), rtol=1e-9, atol=1e-12)
    x = np.asarray(law.ppf(LEVELS))
    np.testing.assert_allclose(np.exp(law.logcdf(x)), law.cdf(x), rtol=1e-11)
    np.testing.assert_allclose(np.exp(law.logsf(x)), law.sf(x), rtol=1e-11)
    for name in ("pdf", "logpdf", "cdf", "sf", "logcdf", "logsf", "ppf", "isf"):
        errors = np.asarray(getattr(law.error, name)(LEVELS if name in ("ppf", "isf") else x))
        assert errors.shape == x.shape, name
        assert (errors >= 0).all(), name
    for far, tail, side in ((law.isf(1e-300), "logsf", 1), (law.ppf(1e-300), "logcdf", -1)):
        if np.isfinite(law.ppf(0.5 + 0.5 * side)):  # the law ends there
            continue
        far = 3 * float(far)
        # ln P = ln ∫_0^∞ pdf(x ± t) dt, t = e^u on the scale of 1/(ln pdf)′
        t = np.exp(np.linspace(-40.0, 5.0, 512)) * np.abs(far / float(law.logpdf(far)))
        log = np.asarray(law.logpdf(far + side * t)) + np.log(t)
        step = np.log(t[1] / t[0])
        expected = log.max() + np.log(np.exp(log - log.max()).sum() * step)
        stated = float(getattr(law.error, tail)(far) + law.error.logpdf(far))
        assert np.abs(getattr(law, tail)(far) - expected) <= 1e-8 * np.abs(expected) + stated, tail


# of kinds that the harness does not run over, where they are compared with a reference
ELSEWHERE = {
    "Averaged": "what mixtures and draws have in common",
    "OfDraws": "what laws of draws have in common",
    "Grouped": "what laws of draws in groups have in common",
    "Combination": "test_laws.py",
    "ScipyLaw": "test_laws.py",
    "RandomKernel": "engines/test_limit_api.py",
    "Tokens": "test_saved.py",
}


def test_every_law_has_a_case():
    """A law that is added is held against itself here, or it is said where."""
    known = {name for name, law in Law.known.items() if law.__module__.startswith("limitlaw.")}
    assert known == {type(case.law).__name__ for case in cases()} | set(ELSEWHERE)


@each(
    case
    for case in cases()
    if case.density and case.name not in LIGHT and not case.law.atoms().masses.size
)
def test_entropy(case):
    """−∫ p log p."""
    law = case.law
    expected = integral(case, lambda y: -np.nan_to_num(law.logpdf(y), neginf=0, posinf=0))
    assert law.entropy() == pytest.approx(expected, abs=1e-5 if case.name in POLES else 2e-8)


@CORE
def test_save_and_load(case, tmp_path):
    """Bit for bit."""
    case.law.save(tmp_path / "law")
    again = load(tmp_path / "law")
    assert type(again) is type(case.law)
    assert repr(again) == repr(case.law)
    x = np.linspace(-2, 2, 8)
    np.testing.assert_array_equal(again.cdf(x), case.law.cdf(x))
    np.testing.assert_array_equal(again.error.variance(), case.law.error.variance())
    np.testing.assert_array_equal(again.sample(3, (5,)), case.law.sample(3, (5,)))


@CORE
def test_shapes(case):
    """As SciPy: what goes in comes out, scalars and empty arrays too."""
    for shape in [(0,), (2, 3)]:
        for method in ("cdf", "sf") + (("pdf", "logpdf") if case.density else ()):
            assert getattr(case.law, method)(np.full(shape, 0.25)).shape == shape
        assert case.law.ppf(np.full(shape, 0.25)).shape == shape
        assert case.law.sample(0, shape).shape == shape
    assert case.law.error.ppf(0.3).shape == ()
