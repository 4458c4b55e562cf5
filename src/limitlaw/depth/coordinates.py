"""The coordinate check: how far activations move in one step of training, against the width."""

import dataclasses
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, cast

import jax
import numpy as np
from jaxtyping import Float

from limitlaw.arguments import as_key, positive_int, shown
from limitlaw.backward.step import Rate, Step
from limitlaw.depth.statistics import Column
from limitlaw.digits import plus_minus
from limitlaw.engines.dense.simulate import simulate
from limitlaw.engines.frames.finite import finite_samples
from limitlaw.engines.infinite_width import limit
from limitlaw.float64 import in_float64
from limitlaw.language.functions import average
from limitlaw.language.matrices import Matrix
from limitlaw.language.values import Scalars, Wide
from limitlaw.notebook import aligned, block, frame, table


@dataclasses.dataclass(frozen=True)
class CoordinateCheck:
    """mean |Δ| of activations in one step, at several widths: `check["h"].value`, `.error`,
    `.spread`, with an entry for each of `widths`, of which the last may be ∞.

    `theory` is exact at every width, up to the errors of `samples` draws; `measured` are the same
    numbers of `networks` dense networks each, NaN as n → ∞. `spread`: the standard deviation over
    networks.
    """

    widths: tuple[float, ...]
    theory: dict[str, Column]
    measured: dict[str, Column]
    samples: int
    networks: int

    def __getitem__(self, name: str) -> Column:
        if name not in self.theory:
            raise KeyError(f"{name!r} is not among {', '.join(self.theory)}")
        return self.theory[name]

    @property
    def title(self) -> str:
        """What the numbers are, in one line."""
        measured = f"; measured on {self.networks:,} dense networks" if self.measured else ""
        return f"mean |Δ| in one step, {self.samples:,} draws{measured}, ± one standard error"

    @property
    def head(self) -> list[str]:
        """The names of the columns of the table."""
        return ["n", *(f"{name}{kind}" for name in self.theory for kind in self._kinds)]

    def rows(self) -> Iterator[list[str]]:
        """The cells of the table, width by width."""
        for i, width in enumerate(self.widths):
            columns = [kind[name] for name in self.theory for kind in self._kinds.values()]
            found = [(float(column.value[i]), float(column.error[i])) for column in columns]
            cells = ("–" if math.isnan(x) else plus_minus(x, error) for x, error in found)
            yield [_width(width), *cells]

    def records(self) -> list[dict[str, Any]]:
        """Activation, width, value, error, spread, and whether it was measured."""
        return [
            {
                "activation": name,
                "width": width,
                "value": value,
                "error": error,
                "spread": spread,
                "measured": kind is self.measured,
            }
            for name in self.theory
            for kind in self._kinds.values()
            for width, value, error, spread in zip(
                self.widths, *(a.tolist() for a in kind[name]), strict=True
            )
            if not math.isnan(value)
        ]

    def to_pandas(self) -> Any:
        """A data frame of the records (needs pandas)."""
        return frame(self.records())

    def plot(self, title: str = "") -> Any:
        """A matplotlib figure: theory as lines, dashed as n → ∞, and measured points on them."""
        from limitlaw.depth.figures import coordinate_figure

        return coordinate_figure(self, title)

    @property
    def _kinds(self) -> dict[str, dict[str, Column]]:
        return {"": self.theory} | ({", measured": self.measured} if self.measured else {})

    def __str__(self) -> str:
        return f"{self.title}\n{aligned([self.head, *self.rows()], str.rjust)}"

    def __repr__(self) -> str:
        widths = ", ".join(map(_width, self.widths))
        return f"CoordinateCheck({', '.join(self.theory)}; widths {widths})"

    def _repr_html_(self) -> str:
        return block(self.title, table(self.head, self.rows()))


def _width(width: float) -> str:
    return "∞" if width == math.inf else f"{width:.0f}"


