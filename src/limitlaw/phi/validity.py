"""Does a nonlinearity do what it says of itself? Each fact against φ itself, in numbers."""

import itertools
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from limitlaw.arguments import shown
from limitlaw.float64 import in_float64
from limitlaw.numerics import HostReals, Reals
from limitlaw.numerics.kinks import CannotLook, Sampled, measured
from limitlaw.numerics.pieces import INNER, PIECE_DEGREE, Pieces, pieces
from limitlaw.phi import moments
from limitlaw.phi.branches import Branch
from limitlaw.phi.catalogue import rebuild
from limitlaw.phi.nonlinearity import Centre, Nonlinearity, PairMoment, looked_at

LINE = np.concatenate([-np.geomspace(1e3, 1e-3, 400), np.geomspace(1e-3, 1e3, 401)])
AGREED = 1e-10  # relative to √E φ²: to which moments must agree, errors apart
MEANS_ASKED = np.array([-2.0, -0.3, 0.0, 0.7, 3.0])[:, None]
VARIANCES_ASKED = np.array([0.01, 1.0, 9.0])
COVARIANCES_ASKED = np.array([[1, 0.6, 2], [0.5, -0.3, 0.2], [0.3, 0, 2], [1, 1, 1], [1, -1, 1]]).T


@in_float64
def validate(phi: Nonlinearity) -> None:
    """Raise a ValueError that names every fact which a nonlinearity of one number says of itself,
    and which its function, evaluated and integrated, contradicts. Facts that are None, and moments
    that answer None, are not asked about.
    """
    if not isinstance(phi, Nonlinearity):
        raise TypeError(f"phi must be a Nonlinearity, got {shown(phi)}")
    try:
        wrong = list(_wrong(phi))
    except CannotLook as error:
        raise ValueError(
            f"{phi.name}: its function must take one array of float64, and act on each number by "
            "itself"
        ) from error
    if wrong:
        raise ValueError(f"{phi.name}: {'; '.join(wrong)}")


def _wrong(phi: Nonlinearity) -> Iterator[str]:
    """What is wrong with a nonlinearity."""
    f = Sampled(phi.function)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if not np.array_equal(f(LINE)[::-1], f(LINE[::-1]), equal_nan=True):
            raise CannotLook
        found = pieces(phi.function)
        yield from _of_values(phi, f)
        yield from _of_smoothness(phi, f, found)
        yield from _of_branches(phi, f)
        yield from _of_moments(phi)
    if phi.saved is not None and not _is_found(phi):
        yield f"saved: the catalogue does not find it by {phi.saved}"


# --- values --------------------------------------------------------------------------------------


def _of_values(phi: Nonlinearity, f: Sampled) -> Iterator[str]:
    """`linear`, `bounded`, `oscillates`, and growth."""
    y = f(LINE)
    if phi.linear != np.allclose(y, LINE, rtol=1e-14, atol=0):
        yield f"linear: it is said to be {phi.linear}"
    far = np.geomspace(1e3, 1e50, 200)
    ratio = np.nanmax(np.abs(f(np.append(-far, far)))) / np.nanmax(np.abs(y))
    if phi.bounded and ratio > 1.5:
        yield f"bounded: |φ| is {ratio:.1g} times larger behind |x| = 1000 than before"
    if phi.bounded is False and ratio < 1.01:
        yield "bounded: said to be False, and |φ| does not grow behind |x| = 1000"
    turns = min(_turns(f, side * start) for side in (-1, 1) for start in (1e2, 1e4))
    if phi.oscillates != (turns > 0):
        yield f"oscillates: φ turns {turns} times on a length of 20 far out"
    if phi.pseudo_lipschitz and not np.isfinite(f(np.array([-1e8, 1e8]))).all():
        yield "pseudo_lipschitz: φ grows faster than a polynomial"
    if phi.pseudo_lipschitz:
        places = np.array([0.0, *(kink.at for kink in phi.kinks or ())])
        step = 2.0 ** -np.array([[20.0], [40.0]])
        sides = np.abs(np.stack([f(places + step), f(places - step)]) - f(places)) / step
        coarse, fine = np.max(sides, axis=0)
        if (fine > 100 * coarse + 1e-6).any():
            at = places[np.argmax(fine - 100 * coarse)]
            yield f"pseudo_lipschitz: φ is not Lipschitz at {at:g}"


