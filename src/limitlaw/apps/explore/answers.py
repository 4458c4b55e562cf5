"""The answers to the page: curves and numbers with their errors, as plain values for JSON."""

import math
from collections.abc import Callable
from typing import Any, SupportsFloat

import numpy as np

import limitlaw as ll
from limitlaw.apps.explore import budget, programs
from limitlaw.apps.explore.choice import Choice
from limitlaw.apps.explore.graph import svg
from limitlaw.digits import plus_minus
from limitlaw.engines.engine import Cache
from limitlaw.figures.plot import heights
from limitlaw.laws import Gaussian, Law

CURVE_POINTS, CURVE_SDS = 161, 6.0  # points of a curve, and standard deviations that it spans
TAIL_STARTS = (3.0, 5.0)  # beginnings of tails, in standard deviations
SHOWN_DIGITS, CERTAIN = 9, 1e-6  # most digits, and the relative error below which digits show it
Answer = dict[str, Any]
Stopped = Callable[[], bool]
_LAWS: Cache[Law] = Cache(24)  # laws that several answers read


def limit_of(choice: Choice) -> Law:
    """The law of the chosen output as n → ∞."""
    y = programs.layer(choice)
    return _LAWS.get(("limit", *_layer(choice)), lambda: ll.limit(y, programs.LIMIT_SAMPLES, 0))


def exact_of(choice: Choice) -> Law:
    """The law of the chosen output at its width."""
    budget.check_law(choice)
    key = "exact", *_layer(choice), choice.width, choice.samples
    return _LAWS.get(
        key, lambda: ll.finite(programs.layer(choice), choice.width, choice.samples, 0)
    )


def _layer(choice: Choice) -> tuple[Any, ...]:
    names = ("tokens", "token", "heads", "head_dim", "scale", "correlation", "mask", "phi")
    return tuple(vars(choice)[name] for name in names)


def gaussian_of(choice: Choice) -> Law:
    """The law with infinitely many heads: a Gaussian of the same variance."""
    return Gaussian(0.0, limit_of(choice).variance())


def limit(choice: Choice, stopped: Stopped) -> Answer:
    """Curves and numbers as n → ∞, and those of infinitely many heads."""
    return _at_infinity(limit_of(choice), final=True)


def preview(choice: Choice, stopped: Stopped) -> Answer:
    """The answer of `limit` by a few draws, in the one case where `limit` takes longer than a
    slider moves.
    """
    return _at_infinity(
        *(preview_of(choice), False) if programs.takes_long(choice) else (limit_of(choice), True)
    )


def preview_of(choice: Choice) -> Law:
    """The limit as a sum over heads with variances at quasi-random scores, as `limit` has it for
    many tokens.
    """
    return _LAWS.get(("preview", *_layer(choice)), lambda: programs.sampled_limit(choice))


def _at_infinity(law: Law, final: bool) -> Answer:
    infinite = Gaussian(0.0, law.variance())
    gaussian = _shown(infinite)  # as uncertain as the limit
    gaussian["numbers"]["variance"] = _number(infinite.variance(), law.error.variance())
    source = (
        _source(law) if final else f"a preview by {programs.PREVIEW:,} draws, more digits follow"
    )
    return {
        "sd": _sd(law),
        "limit": {**_shown(law), "source": source},
        "gaussian": {**gaussian, "source": "n → ∞, H → ∞"},
        "final": final,
    }


def exact(choice: Choice, stopped: Stopped) -> Answer:
    """The curve and the numbers at this width."""
    law = exact_of(choice)
    return {**_shown(law), "source": _source(law)}


def _shown(law: Law) -> Answer:
    x = _abscissae(law)
    return {"x": _list(x), "density": _list(heights(law, x)), "numbers": _numbers(law)}


def more(choice: Choice, stopped: Stopped) -> Answer:
    """Tails and Kullback–Leibler divergences in nats, which take longer than curves."""
    law, infinite = exact_of(choice), limit_of(choice)
    return {
        "exact": {
            **_tails(law),
            "kl_gaussian": _kl_from_gaussian(law),
            "kl_limit": _number(*_kl(law, infinite)),
        },
        "limit": {**_tails(infinite), "kl_gaussian": _kl_from_gaussian(infinite)},
        "gaussian": {**_tails(gaussian_of(choice)), "kl_gaussian": _number(0.0, 0.0)},
    }


def _kl(p: Law, q: Law) -> tuple[float, float]:
    found = ll.divergence.kl(p, q)
    return found.value, found.error


def _kl_from_gaussian(law: Law) -> Answer:
    """The divergence of a law from the Gaussian of equal variance."""
    return _number(
        *((0.0, 0.0) if isinstance(law, Gaussian) else _kl(law, Gaussian(0.0, law.variance())))
    )


