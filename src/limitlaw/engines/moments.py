"""First and second moments of the limits Z^v of wide vectors, given all numbers: Definition 3.1 as a recursion.

Cov(v, w) is found by expanding the later of the two by its instruction. Linear instructions act on the covariance;
what is left are pairs of MatMul outputs, initial vectors and Nonlin outputs.
"""

from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from limitlaw import phi as nonlinearities
from limitlaw.engines import linear
from limitlaw.engines.blocks import Block, outer, stacked, total
from limitlaw.engines.families import block_of, family
from limitlaw.engines.fresh import Fresh
from limitlaw.engines.nodes import Nodes
from limitlaw.engines.restricted import restricted_second
from limitlaw.engines.static import Facts
from limitlaw.language import ops
from limitlaw.language.dependence import LINEAR
from limitlaw.language.ops import Value
from limitlaw.language.shapes import finite_shape
from limitlaw.language.values import Wide
from limitlaw.phi import Nonlinearity, moments


@runtime_checkable
class Conditions(Protocol):
    """What has been drawn: numbers, vectors of fixed dimension, and their products with matrices into wide spaces."""

    numbers: dict[Value, Any]

    def units(self, value: Value) -> Float[Array, "..."]:
        """A vector of fixed dimension, in coordinates whose products are Gram entries."""

    def product(self, value: Value) -> Fresh | None:
        """W x for x of fixed dimension, as a Gaussian vector on its own roots, where W meets nothing else."""


