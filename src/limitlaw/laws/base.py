"""What every law gives: density, cdf, quantiles, moments, samples, and the error of each."""

import abc
import functools
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeVar

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Complex, Float, Inexact, Key

from limitlaw.arguments import as_key, one_of
from limitlaw.float64 import PickledState, methods_in_float64
from limitlaw.laws.checking import UNSAID, one_meaning, order, sample_shape
from limitlaw.laws.errors import Errors
from limitlaw.laws.estimates import Atoms
from limitlaw.laws.scipy_names import ScipyNames
from limitlaw.laws.tracing import Psi, average_of, quantity
from limitlaw.notebook import frame
from limitlaw.numerics.meshes import FineStructure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Derived = TypeVar("Derived", bound="Law")
# the content of a file: a header and arrays
Content = tuple[dict[str, Any], dict[str, np.ndarray]]

KINDS = ("exact", "quadrature", "sampled")
# levels of the quantiles that show where a law lives
LEVELS_OF_PLACES = (1e-16, 1e-3, 0.05, 0.25, 0.5, 0.75, 0.95, 1 - 1e-3, 1 - 1e-16)


class Blocks(NamedTuple):
    """Laws p_b of independent blocks of draws, with weights a_b of sum one: p = Σ_b a_b p_b.

    That is to first order in the noise only where `exact` is False.
    """

    laws: tuple["Law", ...]
    weights: Float[np.ndarray, " b"]
    exact: bool = True


