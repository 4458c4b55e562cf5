"""The law of a sum over many heads, H^{−1/2} Σ_a Y_a, at a cost that does not depend on H."""

import functools
import math
from collections.abc import Callable
from types import ModuleType

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Key

from limitlaw.arguments import is_traced, positive_int
from limitlaw.digits import counted
from limitlaw.laws import head_expectation
from limitlaw.laws.averaged import FEW_BLOCKS
from limitlaw.laws.averages import BLOCKS, error_of_blocks
from limitlaw.laws.base import Blocks, Content, Law
from limitlaw.laws.checking import entries
from limitlaw.laws.estimates import Atoms, Estimate, exact, no_atoms
from limitlaw.laws.head_mixture import HeadMixture, entropy, hermite
from limitlaw.laws.head_nodes import (
    HeadArray,
    HeadNumber,
    Nodes,
    even_moment,
    head_nodes,
    kurtosis,
)
from limitlaw.laws.tracing import Psi
from limitlaw.numerics.meshes import FineStructure
from limitlaw.numerics.random import normal

HEADS_DRAWN_APART = 16  # heads that are drawn one by one


class HeadSum(Law):
    """Y = H^{−1/2} Σ_{a=1}^H Y_a, Y_a | v ~ N(0, v), v with the discrete mixing law Σ_k w_gk
    δ(v_gk) given a group g.

    φ_H(t) = Σ_g u_g (Σ_k w_gk exp(−t² v_gk/(2H)))^H: heads are independent given the incoming
    kernel, the group. `variances`: v (N,) or (G, N); `weights`: w of that shape; `groups`: u (G,).
    Weights are normalised to sum one, and equal by default. Without `weights` the nodes are
    independent draws and the kind is "sampled". Standard errors come from the spread of each
    quantity over 16 consecutive blocks of nodes, of groups where there are at least 16, so that
    independent replicates may be handed one after the other.

    `shared` = g > 1: heads share keys and values in H/g sets of g. A row of `variances` is then
    one draw of those and `groups` its weight: φ_H(t) = (Σ_r u_r (Σ_k w_rk exp(−t²
    v_rk/(2H)))^g)^{H/g}.

    `narrow`: v has a density like v^{−1/2} at 0, as for heads of dimension 1: the density of a
    single head is ∞ at 0.

    Y is a mixture of Gaussians N(0, S), the law of S = H^{−1} Σ_a v_a being given by weights on
    lattices, see `limitlaw.laws.head_mixture`. Log densities and log tails have 10 digits within 6
    standard deviations, for 10⁶ heads and for variances 10¹⁶ apart, and reach to 40; beyond, they
    go on like the Gaussian that they resemble there.
    """

    def __init__(
        self,
        variances: object,
        heads: object,
        weights: object = None,
        groups: object = None,
        kind: str | None = None,
        beyond: tuple[str, ...] = (),
        shared: object = 1,
        narrow: bool | Bool[np.ndarray, ""] = False,
    ) -> None:
        self.heads, self.shared = positive_int("heads", heads), positive_int("shared", shared)
        nodes = head_nodes(variances, self.heads, weights, groups, self.shared)
        self.narrow = bool(narrow)
        self._poles = (0.0,) if self.narrow and self.heads == 1 else ()
        default = (
            "quadrature"
            if weights is not None
            else "sampled"
            if nodes.variances.size > 1
            else "exact"
        )
        super().__init__((), kind or default, beyond)
        self._nodes = nodes

    @functools.cached_property
    def _mixture(self) -> HeadMixture:
        return HeadMixture(self._nodes)

    @property
    def mixing(self) -> tuple[Float[Array, "groups nodes"], Float[Array, "groups nodes"]]:
        """The mixing law of one head: variances v_gk, and their weights, u_g w_gk, of sum one."""
        nodes = self._nodes
        return jnp.asarray(nodes.variances), jnp.asarray(nodes.groups)[:, None] * jnp.asarray(
            nodes.weights
        )

    def with_heads(self, heads: object) -> "HeadSum":
        """The law of another number of the same heads, without a new quadrature of mixing laws."""
        if self.shared > 1:
            raise ValueError(
                f"with_heads needs heads that share nothing, got sets of {self.shared}"
            )
        law = self._of(self._nodes, heads, self.beyond)
        return self._alike(law, lambda other: other.with_heads(heads))

    def _of(self, nodes: Nodes, heads: object, beyond: tuple[str, ...] = ()) -> "HeadSum":
        """A sum over heads of other nodes, or over another number of heads."""
        v, w, u = nodes.variances, nodes.weights, nodes.groups
        return HeadSum(v, heads, w, u, self.kind, beyond, self.shared, self.narrow)

    def _estimate(self, quantity: Callable[[HeadMixture], HeadNumber | HeadArray]) -> Estimate:
        """A quantity with the error that blocks of nodes show: their spread over √blocks."""
        value = jnp.asarray(quantity(self._mixture))
        rougher = self._mixture.rougher
        if self.kind != "sampled":
            return (
                exact(value)
                if rougher is None
                else Estimate(value, lambda: _apart(value, quantity(rougher)))
            )

        def error() -> Array:
            xp = jnp if is_traced(value) else np
            parts = self._of_replicas(quantity, xp)
            if len(parts) == 1:
                return jnp.full(value.shape, jnp.nan)
            parts = xp.where(xp.isinf(parts), 0, parts)  # quantiles at 0 and 1
            known = jnp.where(jnp.isinf(value), 0, value)
            away = jnp.asarray(parts - xp.mean(parts, axis=0))
            return error_of_blocks(away, known, self._nodes.variances.size)

        return Estimate(value, error)

    def _of_replicas(
        self, quantity: Callable[[HeadMixture], HeadNumber | HeadArray], xp: ModuleType
    ) -> HeadArray:
        """A quantity of every block; of traced nodes in a loop, compiled once for all blocks."""
        parts = [block._nodes for block in self._in_blocks[0]]
        if not self._nodes.traced or len({part.variances.shape for part in parts}) > 1:
            return xp.stack([xp.asarray(quantity(replica)) for replica in self._replicas])
        stacked = (
            jnp.stack(arrays)
            for arrays in zip(*((p.variances, p.weights, p.groups) for p in parts), strict=True)
        )

        def one(arrays: tuple[Array, Array, Array]) -> Array:
            v, w, u = arrays
            nodes = Nodes(v, w, u, self._nodes.inner, self._nodes.outer)
            return jnp.asarray(quantity(HeadMixture(nodes, replica=True)))

        return jax.lax.map(one, tuple(stacked))

    @property
    def _has_atom(self) -> bool:
        """Is P(Y = 0) > 0? Inside jax.jit that cannot be seen."""
        return not self._nodes.traced and bool(self._mixture.atom > 0)

    def _require_density(self) -> None:
        if self._has_atom:
            raise ValueError(
                f"the law has no density: 1 atom(s) carry {self._mixture.atom:.6g} of its mass "
                "(components of zero variance); law.atoms() lists them"
            )

    def _pdf(self, x: Array) -> Estimate:
        self._require_density()
        return self._estimate(lambda law: law.module(x).exp(law.log_density(x)))

    def _logpdf(self, x: Array) -> Estimate:
        self._require_density()
        return self._estimate(lambda law: law.log_density(x))

    def _cdf(self, x: Array) -> Estimate:
        return self._estimate(lambda law: law.cdf(x))

    def _sf(self, x: Array) -> Estimate:
        return self._estimate(lambda law: law.sf(x))

    def _log_tail(self, x: Array, above: bool) -> Estimate:
        return self._estimate(lambda law: law.log_tail(x, above))

    def _place(self, level: Array, lower: Array) -> Estimate:
        below = np.asarray(lower)

        def quantile(law: HeadMixture) -> Array:
            x = jnp.asarray(law.quantile(np.asarray(level)))
            return jnp.where(below, x, 0.0 - x)  # no −0

        return self._estimate(quantile)

    def _cf(self, t: Array) -> Estimate:
        return self._estimate(lambda law: law.cf(t))

    def _mean(self) -> Estimate:
        return exact(jnp.zeros(()))

    def _variance(self) -> Estimate:
        return self._estimate(lambda law: law.nodes.variance())

    def _covariance(self) -> Estimate:
        return self._variance()

    def _skewness(self) -> Estimate:
        return exact(jnp.zeros(()))

    def _kurtosis(self) -> Estimate:
        return self._estimate(lambda law: kurtosis(law.nodes))

    def _moment(self, k: int) -> Estimate:
        if k % 2:
            return exact(jnp.zeros(()))
        return self._estimate(lambda law: even_moment(k // 2, law.nodes))

    def _expect(self, psi: Psi) -> Estimate:
        return head_expectation.expected(psi, self._mixture, self._estimate)

    def _entropy(self) -> Estimate:
        self._require_density()
        estimate = self._estimate(entropy)
        error = lambda: jnp.hypot(estimate.error(), estimate.value - entropy(self._mixture, 2))
        return Estimate(estimate.value, error)

    def _atoms(self) -> tuple[Atoms, Array]:
        if not self._has_atom:
            return no_atoms()
        mass = self._estimate(lambda law: np.full(1, law.atom))
        return Atoms(jnp.zeros(1), mass.value), mass.error()

    def _sample(self, key: Key[Array, ""], shape: tuple[int, ...]) -> Float[Array, "..."]:
        """Draws: head by head where heads are few, else quantiles of uniform numbers."""
        count = math.prod(shape)
        law = self._mixture
        first, second = jax.random.split(key)
        if self.heads <= HEADS_DRAWN_APART:
            y = jnp.sqrt(law.nodes.draw(first, count)) * normal(second, (count,))
        elif self._has_atom:
            y = jnp.asarray(
                law.quantile(np.asarray(jax.random.uniform(first, (count,), minval=1e-300)))
            )
        else:
            y = hermite(*law.scores, normal(second, (count,)))
        return y.reshape(shape)

    def marginal(self, i: object) -> "HeadSum":
        """The law itself: Y is one number."""
        _, shape = entries(self.shape, i)
        if shape:
            raise IndexError(f"i must leave the one number of the law, got {i!r}")
        return self

    def _content(self) -> Content:
        nodes = self._nodes
        content = {"variances": nodes.variances, "weights": nodes.weights, "groups": nodes.groups}
        numbers = {"heads": self.heads, "shared": self.shared, "narrow": self.narrow}
        return {}, {name: np.asarray(a) for name, a in {**content, **numbers}.items()}

    def blocks(self) -> Blocks | None:
        """The laws of runs of nodes or groups, whose average is this law, if linear in them."""
        if self.kind != "sampled":
            return super().blocks()
        return Blocks(*self._in_blocks) if len(self._in_blocks[0]) >= FEW_BLOCKS else None

    @functools.cached_property
    def _in_blocks(self) -> tuple[tuple["HeadSum", ...], Float[np.ndarray, " b"], bool]:
        parts, weights, exact = self._nodes.blocks(BLOCKS)
        return tuple(self._of(part, self.heads) for part in parts), weights, exact

    @functools.cached_property
    def _replicas(self) -> tuple[HeadMixture, ...]:
        """The blocks as mixtures, for the spread of a quantity over them."""
        return tuple(HeadMixture(block._nodes, replica=True) for block in self._in_blocks[0])

    def middle(self) -> float:
        """0, since the law is symmetric."""
        return 0.0

    def places(self) -> FineStructure:
        """Every scale between those of the narrowest and of the widest node."""
        return head_expectation.places(self._nodes)

    @property
    def description(self) -> str:
        """The number of heads, if there are several, and of nodes of their mixing law."""
        G, N = self._nodes.variances.shape
        heads = f"{self.heads} heads, " if self.heads > 1 else ""
        return f"{heads}{f'{G} × ' if G > 1 else ''}{counted(N, 'node')}"

    def _count(self) -> int:
        return math.prod(self._nodes.variances.shape)


def _apart(value: Array, other: HeadNumber | HeadArray) -> Array:
    """|value − other|, and 0 where both are the same infinity."""
    return jnp.abs(jnp.where(value == other, 0.0, value - other))
