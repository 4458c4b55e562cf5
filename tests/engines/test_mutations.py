"""Deliberate mistakes in the core, each of which the comparison with the definition
must notice.
"""

import dataclasses
import functools
import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from eager import defined, exact

import limitlaw as ll
from limitlaw.engines.frames import fresh_scores, ledger, spaces
from limitlaw.engines.frames.fresh import Dimension, Fresh
from limitlaw.numerics import factors, gaussian_vectors
from statistics_of_samples import disagreement

DRAWS = 4000
CORRELATED = np.array([[1.0, 0.8], [0.8, 1.0]])
Patch = pytest.MonkeyPatch


# --- Small programs ------------------------------------------------------------------------------


def twice() -> ll.Wide:
    """One matrix, two vectors, one after the other."""
    x, W = ll.initial((2,), cov=CORRELATED), ll.Matrix()
    return ll.stack([W @ x[0], W @ x[1]])


def powers() -> ll.Wide:
    """W⁴h and W²h: at small width the powers soon span everything."""
    W, h = ll.Matrix(), ll.initial()
    two = W @ (W @ h)
    return ll.stack([two, W @ (W @ two)])


def two_layers() -> ll.Wide:
    return ll.Matrix() @ (ll.Matrix() @ ll.initial())


def scores_of_two() -> ll.Scalars:
    x = ll.initial((2,), cov=CORRELATED)
    return ll.dot(ll.Matrix() @ x, ll.Matrix() @ x)


def length_of_a_residual() -> ll.Scalars:
    r = residual()
    return ll.average(r * r)


def residual() -> ll.Wide:
    x = ll.initial()
    return x + ll.Matrix() @ x


def heads() -> ll.Wide:
    return ll.matrices(2) @ ll.initial()


def centred() -> ll.Wide:
    h = ll.initial()
    return h - ll.average(h)


# --- Mistakes ------------------------------------------------------------------------------------


def regression_scaled(patch: Patch, factor: float) -> None:
    right = ledger.extended

    def wrong(x, basis, *rest):
        B, L, Q = right(x, basis, *rest)
        return factor * B, L, Q

    patch.setattr(ledger, "extended", wrong)


def degrees_changed(patch: Patch, change: Callable[[np.ndarray], np.ndarray]) -> None:
    right = gaussian_vectors.chi
    patch.setattr(
        gaussian_vectors,
        "chi",
        lambda key, df, *rest, **more: right(key, change(np.asarray(df)), *rest, **more),
    )


def of_size(D: Dimension, size: float) -> Dimension:
    return dataclasses.replace(D, size=size)


def cross_terms_forgotten(patch: Patch) -> None:
    patch.setattr(spaces, "projections", lambda key, shape, *rest: jnp.zeros(shape))


def lengths_forgotten(patch: Patch) -> None:
    right = fresh_scores.bartlett_units
    patch.setattr(
        fresh_scores,
        "bartlett_units",
        lambda key, m, D, *rest: right(key, m, of_size(D, math.inf), *rest),
    )


def residual_kept(patch: Patch) -> None:
    """What rounding leaves of a spanned vector becomes a new direction."""

    def wrong(v, exists, square):
        length = jnp.sqrt(jnp.where(square > 0, square, 1.0))
        return jnp.where(square > 0, length, 0.0), v / length

    patch.setattr(factors, "_normalise", wrong)
    by_rows = factors.orthonormalise.__wrapped__
    patch.setattr(ledger, "extended", jax.vmap(lambda x, Q: by_rows(x, Q)))


def residual_fresh(patch: Patch) -> None:
    """A spanned vector has a fresh part all the same."""
    right = ledger.extended

    def wrong(x, basis, *rest):
        B, L, Q = right(x, basis, *rest)
        missing = jnp.where(jnp.diagonal(L, axis1=-2, axis2=-1) == 0, 0.5, 0.0)
        return B, L + missing[..., None] * jnp.eye(L.shape[-1]), Q

    patch.setattr(ledger, "extended", wrong)


def roots_shared(patch: Patch) -> None:
    patch.setattr(Fresh, "own_axes", property(lambda self: ()))


def observed_forgotten(patch: Patch) -> None:
    right = spaces.Frame.coordinates
    patch.setattr(spaces.Frame, "coordinates", lambda self, w: 0.0 * right(self, w))


def one_orthogonal(patch: Patch) -> None:
    right = spaces._reserved
    patch.setattr(spaces, "_reserved", lambda D, *rest: right(of_size(D, 10**12), *rest))


regression_dropped = functools.partial(regression_scaled, factor=0.0)
regression_shrunk = functools.partial(regression_scaled, factor=0.8)
one_degree_less = functools.partial(degrees_changed, change=lambda df: np.maximum(df - 1, 1))
equal_degrees = functools.partial(degrees_changed, change=lambda df: 0 * df + df.flat[0])

MISTAKES = {
    "regression dropped": (regression_dropped, twice, 4),
    "regression shrunk": (regression_shrunk, twice, 4),
    "D − 1 degrees of freedom": (one_degree_less, two_layers, 2),
    "D degrees on every axis": (equal_degrees, scores_of_two, 2),
    "cross terms forgotten": (cross_terms_forgotten, length_of_a_residual, 4),
    "scores without lengths": (lengths_forgotten, scores_of_two, 2),
    "rank exhausted, rounding kept": (residual_kept, powers, 2),
    "rank exhausted, still fresh": (residual_fresh, powers, 2),
    "roots shared between heads": (roots_shared, heads, 2),
    "mean of the observed coordinate": (observed_forgotten, residual, 2),
    "**1** orthogonal to e_α": (one_orthogonal, centred, 2),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_are_noticed(name: str, monkeypatch: Patch) -> None:
    """The comparison passes as things are, and fails with the mistake."""
    mistake, program, width = MISTAKES[name]
    y = program()
    truth = defined(y, width, DRAWS, 1)
    assert disagreement(truth, exact(y, width, 2 * DRAWS, 2)) < 1
    mistake(monkeypatch)
    assert disagreement(truth, exact(y, width, 2 * DRAWS, 2)) > 1.2