def _turns(f: Sampled, start: float) -> int:
    """How often φ changes direction on a length of 20, beyond rounding."""
    y = f(start + np.linspace(0.0, 20.0, 4000))
    steps = np.diff(y[np.isfinite(y)])
    steps = steps[np.abs(steps) > 1e-9 * np.max(np.abs(steps), initial=0)]
    large = np.ptp(y) > 1e-9 * np.max(np.abs(y))
    return int(np.sum(steps[1:] * steps[:-1] < 0)) if large else 0


# --- smoothness ----------------------------------------------------------------------------------


def _of_smoothness(phi: Nonlinearity, f: Sampled, found: Pieces | None) -> Iterator[str]:
    """`kinks`, `cuts` and `log_slope`."""
    declared = np.array([kink.at for kink in phi.kinks or ()])
    if phi.kinks is not None and found is not None:
        for kink in found.kinks:
            distance = np.min(np.abs(declared - kink.at), initial=np.inf)
            if abs(kink.at) < INNER and distance > 1e-9 * max(1.0, abs(kink.at)):
                yield f"kinks: φ is not smooth at {kink.at:g}"
    there = {kink.at: kink for kink in measured(f, declared)}
    for kink in phi.kinks or ():
        seen = there[kink.at]
        for name, said, is_ in (
            ("jump", kink.jump, seen.jump),
            ("slope_jump", kink.slope_jump, seen.slope_jump),
        ):
            if np.isfinite(is_) and abs(said - is_) > 1e-6 * max(1.0, abs(is_)):
                yield f"kinks: {name} at {kink.at:g} is {is_:g}, and is said to be {said:g}"
    if phi.cuts is not None:
        yield from _of_cuts(f, sorted({*phi.cuts, *declared.tolist()}))
    if phi.log_slope is not None:
        x = LINE[np.min(np.abs(LINE - declared[:, None]), axis=0, initial=1.0) > 1e-6]
        slopes = np.abs(f(x, 1))
        steep = slopes > 1e-6 * np.max(slopes)  # where differentiating does not cancel
        x, slopes = x[steep], slopes[steep]
        off = np.abs(np.asarray(phi.log_slope(jnp.asarray(x))) - np.log(slopes))
        if not (off < 1e-8 * (1 + np.abs(np.log(slopes)))).all():
            yield f"log_slope: at {x[np.argmax(off)]:g} it is not log |φ'|"


def _of_cuts(f: Sampled, cuts: list[float]) -> Iterator[str]:
    """Is φ a polynomial between cuts?"""
    for lo, hi in itertools.pairwise(cuts):
        x = (lo + hi) / 2 + (hi - lo) / 2 * np.cos(np.linspace(0.01, np.pi - 0.01, 200))
        y = f(x)
        fit = np.polynomial.Chebyshev.fit(x, y, PIECE_DEGREE, domain=[lo, hi])
        if np.max(np.abs(fit(x) - y)) > 1e-9 * np.max(np.abs(y)):
            yield f"cuts: φ is no polynomial between {lo:g} and {hi:g}"


