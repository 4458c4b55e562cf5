"""One step of training as a program.

A step of gradient descent changes a matrix by W' = W − η_W Σ_j b_j z_jᵀ/√rows, where z_j are the
vectors that W meets in f and b_j = √rows ∂L/∂(W z_j): of rank as many as these, so that the
network after the step is a program in the same W and Wᵀ,

    W' x' = W x' − η_W (cols/√rows) Σ_j b_j ⟨z_j, x'⟩,    ⟨z, x⟩ = cols⁻¹ Σ_α z_α x_α,

and likewise from the other side, where y = √(cols/rows) Wᵀ x.
"""

import dataclasses
import functools
import itertools
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, cast

import jax.numpy as jnp
import numpy as np

from limitlaw import phi
from limitlaw.arguments import one_of, real_number, shown
from limitlaw.backward.pullbacks import KNOWN
from limitlaw.backward.reverse import products
from limitlaw.backward.uses import Use, in_front, own_axes, uses
from limitlaw.core.space import Dim
from limitlaw.functions import by_value
from limitlaw.language import ops
from limitlaw.language.functions import dot
from limitlaw.language.matrices import Matrix
from limitlaw.language.repeating import reading
from limitlaw.language.shapes import finite_shape
from limitlaw.language.tree import Value, ancestors
from limitlaw.language.values import (
    Scalars,
    Wide,
    coordinatewise,
    dimension_ratio,
    mix,
    scalars,
    whole,
    wide,
)
from limitlaw.language.writing_out import without_loops

OPTIMIZERS = ("sgd", "sign")


def after_step(
    net: Any,
    f: Scalars,
    loss: Callable[..., Any],
    lr: float | Mapping[Matrix, float],
    optimizer: str = "sgd",
    parametrization: "str | Callable[[Matrix], Rate]" = "ntk",
) -> Any:
    """The network after one step of training on f: a program in the same matrices.

    `net` is a value of a program, or a sequence or dict of several; `f` is what is trained, a
    number of the program or a batch (m,) of them, as of m inputs, and `loss` a function of its
    values, which is summed. Every matrix changes by W' = W − η_W ∂L/∂W, for `optimizer="sign"` by
    the sign of that; initial vectors and constants stay. `lr` is η for all matrices, or a dict of
    η for those that are trained, and `parametrization` says what η is the learning rate of:

        "ntk"        of standard normal w, W = σ w/√cols:  η_W = η σ²/cols  (sign: η σ/√cols)
        "standard"   of W itself:                          η_W = η
        "mup"        of W by its shape:                    η_W = η rows/cols     (sign: η/cols)
                     of an output layer under 1/√cols:     η_W = η             (sign: η/√cols)

    or it is a function that gives the `Rate` of a matrix. Loops are written out, as for
    `gradient`.

    Examples:
        >>> import limitlaw as ll
        >>> y = ll.mlp(ll.data([[1.0, 0.0], [0.6, 0.8]]), phi=ll.relu)
        >>> f = ll.dot(ll.initial(), y)
        >>> after = ll.after_step(f, f, lambda f: 0.5 * (f - 1) ** 2, lr=0.1)
        >>> ll.finite_samples(after - f, width=32, samples=5, key=0).shape
        (5, 2)
    """
    values, packed = _unpacked(net)
    return packed(Step.of(values, f, loss, lr, optimizer, parametrization).after)


class Rate(NamedTuple):
    """The learning rate of a matrix itself, η_W = η σ^std rows^rows cols^cols with W_αβ ~ N(0,
    σ²/cols); the powers of dimensions are multiples of 1/2.
    """

    std: float = 0.0
    rows: float = 0.0
    cols: float = 0.0


@dataclasses.dataclass(frozen=True)
class Step:
    """Values of a program without loops, and the same values after the step."""

    before: tuple[Any, ...]
    after: tuple[Any, ...]

    @classmethod
    def of(
        cls,
        values: Sequence[Any],
        f: Scalars,
        loss: Callable[..., Any],
        lr: float | Mapping[Matrix, float],
        optimizer: str,
        parametrization: "str | Callable[[Matrix], Rate]",
    ) -> "Step":
        """As `after_step` says."""
        f, *before = cast(Any, without_loops([_checked(f), *values]))
        found = uses(products(_loss(loss, f)), {})
        one_of("optimizer", optimizer, OPTIMIZERS)
        sign = optimizer == "sign"
        matrices = [each for each in found if isinstance(each, Matrix)]
        moves = {}
        for matrix, (eta, rate) in _rates(lr, matrices, f, sign, parametrization).items():
            met = [_signs(matrix, found[matrix])] if sign else found[matrix]
            moves[matrix] = Move(matrix, met, eta, rate, 0.0 if sign else -0.5)
        return cls(tuple(before), _moved(before, moves))


