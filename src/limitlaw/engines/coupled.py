"""Width n and n = ∞ from the same normals, for differences of laws far below the noise of
independent draws.

At width n the variance of an output given all but its last matrix is a function v of normals z,
which still matter as n → ∞ (scores, and whatever lives in a fixed dimension), and of numbers that
enter over √n: normals ζ and lengths χ_D = F_D^{-1}(Φ(ζ)) (theory of frames; Bartlett factors). As
ζ and −ζ have the same law,

    ½ (f(v_n(z, ζ)) + f(v_n(z, −ζ))) − f(v_∞(z)),    v_∞(z): ζ = 0, χ_D = √D

has mean E f(v_n) − E f(v_∞); it is of order 1/n, and so is its noise:
relative errors do not grow with n.
"""

import functools
import math
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Array, Bool, Float

from limitlaw.arguments import positive_int
from limitlaw.core.analysis import Analysis
from limitlaw.core.program import Output, Written, without_numbers
from limitlaw.engines import engine
from limitlaw.engines.compiled import Compiled
from limitlaw.engines.engine import PROGRAMS
from limitlaw.engines.frames.finite import demanded_outputs, one_draw
from limitlaw.engines.frames.statistics import Conditions
from limitlaw.float64 import methods_in_float64
from limitlaw.numerics.random import Quasi, Sobol
from limitlaw.numerics.special_functions import chi_quantile

FAR_WIDTH = 2**50  # a width so large that ζ has an effect of 3e-8
MATTERS = 1e-6  # relative change of v at that width; a score of one head among thousands has more
PROBES = 4  # points at which that change is measured
# dimensions beyond which Sobol points take longer to make and are no better than random ones
SOBOL = 256
# draws computed together, and numbers they hold: about what the cache of a CPU has
BATCH, NORMALS_HELD = 1024, 2**19


class CoupledVariances(NamedTuple):
    """v_n(z, ζ), v_n(z, −ζ) and v_∞(z) for the same draws of z and ζ."""

    plus: Float[np.ndarray, " draws"]
    minus: Float[np.ndarray, " draws"]
    limit: Float[np.ndarray, " draws"]


