"""What a sum over heads is built from: nodes of the mixing law, weights, and draws."""

import dataclasses
import functools
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from limitlaw.arguments import frozen, is_traced, non_negative
from limitlaw.domain import RATIO_OF_VARIANCES, check_variances
from limitlaw.laws.estimates import unit
from limitlaw.numerics.series import power

HeadArray = np.ndarray | Array  # a NumPy array, or a JAX array where something is traced
HeadNumber = np.float64 | Array  # a single number


@dataclasses.dataclass(frozen=True)
class Nodes:
    """Variances v (G, N) with weights w (G, N) of row sums one, and weights u (G,) of the rows.

    φ(t) = (Σ_g u_g (Σ_k w_gk e^{−t² v_gk/(2pq)})^p)^q, p = `inner`, q = `outer`.
    """

    variances: HeadArray
    weights: HeadArray
    groups: HeadArray
    inner: int
    outer: int

    @functools.cached_property
    def traced(self) -> bool:
        """Is anything inside a JAX transformation?"""
        return is_traced(self.variances, self.weights, self.groups)

    @property
    def xp(self) -> Any:
        """NumPy, or jax.numpy where something is traced."""
        return jnp if self.traced else np

    def moments(self, j: int) -> HeadArray:
        """Σ_k w_gk v_gk^j, for each g."""
        return (self.weights * self.variances**j).sum(1)

    def variance(self) -> HeadNumber:
        """The variance E v of Y."""
        return (self.groups * self.moments(1)).sum()

    def atom(self) -> HeadNumber:
        """The probability P(Y = 0)."""
        zero = self.xp.where(self.variances == 0, self.weights, 0.0).sum(1)
        return (self.groups * zero**self.inner).sum() ** self.outer

    def ends(self) -> tuple[HeadNumber, HeadNumber]:
        """The smallest and the largest variance that carry weight."""
        carries = self.weights > 0
        v = self.variances
        return self.xp.where(carries, v, self.xp.inf).min(), self.xp.where(carries, v, 0).max()

    @property
    def heads(self) -> int:
        """The number of heads that are summed."""
        return self.inner * self.outer

    @property
    def levels(self) -> int:
        """The octaves between the least and the largest positive variance, and a few below."""
        v = self.variances[(self.weights > 0) & (self.variances > 0)]
        return 4 + (math.ceil(math.log2(v.max() / v.min())) if v.size else 0)

    def frozen(self) -> "Nodes":
        """The same nodes without derivatives."""
        v, w, u = map(frozen, (self.variances, self.weights, self.groups))
        return Nodes(v, w, u, self.inner, self.outer)

    def tilted(self, tilt: HeadNumber | float) -> tuple["Nodes", HeadNumber]:
        """The law of S = (pq)^{−1} Σ v tilted by e^{λS}, and log E e^{λS}: weights w e^{λv/pq}/M_g
        and u M_g^p/Σ_g u_g M_g^p, M_g = Σ_k w_gk e^{λ v_gk/pq}.
        """
        rows, weights = _tilted(self.weights, tilt / self.heads * self.variances)
        total, groups = _tilted(self.groups, self.inner * rows)
        nodes = Nodes(self.variances, weights, groups, self.inner, self.outer)
        return nodes, self.outer * total

    def blocks(self, count: int) -> tuple[list["Nodes"], Float[np.ndarray, " b"], bool]:
        """Consecutive blocks of nodes, of rows where these are many, else of each row; their
        weights; and whether φ is linear in what is cut, and so the average over blocks.
        """
        G, N = self.variances.shape
        axis = 0 if G >= count or G > N else 1
        parts = np.array_split(
            np.arange(self.variances.shape[axis]), min(count, self.variances.shape[axis])
        )
        linear = self.outer == 1 if axis == 0 else G == self.inner == self.outer == 1
        carried = self.groups if axis == 0 else self.groups @ self.weights
        total = self.xp.stack([carried[part].sum() for part in parts])
        if not is_traced(total):
            parts, total = (
                [part for part, a in zip(parts, total, strict=True) if a > 0],
                total[total > 0],
            )
        laws = []
        for part in parts:
            if axis == 0:
                v, w, u = self.variances[part], self.weights[part], self.groups[part]
            else:
                v, w, u = self.variances[:, part], self.weights[:, part], self.groups
            laws.append(Nodes(v, w / w.sum(1, keepdims=True), u / u.sum(), self.inner, self.outer))
        return laws, total / total.sum(), linear

    def draw(self, key: Array, count: int) -> Array:
        """`count` draws of the mean v over heads: a row for every p heads, a node for each."""
        arrays = (jnp.asarray(a) for a in (self.variances, self.weights, self.groups))
        return _drawn(key, *arrays, count, self.inner, self.outer)


def _tilted(weights: HeadArray, e: HeadArray) -> tuple[Any, HeadArray]:
    """log Σ_k w_k e^{e_k}, and w_k e^{e_k} over that sum, along the last axis: to all digits also
    if next to nothing, as for one of very many heads.
    """
    xp = jnp if is_traced(weights, e) else np
    middle, most = frozen((weights * e).sum(-1)), frozen(e).max(-1)
    near = most - middle < 1
    shift = xp.where(near, middle, most)
    e = e - shift[..., None]
    terms = weights * xp.exp(e)
    total = terms.sum(-1)
    change = xp.where(near, (weights * xp.expm1(e)).sum(-1), 0.0)
    log = xp.where(near, xp.log1p(change), xp.log(total))
    return shift + log, terms / total[..., None]