def _unpacked(net: Any) -> tuple[list[Any], Callable[[Sequence[Any]], Any]]:
    """The values of what is one, a sequence or a dict, and how others are put in its form."""
    if isinstance(net, Mapping):
        names = list(net)
        return _all_values(net.values()), lambda new: dict(zip(names, new, strict=True))
    if isinstance(net, tuple | list):
        return _all_values(net), type(net)
    return _all_values([net]), lambda new: new[0]


def _all_values(values: Any) -> list[Any]:
    for v in values:
        if not isinstance(v, Wide | Scalars):
            raise TypeError(f"net must be values of a program, got {shown(v)}")
    return list(values)


def _checked(f: object) -> Scalars:
    if not isinstance(f, Scalars) or f.ndim > 1:
        raise TypeError(f"f must be numbers of a program, of shape () or (m,), got {f!r}")
    return f


def _loss(loss: object, f: Scalars) -> Scalars:
    """Σ loss(f)."""
    if not callable(loss):
        raise TypeError(f"loss must be a function of f's values, got {shown(loss)}")
    return whole("loss", by_value(loss), f).sum()


def _signs(matrix: Matrix, met: list[Use]) -> Use:
    """The sign of b zᵀ is sign(b) sign(z)ᵀ: that of a sum of such is no product."""
    (use, *others) = met
    if others or use.left.shape[-1] != 1:
        raise ValueError(
            "optimizer='sign' needs a matrix to meet one vector in f, as for one input of a "
            f"feed-forward network: the sign of a sum has full rank; {matrix!r} meets several"
        )
    left, right = (coordinatewise(phi.sign, w) for w in (use.left, use.right) if w is not None)
    return dataclasses.replace(use, left=left, right=right)


# --- learning rates ------------------------------------------------------------------------------


def _rates(
    lr: object, known: list[Matrix], f: Scalars, sign: bool, parametrization: object
) -> dict[Matrix, tuple[float, Rate]]:
    """η and the rate of each matrix that is trained."""
    if not known:
        raise ValueError("f must multiply by a matrix, which is trained: it has none")
    each = lr if isinstance(lr, Mapping) else dict.fromkeys(known, lr)
    for matrix in each:
        if matrix not in known:
            raise ValueError(f"lr must be of matrices that f multiplies by, got {matrix!r}")
    rule: Callable[[Matrix], Rate]
    if callable(parametrization):
        rule = parametrization
    else:
        name = one_of("parametrization", parametrization, tuple(PARAMETRIZATIONS))
        rule = functools.partial(PARAMETRIZATIONS[name], f, sign)
    return {
        matrix: (real_number("lr", eta), Rate(*map(float, rule(matrix))))
        for matrix, eta in each.items()
    }


def _ntk(f: Scalars, sign: bool, matrix: Matrix) -> Rate:
    return Rate(std=1.0, cols=-0.5) if sign else Rate(std=2.0, cols=-1.0)


def _standard(f: Scalars, sign: bool, matrix: Matrix) -> Rate:
    return Rate()


def _mup(f: Scalars, sign: bool, matrix: Matrix) -> Rate:
    """Of Yang et al. (2022), as W of N(0, σ²/cols) and the multiplier 1/√cols of outputs say."""
    if matrix.rows.wide or not matrix.cols.wide:
        return Rate(cols=-1.0) if sign else Rate(rows=1.0, cols=-1.0)
    if not _is_output(matrix, f):
        raise ValueError(
            "parametrization='mup' has no rule for a matrix from width n to a fixed dimension "
            f"unless f is linear in what it makes, as in an output layer, got {matrix!r}: give a "
            "function of matrices that says the Rate of each"
        )
    return Rate(cols=-0.5) if sign else Rate()


PARAMETRIZATIONS: Mapping[str, Callable[[Scalars, bool, Matrix], Rate]] = {
    "ntk": _ntk,
    "standard": _standard,
    "mup": _mup,
}