@methods_in_float64
class Coupled:
    """One output number y, Gaussian with mean 0 given its latent variables, at any width n and in
    the limit; fixed dimensions stay. Threads may share it, and what is compiled.
    """

    def __init__(self, y: Written) -> None:
        if not isinstance(y, Written) or not y.core.value.is_vector or y.core.layout:
            raise TypeError("Coupled needs one output number, as y[0] of several tokens")
        (self._output,) = demanded_outputs((y.core,))
        self._lock = threading.RLock()
        self._programs: dict[int, _Program] = {}
        self._rules: dict[int, _Rule] = {}

    @property
    def has_coordinates(self) -> bool:
        """Are n coordinates drawn, for nonlinearities? Then a draw has no mirror image −ζ."""
        program = engine.program_of((self._output,))
        parts = (program, *program.every_block)
        return any(
            component.points for part in parts for component in Analysis(part).components.values()
        )

    def variances(self, width: int, draws: int, seed: int) -> CoupledVariances:
        """v_n and v_∞ at scrambled Sobol points (random in high dimensions), new for each seed."""
        if self.has_coordinates:
            raise ValueError(
                "variances needs a program without nonlinearities: n coordinates have no mirror "
                "image"
            )
        rule = self._rule(width)
        if rule.program is not self._program(FAR_WIDTH):
            raise ValueError(
                f"variances needs a width that is not below the number of vectors, got {width}"
            )
        take = _normals(len(rule.df), seed)

        def draw(count: int) -> CoupledVariances:
            z = take(count)
            mirrored = np.where(rule.stays, z, -z)
            return CoupledVariances(
                *map(rule.variances, (rule.numbers(z), rule.numbers(mirrored), rule.limit(z)))
            )

        return CoupledVariances(*_batched(draw, rule.program.batch, draws))

    def finite(self, width: int, draws: int, seed: int) -> Float[np.ndarray, " draws"]:
        """v_n for independent draws."""
        rule, rng = self._rule(width), np.random.default_rng(seed)

        def draw(count: int) -> tuple[Float[np.ndarray, " count"]]:
            return (rule.variances(rule.numbers(rng.standard_normal((count, len(rule.df))))),)

        return _batched(draw, rule.program.batch, draws)[0]

    def _rule(self, width: int) -> "_Rule":
        """How draws at this width are computed; without coordinates, by a program that is compiled
        once, for a very large width.
        """
        with self._lock:
            if width not in self._rules:
                self._rules[width] = self._new_rule(positive_int("width", width))
            return self._rules[width]

    def _new_rule(self, width: int) -> "_Rule":
        df = _degrees(self._output, width)
        far = None if self.has_coordinates else self._program(FAR_WIDTH)
        if far is None or len(far.df) != len(df):
            return _Rule(self._program(width), df, np.ones(len(df), bool), 1.0)
        return _Rule(far, df, self._stays, math.sqrt(FAR_WIDTH / width))

    def _program(self, width: int) -> "_Program":
        with self._lock:
            if width not in self._programs:
                self._programs[width] = _Program(self._output, width)
            return self._programs[width]

    @functools.cached_property
    def _stays(self) -> Bool[np.ndarray, " r"]:
        """The latent variables of z: lengths in fixed dimensions, normals that matter at n = ∞."""
        far = self._program(FAR_WIDTH)
        r = len(far.df)
        z = np.random.default_rng(0).standard_normal((PROBES, 1, r))
        moved = np.concatenate([z, z + np.eye(r)], axis=1).reshape(-1, r)
        lengths = np.isfinite(far.df)
        moved[:, lengths] += np.sqrt(far.df[lengths])
        v = far.variances(moved).reshape(PROBES, 1 + r)
        felt = np.abs(v[:, 1:] / v[:, :1] - 1).max(axis=0) > MATTERS
        return felt | (far.df < FAR_WIDTH // 2)


class _Rule(NamedTuple):
    """How draws at width n are computed by a program at another width: latent variables that enter
    over √n are multiplied by `stretch`.
    """

    program: "_Program"
    df: Float[np.ndarray, " r"]
    stays: Bool[np.ndarray, " r"]
    stretch: float

    def numbers(self, z: Float[np.ndarray, "draws r"]) -> Float[np.ndarray, "draws r"]:
        """The latent variables of draws: normals, and χ lengths made of normals."""
        values = z.copy()
        lengths = np.isfinite(self.df)
        for df in np.unique(self.df[lengths]):
            same = self.df == df
            values[:, same] = chi_quantile(df, z[:, same])
        if self.stretch != 1:
            values[:, ~self.stays] *= self.stretch
        return values

    def limit(self, z: Float[np.ndarray, "draws r"]) -> Float[np.ndarray, "draws r"]:
        """The latent variables at n = ∞: those that are not of z are at their means."""
        far = np.where(np.isinf(self.program.df), 0.0, np.sqrt(self.program.df))
        return np.where(self.stays, self.numbers(z), far)

    def variances(self, rows: Float[np.ndarray, "draws r"]) -> Float[np.ndarray, " draws"]:
        """v for each row of latent variables."""
        return self.program.variances(rows)


class _Program:
    """v at one width as a function of the latent variables of a draw, compiled for batches of one
    size.
    """

    def __init__(self, output: Output, width: int) -> None:
        self.df = _degrees(output, width)
        self.batch = max(1, min(BATCH, NORMALS_HELD // len(self.df)))
        program = engine.program_of((output,))
        self._arguments = program.arrays
        name = ("coupled", engine.structure(program, (output,)), width, self.batch)
        self._compiled = PROGRAMS.get(
            name, lambda: Compiled(_batch_of_variances(without_numbers((output,)), width))
        )
        self._first, self._ready = threading.Lock(), False

    def variances(self, rows: Float[np.ndarray, "draws r"]) -> Float[np.ndarray, " draws"]:
        """v for each row, in batches of one size, of which the last is padded."""
        found = np.empty(len(rows))
        for start in range(0, len(rows), self.batch):
            part = rows[start : start + self.batch]
            missing = self.batch - len(part)
            padded = np.pad(part, ((0, missing), (0, 0)), mode="edge") if missing else part
            found[start : start + self.batch] = np.asarray(self._call(padded))[: len(part)]
        return found

    def _call(self, rows: Float[np.ndarray, "batch r"]) -> Float[Array, " batch"]:
        """v for one batch; threads that come while the first one compiles wait for it."""
        if self._ready:
            return self._compiled(self._arguments, rows)
        with self._first:
            found = self._compiled(self._arguments, rows)
            self._ready = True
        return found


def _key() -> Array:
    """A key that nothing uses, since all latent variables are given."""
    return jax.random.key(0)


def _variance(
    outputs: tuple[Output, ...], arguments: list[Any], width: int, source: Quasi
) -> Float[Array, ""]:
    _, covariance = one_draw(outputs, arguments, width, Conditions(1), source)
    return covariance[0, 0]


def _batch_of_variances(
    outputs: tuple[Output, ...], width: int
) -> Callable[..., Float[Array, " batch"]]:
    """v for each row of latent variables in a batch, given the program's constants."""

    def variance(arguments: list[Any], row: Float[Array, " r"]) -> Float[Array, ""]:
        return _variance(outputs, arguments, width, Quasi(_key(), row, most=math.inf))

    return jax.vmap(variance, in_axes=(None, 0))


def _degrees(output: Output, width: int) -> Float[np.ndarray, " r"]:
    """The degrees of freedom of the latent variables of one draw, in order; ∞ for normals."""
    source = Quasi(_key(), most=math.inf)
    arguments = engine.program_of((output,)).arrays
    jax.eval_shape(lambda: _variance((output,), arguments, width, source))
    return np.asarray(source.recipe)


def _normals(r: int, seed: int) -> Callable[[int], Float[np.ndarray, "count r"]]:
    """A function that gives the next points of a sequence of normals in R^r."""
    if r <= SOBOL:
        return Sobol([math.inf] * r, seed).take
    rng = np.random.default_rng(seed)
    return lambda count: rng.standard_normal((count, r))


def _batched(
    draw: Callable[[int], tuple[Float[np.ndarray, " count"], ...]], batch: int, draws: int
) -> list[Float[np.ndarray, " draws"]]:
    """`draws` draws from batches of one size."""
    parts = [draw(batch) for _ in range(0, draws, batch)]
    return [np.concatenate(part)[:draws] for part in zip(*parts, strict=True)]