@methods_in_float64
class Law(ScipyNames):
    """The distribution of a random array Y of `shape`: () for one number, (s,) for s tokens
    jointly.

    `kind` says where its quantities come from: "exact" (closed forms), "quadrature", or "sampled".
    `law.error` has the error of each one, under the same name: `law.error.pdf(x)`. `beyond` lists
    what lies beyond Theorem 3.1. `effort` says so where time decided how many draws there are:
    "2048 of 65536 draws in a budget of 20 s".
    """

    discrete = False  # does all mass lie in points, as that of samples?
    known: ClassVar[dict[str, type["Law"]]] = {}  # every kind of law by its name, for `load`
    _other: Callable[[], "Law"] | None = None

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        known, place = Law.known.get(cls.__name__, cls), (cls.__module__, cls.__qualname__)
        if (known.__module__, known.__qualname__) != place:  # the same one may be written again
            raise TypeError(
                f"a law named {cls.__name__} is there already, {known.__module__}."
                f"{known.__qualname__}, and files know laws by this name: choose another"
            )
        Law.known[cls.__name__] = methods_in_float64(cls)

    def __init__(self, shape: tuple[int, ...], kind: str, beyond: tuple[str, ...]) -> None:
        self.shape = shape
        self.kind = one_of("kind", kind, KINDS)
        self.beyond = tuple(beyond)
        self.effort = ""

    @property
    def error(self) -> Errors:
        """The error of each quantity by its name: statistical or a quadrature's; 0 if exact."""
        return Errors(self)

    def compared_with(self: Derived, other: Callable[[], "Law"]) -> Derived:
        """This law, whose errors hold its difference to `other()`, the same by another rule."""
        self._other = functools.cache(other)
        return self

    @property
    def other(self) -> "Law | None":
        """The same law by another rule, where `compared_with` gave one; else None."""
        return None if self._other is None else self._other()

    def _alike(self, law: Derived, derive: Callable[[Any], "Law"]) -> Derived:
        """`law`, made from this one, with its effort, compared with what the other law gives."""
        law.effort, other = self.effort, self._other
        return law if other is None else law.compared_with(lambda: derive(other()))

    @quantity
    def pdf(self, x: object) -> Float[Array, "..."]:
        """The density at x, `(…, *shape)` → (…); of the part without atoms if there are any."""
        x = self._points("x", x)
        return self._at_poles(x, jnp.inf, self._pdf(x).value)

    @quantity
    def logpdf(self, x: object) -> Float[Array, "..."]:
        """The log density at x, of shape `(…, *shape)` → (…)."""
        x = self._points("x", x)
        return self._at_poles(x, jnp.inf, self._logpdf(x).value)

    def with_pole(self: Derived) -> Derived:
        """This law of one number, marked as having an infinite density at 0."""
        self._poles = (0.0,)
        return self

    @quantity
    def cdf(self, x: object) -> Float[Array, "..."]:
        """The distribution function P(Y ≤ x)."""
        # sums of weights round
        return jnp.minimum(self._cdf(self._numbers("cdf", "x", x)).value, 1.0)

    @quantity
    def sf(self, x: object) -> Float[Array, "..."]:
        """The survival function P(Y > x), accurate in relative terms in the far tail."""
        return jnp.minimum(self._sf(self._numbers("sf", "x", x)).value, 1.0)

    @quantity
    def ppf(self, q: object) -> Float[Array, "..."]:
        """The quantile: the smallest x with cdf(x) ≥ q."""
        return self._ppf(self._levels("ppf", q)).value

    @quantity
    def cf(self, t: object) -> Complex[Array, "..."]:
        """The characteristic function E exp(i t·Y) at t, of shape `(…, *shape)` → (…)."""
        return self._cf(self._points("t", t)).value

    def mean(self) -> Float[Array, "..."]:
        """The mean E Y, entry by entry."""
        return self._mean().value

    def variance(self) -> Float[Array, "..."]:
        """The variance Var Y, entry by entry."""
        return self._variance().value

    def covariance(self) -> Float[Array, "..."]:
        """The covariance matrix of the flattened Y; the variance for one number."""
        return self._covariance().value

    def kurtosis(self) -> Float[Array, "..."]:
        """The excess kurtosis, entry by entry: 0 for a Gaussian."""
        return self._kurtosis().value

    def moment(self, k: int) -> Float[Array, "..."]:
        """The moment E Y^k, entry by entry, k ≤ 300: about zero, not about the mean."""
        return self._moment(order(k)).value

    def expect(self, psi: Psi) -> Inexact[Array, "..."]:
        """E ψ(Y), for a jnp function `psi` of arrays `(…, *shape)` that keeps the … axes first."""
        return average_of(psi, self.shape, lambda psi: self._expect(psi).value)

    @quantity
    def entropy(self) -> Float[Array, ""]:
        """The differential entropy −E log pdf(Y), in nats."""
        return self._entropy().value

    def atoms(self) -> Atoms:
        """The points of positive probability; none for a law with a density."""
        return self._atoms()[0]

    def blocks(self) -> Blocks | None:
        """This law as the average of laws of independent blocks of its draws, whose spread is its
        noise: of itself where it is not sampled; None where it cannot be cut.
        """
        return None if self.kind == "sampled" else Blocks((self,), np.ones(1))

    def thinned(self) -> "Law":
        """The law of some of its components, where they are many: enough to see where it lives."""
        return self

    def middle(self) -> float:
        """A point near the median with much mass on both sides, found fast; for one number."""
        return float(self.thinned().ppf(0.5))

    def places(self) -> FineStructure:
        """Points at which the law of one number varies, and the scale: panels follow them."""
        x = np.asarray(self.thinned().ppf(np.array(LEVELS_OF_PLACES)))
        return x, np.full(len(x), (x[-2] - x[1]) / 16)

    def breaks(self) -> Float[np.ndarray, " breaks"]:
        """The points at which the density may jump or be infinite; for laws of one number."""
        return np.array(self._poles)

    def argument(self) -> "tuple[Callable[[Any], Any], Law] | None":
        """φ and the law of X if this is φ(X)'s and φ is known to rise, one to one; else None."""
        return None

    def in_bulk(self) -> "Law":
        """The law to ask at thousands of points: itself, unless its own densities take long."""
        return self

    @property
    def description(self) -> str:
        """What the law is made of, in a word or two: "4096 components"."""
        return ""

    @property
    def samples(self) -> int | None:
        """The number of draws that a sampled law is made of; None for others."""
        return self._count() if self.kind == "sampled" else None

    def _count(self) -> int | None:
        return None

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the law to a .npz file that `load` reads, bit for bit, without pickle."""
        from limitlaw.laws.storage import write

        write(path, *self._stored())

    def _stored(self) -> Content:
        """The header and arrays of a file; they include the other law that errors come from."""
        header, arrays = self._content()
        header = {
            "law": type(self).__name__,
            "kind": self.kind,
            "beyond": self.beyond,
            "poles": self._poles,
            **header,
        }
        if self.effort:
            header["effort"] = self.effort
        # images make their other law from that of their base
        if self._other is None or "base" in header:
            return header, arrays
        other, more = self._other()._stored()
        return {**header, "other": other}, {
            **arrays,
            **{f"other.{name}": array for name, array in more.items()},
        }

    def sample(self, key: object, shape: int | tuple[int, ...] = UNSAID) -> Float[Array, "..."]:
        """Independent draws, of shape `(*shape, *event)`; one without `shape`. `key`: a JAX key,
        or an integer seed, which needs a shape, as sample(10) may mean ten draws.
        """
        source = as_key(key)
        return self._sample(source, sample_shape(one_meaning(key, shape)))

    def __getstate__(self) -> PickledState:
        return PickledState(self.__dict__)

    @abc.abstractmethod
    def _sample(self, key: Key[Array, ""], shape: tuple[int, ...]) -> Float[Array, "..."]:
        """Independent draws of Y, of shape (*shape, *event)."""

    @abc.abstractmethod
    def marginal(self, i: object) -> "Law":
        """The law of Y[i]: an integer, a tuple, a slice or an array of indices, as in NumPy."""

    @abc.abstractmethod
    def _content(self) -> Content:
        """What rebuilds the law: a header of plain values, and arrays by name.

        `load` calls the class with these arrays, `kind` and `beyond` as keywords: its constructor
        takes all of them, by these names. The header adds nothing to that call.
        """

    def __repr__(self) -> str:
        effort = f", {self.effort}" if self.effort else ""
        beyond = f", beyond Theorem 3.1: {', '.join(self.beyond)}" if self.beyond else ""
        made_of = f"{self.description}, " if self.description else ""
        return f"{type(self).__name__}({made_of}shape={self.shape}, {self.kind}{effort}{beyond})"

    def __str__(self) -> str:
        """A small table of quantities, with errors where they are sampled."""
        from limitlaw.laws.printing import table

        return table(self)

    def _repr_html_(self) -> str:
        from limitlaw.laws.printing import in_notebook

        return in_notebook(self)

    def to_pandas(self) -> Any:
        """A data frame of the quantities that a law prints, with their errors (needs pandas)."""
        from limitlaw.laws.printing import records

        return frame(records(self))

    def plot(
        self, ax: "Axes | None" = None, log: bool = False, label: str | None = None
    ) -> "Axes":
        """Draw the density of one number and return the matplotlib Axes;
        limitlaw.plot(p, q, …) draws several laws.
        """
        from limitlaw.figures.plot import plot

        return plot(self if label is None else {label: self}, ax=ax, log=log)
