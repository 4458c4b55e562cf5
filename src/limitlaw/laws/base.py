"""What every law can say: density, distribution function, quantiles, moments, samples, and the error of each."""

import abc
import functools
import math
import os
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Complex, Float

from limitlaw.arguments import integer, is_traced, one_of, real_points, require_float64, shown
from limitlaw.laws import storage
from limitlaw.laws.averages import Estimate
from limitlaw.laws.high_moments import order
from limitlaw.laws.psi import average_of
from limitlaw.laws.tracing import figure

Derived = TypeVar("Derived", bound="Law")

KINDS = ("exact", "quadrature", "sampled")
MOST_GIB = 16.0  # of draws at a time


class Atoms(NamedTuple):
    """The points that carry positive probability, in order, and how much each carries."""

    points: Float[Array, "atoms *event"]
    masses: Float[Array, " atoms"]


class Law(abc.ABC):
    """The distribution of a random array Y of `shape`: () for one number, (s,) for s tokens jointly.

    `kind` says where its figures come from: "exact" (closed forms), "quadrature", or "sampled". `law.error` has the
    error of each figure, under the same name: `law.error.pdf(x)`. `beyond` lists what lies beyond Theorem 3.1. `effort`
    says so where time decided how many draws there are: "2048 of 65536 draws in a budget of 20 s".
    """

    _other: Callable[[], "Law"] | None = None
    _poles: tuple[float, ...] = ()  # where the density of one number is infinite

    def __init__(self, shape: tuple[int, ...], kind: str, beyond: tuple[str, ...]) -> None:
        require_float64(type(self).__name__)
        self.shape = shape
        self.kind = one_of("kind", kind, KINDS)
        self.beyond = tuple(beyond)
        self.effort = ""

    @property
    def error(self) -> "Errors":
        """The error of each figure, under its name: one standard error, and that of quadratures; 0 if exact."""
        return Errors(self)

    def compared_with(self: Derived, other: Callable[[], "Law"]) -> Derived:
        """This law, with errors from its difference to `other()`, the same law by another rule."""
        self._other = functools.cache(other)
        return self

    def _alike(self, law: Derived, derive: Callable[[Any], "Law"]) -> Derived:
        """`law`, made from this one: of as many draws, and compared with what `derive` makes from the other law."""
        law.effort, other = self.effort, self._other
        return law if other is None else law.compared_with(lambda: derive(other()))

    @figure
    def pdf(self, x: Any) -> Float[Array, "..."]:
        """Density at x, of shape (…, *shape) → (…). Where the law has atoms: of the part without them."""
        x = self._points("x", x)
        return self._at_poles(x, jnp.inf, self._pdf(x).value)

    @figure
    def logpdf(self, x: Any) -> Float[Array, "..."]:
        """Log density at x, of shape (…, *shape) → (…)."""
        x = self._points("x", x)
        return self._at_poles(x, jnp.inf, self._logpdf(x).value)

    def with_pole(self: Derived) -> Derived:
        """This law of one number, of which it is known that its density is infinite at 0."""
        self._poles = (0.0,)
        return self

    def _at_poles(self, x: Array, there: float, elsewhere: Any) -> Any:
        return jnp.where(jnp.isin(x, jnp.array(self._poles)), there, elsewhere) if self._poles else elsewhere

    @figure
    def cdf(self, x: Any) -> Float[Array, "..."]:
        """P(Y ≤ x)."""
        return jnp.minimum(self._cdf(self._numbers("cdf", "x", x)).value, 1.0)  # sums of weights round

    @figure
    def sf(self, x: Any) -> Float[Array, "..."]:
        """P(Y > x), accurate in relative terms in the far tail, where 1 − cdf is not."""
        return jnp.minimum(self._sf(self._numbers("sf", "x", x)).value, 1.0)

    @figure
    def ppf(self, q: Any) -> Float[Array, "..."]:
        """The quantile: the smallest x with cdf(x) ≥ q."""
        return self._ppf(self._levels(q)).value

    @figure
    def cf(self, t: Any) -> Complex[Array, "..."]:
        """Characteristic function E exp(i t·Y) at t, of shape (…, *shape) → (…)."""
        return self._cf(self._points("t", t)).value

    def mean(self) -> Float[Array, "..."]:
        """E Y, entry by entry."""
        return self._mean().value

    def variance(self) -> Float[Array, "..."]:
        """Var Y, entry by entry."""
        return self._variance().value

    def covariance(self) -> Float[Array, "..."]:
        """The covariance matrix of the flattened Y; the variance for one number."""
        return self._covariance().value

    def kurtosis(self) -> Float[Array, "..."]:
        """Excess kurtosis, entry by entry: 0 for a Gaussian."""
        return self._kurtosis().value

    def moment(self, k: int) -> Float[Array, "..."]:
        """E Y^k, entry by entry, k ≤ 300: about zero, not about the mean."""
        return self._moment(order(k)).value

    def expect(self, psi: Callable[[Any], Any]) -> Any:
        """E ψ(Y). `psi` is a jnp function of arrays (…, *shape); what it returns starts with the same … axes."""
        return average_of(psi, self.shape, lambda: self._expect(psi).value)

    @figure
    def entropy(self) -> Float[Array, ""]:
        """Differential entropy −E log pdf(Y), in nats."""
        return self._entropy().value

    def atoms(self) -> Atoms:
        """Points of positive probability; none for a law with a density."""
        return self._atoms()[0]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the law to a .npz file that `load` reads, bit for bit, without pickle."""
        storage.write(path, *self._stored())

    def _stored(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Header and arrays of a file, the other law that errors come from included."""
        header, arrays = self._content()
        header = {"law": type(self).__name__, "kind": self.kind, "beyond": self.beyond, "poles": self._poles, **header}
        if self.effort:
            header["effort"] = self.effort
        if self._other is None:
            return header, arrays
        other, more = self._other()._stored()
        return {**header, "other": other}, {**arrays, **{f"other.{name}": array for name, array in more.items()}}

    @abc.abstractmethod
    def sample(self, key: object, shape: int | tuple[int, ...] = ()) -> Float[Array, "..."]:
        """Independent draws, of shape (*shape, *event). `key`: a JAX key or an integer seed."""

    @abc.abstractmethod
    def marginal(self, i: Any) -> "Law":
        """The law of Y[i]: an integer, a tuple, a slice or an array of indices, as in NumPy."""

    @abc.abstractmethod
    def _content(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """What rebuilds the law: a header of plain values, and arrays."""

    @abc.abstractmethod
    def _pdf(self, x: Array) -> Estimate: ...
    @abc.abstractmethod
    def _logpdf(self, x: Array) -> Estimate: ...
    @abc.abstractmethod
    def _cdf(self, x: Array) -> Estimate: ...
    @abc.abstractmethod
    def _sf(self, x: Array) -> Estimate: ...
    @abc.abstractmethod
    def _ppf(self, q: Array) -> Estimate: ...
    @abc.abstractmethod
    def _cf(self, t: Array) -> Estimate: ...
    @abc.abstractmethod
    def _mean(self) -> Estimate: ...
    @abc.abstractmethod
    def _variance(self) -> Estimate: ...
    @abc.abstractmethod
    def _covariance(self) -> Estimate: ...
    @abc.abstractmethod
    def _kurtosis(self) -> Estimate: ...
    @abc.abstractmethod
    def _moment(self, k: int) -> Estimate: ...
    @abc.abstractmethod
    def _expect(self, psi: Callable[[Any], Any]) -> Estimate: ...
    @abc.abstractmethod
    def _entropy(self) -> Estimate: ...
    @abc.abstractmethod
    def _atoms(self) -> tuple[Atoms, Float[Array, " atoms"]]:
        """The atoms, and the standard errors of their masses."""

    def _points(self, name: str, x: Any) -> Float[Array, "..."]:
        """`x` as an array that ends with the law's shape."""
        x = real_points(name, x)
        if self.shape and x.shape[x.ndim - len(self.shape) :] != self.shape:
            raise ValueError(f"{name} must have shape (…, *{self.shape}), the law's shape last, got shape {x.shape}")
        return x

    def _numbers(self, method: str, name: str, x: Any) -> Float[Array, "..."]:
        """`x` for a method that only the law of one number has."""
        if self.shape:
            raise ValueError(
                f"{method} needs the law of one number, this one is joint of shape {self.shape}: "
                f"take law.marginal({', '.join('0' * len(self.shape))}).{method}({name}) first"
            )
        return real_points(name, x)

    def _levels(self, q: Any) -> Float[Array, "..."]:
        """`q` as levels in [0, 1]; NaN passes."""
        q = self._numbers("ppf", "q", q)
        outside = np.zeros(()) if is_traced(q) else np.asarray((q < 0) | (q > 1))
        if outside.any():
            worst = np.asarray(q)[outside].flat[0]
            raise ValueError(f"q must lie in [0, 1], got {worst:g} ({outside.sum()} of {outside.size} outside)")
        return q

    def _description(self) -> str:
        """What repr adds to the shape."""
        return ""

    def __repr__(self) -> str:
        effort = f", {self.effort}" if self.effort else ""
        beyond = f", beyond Theorem 3.1: {', '.join(self.beyond)}" if self.beyond else ""
        return f"{type(self).__name__}({self._description()}shape={self.shape}, {self.kind}{effort}{beyond})"

    def __str__(self) -> str:
        """A small table of figures, with errors where they are sampled."""
        from limitlaw.laws.printing import table

        return table(self)


class Errors:
    """Errors of a law's figures: each method is named as the figure and takes the same arguments."""

    def __init__(self, law: Law) -> None:
        self._law = law

    def _of(self, figure: Callable[[Law], Estimate]) -> Any:
        """The error that the figure states itself, and the difference to the law by another rule."""
        estimate = figure(self._law)
        error = estimate.error()
        if self._law._other is None:
            return error
        value, other = estimate.value, figure(self._law._other()).value
        difference = jnp.where(value == other, 0.0, jnp.abs(value - jnp.where(value == other, 0.0, other)))
        return jnp.hypot(error, difference)

    def pdf(self, x: Any) -> Float[Array, "..."]:
        """Of the density."""
        x = self._law._points("x", x)
        return self._law._at_poles(x, 0.0, self._of(lambda law: law._pdf(x)))

    def logpdf(self, x: Any) -> Float[Array, "..."]:
        """Of the log density."""
        x = self._law._points("x", x)
        return self._law._at_poles(x, 0.0, self._of(lambda law: law._logpdf(x)))

    def cdf(self, x: Any) -> Float[Array, "..."]:
        """Of P(Y ≤ x)."""
        x = self._law._numbers("cdf", "x", x)
        return self._of(lambda law: law._cdf(x))

    def sf(self, x: Any) -> Float[Array, "..."]:
        """Of P(Y > x)."""
        x = self._law._numbers("sf", "x", x)
        return self._of(lambda law: law._sf(x))

    def ppf(self, q: Any) -> Float[Array, "..."]:
        """Of the quantile: the error of the cdf there over the density; 0 inside an atom's jump."""
        q = self._law._levels(q)
        return self._of(lambda law: law._ppf(q))

    def cf(self, t: Any) -> Float[Array, "..."]:
        """Of the characteristic function, in modulus."""
        t = self._law._points("t", t)
        return self._of(lambda law: law._cf(t))

    def mean(self) -> Float[Array, "..."]:
        """Of the mean."""
        return self._of(lambda law: law._mean())

    def variance(self) -> Float[Array, "..."]:
        """Of the variance."""
        return self._of(lambda law: law._variance())

    def covariance(self) -> Float[Array, "..."]:
        """Of each entry of the covariance."""
        return self._of(lambda law: law._covariance())

    def kurtosis(self) -> Float[Array, "..."]:
        """Of the excess kurtosis."""
        return self._of(lambda law: law._kurtosis())

    def moment(self, k: int) -> Float[Array, "..."]:
        """Of E Y^k."""
        k = order(k)
        return self._of(lambda law: law._moment(k))

    def expect(self, psi: Callable[[Any], Any]) -> Any:
        """Of E ψ(Y)."""
        return average_of(psi, self._law.shape, lambda: self._of(lambda law: law._expect(psi)))

    def entropy(self) -> Float[Array, ""]:
        """Of the entropy."""
        return self._of(lambda law: law._entropy())

    def atoms(self) -> Float[Array, " atoms"]:
        """Of the atoms' masses."""
        atoms, error = self._law._atoms()
        if self._law._other is None:
            return error
        other, _ = self._law._other()._atoms()
        same = other.masses.shape == atoms.masses.shape
        return jnp.hypot(error, jnp.abs(atoms.masses - (other.masses if same else 0.0)))


def entries(shape: tuple[int, ...], i: Any) -> tuple[np.ndarray, tuple[int, ...]]:
    """Positions in the flattened array of the entries that index `i` picks, and the shape they come in."""
    try:
        picked = np.arange(math.prod(shape)).reshape(shape)[i]
    except (IndexError, TypeError) as error:
        raise IndexError(f"i must index a law of shape {shape}, got {i!r} ({error})") from None
    return picked.reshape(-1), picked.shape


def sample_shape(shape: object) -> tuple[int, ...]:
    """`shape` of an array of draws: an integer or a tuple of such."""
    expected = "shape must be an integer ≥ 0 or a tuple of such"
    several = isinstance(shape, tuple | list) or getattr(shape, "ndim", 0) == 1
    sizes = [integer(size) for size in (shape if several else [shape])]  # type: ignore[attr-defined]
    if None in sizes:
        raise TypeError(f"{expected}, got {shown(shape)}")
    counts = tuple(size for size in sizes if size is not None)
    if any(size < 0 for size in counts):
        raise ValueError(f"{expected}, got {shown(shape)}")
    gib = 8 * math.prod(counts) / 2**30
    if gib > MOST_GIB:
        raise ValueError(f"shape {shape} would take {gib:,.0f} GiB: ask for fewer draws at a time")
    return counts


def psi_values(psi: Callable[[Any], Any], y: Array, count: int) -> Any:
    """ψ(y) for y with `count` draws in front, checked for its shape."""
    values = jnp.asarray(psi(y))
    if values.shape[:1] != (count,):
        raise ValueError(f"psi must map arrays (…, *shape) to arrays (…): it got {y.shape} and returned {values.shape}")
    return values.astype(jax.dtypes.canonicalize_dtype(jnp.result_type(values, jnp.float64)))
