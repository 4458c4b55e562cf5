"""The law of a sum over many heads, H^{−1/2} Σ_a Y_a, at a cost that does not depend on H."""

import functools
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from limitlaw.arguments import as_key, is_traced
from limitlaw.laws import contours, normals
from limitlaw.laws.averages import Estimate, exact, pad, padded_size
from limitlaw.laws.base import Atoms, Law, entries, psi_values, sample_shape
from limitlaw.laws.head_nodes import Nodes, head_nodes
from limitlaw.laws.roots import invert
from limitlaw.laws.series import even_moment
from limitlaw.laws.transform import Transform
from limitlaw.numerics.normals import normal

REACH = (45.0, 14.0)  # of the table of contours: standard deviations, and those of the widest node
BLOCKS = 16  # of nodes, whose spread is the standard error
GRID = 2**14  # points on each side of 0 for expectations
FEW = 16  # heads that are drawn one by one
SCORES = np.linspace(0, 9, 2049)  # normal scores between which quantiles are interpolated, to draw


class HeadSum(Law):
    """Y = H^{−1/2} Σ_{a=1}^H Y_a, Y_a | v ~ N(0, v), v with the discrete mixing law Σ_k w_gk δ(v_gk) given a group g.

    φ_H(t) = Σ_g u_g (Σ_k w_gk exp(−t² v_gk/(2H)))^H: heads are independent given the incoming kernel, the group.
    `variances`: v (N,) or (G, N); `weights`: w of that shape; `groups`: u (G,). Sums are made one; equal by default.
    Without `weights` the nodes are independent draws and the kind is "sampled". Standard errors come from the spread
    of each figure over 16 consecutive blocks of nodes, of groups where there are at least 16, so that independent
    replicates may be handed one after the other.

    `shared` = g > 1: heads share keys and values in H/g sets of g. A row of `variances` is then one draw of those and
    `groups` its weight: φ_H(t) = (Σ_r u_r (Σ_k w_rk exp(−t² v_rk/(2H)))^g)^{H/g}.

    Densities and tails are contour integrals, see `limitlaw.laws.contours`: 14 digits relative to the largest
    integrand, which is also that of the figure unless the mixing law has a rare part very much wider than the rest.
    """

    def __init__(
        self,
        variances: Any,
        heads: Any,
        weights: Any = None,
        groups: Any = None,
        kind: str | None = None,
        beyond: tuple[str, ...] = (),
        shared: Any = 1,
    ) -> None:
        self._nodes = head_nodes(variances, heads, weights, groups, shared)
        self.heads, self.shared = int(heads), int(shared)
        default = "quadrature" if weights is not None else "sampled" if self._nodes.variances.size > 1 else "exact"
        super().__init__((), kind or default, beyond)

    @classmethod
    def _of(cls, nodes: Nodes) -> "HeadSum":
        """From nodes that were checked before."""
        law = cls(np.ones(1), nodes.inner * nodes.outer, shared=1 if nodes.outer == 1 else nodes.inner)
        law._nodes = nodes
        return law

    def _estimate(self, value: Any, figure: Callable[["HeadSum"], Any]) -> Estimate:
        """A figure with the error that blocks of nodes show, standard deviation over √blocks."""
        value = jnp.asarray(value)
        if self.kind != "sampled":
            return exact(value)

        def error() -> Array:
            parts = np.stack([np.asarray(figure(law)) for law in self._blocks])
            same = np.where(np.isfinite(parts), parts, 0)  # quantiles at 0 and 1
            count = len(parts)
            return jnp.asarray(np.std(same, axis=0) / np.sqrt(count - 1) if count > 1 else np.full(value.shape, np.nan))

        return Estimate(value, error)

    @functools.cached_property
    def _blocks(self) -> list["HeadSum"]:
        return [HeadSum._of(nodes) for nodes in self._nodes.blocks(BLOCKS)]

    @functools.cached_property
    def _atom(self) -> float:
        return self._nodes.atom()

    @functools.cached_property
    def _sd(self) -> Any:
        return self._nodes.xp.sqrt(self._nodes.variance())

    @functools.cached_property
    def _table(self) -> contours.Table:
        reach = max(REACH[0] * self._sd, REACH[1] * math.sqrt(self._nodes.ends()[1]))
        return contours.table(self._nodes.transform(reach), reach, self._atom)

    @functools.cached_property
    def _transform(self) -> Transform:
        """For real t and for traced nodes."""
        return self._nodes.transform(None if self._nodes.traced else REACH[0] * self._sd)

    def _invert(self, figure: str, x: Any) -> Any:
        """log pdf, or P(Y > x), at x ≥ 0, in NumPy unless something is traced."""
        flat = x.reshape(-1)
        if self._nodes.traced:
            at = jax.checkpoint(lambda one: contours.direct(self._transform, figure, one[None], self._atom)[0])
            return jax.lax.map(at, jnp.asarray(flat)).reshape(x.shape)
        if is_traced(x):
            return self._table.evaluate(figure, flat).reshape(x.shape)
        out = np.where(np.isinf(flat), -np.inf if figure == "pdf" else 0.0, np.nan)
        near = flat <= self._table.reach
        out[near] = self._table.evaluate(figure, flat[near])
        for i in np.flatnonzero(~near & np.isfinite(flat)):
            far = self._nodes.transform(float(flat[i]))
            out[i] = contours.direct(far, figure, flat[i : i + 1], self._atom)[0]
        return out.reshape(x.shape)

    def _log_density(self, x: Any) -> Any:
        return self._invert("pdf", _magnitude(x)) if self._nodes.variances.any() else -np.inf * np.ones(x.shape)

    def _tail(self, x: Any) -> Any:
        """P(Y > |x|)."""
        return self._invert("sf", _magnitude(x)) if self._point_mass is False else 0.0 * x

    @functools.cached_property
    def _point_mass(self) -> bool:
        return not self._nodes.traced and not float(self._sd) > 0

    def _require_density(self) -> None:
        if self._atom > 0:
            raise ValueError(
                f"the law has no density: 1 atom(s) carry {self._atom:.6g} of its mass "
                "(components of zero variance); law.atoms() lists them"
            )

    def _pdf(self, x: Array) -> Estimate:
        self._require_density()
        return self._estimate(_module(self, x).exp(self._log_density(x)), lambda law: np.exp(law._log_density(x)))

    def _logpdf(self, x: Array) -> Estimate:
        self._require_density()
        return self._estimate(self._log_density(x), lambda law: law._log_density(x))

    def _cdf(self, x: Array) -> Estimate:
        def figure(law: HeadSum) -> Any:
            tail = law._tail(x)
            return _module(law, x).where(x < 0, tail, 1 - tail)

        return self._estimate(figure(self), figure)

    def _sf(self, x: Array) -> Estimate:
        def figure(law: HeadSum) -> Any:
            tail = law._tail(x)
            return _module(law, x).where(x < 0, 1 - tail, tail)

        return self._estimate(figure(self), figure)

    def _ppf(self, q: Array) -> Estimate:
        return self._estimate(self._quantile(np.asarray(q)), lambda law: law._quantile(np.asarray(q)))

    def _quantile(self, q: np.ndarray) -> np.ndarray:
        """By symmetry minus, or plus, the quantile of min(q, 1 − q); 0 inside the atom."""
        lower = np.minimum(q, 1 - q).reshape(-1)
        inside = (lower > 0) & (lower < (1 - self._atom) / 2)
        p = np.where(inside, lower, 0.25 * (1 - self._atom))
        x = np.zeros(p.shape)
        if inside.any():
            x = np.where(inside, self._lower_quantile(p), 0.0)
        x = np.where(lower <= 0, -np.inf, x) + 0 * lower
        return np.where(q <= 0.5, x.reshape(q.shape), -x.reshape(q.shape))

    def _lower_quantile(self, p: np.ndarray) -> np.ndarray:
        count = len(p)
        level = pad(p, padded_size(count))
        z = jax.scipy.special.ndtri(level)
        narrow, wide = (math.sqrt(v) for v in self._nodes.ends())
        if self._atom > 0:  # the mixture of the rest is divided by 1 − atom: quantiles move inwards
            narrow = 0.0
        width = float(self._sd)

        def tails(x: Array) -> tuple[Array, Array, Array]:
            tail = self._tail(np.asarray(x))
            F = jnp.asarray(np.where(x <= 0, tail, 1 - tail))
            return F, F, jnp.asarray(np.exp(self._log_density(np.asarray(x))))

        bracket = (z * wide - 1e-9 * width, jnp.minimum(z * narrow + 1e-9 * width, 0.0))
        return np.asarray(invert(tails, level, bracket, width * z, width))[:count]

    def _cf(self, t: Array) -> Estimate:
        def figure(law: HeadSum) -> Any:
            xp = _module(law, t)
            if xp is jnp:
                transform = Nodes.transform(law._nodes)
                return jnp.exp(_in_jax(transform).log(t.reshape(-1) + 0j)).reshape(t.shape)
            return np.exp(law._transform.log(np.asarray(t).reshape(-1) + 0j)).reshape(t.shape)

        return self._estimate(figure(self), figure)

    def _mean(self) -> Estimate:
        return exact(jnp.zeros(()))

    def _variance(self) -> Estimate:
        return self._estimate(self._nodes.variance(), lambda law: law._nodes.variance())

    def _covariance(self) -> Estimate:
        return self._variance()

    def _kurtosis(self) -> Estimate:
        return self._estimate(_kurtosis(self._nodes), lambda law: _kurtosis(law._nodes))

    def _moment(self, k: int) -> Estimate:
        if k % 2:
            return exact(jnp.zeros(()))

        def figure(law: HeadSum) -> Any:
            nodes = law._nodes
            powers = [nodes.moments(j) for j in range(k // 2 + 1)]
            return even_moment(k // 2, powers, nodes.groups, nodes.inner, nodes.outer)

        return self._estimate(figure(self), figure)

    @functools.cached_property
    def _rule(self) -> tuple[Array, Array, Array]:
        """Points y, weights of an expectation at them, and the log density: the trapezoidal rule in w, y = a sinh w."""
        nodes, xp = self._nodes, self._nodes.xp
        low, high = nodes.ends()
        a = xp.sqrt(xp.maximum(low, 1e-12 * high))
        half = GRID if xp is np else GRID // 64
        end = xp.arcsinh(REACH[1] * xp.sqrt(high) / a)
        w = end * np.arange(half + 1) / half
        y = nodes.xp.asarray(a * xp.sinh(w))
        log = self._log_density(y)
        weight = xp.exp(log) * a * xp.cosh(w) * end / half
        two_sided = [xp.concatenate([sign * side[:0:-1], side]) for sign, side in ((-1, y), (1, weight), (1, log))]
        return tuple(map(jnp.asarray, two_sided))  # type: ignore[return-value]

    def _expect(self, psi: Callable[[Any], Any]) -> Estimate:
        def figure(law: HeadSum) -> Any:
            at_zero = psi_values(psi, jnp.zeros(1), 1)[0]
            if law._point_mass:
                return at_zero
            y, weight, _ = law._rule
            return jnp.tensordot(weight, psi_values(psi, y, len(y)), 1) + law._atom * at_zero

        return self._estimate(figure(self), figure)

    def _entropy(self) -> Estimate:
        self._require_density()
        return self._estimate(_entropy(self), _entropy)

    def _atoms(self) -> tuple[Atoms, Array]:
        count = int(self._atom > 0)
        mass = self._estimate(np.full(count, self._atom), lambda law: np.full(count, law._atom))
        return Atoms(jnp.zeros(count), mass.value), mass.error()

    def sample(self, key: object, shape: int | tuple[int, ...] = ()) -> Float[Array, "..."]:
        """Draws: head by head where those are few, else quantiles of uniform numbers."""
        shape = sample_shape(shape)
        count = math.prod(shape)
        first, second = jax.random.split(as_key(key))
        if self.heads <= FEW or self._point_mass:
            y = jnp.sqrt(self._nodes.draw(first, count)) * normal(second, (count,))
        elif self._atom > 0:
            y = jnp.asarray(self._quantile(np.asarray(jax.random.uniform(first, (count,), minval=1e-300))))
        else:
            y = _hermite(*self._scores, normal(second, (count,)))
        return y.reshape(shape)

    @functools.cached_property
    def _scores(self) -> tuple[Array, Array]:
        """Quantiles x(z) at normal scores z ≥ 0, and dx/dz, which is the normal density over that at x."""
        x = -self._quantile(np.asarray(normals.ndtr(-SCORES)))
        slope = np.exp(-(SCORES**2) / 2 - self._log_density(x)) / math.sqrt(2 * math.pi)
        return jnp.asarray(x), jnp.asarray(slope)

    def marginal(self, i: Any) -> "HeadSum":
        """The law itself: Y is one number."""
        _, shape = entries(self.shape, i)
        if shape:
            raise IndexError(f"i must leave the one number of the law, got {i!r}")
        return self

    def _content(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        nodes = self._nodes
        arrays = {"variances": nodes.variances, "weights": nodes.weights, "groups": nodes.groups}
        return {}, {name: np.asarray(a) for name, a in {**arrays, "heads": self.heads, "shared": self.shared}.items()}

    def _description(self) -> str:
        G, N = self._nodes.variances.shape
        rows = f"{G} × " if G > 1 else ""
        return f"{self.heads} heads, {rows}{N} nodes, "


def _magnitude(x: Any) -> Any:
    """|x|, with slope 1 at 0."""
    return jnp.where(x < 0, -x, x) if is_traced(x) else np.abs(np.asarray(x))


def _module(law: HeadSum, x: Any) -> Any:
    return jnp if law._nodes.traced or is_traced(x) else np


def _in_jax(transform: Transform) -> Transform:
    return Transform(
        *(jnp.asarray(a) for a in (transform.nodes, transform.weights, transform.groups)),
        transform.inner,
        transform.outer,
        transform.centre,
        jnp,
    )


def _kurtosis(nodes: Nodes) -> Any:
    """3/(q V²) (Var_u μ_g + Σ_g u_g σ_g²/p), μ_g and σ_g² the mean and variance of v in group g, V = E v."""
    mean, V = nodes.moments(1), nodes.variance()
    within = (nodes.weights * (nodes.variances - mean[:, None]) ** 2).sum(1)
    between = (nodes.groups * (mean - V) ** 2).sum()
    return 3 * (between + (nodes.groups * within).sum() / nodes.inner) / (nodes.outer * V**2)


def _entropy(law: HeadSum) -> Any:
    """−∫ p log p."""
    _, weight, log = law._rule
    return -jnp.sum(jnp.where(weight > 0, weight * log, 0))


@jax.jit
def _hermite(x: Any, slope: Any, z: Any) -> Any:
    """x(z), odd in z, by cubic Hermite interpolation; on a straight line beyond the last score."""
    h = SCORES[1]
    s = jnp.abs(z) / h
    i = jnp.minimum(s.astype(int), len(SCORES) - 2)
    r = jnp.minimum(s - i, 1.0)
    at = (1 + 2 * r) * (1 - r) ** 2 * x[i] + r**2 * (3 - 2 * r) * x[i + 1]
    at = at + h * r * (1 - r) * ((1 - r) * slope[i] - r * slope[i + 1])
    return jnp.sign(z) * (at + (s - i - r) * h * slope[i + 1])
