"""The law of φ(Y) for Y a Gaussian mixture: what a network shows after its last nonlinearity."""

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from limitlaw.arguments import is_traced
from limitlaw.digits import counted
from limitlaw.domain import DEVIATIONS, LOG_DEVIATIONS
from limitlaw.laws import one_gaussian, storage
from limitlaw.laws.averaged import Averaged
from limitlaw.laws.averages import Components, Quantity, pad, padded_size
from limitlaw.laws.base import Content
from limitlaw.laws.checking import check_base
from limitlaw.laws.draws import Grouped
from limitlaw.laws.entropy import image_entropy, joint_entropy
from limitlaw.laws.estimates import Atoms, Estimate, as_logarithm, in_units, no_atoms, unit
from limitlaw.laws.mixture import GaussianMixture
from limitlaw.laws.one_image import (
    Central,
    Composed,
    ImageMoment,
    ImageRules,
    OnBranches,
    density,
    log_density,
)
from limitlaw.laws.tracing import Psi, kept
from limitlaw.numerics.meshes import FineStructure
from limitlaw.numerics.normal_rule import REACH, shifts
from limitlaw.numerics.roots import invert
from limitlaw.numerics.special_functions import ndtri
from limitlaw.phi import Nonlinearity, user_function
from limitlaw.phi.branches import Branch
from limitlaw.phi.preimages import Branched, branched, intervals, preimages, slopes

SHARE_TO_COMPARE = 0.9  # share of the nodes in the rule to compare with