@in_float64
def coordinate_check(
    net: Mapping[str, Wide | Scalars],
    f: Scalars,
    loss: Callable[..., Any],
    lr: float | Mapping[Matrix, float],
    widths: Iterable[int | float],
    optimizer: str = "sgd",
    parametrization: str | Callable[[Matrix], Rate] = "ntk",
    samples: int = 1000,
    networks: int = 100,
    key: object = 0,
) -> CoordinateCheck:
    """mean |Δ| of activations in one step of training at every width, by theory and measured.

    `net` names activations, or numbers such as scores and outputs; the step is that of
    `after_step`. Of each activation this is the mean of |h' − h| over its batch and coordinates
    and over networks: at finite widths exact, from `samples` draws that draw no matrix, and
    measured on `networks` networks of which every matrix is drawn (0: none). A last width ∞ asks
    for the limit, which is refused for what grows with n.

    Examples:
        >>> import limitlaw as ll
        >>> h = ll.Matrix(cols=2) @ ll.data([1.0, 0.5])
        >>> f = ll.dot(ll.initial(), ll.tanh(h))
        >>> net = {"h": h, "f": f}
        >>> check = ll.coordinate_check(net, f, lambda f: f, 0.1, [16, 64], networks=0)
        >>> check["h"].value.shape
        (2,)
    """
    named, sizes = _named(net), _checked(widths)
    positive_int("samples", samples)
    if networks != 0:
        positive_int("networks", networks)
    step = Step.of(list(named.values()), f, loss, lr, optimizer, parametrization)
    pairs = zip(named, step.before, step.after, strict=True)
    changes = {name: _mean_size(after - before) for name, before, after in pairs}
    drawn, dense = jax.random.split(as_key(key))
    theory, measured = [], []
    for width in sizes:
        theory.append(_theory(changes, width, samples, drawn))
        measured.append(_measured(changes, width, networks, dense))
    return CoordinateCheck(
        sizes,
        _columns(named, theory),
        _columns(named, measured) if networks else {},
        samples,
        networks,
    )


def _named(net: object) -> dict[str, Wide | Scalars]:
    if not isinstance(net, Mapping) or not net or not all(isinstance(name, str) for name in net):
        raise TypeError(f"net must name activations, as in {{'h': h, 'f': f}}, got {shown(net)}")
    return dict(net)


def _checked(widths: object) -> tuple[float, ...]:
    if not isinstance(widths, Iterable) or isinstance(widths, str):
        raise TypeError(f"widths must be a sequence of widths, got {shown(widths)}")
    sizes = tuple(widths)
    if not sizes or list(sizes) != sorted(set(sizes)):
        raise ValueError(f"widths must be one or more, in increasing order, got {shown(sizes)}")
    return tuple(w if w == math.inf else float(positive_int("a width", w)) for w in sizes)


def _mean_size(change: Wide | Scalars) -> Scalars:
    """|Δ|, averaged over coordinates and the batch."""
    size = abs(change)
    numbers = average(size) if isinstance(size, Wide) else size
    return cast(Scalars, numbers.mean() if numbers.ndim else numbers)


# a value with its error and spread for each name, at one width
Point = dict[str, tuple[float, float, float]]


def _theory(changes: Mapping[str, Scalars], width: float, samples: int, key: Any) -> Point:
    if width < math.inf:
        return _statistics(finite_samples(dict(changes), int(width), samples, key))
    laws = {name: limit(change, samples, key) for name, change in changes.items()}
    return {
        name: (float(law.mean()), float(law.error.mean()), float(law.std()))
        for name, law in laws.items()
    }


def _measured(changes: Mapping[str, Scalars], width: float, networks: int, key: Any) -> Point:
    if width == math.inf or not networks:
        return dict.fromkeys(changes, (math.nan, math.nan, math.nan))
    return _statistics(simulate(dict(changes), int(width), networks, key))


def _statistics(draws: Mapping[str, Float[np.ndarray, " draws"]]) -> Point:
    return {
        name: (float(a.mean()), float(a.std(ddof=1) / len(a) ** 0.5), float(a.std(ddof=1)))
        for name, a in draws.items()
    }


def _columns(names: Iterable[str], points: list[Point]) -> dict[str, Column]:
    return {name: Column(*np.array([point[name] for point in points]).T) for name in names}