def simulated(choice: Choice, stopped: Stopped) -> Answer:
    """A histogram of networks with every matrix drawn, in parts, so that it can be stopped."""
    y, chunks = (
        programs.layer(choice),
        max(1, budget.simulated_networks(choice) // programs.DRAWS_AT_ONCE),
    )
    parts = []
    for key in range(chunks):
        if stopped():
            raise InterruptedError("the simulation was stopped")
        parts.append(np.asarray(ll.simulate(y, choice.width, programs.DRAWS_AT_ONCE, key)))
    draws = np.concatenate(parts)
    law = ll.Empirical(draws)
    sizes, x = ll.Empirical(np.abs(draws)), _sd(law) * np.array(TAIL_STARTS)
    tails = _tails_of(np.asarray(sizes.sf(x)), np.asarray(sizes.error.sf(x)))
    edges = _sd(law) * np.linspace(-CURVE_SDS, CURVE_SDS, 61)
    counts, _ = np.histogram(draws, edges)
    return {
        "x": _list(0.5 * (edges[1:] + edges[:-1])),
        "density": _list(counts / (len(draws) * np.diff(edges))),
        "numbers": {**_numbers(law), **tails},
        "source": f"{len(draws):,} networks, every matrix drawn",
    }


def depth(choice: Choice, stopped: Stopped) -> Answer:
    """Statistics of the Transformer after every block."""
    return {"traces": [_followed(trace) for trace in _traces(choice)]}


def _followed(trace: ll.depth.Trace) -> Answer:
    columns = {
        name: {"label": trace.labels[name], "value": _list(c.value), "error": _list(c.error)}
        for name, c in trace.columns.items()
    }
    return {
        "label": "n → ∞" if trace.width is None else f"n = {trace.width}",
        "title": trace.title,
        "layers": trace.layers.tolist(),
        "columns": columns,
        "rows": list(trace.rows()),
    }


def _traces(choice: Choice) -> list[Any]:
    net = programs.network(choice)
    if choice.of_gradients:
        budget.check_gradients(choice)
        return [ll.gradients(net, n, budget.DIFFERENTIATED, 0) for n in choice.widths]
    budget.check_depth(choice)
    names = list(programs.FOLLOWED)
    return [ll.trace(net, names, n, budget.FOLLOWED_DRAWS, 0) for n in choice.widths]


def program(choice: Choice, stopped: Stopped) -> Answer:
    """The programs as code and as text, and the graph of the layer."""
    y = programs.layer(choice)
    deep = programs.network(choice)
    return {
        "code": programs.layer_code(choice),
        "depth_code": programs.network_code(choice),
        "text": str(y),
        "depth_text": str(deep),
        "svg": svg(y),
    }


# --- files ---------------------------------------------------------------------------------------


def law_csv(choice: Choice, stopped: Stopped) -> str:
    """Densities with all their digits and their errors."""
    infinite = limit_of(choice)
    x = _abscissae(infinite)
    columns = {"x": x}
    for name, law in {"exact": exact_of(choice), "limit": infinite}.items():
        columns |= {
            name: np.asarray(law.pdf(x)),
            f"{name}_error": np.asarray(law.error.pdf(x)) * np.ones(len(x)),
        }
    v, error = float(infinite.variance()), float(infinite.error.variance())
    p = np.asarray(gaussian_of(choice).pdf(x))
    # |∂p/∂v| times the error of v
    columns |= {"gaussian": p, "gaussian_error": p * np.abs(x**2 / v - 1) / (2 * v) * error}
    lines = [[f"{value:.17g}" for value in row] for row in zip(*columns.values(), strict=True)]
    return "".join(",".join(line) + "\n" for line in [list(columns), *lines])


def depth_csv(choice: Choice, stopped: Stopped) -> str:
    """Statistics of every block with all their digits."""
    first, *others = _traces(choice)
    return first.to_csv(*others)


# --- numbers as JSON has them --------------------------------------------------------------------


def _sd(law: Law) -> float:
    variance = float(law.variance())
    if not variance > 0:
        raise ValueError(
            "the output is always 0: these tokens and this nonlinearity leave it no variance"
        )
    return math.sqrt(variance)


def _abscissae(law: Law) -> np.ndarray:
    return _sd(law) * np.linspace(-CURVE_SDS, CURVE_SDS, CURVE_POINTS)


def _numbers(law: Law) -> Answer:
    return {
        "variance": _number(law.variance(), law.error.variance()),
        "kurtosis": _number(law.kurtosis(), law.error.kurtosis()),
    }


def _tails(law: Law) -> Answer:
    """P(|y| > t σ) of a symmetric law with standard deviation σ."""
    x = _sd(law) * np.array(TAIL_STARTS)
    return _tails_of(2 * np.asarray(law.sf(x)), 2 * np.asarray(law.error.sf(x)) * np.ones(len(x)))


def _tails_of(values: np.ndarray, errors: np.ndarray) -> Answer:
    found = {
        f"tail_{t:g}": _number(p, error)
        for t, p, error in zip(TAIL_STARTS, values, errors, strict=True)
    }
    return {
        key: number if number["value"] else {**number, "text": "none"}
        for key, number in found.items()
    }


def _number(value: SupportsFloat, error: SupportsFloat) -> Answer:
    v, e = float(value), float(error)
    return {"value": _finite(v), "error": _finite(e), "text": _text(v, e)}


def _text(v: float, e: float) -> str:
    """A number with its right digits if these show the error, else with its error."""
    if not math.isfinite(v):
        return "–"
    if not 0 < e <= CERTAIN * abs(v):
        return plus_minus(v, e) if e else f"{v:.{SHOWN_DIGITS}g}"
    return f"{v:.{min(SHOWN_DIGITS, math.floor(-math.log10(2 * e / abs(v))))}g}"


def _source(law: Law) -> str:
    words = f"{law.kind} ({law.description})" if law.description else law.kind
    return f"{words}; beyond Theorem 3.1: {', '.join(law.beyond)}" if law.beyond else words


def _finite(x: float) -> float | None:
    return x if math.isfinite(x) else None


def _list(array: object) -> list[float | None]:
    return [_finite(float(x)) for x in np.asarray(array)]