def _of_branches(phi: Nonlinearity, f: Sampled) -> Iterator[str]:
    """Are the `branches` those of φ on (−8, 8)?"""
    found = None if phi.branches is None else phi.branches(-8.0, 8.0)
    if found is None:
        return
    ordered = sorted(found, key=lambda branch: float(branch.lo))
    ends = [(a.hi, b.lo) for a, b in itertools.pairwise(ordered)]
    if not np.allclose([a for a, _ in ends], [b for _, b in ends]) or (
        ordered[0].lo > -8 or ordered[-1].hi < 8
    ):
        yield "branches: they do not cover (−8, 8)"
    for branch in ordered:
        lo, hi = max(branch.lo, -8.0), min(branch.hi, 8.0)
        wrong = _of_branch(branch, f, lo + (hi - lo) * np.linspace(1e-3, 1 - 1e-3, 99))
        if wrong:
            yield f"branches: that from {branch.lo:g} to {branch.hi:g} {wrong}"


def _of_branch(branch: Branch, f: Sampled, x: HostReals) -> str:
    """What is wrong with a branch, seen at points of it."""
    y = f(x)
    slack = 1e-9 * (1 + np.abs(y))
    if (y < branch.bottom - slack).any() or (y > branch.top + slack).any():
        return f"leaves [{branch.bottom:g}, {branch.top:g}]"
    if branch.inverse is None:
        return "" if np.ptp(y) <= slack.min() else "has no inverse, and is not flat"
    steps = np.diff(y) if branch.rising else -np.diff(y)
    if (steps < -slack[1:]).any():
        return f"does not {'rise' if branch.rising else 'fall'}"
    low, high = np.minimum(y[1:], y[:-1]), np.maximum(y[1:], y[:-1])
    if ((steps <= 0) & (low > branch.bottom + slack[1:]) & (high < branch.top - slack[1:])).any():
        return "has an inverse, and is flat in part"
    back = f(np.asarray(branch.solve(jnp.asarray(y))))
    return "" if (np.abs(back - y) <= slack).all() else "has an inverse that is not its own"


# --- moments -------------------------------------------------------------------------------------


def _of_moments(phi: Nonlinearity) -> Iterator[str]:
    """`accuracy`, and the closed forms `mean`, `product` and `products`."""
    if phi.accuracy is not None and not phi.accuracy >= 0:
        yield f"accuracy: it must not be negative, got {phi.accuracy:g}"
        return
    bare = _bare(phi)
    if phi.mean is not None:
        yield from _of_mean(phi, bare)
    forms = [(f"product with {psi.name}", psi, form) for psi, form in phi.products]
    if phi.product is not None:
        forms.append(("product", phi, phi.product))
    for name, psi, form in forms:
        for means in ((None, None), (0.4, -0.7)):
            yield from _of_product(name, phi, psi, form, means, (bare, _bare(psi)))


def _bare(phi: Nonlinearity) -> Nonlinearity:
    """The same function, whose moments are quadratures."""
    if phi.kinks is None:
        return looked_at(lambda x: phi.function(x))
    facts = {"kinks": phi.kinks, "cuts": phi.cuts, "oscillates": phi.oscillates}
    return Nonlinearity(phi.name, phi.function, None, None, **facts)  # type: ignore[arg-type]


def _of_mean(phi: Nonlinearity, bare: Nonlinearity) -> Iterator[str]:
    """E φ(u) and E φ'(u)."""
    m, k = np.broadcast_arrays(MEANS_ASKED, VARIANCES_ASKED)
    if (
        phi.mean is None
        or np.shape(phi.mean(jnp.asarray(MEANS_ASKED), jnp.asarray(VARIANCES_ASKED))) != k.shape
    ):
        yield "mean: it must act on each number of arrays that broadcast"
        return
    size = _size(bare, m, k)
    for name, moment, scale in (
        ("mean", moments.mean_with_error, size),
        ("mean, differentiated in m,", moments.slope_with_error, size / np.sqrt(k)),
    ):
        found, known = moment(phi, MEANS_ASKED, VARIANCES_ASKED), moment(bare, m, k)
        yield from _compared(name, found, known, scale, [m, k])
    smooth = MEANS_ASKED[~np.isin(MEANS_ASKED, [kink.at for kink in phi.kinks or ()])]
    value, error = (np.asarray(x) for x in moments.mean_with_error(phi, smooth, 0.0))
    expected = np.asarray(phi(smooth))
    if (np.abs(value - expected) > 10 * error + AGREED * (1 + np.abs(expected))).any():
        yield "mean: with no variance it is not φ(m)"
    if np.isnan(np.asarray(moments.slope(phi, MEANS_ASKED, 0.0))).any():
        yield "mean: differentiated in m it is NaN where there is no variance"


