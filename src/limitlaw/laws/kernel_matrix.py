"""What `kernel` returns where there is no closed form: a matrix that is known up to an error, or
the law of one that stays random at infinite width.
"""

import functools
import operator
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy.typing import DTypeLike

from limitlaw.float64 import methods_in_float64, to_numpy
from limitlaw.laws.checking import entries
from limitlaw.laws.empirical import Empirical


@jax.tree_util.register_pytree_node_class
@methods_in_float64
class KernelMatrix:
    """An array in all respects (arithmetic, indexing, functions), with an error for each entry,
    computed when asked for: a quadrature's, or one standard error if "sampled". What is computed
    from it is a plain array.
    """

    __array_priority__ = 100  # so that NumPy arrays leave operators to this class

    def __init__(
        self, value: Any, error: Callable[[], Any], kind: str, beyond: tuple[str, ...] = ()
    ):
        self.value, self._error = to_numpy(value), functools.cache(error)
        self.kind, self.beyond = kind, beyond

    @property
    def error(self) -> Any:
        """The error of each entry."""
        return self._error()

    def tree_flatten(self) -> tuple[tuple[Any, Any], tuple[str, tuple[str, ...]]]:
        """The arrays, and what is static, as JAX's pytrees need them."""
        return (self.value, self.error), (self.kind, self.beyond)

    @classmethod
    def tree_unflatten(
        cls, static: tuple[str, tuple[str, ...]], arrays: tuple[Any, Any]
    ) -> "KernelMatrix":
        """The matrix from its arrays and what is static: the inverse of `tree_flatten`."""
        value, error = arrays
        return cls(value, lambda: error, *static)

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self.value, dtype=dtype)

    def __jax_array__(self) -> Float[Array, "..."]:
        return jnp.asarray(self.value)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name in ("value", "_error"):
            raise AttributeError(name)
        return getattr(self.value, name)

    def __getitem__(self, index: Any) -> Any:
        return self.value[index]

    def __len__(self) -> int:
        return len(self.value)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.value)

    def __float__(self) -> float:
        return float(self.value)

    def __repr__(self) -> str:
        beyond = f", beyond Theorem 3.1: {', '.join(self.beyond)}" if self.beyond else ""
        largest = float(np.max(np.asarray(self.error), initial=0.0))
        return (
            f"KernelMatrix(shape={self.value.shape}, {self.kind}, error up to "
            f"{largest:.1g}{beyond})\n{self.value}"
        )


def _delegated(function: Callable[..., Any], reflected: bool) -> Callable[..., Any]:
    def method(self: KernelMatrix, *others: object) -> Any:
        arguments = [o.value if isinstance(o, KernelMatrix) else o for o in others]
        return function(*arguments, self.value) if reflected else function(self.value, *arguments)

    return method


for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul"):
    setattr(KernelMatrix, f"__{_name}__", _delegated(getattr(operator, _name), reflected=False))
    setattr(KernelMatrix, f"__r{_name}__", _delegated(getattr(operator, _name), reflected=True))
for _name in ("lt", "le", "eq", "ne", "gt", "ge", "neg", "pos", "abs"):
    setattr(KernelMatrix, f"__{_name}__", _delegated(getattr(operator, _name), reflected=False))


class RandomKernel(Empirical):
    """Draws (N, m, m) of a kernel matrix K given the scores; `mean()`, and `np.asarray(kernel)`,
    are E K, and `marginal((i, j))` is the law of K_ij.
    """

    # the law of a deterministic entry, None for others: equal draws do not tell that it is one
    certain: Callable[[int, int], Empirical | None] | None = None

    def marginal(self, i: object) -> Empirical:
        """The law of K[i]; a point mass for an entry that is deterministic."""
        positions, shape = entries(self.shape, i)
        if self.certain is not None and not shape:
            row, column = divmod(int(positions[0]), self.shape[-1])
            return self.certain(row, column) or super().marginal(i)
        return super().marginal(i)

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self.mean(), dtype=dtype)
