"""The transform E exp(i t Y) of a scale mixture of Gaussians raised to a power, for complex t;
powers of power series.
"""

import dataclasses
import functools
from collections.abc import Callable
from types import ModuleType
from typing import TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int

from limitlaw.numerics import Floats, Numbers, Scalar

TINY = 1e-300
HALVINGS = 40
CELLS = 2**22  # numbers held at a time

Either = Array | np.ndarray  # of any kind
Rows = Int[np.ndarray, " rows"] | slice
T = TypeVar("T")


@dataclasses.dataclass(frozen=True)
class Transform:
    """φ(t) = (Σ_g u_g M_g(z)^p)^q, M_g(z) = Σ_k w_gk e^{−z v_gk}, z = t²/(2pq).

    `nodes`: v (N,), shared by the groups, or (G, N); `weights`: w (G, N); `groups`: u (G,);
    `inner`: p; `outer`: q; `centre`: a value among the nodes, of which e^{−zv} is a small relative
    change where p·q is large. NumPy arrays, or JAX arrays where something is traced.
    """

    nodes: Floats
    weights: Floats
    groups: Floats
    inner: int
    outer: int
    centre: Scalar
    xp: ModuleType = np

    @property
    def heads(self) -> int:
        """How many terms the sum has, p·q."""
        return self.inner * self.outer

    def log(self, t: Numbers) -> Numbers:
        """log φ(t) for t (n,); 14 digits also where p·q is 10⁶, by expm1 and log1p."""
        parts = -(-t.size * max(self.nodes.size, len(self.groups)) // CELLS)
        if self.xp is np and parts > 1 and t.size > 1:
            split = np.array_split(t, min(parts, t.size))
            return np.concatenate([self.log(part) for part in split])
        z = t**2 / (2 * self.heads)
        tall = z.reshape(-1, *[1] * self.nodes.ndim)
        shift = z * self.centre
        from_centre = -tall * (self.nodes - self.centre)
        M = self._log_average(
            from_centre, shift, lambda i: -tall[i] * self.nodes, self._over_nodes
        )
        a, shift = self.inner * M, self.inner * shift
        J = self._log_average(a + shift[:, None], shift, lambda i: a[i], lambda f: f @ self.groups)
        return self.outer * J

    def _over_nodes(self, f: Numbers) -> Numbers:
        """Σ_k w_gk f_k, (n, …) → (n, G)."""
        if self.nodes.ndim == 1 and len(self.weights) > 1:
            return f @ self.weights.T
        return (f * self.weights).sum(-1, keepdims=self.nodes.ndim == 1)

    def _log_average(
        self,
        e: Numbers,
        shift: Numbers,
        raw: Callable[[Rows], Numbers],
        average: Callable[[Numbers], Numbers],
    ) -> Numbers:
        """log Σ w exp(e − shift), e (n, …), shift (n,): log1p Σ w expm1(e) − shift where that
        average is near 1.

        Elsewhere the exponents e − shift, which raw(rows) gives without cancellation, are taken
        relative to the largest. So the average keeps its relative accuracy where it is near 1,
        where it is large and where it is small.
        """
        xp = self.xp

        def column(a: Either, like: Either) -> Either:
            return a.reshape(-1, *[1] * (like.ndim - 1))

        axes = tuple(range(1, e.ndim))
        big = e.real.max(axis=axes) > 1
        near = average(self._expm1(xp.where(column(big, e), 0, e)))
        far = column(big, near) | (xp.abs(1 + self.stop(near)) < 0.5)
        rows = np.flatnonzero(far.reshape(len(e), -1).any(1)) if xp is np else slice(None)
        f = raw(rows)
        most = self.stop(f.real.max(axis=axes, initial=-np.inf))
        rest = self._log(average(xp.exp(f - column(most, f)))) + column(most, near)
        if xp is np:
            out = self._log1p(near) - column(shift, near)
            out[rows] = np.where(far[rows], rest, out[rows])
            return out
        return jnp.where(far, rest, self._log1p(near) - column(shift, near))

    def _expm1(self, e: Numbers) -> Numbers:
        """e^{a + ib} − 1 = expm1(a) cos b − 2 sin²(b/2) + i e^a sin b."""
        if self.xp is np:
            return np.expm1(e)
        a, b = e.real, e.imag
        grown = jnp.expm1(a)
        return jax.lax.complex(
            grown * jnp.cos(b) - 2 * jnp.sin(b / 2) ** 2, (grown + 1) * jnp.sin(b)
        )

    def _log1p(self, f: Numbers) -> Numbers:
        """log(1 + f), with modulus ½ log1p(2 Re f + |f|²) for small complex f, which libraries
        round.
        """
        if not self.xp.iscomplexobj(f):
            return self.xp.log1p(self.xp.maximum(f, -1 + 1e-16))
        small = self.xp.abs(f) < 0.5
        near = self.xp.where(small, f, 0)
        modulus = self.xp.log1p(2 * near.real + near.real**2 + near.imag**2) / 2
        angle = self.xp.arctan2(near.imag, 1 + near.real)
        return self.xp.where(small, modulus + 1j * angle, self._log(1 + f))

    def _log(self, f: Numbers) -> Numbers:
        gone = self.xp.abs(f) < TINY
        return self.xp.where(gone, np.log(TINY), self.xp.log(self.xp.where(gone, 1, f)))

    def cumulant(self, theta: Floats) -> tuple[Floats, Floats, Floats]:
        """K(θ) = log E e^{θY}, K' and K'', for θ (n,).

        With λ = θ²/(2pq), L_g = log M_g(−λ) and J = log Σ_g u_g e^{p L_g}: K = q J, K' = J' θ/p
        and K'' = J''θ²/(p² q) + J'/p, derivatives of J and L in λ.
        """
        xp = self.xp
        lam = theta**2 / (2 * self.heads)
        v = self.nodes - self.centre
        e = lam.reshape(-1, *[1] * self.nodes.ndim) * v
        most = e.max(axis=tuple(range(1, e.ndim)))
        f = xp.exp(e - most.reshape(-1, *[1] * (e.ndim - 1)))
        m0, m1, m2 = (self._over_nodes(f * v**j) for j in (0, 1, 2))
        m0 = xp.maximum(m0, TINY)
        L1 = m1 / m0
        L2 = xp.maximum(m2 / m0 - L1**2, 0)
        L = self.inner * (xp.log(m0) + most[:, None])
        top = L.max(1)
        share = xp.exp(L - top[:, None]) * self.groups
        total = share.sum(1)
        share = share / total[:, None]
        J = top + xp.log(total) + self.inner * lam * self.centre
        J1 = self.inner * (share * L1).sum(1)
        spread = self.inner * L1 - J1[:, None]
        J2 = self.inner * (share * L2).sum(1) + (share * spread**2).sum(1)
        J1 = J1 + self.inner * self.centre
        K1 = J1 * theta / self.inner
        K2 = J2 * theta**2 / (self.inner * self.heads) + J1 / self.inner
        return self.outer * J, K1, K2

    def saddle(self, x: Floats) -> Floats:
        """θ with K'(θ) = x, for x (n,) ≥ 0, by bisection: K'(θ)/θ lies between K''(0) and the
        largest variance.
        """
        xp = self.xp

        def halve(_: object, ends: tuple[Floats, Floats]) -> tuple[Floats, Floats]:
            low, high = ends
            middle = (low + high) / 2
            above = self.cumulant(middle)[1] > x
            return xp.where(above, low, middle), xp.where(above, middle, high)

        largest = 1.01 * xp.max(self.nodes)  # interpolation nodes end just below it
        ends = x / largest, x / self.cumulant(xp.zeros(1))[2]
        if xp is np:
            ends = functools.reduce(lambda ends, step: halve(step, ends), range(HALVINGS), ends)
        else:
            ends = jax.lax.fori_loop(0, HALVINGS, halve, ends)
        return (ends[0] + ends[1]) / 2

    def stop(self, a: T) -> T:
        """`a` without its derivative."""
        return a if self.xp is np else jax.lax.stop_gradient(a)

    def frozen(self) -> "Transform":
        """The same without derivatives: where contours run does not matter to the integral."""
        v, w, u = map(self.stop, (self.nodes, self.weights, self.groups))
        return Transform(v, w, u, self.inner, self.outer, self.stop(self.centre), self.xp)

    @property
    def arrays(self) -> tuple[Floats, Floats, Floats, Scalar]:
        """Nodes, weights, groups and the centre."""
        return self.nodes, self.weights, self.groups, self.centre

    def in_jax(self) -> "Transform":
        """The same with JAX arrays."""
        v, w, u, centre = map(jnp.asarray, self.arrays)
        return Transform(v, w, u, self.inner, self.outer, centre, jnp)


def product(a: Floats, b: Floats, xp: ModuleType) -> Floats:
    """The coefficients of a product of two power series, as many as each has, along the first
    axis.
    """
    n = len(a)
    return sum(xp.concatenate([xp.zeros_like(b[:k]), a[k] * b[: n - k]]) for k in range(n))


def power(a: Floats, exponent: int, xp: ModuleType) -> Floats:
    """The coefficients of (Σ_j a_j λ^j)^exponent, as many as a has, by squaring: where a ≥ 0
    nothing cancels.
    """
    while exponent % 2 == 0:
        a, exponent = product(a, a, xp), exponent // 2
    result = a
    while exponent > 1:
        a, exponent = product(a, a, xp), exponent // 2
        result = product(result, a, xp) if exponent % 2 else result
    return result