def _of_product(
    name: str,
    phi: Nonlinearity,
    psi: Nonlinearity,
    form: PairMoment,
    means: tuple[float | None, float | None],
    bare: tuple[Nonlinearity, Nonlinearity],
) -> Iterator[str]:
    """E φ(u)ψ(v), and its derivative in K_uv."""
    m_u, m_v = (None if m is None else jnp.asarray(m) for m in means)
    K_uu, K_uv, K_vv = (jnp.asarray(K) for K in COVARIANCES_ASKED)
    given = form(m_u, m_v, K_uu, K_uv, K_vv)
    if given is None:
        return
    known = moments.product_with_error(*bare, m_u, m_v, K_uu, K_uv, K_vv)
    accuracy = (phi.accuracy or 0.0) + (psi.accuracy or 0.0)
    where = [*(np.full(len(K_uv), np.nan if m is None else m) for m in means), *COVARIANCES_ASKED]
    scale = _size(bare[0], _or_zero(m_u), K_uu) * _size(bare[1], _or_zero(m_v), K_vv)
    yield from _compared(name, (given, accuracy * jnp.abs(given)), known, scale, where)

    def slope(moment: Callable[..., Any], K: Reals) -> HostReals:
        return np.asarray(jax.jvp(moment, (K,), (jnp.ones_like(K),))[1])

    own = slope(lambda K: form(m_u, m_v, K_uu, K, K_vv), K_uv)
    if np.isnan(own).any():
        yield f"{name}: differentiated in K_uv it is NaN"
    apart = COVARIANCES_ASKED[1] ** 2 < COVARIANCES_ASKED[0] * COVARIANCES_ASKED[2]
    theirs = slope(lambda K: moments.product(*bare, m_u, m_v, K_uu, K, K_vv), K_uv)
    off = np.abs(own - theirs) / (
        np.abs(theirs) + scale / np.sqrt(COVARIANCES_ASKED[0] * COVARIANCES_ASKED[2])
    )
    if (off > 1e-6 + 100 * accuracy)[apart].any():
        yield f"{name}: differentiated in K_uv it is not E φ'(u)ψ'(v)"


def _or_zero(m: Centre) -> Reals:
    return jnp.zeros(()) if m is None else m


def _size(bare: Nonlinearity, m: Reals | HostReals, k: Reals | HostReals) -> HostReals:
    """√E φ(u)²."""
    return np.sqrt(np.abs(np.asarray(moments.product(bare, bare, m, m, k, k, k))))


def _compared(
    name: str,
    found: tuple[Any, Any],
    known: tuple[Any, Any],
    scale: HostReals,
    arguments: Iterable[HostReals],
) -> Iterator[str]:
    """A closed form beside a quadrature, each with its error."""
    value, error, truth, doubt = (np.asarray(x) for x in (*found, *known))
    off = np.abs(value - truth)
    bad = ~(off <= 10 * error + 10 * doubt + AGREED * scale)
    if bad.any():
        i = tuple(np.argwhere(bad)[0])
        at = ", ".join("None" if np.isnan(a[i]) else f"{a[i]:g}" for a in arguments)
        yield f"{name}: at ({at}) it is {value[i]:.12g}, and by quadrature {truth[i]:.12g}"


def _is_found(phi: Nonlinearity) -> bool:
    """Is it what the catalogue makes of its field `saved`?"""
    assert phi.saved is not None
    try:
        return rebuild(*phi.saved) == phi
    except KeyError:
        return False