class Moments:
    """Means and covariances of the wide vectors of a program. None stands for zero.

    `inflated`: every Gaussian integral that has an error is taken to be its value + its error, so that the difference
    to what comes out otherwise shows how far the errors of all integrals move a result.
    """

    def __init__(
        self,
        facts: Facts,
        conditions: Conditions,
        table: Float[Array, "nodes dimensions"] | None,
        inflated: bool = False,
    ):
        self.facts, self.conditions, self.inflated = facts, conditions, inflated
        self.quadrature = False  # was an integral computed that has no closed form?
        self._means: dict[Value, Float[Array, "..."] | None] = {}
        self._blocks: dict[tuple[Value, Value], Block | None] = {}
        self._products: dict[tuple[Value, Value], Block | None] = {}
        self.nodes = Nodes(self, table)

    # --- means ------------------------------------------------------------------------------------------------------

    def mean(self, v: Value) -> Float[Array, "..."] | None:
        """E Z^v."""
        if v not in self._means:
            mean = self._mean(v, v.op)
            self._means[v] = None if mean is None else jnp.broadcast_to(mean, finite_shape(v.shape))
        return self._means[v]

    def _mean(self, v: Value, op: Any) -> Any:
        if self.facts.is_bilinear(v):
            return None
        if isinstance(op, LINEAR):
            vectors = {u: self.mean(u) for u in op.inputs if isinstance(u, Wide)}
            if all(m is None for m in vectors.values()):
                return None
            arrays = {u: jnp.zeros(finite_shape(u.shape)) if m is None else m for u, m in vectors.items()}
            return linear.applied(v, {u: m[..., None] for u, m in arrays.items()}, self.conditions.numbers)[..., 0]
        if isinstance(op, ops.Ones):
            return jnp.ones(())
        if isinstance(op, ops.Initial):
            return jnp.asarray(op.mean) if not isinstance(op.mean, np.ndarray) or op.mean.any() else None
        if isinstance(op, ops.Map):
            return self._mean_of_map(v, op)
        return None

    def _mean_of_map(self, v: Value, op: ops.Map) -> Any:
        u = self.facts.argument(v)
        if u is not None:
            phi = self._function(op, lambda a: a)
            return self._moment("mean", moments.mean_is_closed(phi), phi, _zero(self.mean(u)), self.variance(u))
        factors = self._independent_factors(op)
        if factors is None:
            return self.nodes.at(v).mean(axis=-1)
        first, second = (self.mean(f) for f in factors)
        return None if first is None or second is None else first * second

    def variance(self, v: Value) -> Float[Array, "..."]:
        """Var Z^v, entry by entry."""
        block = self.covariance(v, v)
        return jnp.zeros(finite_shape(v.shape)) if block is None else block.diagonal()

    # --- covariances ------------------------------------------------------------------------------------------------

    def second(self, v: Value, w: Value) -> Block | None:
        """E[Z^v Z^w]."""
        if isinstance(v.op, ops.Map) and isinstance(w.op, ops.Map):
            block = self._product(v, w)
            if block is not None and not block.pairs:
                return block
        block = self.covariance(v, w)
        means = self.mean(v), self.mean(w)
        if means[0] is None or means[1] is None:
            return block
        product = outer(means[0], means[1])
        return product if block is None else total([block, product], block.left)

    def covariance(self, v: Value, w: Value) -> Block | None:
        """Cov(Z^v, Z^w)."""
        if self.facts.independent(v, w):
            return None
        if self.facts.position[v] < self.facts.position[w]:
            block = self.covariance(w, v)
            return None if block is None else block.swapped
        if (v, w) not in self._blocks:
            self._blocks[v, w] = self._expanded(v, w)
        return self._blocks[v, w]

    def _expanded(self, v: Value, w: Value) -> Block | None:
        if self.facts.is_linear(v):
            return self.linear(v, lambda u: self.covariance(u, w))
        if self.facts.is_linear(w):
            block = self.linear(w, lambda u: self.covariance(u, v))
            return None if block is None else block.swapped
        if self.facts.is_bilinear(v) or self.facts.is_bilinear(w):
            return self._bilinear(v, w)
        if isinstance(v.op, ops.Map):
            return self._map_with_map(v, w) if isinstance(w.op, ops.Map) else self._map_with_gaussian(v, w)
        if isinstance(w.op, ops.Map):
            block = self._map_with_gaussian(w, v)
            return None if block is None else block.swapped
        return self._initial(v) if isinstance(v.op, ops.Initial) else self._matmuls(v, w)

    def linear(self, v: Value, of: Callable[[Value], Block | None]) -> Block | None:
        """The instruction of v applied to covariances of what it reads."""
        op: Any = v.op
        left = finite_shape(v.shape)
        numbers = self.conditions.numbers
        if isinstance(op, ops.Add):
            blocks = [block for block in map(of, op.terms) if block is not None]
            return total(blocks, left) if blocks else None
        if isinstance(op, ops.Stack):
            terms = [of(t) for t in op.terms]
            return stacked(op, terms, left) if any(t is not None for t in terms) else None
        block = of(op.w if isinstance(op, ops.Mix | ops.Scale) else op.x)
        if block is None:
            return None
        match op:
            case ops.Mix():
                return block.mixed(op, numbers[op.a], left)
            case ops.Scale():
                return block.scaled(numbers[op.a], left)
            case ops.Sum():
                return block.summed(op)
            case ops.Index():
                return block.indexed(op, left)
            case ops.Reshape():
                return block.reshaped(left)
            case ops.Transpose():
                return block.transposed(op, left)
        raise TypeError(f"{type(op).__name__} is no linear instruction")

    def _bilinear(self, v: Any, w: Any) -> Block | None:
        """Cov(Σ_j p_ij v_j, Σ_l p_kl w_l) = E[q_i q_k] Σ_jl E[k_j k_l] E[v_j w_l], for scores p = n^{-1/2} qᵀk."""
        if not (self.facts.is_bilinear(v) and self.facts.is_bilinear(w) and v.op.a is w.op.a):
            return None  # E p = 0
        q, k = v.op.a.op.inputs
        left, right = finite_shape(v.shape), finite_shape(w.shape)
        queries = self._spread(self.second(q, q), left, right)
        tokens = finite_shape(k.shape[-1:])
        keys, vectors = (
            self._spread(self.second(*pair), (*left[:-1], *tokens), (*right[:-1], *tokens))
            for pair in ((k, k), (v.op.w, w.op.w))
        )
        if queries is None or keys is None or vectors is None:
            return None
        weights = keys.times(vectors)
        for _ in "jl":
            last = len(weights.left) - 1
            weights = weights.dense([last]).summed(ops.Sum(v.op.w, (last,), normalised=False))
            weights = weights.reshaped_with_axis().swapped
        return queries.times(weights)

    def _initial(self, v: Value) -> Block:
        op: Any = v.op
        shape = finite_shape(v.shape)
        cov = op.cov
        if isinstance(cov, np.ndarray) and np.array_equal(cov, np.diag(np.diag(cov))):
            pairs = tuple((a, a) for a in range(len(shape)))
            array = jnp.asarray(np.diag(cov)).reshape(*shape, *(1,) * len(shape))
            return Block(array, shape, shape, pairs)
        return Block(jnp.asarray(cov).reshape(*shape, *shape), shape, shape)

    def _matmuls(self, v: Value, w: Value) -> Block | None:
        """Cov(W x, W x') = std² E[x x'], for each matrix of the family."""
        op, other = v.op, w.op
        assert isinstance(op, ops.MatMul)
        assert isinstance(other, ops.MatMul)
        if op.matrix.cols.wide:
            own = frozenset(-k for k, size in enumerate(reversed(op.matrix.shape), start=1) if size > 1)
            block = restricted_second(self.second, self.conditions.numbers, op.x, other.x, own)
            return None if block is None else family(block, op.matrix, v, w)
        fresh = self.conditions.product(v) if v is w else None
        if fresh is not None:
            return block_of(fresh)
        x, y = self.conditions.units(op.x), self.conditions.units(other.x)
        r = min(x.shape[-1], y.shape[-1])
        shapes = x.shape[:-1], y.shape[:-1]
        gram = x[..., :r].reshape(-1, r) @ y[..., :r].reshape(-1, r).T
        return family(Block(gram.reshape(*shapes[0], *shapes[1]), *shapes), op.matrix, v, w)

    # --- Nonlin -----------------------------------------------------------------------------------------------------

    def _map_with_map(self, v: Value, w: Value) -> Block | None:
        """Cov(φ(u), ψ(u')) = E[φ(u) ψ(u')] − E φ(u) E ψ(u')."""
        if not (self.facts.integrable(v) and self.facts.integrable(w)):
            return self._factored(v, w)
        block = self._product(v, w)
        if block is None:
            return None
        first, second = self.mean(v), self.mean(w)
        if first is None or second is None:
            return block
        array = block.array - block.on_left(first) * block.on_right(second)
        return Block(array, block.left, block.right, block.pairs)

    def _product(self, v: Value, w: Value) -> Block | None:
        """E[φ(u) ψ(t)] of functions of one Gaussian vector each; None where they are not, or are independent."""
        if (v, w) not in self._products:
            self._products[v, w] = self._integrated(v, w)
        return self._products[v, w]

    def _integrated(self, v: Any, w: Any) -> Block | None:
        u, t = self.facts.argument(v), self.facts.argument(w)
        if u is None or t is None or not (self.facts.integrable(v) and self.facts.integrable(w)):
            return None
        block = self._spread(self.covariance(u, t), finite_shape(v.shape), finite_shape(w.shape))
        if block is None:
            return None
        phi, psi = self._function(v.op, block.on_left), self._function(w.op, block.on_right)
        means = self.mean(u), self.mean(t)
        m_u = 0.0 if means[0] is None else block.on_left(means[0])
        m_t = 0.0 if means[1] is None else block.on_right(means[1])
        K_uu, K_tt = block.on_left(self.variance(u)), block.on_right(self.variance(t))
        closed = moments.product_is_closed(phi, psi, m_u, m_t)
        array = self._moment("product", closed, phi, psi, m_u, m_t, K_uu, block.array, K_tt)
        return Block(array, block.left, block.right, block.pairs)

    def _moment(self, name: str, closed: bool, *arguments: Any) -> Float[Array, "..."]:
        """A Gaussian moment of that name, with its error added where moments are inflated."""
        self.quadrature |= not closed
        if closed or not self.inflated:
            return getattr(moments, name)(*arguments)
        value, error = getattr(moments, f"{name}_with_error")(*arguments)
        return value + error

    def _map_with_gaussian(self, v: Any, g: Value) -> Block | None:
        """Cov(φ(u), g) = E φ'(u) Cov(u, g) (Stein), or E[b] Cov(a, g) for φ = a b with b independent of a and g."""
        u = self.facts.argument(v)
        left = finite_shape(v.shape)
        if u is not None:
            block = self.covariance(u, g)
            if block is None:
                return None
            phi = self._function(v.op, lambda a: a)
            slope = self._moment("slope", moments.mean_is_closed(phi), phi, _zero(self.mean(u)), self.variance(u))
            return block.scaled(jnp.broadcast_to(slope, left), left)
        return self._factored(v, g)

    def _factored(self, v: Any, w: Any) -> Block | None:
        """Cov(a b, c d) of products whose factors are independent; by quasi-Monte Carlo where that does not apply."""
        factors, others = (self._independent_factors(x.op) or (x, None) for x in (v, w))
        for (a, b), (c, d) in ((factors, others), (factors, others[::-1])):
            apart = all(x is None or y is None or self.facts.independent(x, y) for x, y in ((a, d), (b, c)))
            if apart and (b is not None or d is not None):
                return self._product_of_independent(v, w, (a, c), (b, d))
        return self.nodes.covariance(v, w)

    def _product_of_independent(self, v: Any, w: Any, ac: Any, bd: Any) -> Block | None:
        """E[ac] E[bd] − E a E b E c E d = Cov(a,c) Cov(b,d) + E a E c Cov(b,d) + Cov(a,c) E b E d.

        A factor that is absent is 1.
        """
        shapes = finite_shape(v.shape), finite_shape(w.shape)
        covariances, products = [], []
        for x, y in (ac, bd):
            both = x is not None and y is not None
            covariances.append(self._spread(self.covariance(x, y), *shapes) if both else None)
            m, k = (jnp.ones(()) if z is None else self.mean(z) for z in (x, y))
            products.append(None if m is None or k is None else self._spread(outer(m, k), *shapes))
        (A, B), (M, N) = covariances, products
        terms = [x.times(y) for x, y in ((A, B), (M, B), (A, N)) if x is not None and y is not None]
        return total(terms, shapes[0]) if terms else None

    def _spread(self, block: Block | None, left: tuple[int, ...], right: tuple[int, ...]) -> Block | None:
        return None if block is None else block.spread(left, right)

    def _independent_factors(self, op: Any) -> tuple[Value, Value] | None:
        """a and b of a product a b of two independent vectors."""
        if not isinstance(op, ops.Map) or op.phi is not nonlinearities.multiply or len(op.args) != 2:
            return None
        a, b = op.args
        vectors = isinstance(a, Wide) and isinstance(b, Wide)
        return (a, b) if vectors and self.facts.independent(a, b) else None

    def _function(self, op: ops.Map, place: Callable[[Any], Any]) -> Nonlinearity:
        """φ as a function of its one vector, its numbers put in their place."""
        if len(op.args) == 1:
            return op.phi
        numbers = {p: place(self.conditions.numbers[p]) for p in op.args if not isinstance(p, Wide)}

        def function(x: Any) -> Any:
            return op.phi(*(numbers.get(a, x) for a in op.args))

        return Nonlinearity(op.phi.name, function, op.phi.pseudo_lipschitz, op.phi.bounded)


def _zero(m: Any) -> Any:
    return 0.0 if m is None else m