@functools.partial(jax.jit, static_argnums=(4, 5, 6))
def _drawn(
    key: Array, variances: Array, weights: Array, groups: Array, count: int, inner: int, outer: int
) -> Array:
    rows, nodes = jnp.cumsum(groups), jnp.cumsum(weights, axis=1)
    G, N = variances.shape
    ends = (nodes / nodes[:, -1:] + jnp.arange(G)[:, None]).reshape(-1)
    first, second = jax.random.split(key)
    g = jnp.searchsorted(
        rows, jax.random.uniform(first, (outer, 1, count)) * rows[-1], side="right"
    )
    g = jnp.minimum(g, G - 1)
    index = jnp.searchsorted(
        ends, g + jax.random.uniform(second, (outer, inner, count)), side="right"
    )
    return variances.reshape(-1)[jnp.clip(index, g * N, g * N + N - 1)].mean(axis=(0, 1))


def even_moment(n: int, nodes: Nodes) -> HeadNumber:
    """E Y^{2n} for E e^{θY} = (Σ_g u_g (Σ_k w_gk e^{λ v_gk})^p)^q, λ = θ²/(2pq), of `nodes` u, w,
    v, p and q.

    It is (2n)!/(2pq)^n times the coefficient of λ^n. That is of order one in the variable λ/s, s ≈
    n/(e V), where V is the larger of pq E v, which many heads make up together, and of the largest
    v, which a single one may.
    """
    if not n:
        return nodes.xp.float64(1.0)
    pq = nodes.inner * nodes.outer
    V = nodes.xp.maximum(pq * nodes.variance(), nodes.ends()[1])
    s = nodes.xp.asarray(unit(n / math.e / nodes.xp.where(V > 0, V, 1.0)))
    a = [
        (nodes.weights * (s * nodes.variances) ** j).sum(1) / math.factorial(j)
        for j in range(1, n + 1)
    ]
    within = power(nodes.xp.stack([nodes.xp.ones_like(a[0]), *a]), nodes.inner, nodes.xp)
    rows = (nodes.groups * within[1:]).sum(1)
    moment = power(nodes.xp.concatenate([nodes.xp.ones(1), rows]), nodes.outer, nodes.xp)[n]
    with np.errstate(over="ignore"):
        for i in range(1, n + 1):
            moment = moment * (2 * i * (2 * i - 1) / (2 * pq * s))
    return moment


def kurtosis(nodes: Nodes) -> HeadNumber:
    """3/q (Var_u μ_g + Σ_g u_g σ_g²/p), μ_g and σ_g² mean and variance of v/V in group g, V = E v:
    no square of v leaves the range of floats. NaN where V = 0.
    """
    V = nodes.variance()
    V = nodes.xp.where(V > 0, V, math.nan)
    share, mean = nodes.variances / V, nodes.moments(1) / V
    within = (nodes.weights * (share - mean[:, None]) ** 2).sum(1)
    between = (nodes.groups * (mean - 1) ** 2).sum()
    return 3 * (between + (nodes.groups * within).sum() / nodes.inner) / nodes.outer


def head_nodes(
    variances: object, heads: int, weights: object, groups: object, shared: int
) -> Nodes:
    """The nodes of a sum over heads, from arguments that are checked."""
    if heads % shared:
        raise ValueError(f"shared must divide heads, got shared={shared} for {heads} heads")
    v = non_negative("variances", variances)
    if v.ndim not in (1, 2) or 0 in v.shape:
        raise ValueError(
            "variances must have shape (nodes,) or (groups, nodes), not empty, got shape "
            f"{v.shape}"
        )
    if not is_traced(v):
        check_variances("variances", v, small=False)
    shape = v.shape
    w = np.ones(shape) if weights is None else non_negative("weights", weights)
    if w.shape != shape:
        raise ValueError(f"weights must have the shape of variances, {shape}, got shape {w.shape}")
    v, w = v.reshape(-1, shape[-1]), w.reshape(-1, shape[-1])
    u = np.ones(len(v)) if groups is None else non_negative("groups", groups)
    if u.shape != (len(v),):
        raise ValueError(
            f"groups must have shape {(len(v),)}, one weight per row of variances, got shape "
            f"{u.shape}"
        )
    inner, outer = (shared, heads // shared) if shared > 1 else (heads, 1)
    return Nodes(
        _above_floor(v), _normalised("weights", w), _normalised("groups", u), inner, outer
    )


def _above_floor(v: HeadArray) -> HeadArray:
    """v, with the smallest positive variances raised to 1/RATIO_OF_VARIANCES of the largest."""
    xp = jnp if is_traced(v) else np
    return xp.where(v > 0, xp.maximum(v, frozen(v).max() / RATIO_OF_VARIANCES), 0.0)


def _normalised(name: str, w: HeadArray) -> HeadArray:
    """Rows of sum one; rows that already have it stay as they are, bit for bit."""
    total = w.sum(-1, keepdims=True)
    if is_traced(w):
        return w / total
    if (total <= 0).any():
        raise ValueError(f"{name} must have a positive sum, got all zeros")
    return w if (abs(total - 1) < 1e-9).all() else w / total