class Pushforward(Averaged):
    """The law of φ(Y), entry by entry.

    For a named φ the density is a sum over the monotone branches of φ, and the flat parts of φ are
    atoms; `pdf` is the density of what is left. For a user's function: moments, `expect`,
    `sample`. `share`: the share of the nodes that moments are computed with, less than 1 for
    another rule to compare with.
    """

    def __init__(
        self,
        phi: Callable[[Any], Any],
        base: GaussianMixture,
        kind: str | None = None,
        beyond: tuple[str, ...] | None = None,
        share: float = 1.0,
    ) -> None:
        check_base(base, GaussianMixture)
        super().__init__(
            base.shape,
            kind or ("quadrature" if base.kind == "exact" else base.kind),
            base.beyond if beyond is None else beyond,
        )
        self.phi: Nonlinearity = user_function(phi)
        self.base = base
        mean, spread = base._components.parameters
        sd = jnp.sqrt(jnp.diagonal(spread, axis1=1, axis2=2)) if self.shape else spread
        self._traced = is_traced(mean, spread)
        self._reach = (-math.inf, math.inf)
        near = self._reach
        if not self._traced:
            self._reach, near = (
                (float(jnp.min(mean - out * sd)), float(jnp.max(mean + out * sd)))
                for out in (LOG_DEVIATIONS, DEVIATIONS + 1)
            )
        self._branched = branched(self.phi, near)
        self._share = share
        turn = shifts(len(base._components))
        parameters = (mean, sd, turn[:, None] + 0 * mean if self.shape else turn)
        self._components = dataclasses.replace(base._components, parameters=parameters)
        base._alike(self, lambda other: Pushforward(self.phi, other, self.kind, self.beyond))
        if share == 1 and not base._components.sampled:
            self.compared_with(self._by_another_rule)

    def _by_another_rule(self) -> "Pushforward":
        """The same law with fewer nodes, of the base by its other rule if there is one."""
        base: Any = self.base.other or self.base
        return Pushforward(self.phi, base, self.kind, self.beyond, SHARE_TO_COMPARE)

    @functools.cached_property
    def _rules(self) -> ImageRules:
        count = len(self._components), self._components.sampled
        sd, plain = self.base._largest_sd(), self.base._nodes()
        return ImageRules(self.phi, self._branched, sd, plain, *count, self._traced, self._share)

    @property
    def _size(self) -> int:
        entries = self._components.parameters[0][0].size
        return self._rules.moments.count * max(1, entries)

    @property
    def _central(self) -> Quantity:
        return Central(self.phi, self._rules.moments)

    def _covariance(self) -> Estimate:
        return self._drawn._covariance() if self.shape else self._variance()

    @property
    def _drawn(self) -> Grouped:
        """The law as draws, for quantities that couple several entries."""
        below = self.base.drawn()._components
        components = dataclasses.replace(below, parameters=self.phi(below.parameters))
        return Grouped(components, "sampled", self.beyond)

    def _known(self, what: str) -> Branched:
        """The branches of φ, or an error that says what can be done without."""
        if self._branched is None and self._traced and self.phi.branches is not None:
            raise ValueError(
                f"{what} of {self.phi.name}(Y) needs the branches of {self.phi.name} that Y "
                "reaches, which are not known inside jax.jit; moments, expect, cf and sample work "
                "there"
            )
        if self._branched is None:
            raise ValueError(
                f"{what} of {self.phi.name}(Y) needs the monotone branches of {self.phi.name}, "
                "which are known for the named nonlinearities only; moments, expect, cf and "
                "sample work for every function"
            )
        return self._branched

    @kept
    def _with_images(self) -> Components:
        """The components of one number with φ(mean), which is where a point mass goes."""
        mean, sd, _ = self._components.parameters
        image = self.phi(mean) if self._traced or self.base._degenerate.any() else mean
        return dataclasses.replace(self._components, parameters=(mean, sd, image))

    def _intervals(self, y: Array, above: bool) -> tuple[Array, Array]:
        """The points y, padded, and the intervals where φ ≤ y, or φ > y."""
        known = self._known("the distribution")
        flat = pad(y.reshape(-1), padded_size(y.size))
        return flat, intervals(flat, known)[above]

    def _on_branches(self, y: Array, above: bool) -> Estimate:
        points = self._intervals(y, above)
        average = self._with_images.average(OnBranches(above), points, points[1].shape[1])
        return average[: y.size].reshape(y.shape)

    def _log_tail(self, y: Array, above: bool) -> Estimate:
        log = self._with_images.log_average(OnBranches(above, log=True), self._intervals(y, above))
        log = log[: y.size].reshape(y.shape)
        return Estimate(log.value, lambda: as_logarithm(log.error()))

    def _cdf(self, y: Array) -> Estimate:
        return self._on_branches(y, False)

    def _sf(self, y: Array) -> Estimate:
        return self._on_branches(y, True)

    def _pdf(self, y: Array) -> Estimate:
        if self.shape:
            return self._logpdf(y).exp()
        points = preimages(pad(y.reshape(-1), padded_size(y.size)), self._known("the density"))
        average = self._components.average(density, points, points[0].shape[1])
        found = average[: y.size].reshape(y.shape)
        return Estimate(found.value + 0 * jnp.where(jnp.isnan(y), y, 0), found.error)

    def _logpdf(self, y: Array) -> Estimate:
        if self.shape and not self._known("the joint density").injective:
            raise ValueError(
                f"the joint density of {self.phi.name}(Y) is given only where {self.phi.name} is "
                "one to one; law.marginal(i) has one entry's density"
            )
        lead = y.shape[: y.ndim - len(self.shape)]
        flat = y.reshape(-1, *self.shape)
        count = len(flat)
        x, jacobian = preimages(pad(flat, padded_size(count)), self._known("the density"))
        if not self.shape:
            log = self._components.log_average(log_density, (x, jnp.log(jacobian)))
            return log[:count].reshape(lead)
        owner = jnp.argmax(jacobian > 0, axis=-1, keepdims=True)
        x, jacobian = (jnp.take_along_axis(a, owner, -1)[:count, ..., 0] for a in (x, jacobian))
        log = self.base._logpdf(x)
        value = log.value + jnp.sum(jnp.log(jacobian).reshape(count, -1), -1)
        return Estimate(value, log.error).reshape(lead)

    def _place(self, level: Array, lower: Array) -> Estimate:
        known = self._known("the quantile")
        bottom, top = known.support
        inside = jnp.where(level <= 0, 0.5, level)
        if known.monotone:
            x = self.base._place(inside, lower)
            stretch = lambda: slopes(self.phi, x.value) * x.error()
            inner = Estimate(self.phi(x.value), stretch)
        else:
            y = self._invert(inside.reshape(-1), lower.reshape(-1), known).reshape(level.shape)
            inner = Estimate(y, lambda: self._moved(y, inside, lower))
        value = jnp.where(level <= 0, jnp.where(lower, bottom, top), inner.value)
        return Estimate(value, lambda: jnp.where(level <= 0, 0.0, inner.error()))

    def _invert(self, level: Array, lower: Array, known: Branched) -> Array:
        bottom, top = known.support
        values = self.phi(jnp.array(self._reach))
        low = bottom if np.isfinite(bottom) else float(jnp.min(values))
        high = top if np.isfinite(top) else float(jnp.max(values))

        def tail(y: Array) -> tuple[Array, Array]:
            return jnp.where(lower, self._cdf(y).value, self._sf(y).value), self._pdf(y).value

        width = float(jnp.sqrt(self.variance()))
        start = self.mean() + width * jnp.where(lower, 1.0, -1.0) * ndtri(level)
        flat = any(branch.inverse is None for branch in known.branches)  # an atom inside
        smooth = not (flat or self.base._degenerate.any())
        bracket = (jnp.full_like(level, low), jnp.full_like(level, high))
        return invert(tail, level, lower, bracket, start, width, smooth)

    def _cf(self, t: Array) -> Estimate:
        if self.shape:
            return self._drawn._cf(t)
        quantity, size = self._rules.wave(t)
        return self._components.average(quantity, t.reshape(-1), size).reshape(t.shape)

    def _moment(self, k: int) -> Estimate:
        mean, sd, _ = self._components.parameters
        far = math.sqrt(k) + 8  # standard deviations: x^k exp(−x²/2) is largest at √k
        wider = max(1.0, far / REACH)
        finer = math.ceil(math.sqrt(k) / 2) if k else 1  # φ^k varies faster than φ
        own = self._rules.moments
        rule = own.finer(wider * finer)
        reached = jnp.linspace(
            jnp.min(mean - far * sd, axis=0), jnp.max(mean + far * sd, axis=0), 4097
        )
        s = unit(jnp.max(jnp.abs(self.phi(reached)), axis=0))
        size = rule.count * self._size // own.count
        moment = self._components.average(ImageMoment(self.phi, rule, k, wider), s[None], size)
        return in_units(moment, s, k).reshape(self.shape)

    def _expect(self, psi: Psi) -> Estimate:
        return self.base._expect(Composed(psi, self.phi), self._rules.kinks)

    def _entropy(self) -> Estimate:
        if self.shape:
            self._logpdf(self.mean())  # raises where there is no density
            return joint_entropy(self, self._drawn._components.parameters)
        known = self._known("the entropy")
        points, masses = self.atoms()
        if len(points):
            raise ValueError(
                f"the law has no entropy: {len(points)} atom(s) carry {float(masses.sum()):.6g} "
                "of its mass; law.atoms() lists them"
            )
        return image_entropy(known, self.base, self._components, self.variance)

    def _atoms(self) -> tuple[Atoms, Array]:
        if self.shape:
            raise ValueError(
                "atoms are listed for one number: take law.marginal(i) of this joint law of "
                f"{self.shape}"
            )
        flats = [b for b in self._known("the atoms").branches if b.inverse is None]
        if self._traced:
            return self._atoms_of_flats(flats)
        mean, sd, _ = self._components.parameters
        bad = self.base._degenerate
        ends = np.array([(b.lo, b.hi, b.bottom) for b in flats], float).reshape(-1, 3).T
        lo, hi = jnp.asarray(ends[:2])
        chances = np.asarray(one_gaussian.between((mean[:, None], sd[:, None]), (lo, hi)))
        owner, flat = np.nonzero(np.repeat(~bad[:, None], len(flats), axis=1))
        return self._merged(
            np.concatenate([np.asarray(self.phi(mean[bad])), ends[2][flat]]),
            np.concatenate([np.flatnonzero(bad), owner]),
            np.concatenate([np.ones(bad.sum()), chances[owner, flat]]),
        )

    def _atoms_of_flats(self, flats: list[Branch]) -> tuple[Atoms, Array]:
        """Atoms where numbers are traced: φ's values on its flat intervals, and their masses."""
        if not flats:
            return no_atoms()
        points = np.unique([branch.bottom for branch in flats])
        ends = jnp.array([b.lo for b in flats], float), jnp.array([b.hi for b in flats], float)
        masses = self._components.average(one_gaussian.between, ends)
        same = jnp.array([[branch.bottom == point for branch in flats] for point in points], float)
        return Atoms(jnp.asarray(points), same @ masses.value), same @ masses.error()

    def _sample(self, key: Key[Array, ""], shape: tuple[int, ...]) -> Float[Array, "..."]:
        """φ of draws of the base."""
        return self.phi(self.base._sample(key, shape))

    def marginal(self, i: object) -> "Pushforward":
        """The law of φ(Y[i])."""
        return Pushforward(self.phi, self.base.marginal(i), self.kind, self.beyond)

    def _content(self) -> Content:
        return storage.image(self.phi, self.base._stored())

    def _part(self, rows: slice) -> "Pushforward":
        return Pushforward(self.phi, self.base._part(rows), self.kind, self.beyond)

    def middle(self) -> float:
        """The median of the places of the law."""
        return super().middle() if self._branched is None else float(np.median(self.places()[0]))

    def places(self) -> FineStructure:
        """The places of Y, moved and stretched by φ."""
        return super().places() if self._branched is None else self._placed

    @kept
    def _placed(self) -> FineStructure:
        x, scale = self.base.places()
        at = jnp.asarray(x)
        return np.asarray(self.phi(at)), scale * np.asarray(slopes(self.phi, at))

    def breaks(self) -> Float[np.ndarray, " breaks"]:
        """Values at which branches of φ end or bend: the density may jump or have a pole."""
        if self._branched is None:
            return super().breaks()
        ends = np.array([end for b in self._branched.branches for end in (b.bottom, b.top)])
        return np.concatenate(
            [
                ends[np.isfinite(ends)],
                np.asarray(self.phi(jnp.asarray(self._branched.kinks, float))),
            ]
        )

    def argument(self) -> tuple[Nonlinearity, GaussianMixture] | None:
        """φ and the law of Y, if φ is known to be one to one; else None."""
        return (
            (self.phi, self.base)
            if self._branched is not None and self._branched.injective
            else None
        )

    @property
    def description(self) -> str:
        """The name of φ, and the number of components."""
        return f"{self.phi.name} of {counted(len(self._components), 'component')}"

    def _count(self) -> int:
        return len(self._components)
