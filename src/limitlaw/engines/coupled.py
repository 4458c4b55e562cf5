"""Width n and n = ∞ from the same normals, for differences of laws far below the noise of independent draws.

At width n the variance of an output given all but its last matrix is a function v(z, ζ) of normals: z are those that
still matter as n → ∞ (scores, and whatever lives in a fixed dimension), ζ those that do not, whose effect is of order
n^{-1/2} (Bartlett factors, and lengths χ_D = F_D^{-1}(Φ(ζ))). As ζ and −ζ have the same law,

    ½ (f(v_n(z, ζ)) + f(v_n(z, −ζ))) − f(v_∞(z))

has mean E f(v_n) − E f(v_∞); it is of order 1/n, and so is its noise: relative errors do not grow with n.
"""

import functools
import math
import threading
from collections.abc import Callable
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Array, Bool, Float

from limitlaw.arguments import positive_int, require_float64
from limitlaw.engines.conditional import Draw
from limitlaw.engines.demand import demanded
from limitlaw.engines.observed import observed
from limitlaw.engines.plan import Plan
from limitlaw.numerics.chi_quantiles import chi_quantile
from limitlaw.numerics.quasi import Points, Quasi
from limitlaw.program.values import Wide

FAR = 2**50  # a width at which ζ has an effect of 3e-8: with ζ = 0 it is infinite
MATTERS = 1e-4  # relative change of v at that width
PROBES = 4  # points at which that is tried
BATCH, HELD = 4096, 2**19  # draws computed together, and numbers they hold


class CoupledVariances(NamedTuple):
    """v_n(z, ζ), v_n(z, −ζ) and v_∞(z) for the same draws of z and ζ."""

    plus: Float[np.ndarray, " draws"]
    minus: Float[np.ndarray, " draws"]
    limit: Float[np.ndarray, " draws"]


class Coupled:
    """One output number y, Gaussian with mean 0 given its conditions, at any width n and in the limit.

    Fixed dimensions stay what they are, so that the limit is the one at fixed head dimension where there is one.
    Safe to use from several threads, which share what is compiled.
    """

    def __init__(self, y: Wide) -> None:
        require_float64("Coupled")
        if not isinstance(y, Wide) or y.shape:
            raise TypeError("Coupled needs one output number, as y[0] of several tokens")
        self._plan = Plan(demanded((y,)))
        self._lock = threading.Lock()
        self._programs: dict[int, _Program] = {}

    def variances(self, width: int, draws: int, seed: int) -> CoupledVariances:
        """v_n and v_∞ at scrambled Sobol points: different seeds give independent scramblings."""
        if any(isinstance(v, Wide) and self._plan.component(v).points for v in self._plan.values):
            raise ValueError("variances needs a program without nonlinearities: n coordinates have no mirror image")
        near, far = self._at(width), self._at(FAR)
        if len(near.df) != len(far.df):
            raise ValueError(f"variances needs width ≥ the number of vectors in the program, got {width}")
        points = Points([math.inf] * len(near.df), seed)
        return CoupledVariances(*_batched(lambda count: self._coupled(near, far, points.take(count)), near, draws))

    def finite(self, width: int, draws: int, seed: int) -> Float[np.ndarray, " draws"]:
        """v_n for independent draws."""
        near, rng = self._at(width), np.random.default_rng(seed)
        shape = len(near.df)
        (v,) = _batched(lambda count: (near.variances(near.numbers(rng.standard_normal((count, shape)))),), near, draws)
        return v

    def _coupled(self, near: "_Program", far: "_Program", z: Float[np.ndarray, "draws r"]) -> CoupledVariances:
        mirrored = np.where(self.stays, z, -z)
        return CoupledVariances(
            near.variances(near.numbers(z)),
            near.variances(near.numbers(mirrored)),
            far.variances(far.numbers(z, self.stays)),
        )

    def _at(self, width: int) -> "_Program":
        with self._lock:
            if width not in self._programs:
                self._programs[width] = _Program(self._plan, positive_int("width", width))
            return self._programs[width]

    @functools.cached_property
    def stays(self) -> Bool[np.ndarray, " r"]:
        """Which normals are of z: those whose change is felt far out, and lengths in fixed dimensions."""
        far = self._at(FAR)
        r = len(far.df)
        z = np.random.default_rng(0).standard_normal((PROBES, 1, r))
        moved = np.concatenate([z, z + np.eye(r)], axis=1).reshape(-1, r)
        wanted = np.isinf(far.df) | (far.df < FAR // 2)
        v = far.variances(far.numbers(moved, wanted)).reshape(PROBES, 1 + r)
        return np.abs(v[:, 1:] / v[:, :1] - 1).max(axis=0) > MATTERS


class _Program:
    """v at one width as a function of the numbers of a draw, compiled for batches of one size."""

    def __init__(self, plan: Plan, width: int) -> None:
        self._plan, self._width = plan, width
        source = Quasi(jax.random.key(0), most=math.inf)
        jax.eval_shape(lambda: self._variance(source))
        self.df = np.asarray(source.recipe)
        self.centre = np.where(np.isinf(self.df), 0.0, np.sqrt(self.df))
        self.batch = max(1, min(BATCH, HELD // len(self.df)))
        self._compiled = jax.jit(jax.vmap(lambda row: self._variance(Quasi(jax.random.key(0), row, most=math.inf))))
        self._first, self._ready = threading.Lock(), False

    def _variance(self, source: Quasi) -> Float[Array, ""]:
        draw = Draw(self._plan, lambda dim: dim.at(self._width), source)
        _, covariance = observed(draw, self._plan.outputs, 1)
        return covariance[0, 0]

    def numbers(
        self, z: Float[np.ndarray, "draws r"], wanted: Bool[np.ndarray, " r"] | None = None
    ) -> Float[np.ndarray, "draws r"]:
        """Normals, and lengths made of normals; those that are not wanted are at their centre."""
        values = z.copy()
        if wanted is not None:
            values[:, ~wanted] = self.centre[~wanted]
        for j in np.flatnonzero(np.isfinite(self.df)):
            if wanted is None or wanted[j]:
                values[:, j] = chi_quantile(self.df[j], z[:, j])
        return values

    def variances(self, rows: Float[np.ndarray, "draws r"]) -> Float[np.ndarray, " draws"]:
        """v for each row, in batches of one size, the last one padded: compiled once."""
        found = np.empty(len(rows))
        for start in range(0, len(rows), self.batch):
            part = rows[start : start + self.batch]
            missing = self.batch - len(part)
            padded = np.pad(part, ((0, missing), (0, 0)), mode="edge") if missing else part
            found[start : start + self.batch] = np.asarray(self._call(padded))[: len(part)]
        return found

    def _call(self, rows: Float[np.ndarray, "batch r"]) -> Float[Array, " batch"]:
        """One batch; threads that come while the first one compiles wait for it."""
        if self._ready:
            return self._compiled(rows)
        with self._first:
            found = self._compiled(rows)
            self._ready = True
        return found


def _batched(
    draw: Callable[[int], tuple[Float[np.ndarray, " count"], ...]], program: _Program, draws: int
) -> list[Float[np.ndarray, " draws"]]:
    """`draws` draws from batches of one size."""
    parts = [draw(program.batch) for _ in range(0, draws, program.batch)]
    return [np.concatenate(part)[:draws] for part in zip(*parts, strict=True)]