def _is_output(matrix: Matrix, f: Scalars) -> bool:
    """Is f linear in what the matrix makes, with no other matrix in between?"""
    behind: set[Value] = set()
    for v in ancestors([f]):
        op = v.op
        read = [u for u in op.inputs if u in behind]
        if isinstance(op, ops.MatMul) and op.matrix is matrix and not read:
            behind.add(v)
        elif read:
            if isinstance(op, ops.MatMul) or not _is_linear(op, read):
                return False
            behind.add(v)
    return True


def _is_linear(op: Any, read: list[Value]) -> bool:
    """In values that an operation reads, where no other value depends on them?"""
    if isinstance(op, ops.Map):
        return op.phi.linear or (op.phi == phi.multiply and len(read) == 1)
    if isinstance(op, ops.Apply):
        affine = op.structure == "affine" or (op.f is jnp.multiply and len(read) == 1)
        return affine or (op.f in KNOWN and op.f is not jnp.multiply)
    return not isinstance(op, ops.Dot | ops.Mix | ops.Scale) or len(read) == 1


# --- the step ------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Move:
    """W' − W = −η_W rows^root Σ_r l_r k_rᵀ over the `uses` of W, as a product with vectors."""

    matrix: Matrix
    uses: list[Use]
    eta: float
    rate: Rate
    root: float

    def of(self, x: Wide, ndim: int, transposed: bool) -> Wide:
        """(W' − W) x for vectors x, or √(cols/rows) (W' − W)ᵀ x, with `ndim` batch axes."""
        own = own_axes(self.matrix, ndim)
        x = x[(None,) * (ndim - x.ndim)]
        rest = [a for a in range(ndim) if a not in own]
        shape = [*(self.matrix.shape[a - ndim] for a in own), *(x.shape[a] for a in rest)]
        terms = self._terms(in_front(x, own, len(own)), transposed)
        change: Any = functools.reduce(operator.add, terms)
        return change.reshape(tuple(shape)).transpose(*np.argsort([*own, *rest]).tolist())

    def _terms(self, x: Wide, transposed: bool) -> Iterator[Wide]:
        """−η_W rows^root cols Σ_r l_r ⟨k_r, x⟩ for each use, or what is so from the other side."""
        factor = self._factor(transposed)
        for use in self.uses:
            assert use.right is not None  # that of a matrix
            met, made = (use.left, use.right) if transposed else (use.right, use.left)
            yield mix(factor * dot(x, met, "linear"), made)

    def _factor(self, transposed: bool) -> Any:
        """−η_W rows^root cols, or −η_W rows^root √(cols/rows) rows, for each of the family."""
        matrix, rate = self.matrix, self.rate
        rows, cols = rate.rows + self.root, rate.cols + 1
        if transposed:
            rows, cols = rows + 0.5, cols - 0.5
        std = np.broadcast_to(np.asarray(matrix.std), finite_shape(matrix.shape))
        sizes = [int(size) for size in matrix.shape if size != 1]
        factor = -self.eta * std.reshape(sizes)[..., None, None] ** rate.std
        return _power(matrix.rows, rows, matrix.cols, cols) * factor


def _power(first: Dim, p: float, second: Dim, q: float) -> Scalars:
    """first^p second^q for multiples p, q of 1/2."""
    if first == second:
        p, q = p + q, 0.0
    constant, over, under = 1.0, list[Dim](), list[Dim]()
    for dim, power in ((first, p), (second, q)):
        if not float(2 * power).is_integer():
            raise ValueError(f"powers of dimensions must be multiples of 1/2, got {power:g}")
        if dim.wide:
            (over if power > 0 else under).extend([dim] * int(abs(2 * power)))
        else:
            constant *= dim.at(1) ** power
    ratios = (dimension_ratio(a, b) for a, b in itertools.zip_longest(over, under))
    return functools.reduce(operator.mul, ratios, scalars(constant))


def _moved(values: Sequence[Any], moves: Mapping[Matrix, Move]) -> tuple[Any, ...]:
    """The same values by products with W' in place of W."""
    new: dict[Value, Any] = {}
    for v in ancestors(values):
        op = reading(v.op, new)
        if isinstance(op, ops.Unrolled):
            new[v] = op.turns[-1]
            continue
        same = all(new[u] is u for u in v.op.inputs)
        new[v] = v if same else dataclasses.replace(v, op=op)
        if isinstance(op, ops.MatMul) and op.matrix in moves:
            x = wide("x", op.x)
            new[v] += moves[op.matrix].of(x, v.ndim, op.transposed)
    return tuple(new[v] for v in values)
